"""The tables of access beside `grants`: what operators changed about places, and how often anything changed.

place_rules        a place, as changed          place_realms   the server or workspace of a chat
access_revision    how often grants or place rules have changed
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
)
"""What operators changed about places. The bus holds a projection of it."""

place_realms: Final = Table(
    "place_realms",
    metadata,
    column("place", Text, doc="a chat, as in `place_rules`", primary_key=True),
    column("realm", Text, doc="the id of the server or workspace it belongs to"),
)
"""For what is said there later by nobody: schedules, and sub-agents that report."""

access_revision: Final = Table(
    "access_revision",
    metadata,
    column("id", Integer, doc="always 1", primary_key=True, autoincrement=False),
    column("revision", BigInteger, doc="counts the changes of `grants` and `place_rules`"),
)
"""One row: a projection with a lower number is out of date."""
