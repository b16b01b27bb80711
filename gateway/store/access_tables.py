"""The tables of access beside `grants`: what operators changed about places and limits, and how often anything changed.

place_rules        a place, as changed          place_realms   the server or workspace of a chat
place_approvals    which tools are not asked about any more
limit_rules        whom a day is limited to what, and how fast he may write
access_revision    how often anything of it, or of `grants`, has changed
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Boolean, Integer, Table, Text

from gateway.store.tables import column, metadata

place_rules: Final = Table(
    "place_rules",
    metadata,
    column("place", Text, doc="the key that all who speak there would share", primary_key=True),
    column("audience", Text, doc="an Audience; null: as the configuration says, as with the others", nullable=True),
    column("lets_guests", Boolean, doc="strangers may speak there", nullable=True),
    column("tools", Text, doc="JSON list of the tools that may be used there", nullable=True),
    column("profile", Text, doc="who the agent is there until somebody chooses", nullable=True),
    column("roles", Text, doc="JSON list of the platform's roles, of which strangers there need one", nullable=True),
)
"""What operators changed about places. The bus holds a projection of it."""

place_approvals: Final = Table(
    "place_approvals",
    metadata,
    column("place", Text, doc="as in `place_rules`; a person's own is named after the person", primary_key=True),
    column("tool", Text, doc="what is not asked about", primary_key=True),
    column("role", Text, doc="the least GrantRole for whom that holds", primary_key=True),
    column("digest", Text, doc="of the one call that was approved; empty: every call", primary_key=True),
    column("approved_by", Text, doc="the admin who said so"),
    column("approved_at_ms", BigInteger, doc="when"),
)
"""What admins approved for good. The agent reads it whenever it would ask."""

place_realms: Final = Table(
    "place_realms",
    metadata,
    column("place", Text, doc="a chat, as in `place_rules`", primary_key=True),
    column("realm", Text, doc="the id of the server or workspace it belongs to"),
)
"""For what is said there later by nobody: schedules, and sub-agents that report."""

limit_rules: Final = Table(
    "limit_rules",
    metadata,
    column("owner", Text, doc="the user, or the GrantRole of all whom it is for", primary_key=True),
    column(
        "tokens", BigInteger, doc="of one UTC day; 0: no limit; null: as configured, as with the others", nullable=True
    ),
    column("nano_usd", BigInteger, doc="of one UTC day", nullable=True),
    column("turns", BigInteger, doc="of one UTC day", nullable=True),
    column("per_minute", Integer, doc="messages", nullable=True),
)
"""What admins changed about limits. The bus holds a projection of it."""

access_revision: Final = Table(
    "access_revision",
    metadata,
    column("id", Integer, doc="always 1", primary_key=True, autoincrement=False),
    column("revision", BigInteger, doc="counts the changes of what the bus is shown"),
)
"""One row: a projection with a lower number is out of date."""
