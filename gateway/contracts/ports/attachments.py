"""Files that came with messages, on their way from a channel, which can fetch them, to the turn that needs them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

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


class AttachmentBus(Protocol):
    """Asked by the agent, answered by whichever channels process has the account connected. Raises `BusUnavailable`."""

    async def fetch(self, wanted: WantedAttachment) -> FetchedFile | None:
        """The file, free of secrets where it is text. None when nobody answered, or fell silent on the way: then it
        may be asked for again. Raises `FileRefused`."""
        ...

    async def wanted(self, channel: str, *, wait_s: float) -> WantedAttachment | None:
        """A file of `channel` that a turn waits for, each wish to one caller; None when nobody wished for any."""
        ...

    async def at_it(self, wanted: WantedAttachment) -> None:
        """Somebody works on it: to be said every ATTACHMENT_BEAT_S until it is lent or refused."""
        ...

    async def lend(self, wanted: WantedAttachment, file: FetchedFile) -> bool:
        """Give it to whoever asked, piece by piece, as fast as it is taken. False: nobody takes it any more."""
        ...

    async def refuse(self, wanted: WantedAttachment, *, reason: str) -> None:
        """It cannot be had: `fetch` raises `FileRefused` with this reason."""
        ...
