"""Files that came with messages, on their way from a channel, which can fetch them, to the turn that needs them."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.contracts.ids import SessionKey


@dataclass(frozen=True, slots=True)
class WantedAttachment:
    """A file that a turn of `key` needs, at most `bytes_max` of it. Only `channel` can read `reference`. `ticket`
    names this wish and no other: who asks again does so with a new one."""

    ticket: str
    channel: str
    key: SessionKey
    reference: str
    bytes_max: int


@dataclass(frozen=True, slots=True)
class FetchedFile:
    """A file that came with a message, as its platform gave it. `media_type` is what the platform says."""

    name: str
    media_type: str
    content: bytes = field(repr=False)
