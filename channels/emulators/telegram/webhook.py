"""The server's other way to hand out updates: HTTP POSTs to the bot, retried until answered with 2xx.

Updates of one chat go one after the other; chats do not wait for each other. Plain HTTP is accepted, as a
server started with `--local` does, because everything here lives on loopback.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import httpx

from channels.emulators.telegram.errors import bad_request
from channels.emulators.telegram.people import Json
from channels.emulators.telegram.updates import Pending, UpdateQueue

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
    """A hook that may be set. Raises 400 for what the server refuses."""
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
        """None when it was taken; else the seconds that the answer asks to wait, 0 if it does not say."""
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
        """The API's WebhookInfo."""
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
