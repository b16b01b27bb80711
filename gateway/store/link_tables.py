"""The tables of persons: which owners are one, until midnight whose budget is one, and codes on their way.

links        an end and its person          purses       whose budget is one today, linked or not any more
link_codes   given out, and to whom         link_tries   who entered wrong ones
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Index, Integer, Table, Text

from gateway.store.tables import AnyText, column, metadata

links: Final = Table(
    "links",
    metadata,
    column("owner", Text, doc="an end of a person who has several", primary_key=True),
    column("person", Text, doc="the same for all ends of one person", index=True),
    column("linked_at_ms", BigInteger, doc="when it was linked"),
)
"""An owner who is not in it is a person of his own."""

purses: Final = Table(
    "purses",
    metadata,
    column("owner", Text, doc="an end that was linked or parted on that day", primary_key=True),
    column("day", Integer, doc="the UTC day, as in `spending`"),
    column("purse", Text, doc="the same for all whose day is one"),
    Index("ix_purses_purse_day", "purse", "day"),
)
"""Within a day purses only ever grow together: no order of linking and parting makes a cap larger."""

link_codes: Final = Table(
    "link_codes",
    metadata,
    column("owner", Text, doc="to whom it was given; he has one at a time", primary_key=True),
    column("digest", Text, doc="SHA-256 of the code; the code itself is nowhere", unique=True),
    column("address", AnyText, doc="where he asked for it, as JSON"),
    column("language", Text, doc="his language"),
    column("expires_at_ms", BigInteger, doc="from then on it is worth nothing"),
    column("name", AnyText, doc="what that account calls itself", server_default=""),
    column("entered_by", Text, doc="the owner who entered it, and may join; empty: nobody yet"),
)
"""Codes that join two accounts."""

link_tries: Final = Table(
    "link_tries",
    metadata,
    column("owner", Text, doc="who entered wrong codes", primary_key=True),
    column("tries", Integer, doc="how many"),
    column("until_ms", BigInteger, doc="when they are forgotten"),
)
"""Bounds guessing."""
