"""The supervised connection of one bot, by long poll or webhook.

One process polls for one bot, or keeps its webhook set, by a lease on the bus; calls are taken by every process."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final
from weakref import WeakValueDictionary

from telegram import Bot
from telegram.error import BadRequest, Conflict, InvalidToken, NetworkError, RetryAfter, TelegramError

from channels.core import adapter
from channels.core.adapter import AdapterTasks
from channels.core.message import Ignored, Incoming, Migrated, Raw, integer, mapping, text
from channels.telegram import limits
from channels.telegram.client import TelegramEndpoint, call
from channels.telegram.errors import REJECTED, seconds, wait_s
from channels.telegram.normalize import TelegramIdentity, normalize, normalize_press, normalize_stop, query_id_of
from channels.telegram.render import render
from gateway.bus.inbound import Inbound
from gateway.bus.places import Places
from gateway.config import table_of
from gateway.contracts.errors import BusUnavailable, CredentialsRejected
from gateway.contracts.messages import CleanText, literal_text
from gateway.contracts.ports import Clock, Position
from gateway.limits import POLLER_LEASE_TTL_S
from gateway.tasks import Backoff, wait_at_most

log = logging.getLogger(__name__)

# Presses of buttons: on the bus before the update is confirmed, answered as soon as there is a word for them.
#
# Telegram's client shows that it waits until the query is answered, and shows the text of that one answer only to the
# person who pressed. A query that is too old to be answered does no harm.


class TelegramPresses:
    """The callback queries of one bot."""

    def __init__(self, bot: Bot, me: TelegramIdentity, background: AdapterTasks) -> None:
        self._bot = bot
        self._me = me
        self._background = background

    async def hand_in(self, update: Any, handler: adapter.InboundHandler) -> None:
        """Return when the bus has it; every query is answered, whatever it says. Raises `BusUnavailable`."""
        query_id, press = query_id_of(update), normalize_press(update, self._me)
        if isinstance(press, Ignored):
            self._background.start(self._answer(query_id, literal_text("")))
            return
        word = await handler.press(press)
        self._background.start(
            self._pass_on(query_id, press, handler) if word is None else self._answer(query_id, word)
        )

    async def _pass_on(self, query_id: str, press: Incoming, handler: adapter.InboundHandler) -> None:
        await self._answer(query_id, await handler.told(press))

    async def _answer(self, query_id: str, word: CleanText) -> None:
        shown = " ".join(chunk.text for chunk in render(word))[: limits.TOAST_CHARS_MAX]
        try:
            await self._bot.answer_callback_query(query_id, shown or None)
        except RetryAfter as error:
            if (wait_s := seconds(error.retry_after)) > limits.TOAST_LATE_S:
                raise
            await asyncio.sleep(wait_s)
            await self._bot.answer_callback_query(query_id, shown or None)


# The content of an update, by poll or webhook: presses and moves are dealt with here, messages go on to intake.
#
# The raw JSON is read: an update that nobody can parse must not stop the others.


class UpdateRouter:
    """The updates of one bot."""

    def __init__(self, me: TelegramIdentity, presses: TelegramPresses, places: Places) -> None:
        self._me = me
        self._presses = presses
        self._places = places

    async def message_in(self, update: Any, handler: adapter.InboundHandler) -> Incoming | None:
        """Return the message that is left to hand in, None when nothing is. Raises `BusUnavailable`."""
        if query_id_of(update):
            await self._presses.hand_in(update, handler)
            return None
        try:
            incoming = normalize_stop(update, self._me) or normalize(update, self._me)
        except Exception:  # named boundary, adapter callback: one poisonous update must not hold up the others
            log.exception("%s: update %s is skipped: it cannot be understood", self._me.channel, id_of(update))
            return None
        if isinstance(incoming, Ignored):
            log.debug("%s: update %s ignored: %s", self._me.channel, id_of(update), incoming.reason)
            return None
        if isinstance(incoming, Migrated):
            log.info("%s: chat %s is %s now", self._me.channel, incoming.old, incoming.new)
            await self._places.note_move(self._me.channel, incoming.old, incoming.new)
            return None
        return incoming


def id_of(update: Any) -> int | None:
    """Return the number of an update, None if it has none."""
    value = update.get("update_id") if isinstance(update, dict) else None
    return value if isinstance(value, int) else None


# How far the updates of a bot are taken: the id to ask for next, and when that was known. Pure.
#
# "If there are no new updates for at least a week, then identifier of the next update will be chosen randomly instead
# of sequentially" (Bot API, Update). An id from before such a pause says nothing about the ids after it, so it must
# not be asked for; and no id may be ignored because it is a lower one.

GOOD_FOR_MS: Final = 6 * 24 * 3600 * 1000
"""Less than the week, and more than the day for which Telegram keeps an update: what was confirmed last
is gone by itself, so asking from the beginning repeats nothing."""


@dataclass(frozen=True, slots=True)
class Offset:
    """The position in the stream of updates. `update_id` is the lowest that is still wanted; 0 wants everything."""

    update_id: int = 0
    known_at_ms: int = 0

    @classmethod
    def parse(cls, record: str | None) -> Offset:
        """Read what `as_text` wrote; the beginning for a record that is none."""
        update_id, _, known_at_ms = (record or "").partition("@")
        return cls(int(update_id), int(known_at_ms)) if update_id.isdecimal() and known_at_ms.isdecimal() else cls()

    def as_text(self) -> str:
        return f"{self.update_id}@{self.known_at_ms}"

    def valid_at(self, now_ms: int) -> int:
        """Return the offset to ask for."""
        return self.update_id if now_ms - self.known_at_ms < GOOD_FOR_MS else 0


# Updates by long poll, confirmed only after the bus has every message of the batch.
#
# Telegram forgets an update when the next `getUpdates` asks for a higher offset, so the offset moves after the last
# message of a batch is on the bus and never before; a batch that was interrupted comes again, and the bus knows what
# it has. Each message takes the offset after it along to the bus, where both are written in one step: a write of the
# offset alone, on its way to the disk, would come before an agent that comes for the message.


@dataclass(frozen=True, slots=True)
class PollTimeouts:
    """The times of a poll: how long it waits for an update, when a poll that does not return counts as dead
    (`silence_s` after that), and how long after our death another process polls."""

    poll_s: int = limits.POLL_TIMEOUT_S
    silence_s: float = limits.POLL_READ_MARGIN_S
    lease_ttl_s: float = POLLER_LEASE_TTL_S


POLL_TIMEOUTS: Final = PollTimeouts()


class Poller:
    """The update stream of one bot."""

    def __init__(
        self, bot: Bot, updates: UpdateRouter, positions: Inbound, position: str, clock: Clock, *, silence_s: float
    ) -> None:
        self._bot = bot
        self._updates = updates
        self._positions = positions
        self._position = position
        self._clock = clock
        self._silence_s = silence_s
        self._offset: Offset | None = None
        self._taken: set[int] = set()  # from the offset on: those after an update that is not confirmed yet

    async def next_batch(self, handler: adapter.InboundHandler, *, wait_s: int) -> int:
        """Poll once: everything in the batch goes to intake, then the offset moves. Returns its size.

        Raises `BusUnavailable`, `TimeoutError` or the SDK's `TelegramError`; the offset then stays."""
        if self._offset is None:
            self._offset = Offset.parse(await self._positions.position(self._position))
        asked, asked_s = self._offset.update_id, _now_s()
        updates = await self._get_updates(self._offset.valid_at(self._clock.now_ms()), wait_s)
        refusals, now_ms = _Refusals(), self._clock.now_ms()
        for update in updates:
            update_id = id_of(update)
            if update_id in self._taken:
                continue
            offset = None if update_id is None else Offset(update_id + 1, now_ms)
            if await self._hand_in(update, offset, handler, refusals) and update_id is not None:
                self._taken.add(update_id)
        known = [update_id for update in updates if (update_id := id_of(update)) is not None]
        if refusals.first_id is not None:
            await self._move_to(Offset(refusals.first_id, now_ms))
        elif known and refusals.first is None:
            await self._move_to(Offset(known[-1] + 1, now_ms))
        if refusals.first is not None:
            raise refusals.first
        if self._offset.update_id == asked:
            await self._rest(asked_s, wait_s)
        return len(updates)

    async def _rest(self, asked_s: float, wait_s: int) -> None:
        """Pause after a poll in which the server brought nothing new and did not wait either: it must not be asked
        without a break."""
        if _now_s() - asked_s < min(wait_s, limits.EMPTY_POLL_PAUSE_S):
            await asyncio.sleep(limits.EMPTY_POLL_PAUSE_S)

    async def _move_to(self, offset: Offset) -> None:
        """Record the offset before it is used: the next poll makes Telegram forget all updates below it."""
        await self._positions.set_position(self._position, offset.as_text())
        self._offset = offset
        self._taken = {taken for taken in self._taken if taken >= offset.update_id}

    async def _get_updates(self, offset: int, wait_s: int) -> list[Any]:
        asked: dict[str, Any] = {"offset": offset, "timeout": wait_s, "limit": limits.POLL_BATCH_MAX}
        asked["allowed_updates"] = limits.ALLOWED_UPDATES
        async with asyncio.timeout(wait_s + 2 * self._silence_s):  # a read timeout begins anew with each byte
            answer = await call(self._bot, "getUpdates", asked, read_timeout_s=wait_s + self._silence_s)
        return answer if isinstance(answer, list) else []

    async def _hand_in(
        self, update: Any, offset: Offset | None, handler: adapter.InboundHandler, refusals: _Refusals
    ) -> bool:
        """Bring it to the bus, with the offset after it unless an earlier one was refused; False where there was no
        room for it."""
        incoming = await self._updates.message_in(update, handler)
        if incoming is None:
            return True
        if refusals.holds_back(incoming):
            return False
        if offset is not None and refusals.first is None:
            incoming = replace(incoming, position=Position(self._position, offset.as_text()))
        try:
            await handler.accept(incoming)
        except adapter.QueueFull as error:
            refusals.add(incoming, id_of(update), error)
            return False
        return True


def _now_s() -> float:
    return asyncio.get_running_loop().time()


class _Refusals:
    """The places whose messages the queue refused: later messages of the same place wait after them, others go on."""

    def __init__(self) -> None:
        self._places: set[tuple[str, str]] = set()
        self.first: adapter.QueueFull | None = None
        self.first_id: int | None = None

    def holds_back(self, incoming: Incoming) -> bool:
        return self._lane(incoming) in self._places and not incoming.is_control

    def add(self, incoming: Incoming, update_id: int | None, error: adapter.QueueFull) -> None:
        self._places.add(self._lane(incoming))
        if self.first is None:
            self.first, self.first_id = error, update_id

    @staticmethod
    def _lane(incoming: Incoming) -> tuple[str, str]:
        return incoming.user_id, incoming.address.lane


# Updates that Telegram brings, acknowledged only after the bus has every message of them.
#
# Telegram brings the updates of one chat one after the other, and again until they are answered with 2xx, for a day.
# Which process is called does not matter; the one that holds the lease sees to it that the webhook is set.

SECRET_HEADER: Final = "x-telegram-bot-api-secret-token"  # noqa: S105 - a header's name
_SECRET_LABEL: Final = b"trivet: secret_token of the webhook"


def secret_of(token: str) -> str:
    """Derive the secret that proves that a call comes from Telegram. Every process of ours derives the same one,
    without a word; it reveals nothing of the token."""
    return hmac.new(token.encode(), _SECRET_LABEL, hashlib.sha256).hexdigest()


class TelegramWebhook:
    """The webhook of one bot."""

    def __init__(self, bot: Bot, endpoint: TelegramEndpoint, positions: Inbound, clock: Clock) -> None:
        self._bot = bot
        self._url = endpoint.hook_url
        self._secret = secret_of(endpoint.token)
        self._positions = positions
        self._position = endpoint.account
        self._clock = clock
        self._inside: tuple[UpdateRouter, adapter.InboundHandler] | None = None
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._doubted = asyncio.Event()
        self._has_set = False
        self._well_since_ms = 0

    # --- calls

    @contextlib.contextmanager
    def open(self, updates: UpdateRouter, handler: adapter.InboundHandler) -> Iterator[None]:
        """Take calls inside the context; outside of it Telegram is asked to come again."""
        self._inside = updates, handler
        self._well_since_ms = self._clock.now_ms()  # what failed before was somebody else's, or nobody's
        try:
            yield
        finally:
            self._inside = None

    async def called(self, call: adapter.WebhookCall) -> adapter.WebhookAnswer:
        """Handle a call as `SupportsWebhooks` says."""
        given = call.headers.get(SECRET_HEADER, "").encode(errors="replace")
        if not hmac.compare_digest(given, self._secret.encode()):
            self._doubted.set()
            return adapter.WebhookAnswer(403)
        if self._inside is None:
            return adapter.unavailable_answer()
        try:
            update = json.loads(await call.body())
        except (ValueError, RecursionError):
            return adapter.WebhookAnswer(400)
        await self._take(update, *self._inside)
        self._well_since_ms = self._clock.now_ms()
        return adapter.WebhookAnswer()

    async def _take(self, update: Any, updates: UpdateRouter, handler: adapter.InboundHandler) -> None:
        """Bring one message of a chat at a time to the bus, in the order in which they came, should calls overlap."""
        incoming = await updates.message_in(update, handler)
        if incoming is not None:
            async with self._turns.setdefault(incoming.address.lane, asyncio.Lock()):
                await handler.accept(incoming)

    # --- the webhook itself

    async def keep(self, tell: Callable[[str], None]) -> None:
        """See to it that Telegram calls us, until cancelled; `tell` gets the state. Raises `InvalidToken`."""
        backoff = Backoff(limits.POLL_RETRY_FIRST_S, limits.POLL_RETRY_CAP_S)
        while True:
            try:
                tell(state := await self._look())
                backoff.reset()
                await self._rest(
                    limits.WEBHOOK_LOOK_EVERY_S if state == adapter.CONNECTED else limits.WEBHOOK_DOUBT_EVERY_S
                )
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
        info = mapping(await call(self._bot, "getWebhookInfo", {}))
        if not self._is_ours(info) or self._doubted.is_set():
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
            return adapter.CONNECTED
        failed_at_ms = (integer(info.get("last_error_date")) or 0) * 1000
        is_recent = failed_at_ms > self._clock.now_ms() - 2 * limits.WEBHOOK_LOOK_EVERY_S * 1000
        if integer(info.get("pending_update_count")) and is_recent and failed_at_ms > self._well_since_ms:
            return f"Telegram cannot reach the webhook: {text(info.get('last_error_message'))}"
        return adapter.CONNECTED

    def _is_ours(self, info: Raw) -> bool:
        """Tell whether the webhook is ours. Its secret does not show; a wrong one shows when Telegram calls. A server
        that does not tell the kinds of updates has either its usual ones or, once they were set, ours."""
        kinds = set(info.get("allowed_updates") or ()) or (set(limits.ALLOWED_UPDATES) if self._has_set else set())
        return info.get("url") == self._url and kinds | set(limits.NEW_UPDATES) == set(limits.ALLOWED_UPDATES)

    async def _rest(self, longest_s: float) -> None:
        """Rest until the next look, which comes sooner after a call with a wrong secret: that may be Telegram's. Since
        anybody may send one, it does not come at once."""
        await asyncio.sleep(limits.WEBHOOK_DOUBT_EVERY_S)
        await wait_at_most(self._doubted, longest_s - limits.WEBHOOK_DOUBT_EVERY_S)


_WEBHOOK: Final = "webhook"
"""In a 409 that says why a poll is refused: else somebody else polls."""


class TelegramConnection(adapter.PlatformConnection):
    """One bot. It listens while `run` runs."""

    def __init__(
        self, endpoint: TelegramEndpoint, parts: adapter.AdapterDeps, bot: Bot, *, name: str, timeouts: PollTimeouts
    ) -> None:
        self._webhook = TelegramWebhook(bot, endpoint, parts.positions, parts.clock) if endpoint.hook_url else None
        calls, lease = self._webhook.called if self._webhook else None, f"poller:telegram:{endpoint.bot_id}"
        super().__init__(name, parts, lease, lease_ttl_s=timeouts.lease_ttl_s, calls=calls)
        self._endpoint = endpoint
        self._bot = bot
        self._timeouts = timeouts
        self._is_called_elsewhere = False

    async def run(self, handler: adapter.InboundHandler) -> None:
        """Poll, or be called, until cancelled. Raises `CredentialsRejected`."""
        try:
            if self._webhook is None:
                await self._while_holding(lambda: self._keep_polling(handler))
            else:
                await self._be_called(self._webhook, handler)
        finally:
            self._ready.clear()
            await self._background.end()

    async def _be_called(self, webhook: TelegramWebhook, handler: adapter.InboundHandler) -> None:
        """Take calls, as every process does, and keep the webhook set while we hold the lease."""
        updates = await self._get_to_know()
        with webhook.open(updates, handler):
            self._ready.set()
            await self._while_holding(lambda: self._keep_webhook(webhook))

    async def _get_to_know(self) -> UpdateRouter:
        backoff = Backoff(limits.POLL_RETRY_FIRST_S, limits.POLL_RETRY_CAP_S)
        while True:
            try:
                return await self._identify()
            except TelegramError as error:
                self.state = f"Telegram does not answer ({type(error).__name__})"
                log.warning("%s: %s", self._name, self.state)
                await asyncio.sleep(wait_s(error, backoff))
            except BusUnavailable as error:
                self.state = "waiting for the bus"
                log.warning("%s: nobody knows yet that this bot is ours: %s", self._name, error)
                await asyncio.sleep(backoff.next_s())

    async def _keep_webhook(self, webhook: TelegramWebhook) -> None:
        while True:
            try:
                await webhook.keep(self._tell)
            except InvalidToken:
                await self._get_to_know()  # a proxy's 404 looks like this too; getMe decides

    async def _keep_polling(self, handler: adapter.InboundHandler) -> None:
        try:
            await self._poll_on(handler)
        finally:
            self._ready.clear()

    async def _poll_on(self, handler: adapter.InboundHandler) -> None:
        backoff = Backoff(limits.POLL_RETRY_FIRST_S, limits.POLL_RETRY_CAP_S)
        quarrel = Backoff(limits.CONFLICT_FIRST_S, limits.CONFLICT_CAP_S)
        poller: Poller | None = None
        while True:
            try:
                poller = poller or await self._connect()
                # After any trouble a poll that does not wait shows at once that all is well again.
                await poller.next_batch(handler, wait_s=self._timeouts.poll_s if self.state == adapter.CONNECTED else 0)
                self.state = adapter.CONNECTED
                backoff.reset()
                quarrel.reset()
            except InvalidToken:
                poller = None  # a proxy's 404 looks like this too; getMe decides
                await asyncio.sleep(backoff.next_s())
            except Conflict as error:
                self.state = "another process polls with this bot token, or a webhook is set"
                poller, self._is_called_elsewhere = None, _WEBHOOK in error.message.lower()
                await asyncio.sleep((backoff if self._is_called_elsewhere else quarrel).next_s())
            except (TelegramError, TimeoutError) as error:
                self.state = f"Telegram does not answer ({type(error).__name__})"
                log.warning("%s: %s", self._name, self.state)
                await asyncio.sleep(wait_s(error, backoff))
            except BusUnavailable as error:
                self.state = "the queue is full" if isinstance(error, adapter.QueueFull) else "waiting for the bus"
                log.warning("%s: updates stay with Telegram: %s", self._name, error)
                await asyncio.sleep(backoff.next_s())

    async def _connect(self) -> Poller:
        updates = await self._identify()
        if self._is_called_elsewhere:
            # Remove a webhook that somebody once set, since it ends every poll. Updates that wait at Telegram
            # stay there.
            log.warning(
                "%s: a webhook is set for this bot; it is removed because %s.mode is polling",
                self._name,
                table_of(self._name),
            )
            await self._bot.delete_webhook(drop_pending_updates=False)
            self._is_called_elsewhere = False
        self._ready.set()
        return Poller(
            self._bot, updates, self._positions, self._endpoint.account, self._clock, silence_s=self._timeouts.silence_s
        )

    async def _identify(self) -> UpdateRouter:
        try:
            user = mapping(await call(self._bot, "getMe", {}))
        except InvalidToken:
            raise CredentialsRejected(f"{table_of(self._name)}.token: {REJECTED}") from None
        user_id, username = integer(user.get("id")), text(user.get("username"))
        if user_id is None:
            raise NetworkError("the answer to getMe has no id")
        if user.get("can_read_all_group_messages") is not True:
            log.warning(
                "%s: privacy mode is on, so groups show the bot only commands and replies; switch it off with "
                "/setprivacy at @BotFather and add the bot to its groups again",
                self._name,
            )
        log.info("%s: connected as @%s", self._name, username)
        await self._places.introduce("telegram", [str(user_id)])
        me = TelegramIdentity(user_id, username, channel=self._name, bots=self._endpoint.bots)
        return UpdateRouter(me, TelegramPresses(self._bot, me, self._background), self._places)
