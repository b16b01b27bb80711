"""The queue of updates and the two ways to hand them out: long polls and webhook calls.

The rules are those of the open server (tdlib/telegram-bot-api): an update lives 24 hours counted from its own
date, an offset above an id forgets that id, asking again with the same offset gives the same updates."""

from __future__ import annotations

import asyncio
import json
import re
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final

import httpx

from channels.emulators.telegram.world import ApiError, Json, bad_request, conflict

UPDATE_LIFE_S: Final = 24 * 3600
CALLBACK_LIFE_S: Final = 150
UPDATES_MAX: Final = 100_000
UPDATE_BYTES_MAX: Final = 512 * 1024
BATCH_MAX: Final = 100
POLL_MAX_S: Final = 50
OFFSET_AHEAD_MAX: Final = 10  # an offset further ahead belongs to another epoch of update ids
KINDS: Final = frozenset({
    "message", "edited_message", "channel_post", "edited_channel_post", "callback_query", "stopped_message_generation",
    "my_chat_member", "chat_member", "message_reaction", "message_reaction_count", "inline_query", "poll",
    "poll_answer", "chat_join_request",
})  # fmt: skip
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
        self.has_poll = asyncio.Event()
        """Set while a long poll waits."""
        self.polls = 0
        """The number of polls by the bot."""
        self._poll: asyncio.Future[ApiError | PollCut] | None = None

    @property
    def allowed(self) -> Sequence[str]:
        return sorted(self._allowed)

    def allow(self, kinds: Sequence[str]) -> None:
        """Set which kinds are kept from now on; an empty list is the default."""
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
        self._changed.set()
        self._changed = asyncio.Event()

    def waiting(self) -> list[Pending]:
        """Return everything that is neither confirmed nor too old, oldest first."""
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

    def end_polls(self, reason: ApiError | PollCut) -> None:
        """End the poll that waits now, if there is one, with an error or by cutting it off."""
        if self._poll is not None and not self._poll.done():
            self._poll.set_result(reason)

    def restart_ids(self, next_id: int) -> None:
        """Restart the numbers, as after a week without an update: the next one may have any."""
        self._next_id = next_id

    async def poll(self, *, offset: int, limit: int, timeout_s: float) -> list[Json]:
        """Wait for updates as getUpdates does. Raises a 409 `ApiError` as soon as another poll begins."""
        self.polls += 1
        self.end_polls(
            conflict("terminated by other getUpdates request; make sure that only one bot instance is running")
        )
        ended: asyncio.Future[ApiError | PollCut] = asyncio.get_running_loop().create_future()
        self._poll = ended
        self._forget_below(offset)
        until = asyncio.get_running_loop().time() + min(timeout_s, POLL_MAX_S)
        while True:
            batch = self.waiting()[:limit]
            left_s = until - asyncio.get_running_loop().time()
            if batch or left_s <= 0:
                ended.cancel()
                return [each.as_json() for each in batch]
            changed = asyncio.ensure_future(self.changed())
            self.has_poll.set()
            either: set[asyncio.Future[Any]] = {changed, ended}
            try:
                await asyncio.wait(either, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
            finally:
                changed.cancel()
                self.has_poll.clear()
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


# --- HTTP POSTs to the bot, retried until answered with 2xx
#
# Updates of one chat go one after the other; chats do not wait for each other. Plain HTTP is accepted, as a
# server started with `--local` does, because everything here lives on loopback.


CONNECTIONS_MAX: Final = 40
ANSWER_TIMEOUT_S: Final = 60.0
RETRY_MAX_S: Final = 60.0
RETRY_AFTER_MAX_S: Final = 3600.0
GONE_FOR_S: Final = 23 * 3600.0  # answered with 410 for so long, a webhook is removed
_GONE: Final = 410
SECRET_HEADER: Final = "X-Telegram-Bot-Api-Secret-Token"
_SECRET: Final = re.compile(r"[A-Za-z0-9_-]{1,256}")


@dataclass(frozen=True, slots=True)
class Hook:
    url: str
    secret_token: str = ""
    connections_max: int = CONNECTIONS_MAX


def checked_hook(url: str, secret_token: str, connections_max: int) -> Hook:
    """Return a hook that may be set. Raises 400 for what the server refuses."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        raise bad_request("bad webhook: invalid URL specified") from None
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise bad_request("bad webhook: An HTTPS URL must be provided for webhook")
    if secret_token and not _SECRET.fullmatch(secret_token):
        raise bad_request("secret token contains unallowed characters")
    return Hook(url, secret_token, min(max(connections_max, 1), 100))


class WebhookSender:
    """Posts what `updates` holds to the hook that is set. `retry_first_s` is asked before the first retry."""

    def __init__(self, updates: UpdateQueue, now: Callable[[], float], retry_first_s: Callable[[], float]) -> None:
        self._updates = updates
        self._now = now
        self._retry_first_s = retry_first_s
        self._running: asyncio.Task[None] | None = None
        self.hook: Hook | None = None
        self._gone_since_s: float | None = None
        self.last_error: tuple[int, str] | None = None

    def set(self, hook: Hook) -> None:
        """Begin to post to `hook`, in place of any other."""
        self._stop()
        self.hook, self.last_error = hook, None
        self._running = asyncio.get_running_loop().create_task(self._post_all(hook))

    def delete(self) -> None:
        self._stop()
        self.hook = None

    async def close(self) -> None:
        running = self._running
        self.delete()
        if running is not None:
            await asyncio.wait({running})

    def _stop(self) -> None:
        if self._running is not None:
            self._running.cancel()
            self._running = None

    async def _post_all(self, hook: Hook) -> None:
        busy: set[int] = set()
        room = asyncio.Semaphore(hook.connections_max)
        async with httpx.AsyncClient(timeout=ANSWER_TIMEOUT_S, trust_env=False) as client, asyncio.TaskGroup() as tasks:

            async def serve_lane(lane: int) -> None:
                while (first := self._first_of(lane)) is not None:
                    async with room:
                        await self._post_until_taken(client, hook, first)
                busy.discard(lane)

            while True:
                changed = asyncio.ensure_future(self._updates.changed())
                for lane in {each.lane for each in self._updates.waiting()} - busy:
                    busy.add(lane)
                    tasks.create_task(serve_lane(lane))
                await changed

    def _first_of(self, lane: int) -> Pending | None:
        return next((each for each in self._updates.waiting() if each.lane == lane), None)

    async def _post_until_taken(self, client: httpx.AsyncClient, hook: Hook, update: Pending) -> None:
        delay_s = self._retry_first_s()
        while update in self._updates.waiting():
            wait_s = await self._post(client, hook, update.as_json())
            if wait_s is None:
                self._updates.confirm(update)
                return
            await asyncio.sleep(wait_s or delay_s)
            delay_s = min(2 * delay_s, RETRY_MAX_S)

    async def _post(self, client: httpx.AsyncClient, hook: Hook, update: Json) -> float | None:
        """Post one update; None when it was taken, else the seconds that the answer asks to wait, or 0."""
        headers = {SECRET_HEADER: hook.secret_token} if hook.secret_token else {}
        try:
            answer = await client.post(hook.url, json=update, headers=headers)
        except httpx.HTTPError:
            self.last_error = (int(self._now()), "Connection refused")
            return 0.0
        if answer.status_code != _GONE:
            self._gone_since_s = None
        elif self._gone_since_s is None:
            self._gone_since_s = self._now()
        elif self._now() - self._gone_since_s > GONE_FOR_S:
            self.delete()
        if answer.is_success:
            return None
        self.last_error = (
            int(self._now()),
            f"Wrong response from the webhook: {answer.status_code} {answer.reason_phrase}",
        )
        asked = answer.headers.get("retry-after", "")
        return min(float(asked), RETRY_AFTER_MAX_S) if asked.isdecimal() else 0.0

    def as_json(self) -> Json:
        """Return the API's WebhookInfo."""
        hook = self.hook
        shape: Json = {
            "url": hook.url if hook else "",
            "has_custom_certificate": False,
            "pending_update_count": len(self._updates.waiting()),
        }
        if hook is not None:
            shape |= {"max_connections": hook.connections_max, "ip_address": "127.0.0.1"}
            shape["allowed_updates"] = list(self._updates.allowed)
        if self.last_error is not None:
            shape["last_error_date"], shape["last_error_message"] = self.last_error
        return shape
