"""What waits in one lane: replies in the order of their commits, and what is no message of its own (status lines,
titles) for when nothing else waits."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from channels.outbound.status import PutOff
from gateway.contracts.messages import Reply, ReplyKind
from gateway.contracts.ports import PendingReply

_ASIDES: Final = (ReplyKind.STATUS, ReplyKind.TITLE)
_ANSWERS: Final = (ReplyKind.ANSWER, ReplyKind.ERROR)


def lane_for(reply: Reply, lane: str) -> str:
    """Where it waits: titles have lanes of their own, so that nothing ever waits for them."""
    return f"{lane} title" if reply.kind is ReplyKind.TITLE else lane


class Waiting:
    """Whatever is put in while it is worked off; one at a time is out."""

    def __init__(self) -> None:
        self._replies: deque[PendingReply] = deque()
        self._asides: deque[PendingReply] = deque()
        self._answered: set[str] = set()
        self._paused_until_s = float("-inf")
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._replies) + len(self._asides)

    def put(self, pending: PendingReply) -> None:
        self._row(pending).append(pending)
        if pending.reply.kind in _ANSWERS:
            self._answered.add(pending.reply.turn_id)
        self._changed.set()

    def next(self) -> PendingReply | None:
        """What goes now; None while there is nothing, or only what pauses."""
        if self._replies:
            return self._replies[0]
        return self._asides[0] if self._asides and self._pause_left_s() <= 0 else None

    def is_overtaken(self, pending: PendingReply) -> bool:
        """True if a later edit of the same status line waits, or a later title of the same conversation; of a status
        line that is no edit, if its turn has been answered: it would come behind the answer."""
        reply, behind = pending.reply, tuple(self._asides)[1:]
        if reply.kind is ReplyKind.TITLE:
            return any(other.reply.key == reply.key for other in behind)
        if reply.amends:
            return any(other.reply.amends == reply.amends for other in behind)
        return bool(reply.turn_id) and reply.turn_id in self._answered

    def done(self, pending: PendingReply) -> None:
        """What `next` gave has come to its end."""
        self._row(pending).popleft()

    def put_off(self, later: PutOff) -> None:
        """The status line or title that `next` gave stays in front of the others; all of them pause."""
        self._asides[0] = later.pending
        self._paused_until_s = asyncio.get_running_loop().time() + later.pause_s

    async def until_changed(self) -> None:
        """Return when something comes, when the pause is over, or when told to look."""
        self._changed.clear()
        try:
            async with asyncio.timeout(max(self._pause_left_s(), 0.0)):
                await self._changed.wait()
        except TimeoutError:
            return

    def look(self) -> None:
        """Something else has changed."""
        self._changed.set()

    def _row(self, pending: PendingReply) -> deque[PendingReply]:
        return self._asides if pending.reply.kind in _ASIDES else self._replies

    def _pause_left_s(self) -> float:
        return self._paused_until_s - asyncio.get_running_loop().time()
