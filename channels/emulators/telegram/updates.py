"""The server-side queue of updates: what survives the bot's downtime, and what a poll or webhook gets.

The rules are those of the open server (tdlib/telegram-bot-api): an update lives 24 hours counted from its own
date, an offset above an id forgets that id, asking again with the same offset gives the same updates.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final

from channels.emulators.telegram.errors import ApiError, conflict
from channels.emulators.telegram.people import Json

UPDATE_LIFE_S: Final = 24 * 3600
CALLBACK_LIFE_S: Final = 150
UPDATES_MAX: Final = 100_000
UPDATE_BYTES_MAX: Final = 512 * 1024
BATCH_MAX: Final = 100
POLL_MAX_S: Final = 50
OFFSET_AHEAD_MAX: Final = 10  # an offset further ahead belongs to another epoch of update ids
LOOP_GUARD_S: Final = 3.0
LOOP_GUARD_TIGHT_S: Final = 0.5
KINDS: Final = frozenset(
    {
        "message",
        "edited_message",
        "channel_post",
        "edited_channel_post",
        "callback_query",
        "stopped_message_generation",
        "my_chat_member",
        "chat_member",
        "message_reaction",
        "message_reaction_count",
        "inline_query",
        "poll",
        "poll_answer",
        "chat_join_request",
    }
)
NOT_BY_DEFAULT: Final = frozenset({"chat_member", "message_reaction", "message_reaction_count"})


class PollCut(Exception):
    """The connection of a waiting poll is to be cut, as by a network fault."""


@dataclass(slots=True, eq=False)
class Pending:
    """One update that nobody has confirmed. `lane` orders webhook calls: the chat, or a person for buttons."""

    id: int
    kind: str
    payload: object
    expires_at: float
    lane: int
    confirmations_due: int = 1

    def as_json(self) -> Json:
        return {"update_id": self.id, self.kind: self.payload}


class UpdateQueue:
    """All updates of one bot. `now` gives Unix seconds."""

    def __init__(self, now: Callable[[], float], first_id: int) -> None:
        self._now = now
        self._next_id = first_id
        self._pending: deque[Pending] = deque()
        self._allowed = KINDS - NOT_BY_DEFAULT
        self._changed = asyncio.Event()
        self._polled = asyncio.Event()
        self.polls = 0
        """How often the bot has asked."""
        self._poll: asyncio.Future[ApiError | PollCut] | None = None
        self._last_poll = (0, -LOOP_GUARD_S)

    @property
    def allowed(self) -> Sequence[str]:
        return sorted(self._allowed)

    def allow(self, kinds: Sequence[str]) -> None:
        """Which kinds are kept from now on; an empty list is the default."""
        self._allowed = frozenset(kinds) & KINDS or KINDS - NOT_BY_DEFAULT

    def put(self, kind: str, payload: object, *, lane: int, date: float | None = None, times: int = 1) -> None:
        """Keep an update if its kind is wanted. `times` > 1 loses that many confirmations but one."""
        if kind not in self._allowed or len(self._pending) >= UPDATES_MAX:
            return
        if len(json.dumps(payload)) > UPDATE_BYTES_MAX:
            return
        life_s = CALLBACK_LIFE_S if kind == "callback_query" else UPDATE_LIFE_S
        expires_at = (self._now() if date is None else date) + life_s
        self._pending.append(Pending(self._next_id, kind, payload, expires_at, lane, times))
        self._next_id += 1
        self._wake()

    def waiting(self) -> list[Pending]:
        """Everything that is neither confirmed nor too old, oldest first."""
        now = self._now()
        self._pending = deque(each for each in self._pending if each.expires_at > now)
        return list(self._pending)

    def clear(self) -> None:
        self._pending.clear()

    def confirm(self, pending: Pending) -> None:
        """Forget one update, unless this confirmation is one of those that get lost."""
        pending.confirmations_due -= 1
        if pending.confirmations_due <= 0 and pending in self._pending:
            self._pending.remove(pending)

    def changed(self) -> Coroutine[Any, Any, bool]:
        """Wait until something was put, or a poll or a webhook should look again, counted from this very call."""
        return self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def end_polls(self, reason: ApiError | PollCut) -> None:
        """End the poll that waits now, if there is one, with an error or by cutting it off."""
        if self._poll is not None and not self._poll.done():
            self._poll.set_result(reason)

    def restart_ids(self, next_id: int) -> None:
        """As after a week without an update: the next one may have any number."""
        self._next_id = next_id

    async def polled(self) -> None:
        """Return when a long poll is waiting."""
        await self._polled.wait()

    async def poll(self, *, offset: int, limit: int, timeout_s: float, is_guarded: bool = False) -> list[Json]:
        """getUpdates. Raises a 409 `ApiError` as soon as another poll for the same bot begins."""
        self.polls += 1
        self.end_polls(
            conflict("terminated by other getUpdates request; make sure that only one bot instance is running")
        )
        ended: asyncio.Future[ApiError | PollCut] = asyncio.get_running_loop().create_future()
        self._poll = ended
        if is_guarded:
            limit, timeout_s = self._slow_down(offset, limit, timeout_s)
        self._forget_below(offset)
        until = asyncio.get_running_loop().time() + min(timeout_s, POLL_MAX_S)
        while True:
            batch = self.waiting()[:limit]
            left_s = until - asyncio.get_running_loop().time()
            if batch or left_s <= 0:
                ended.cancel()
                return [each.as_json() for each in batch]
            changed = asyncio.ensure_future(self.changed())
            self._polled.set()
            either: set[asyncio.Future[Any]] = {changed, ended}
            try:
                await asyncio.wait(either, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
            finally:
                changed.cancel()
                self._polled.clear()
            if ended.done():
                raise ended.result()

    def _forget_below(self, offset: int) -> None:
        waiting = self.waiting()
        if offset < 0:
            keep = waiting[offset:]
            for each in waiting[: len(waiting) - len(keep)]:
                self._pending.remove(each)
        elif offset <= self._next_id + OFFSET_AHEAD_MAX:
            for each in waiting:
                if each.id < offset:
                    self.confirm(each)

    def _slow_down(self, offset: int, limit: int, timeout_s: float) -> tuple[int, float]:
        """The server's guard against hot loops that ask for the same offset again and again."""
        now = self._now()
        (last_offset, last_at), self._last_poll = self._last_poll, (offset, now)
        if offset == last_offset and now - last_at < LOOP_GUARD_S:
            timeout_s = max(timeout_s, LOOP_GUARD_S)
            limit = 1 if now - last_at < LOOP_GUARD_TIGHT_S else limit
        return limit, timeout_s
