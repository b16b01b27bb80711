"""Updates that Telegram brings, acknowledged only after the bus has every message of them.

Telegram brings the updates of one chat one after the other, and again until they are answered with 2xx, for a
day. Which process is called does not matter; the one that holds the lease sees to it that the webhook is set.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any, Final
from weakref import WeakValueDictionary

from telegram import Bot, WebhookInfo
from telegram.error import BadRequest, InvalidToken, TelegramError

from channels.adapter import CONNECTED, Door
from channels.backoff import Backoff
from channels.calls import Call, CallAnswer, come_again
from channels.telegram import limits
from channels.telegram.client import Endpoint
from channels.telegram.errors import wait_s
from channels.telegram.updates import Updates
from gateway.bus.inbound import Inbound
from gateway.contracts.errors import BusUnavailable
from gateway.contracts.ports import Clock

log = logging.getLogger(__name__)

SECRET_HEADER: Final = "x-telegram-bot-api-secret-token"  # noqa: S105 - a header's name
_SECRET_LABEL: Final = b"trivet: secret_token of the webhook"


def secret_of(token: str) -> str:
    """What proves that a call comes from Telegram. Every process of ours makes the same one, without a word; whoever
    sees it learns nothing of the token."""
    return hmac.new(token.encode(), _SECRET_LABEL, hashlib.sha256).hexdigest()


class Webhook:
    """The webhook of one bot."""

    def __init__(self, bot: Bot, endpoint: Endpoint, positions: Inbound, clock: Clock) -> None:
        self._bot = bot
        self._url = endpoint.hook_url
        self._secret = secret_of(endpoint.token)
        self._positions = positions
        self._position = endpoint.account
        self._clock = clock
        self._inside: tuple[Updates, Door] | None = None
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._doubted = asyncio.Event()
        self._has_set = False
        self._well_since_ms = 0

    # --- calls

    @contextlib.contextmanager
    def open(self, updates: Updates, door: Door) -> Iterator[None]:
        """Calls are taken inside the context; outside of it Telegram is asked to come again."""
        self._inside = updates, door
        self._well_since_ms = self._clock.now_ms()  # what failed before was somebody else's, or nobody's
        try:
            yield
        finally:
            self._inside = None

    async def called(self, call: Call) -> CallAnswer:
        """As `SupportsCalls` has it."""
        given = call.headers.get(SECRET_HEADER, "").encode(errors="replace")
        if not hmac.compare_digest(given, self._secret.encode()):
            self._doubted.set()
            return CallAnswer(403)
        if self._inside is None:
            return come_again()
        try:
            update = json.loads(await call.body())
        except (ValueError, RecursionError):
            return CallAnswer(400)
        await self._take(update, *self._inside)
        self._well_since_ms = self._clock.now_ms()
        return CallAnswer()

    async def _take(self, update: Any, updates: Updates, door: Door) -> None:
        """Bring one message of a chat at a time to the bus, in the order in which they came, should calls overlap."""
        incoming = await updates.message_in(update, door)
        if incoming is not None:
            async with self._turns.setdefault(incoming.address.lane, asyncio.Lock()):
                await door.accept(incoming)

    # --- the webhook itself

    async def keep(self, tell: Callable[[str], None]) -> None:
        """See to it that Telegram calls us, until cancelled; `tell` gets the state. Raises `InvalidToken`."""
        backoff = Backoff(limits.POLL_RETRY_FIRST_S, limits.POLL_RETRY_CAP_S)
        while True:
            try:
                tell(state := await self._look())
                backoff.reset()
                await self._rest(limits.WEBHOOK_LOOK_EVERY_S if state == CONNECTED else limits.WEBHOOK_DOUBT_EVERY_S)
            except InvalidToken:
                raise
            except (TelegramError, BusUnavailable) as error:
                state = f"Telegram does not answer ({type(error).__name__})"
                if isinstance(error, BadRequest):
                    state = f"Telegram refuses the webhook: {error.message}"
                if isinstance(error, BusUnavailable):
                    state = "waiting for the bus"
                tell(state)
                log.warning("telegram: %s", state)
                await asyncio.sleep(wait_s(error, backoff))

    async def _look(self) -> str:
        """Set the webhook if it is not as it should be; how it is."""
        info = await self._bot.get_webhook_info()
        if not self._is_ours(info) or self._doubted.is_set():
            await self._set()
            return CONNECTED
        if self._is_unreachable(info):
            return f"Telegram cannot reach the webhook: {info.last_error_message}"
        return CONNECTED

    async def _set(self) -> None:
        """What waits at Telegram stays there, whichever way it was asked for before."""
        await self._bot.set_webhook(
            self._url,
            secret_token=self._secret,
            allowed_updates=list(limits.ALLOWED_UPDATES),
            max_connections=limits.WEBHOOK_CONNECTIONS_MAX,
            drop_pending_updates=False,
        )
        self._doubted.clear()
        self._has_set = True
        await self._positions.set_position(self._position, "")  # it says nothing of what was taken since
        log.info("telegram: the webhook is set")

    def _is_ours(self, info: WebhookInfo) -> bool:
        """Its secret does not show; that it is another one shows when Telegram calls. A server that does not tell the
        kinds has either its usual ones or, once they were set, ours."""
        kinds = set(info.allowed_updates) or (set(limits.ALLOWED_UPDATES) if self._has_set else set())
        return info.url == self._url and kinds | set(limits.NEW_UPDATES) == set(limits.ALLOWED_UPDATES)

    def _is_unreachable(self, info: WebhookInfo) -> bool:
        failed_at_ms = info.last_error_date.timestamp() * 1000 if info.last_error_date else 0
        is_recent = failed_at_ms > self._clock.now_ms() - 2 * limits.WEBHOOK_LOOK_EVERY_S * 1000
        return bool(info.pending_update_count) and is_recent and failed_at_ms > self._well_since_ms

    async def _rest(self, longest_s: float) -> None:
        """Until the next look, which comes sooner after a call with a wrong secret: that may be Telegram's. Since
        anybody may send one, it does not come at once."""
        await asyncio.sleep(limits.WEBHOOK_DOUBT_EVERY_S)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(longest_s - limits.WEBHOOK_DOUBT_EVERY_S):
                await self._doubted.wait()
