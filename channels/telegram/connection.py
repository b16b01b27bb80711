"""One bot's presence at Telegram, under supervision: who we are, and our own long poll, or the webhook.

One process polls for one bot, or keeps its webhook set, by a lease on the bus; calls are taken by every process.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from telegram import Bot
from telegram.error import Conflict, InvalidToken, TelegramError

from channels.adapter import CONNECTED, AdapterParts, Door, QueueFull
from channels.backoff import Backoff
from channels.calls import Call, CallAnswer, come_again
from channels.errands import Errands
from channels.leases import while_holding
from channels.telegram import limits
from channels.telegram.answering import Presses
from channels.telegram.client import Endpoint
from channels.telegram.errors import REJECTED, wait_s
from channels.telegram.normalize import TelegramIdentity
from channels.telegram.polling import Patience, Poller
from channels.telegram.updates import Updates
from channels.telegram.webhook import Webhook
from gateway.config import table_of
from gateway.contracts.errors import BusUnavailable, CredentialsRejected

log = logging.getLogger(__name__)

_WEBHOOK: Final = "webhook"
"""In a 409 that says why a poll is refused: else somebody else polls."""


class Connection:
    """One bot. It listens while `run` runs."""

    def __init__(
        self,
        endpoint: Endpoint,
        parts: AdapterParts,
        bot: Bot,
        *,
        name: str,
        patience: Patience,
    ) -> None:
        self._name = name
        self._endpoint = endpoint
        self._bot = bot
        self._positions = parts.positions
        self._leases = parts.leases
        self._places = parts.places
        self._clock = parts.clock
        self._holder = parts.holder
        self._patience = patience
        self._errands = Errands(name)
        self._ready = asyncio.Event()
        self._is_called_elsewhere = False
        self._webhook = Webhook(bot, endpoint, parts.positions, parts.clock) if endpoint.hook_url else None
        self.state = "connecting"

    async def run(self, door: Door) -> None:
        """Poll, or be called, until cancelled. Raises `CredentialsRejected`."""
        try:
            if self._webhook is None:
                await self._while_holding(lambda: self._keep_polling(door))
            else:
                await self._be_called(self._webhook, door)
        finally:
            self._ready.clear()
            await self._errands.end()

    async def until_ready(self) -> None:
        """Return when Telegram has said who we are."""
        await self._ready.wait()

    @property
    def is_called(self) -> bool:
        return self._webhook is not None

    async def called(self, call: Call) -> CallAnswer:
        """As `SupportsCalls` has it."""
        return come_again() if self._webhook is None else await self._webhook.called(call)

    def _tell(self, state: str) -> None:
        self.state = state

    async def _while_holding(self, work: Callable[[], Awaitable[None]]) -> None:
        """What one process does for the bot: poll, or keep the webhook set. So neither undoes the other."""
        await while_holding(
            self._leases,
            f"poller:telegram:{self._endpoint.bot_id}",
            self._holder,
            work,
            waiting=self._tell,
            ttl_s=self._patience.lease_ttl_s,
        )

    async def _be_called(self, webhook: Webhook, door: Door) -> None:
        """Whoever has the lease: every process takes calls."""
        updates = await self._get_to_know()
        with webhook.open(updates, door):
            self._ready.set()
            await self._while_holding(lambda: self._keep_webhook(webhook))

    async def _get_to_know(self) -> Updates:
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

    async def _keep_webhook(self, webhook: Webhook) -> None:
        while True:
            try:
                await webhook.keep(self._tell)
            except InvalidToken:
                await self._get_to_know()  # a proxy's 404 looks like this too; getMe decides

    async def _keep_polling(self, door: Door) -> None:
        try:
            await self._poll_on(door)
        finally:
            self._ready.clear()

    async def _poll_on(self, door: Door) -> None:
        backoff = Backoff(limits.POLL_RETRY_FIRST_S, limits.POLL_RETRY_CAP_S)
        quarrel = Backoff(limits.CONFLICT_FIRST_S, limits.CONFLICT_CAP_S)
        poller: Poller | None = None
        while True:
            try:
                poller = poller or await self._connect()
                # After any trouble a poll that does not wait shows at once that all is well again.
                await poller.next_batch(door, wait_s=self._patience.poll_s if self.state == CONNECTED else 0)
                self.state = CONNECTED
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
                self.state = "the queue is full" if isinstance(error, QueueFull) else "waiting for the bus"
                log.warning("%s: updates stay with Telegram: %s", self._name, error)
                await asyncio.sleep(backoff.next_s())

    async def _connect(self) -> Poller:
        updates = await self._identify()
        if self._is_called_elsewhere:
            await self._remove_webhook()
        self._ready.set()
        return Poller(
            self._bot, updates, self._positions, self._endpoint.account, self._clock, silence_s=self._patience.silence_s
        )

    async def _identify(self) -> Updates:
        try:
            user = await self._bot.get_me()
        except InvalidToken:
            raise CredentialsRejected(f"{table_of(self._name)}.token: {REJECTED}") from None
        if not user.can_read_all_group_messages:
            log.warning(
                "%s: privacy mode is on, so groups show the bot only commands and replies; switch it off with "
                "/setprivacy at @BotFather and add the bot to its groups again",
                self._name,
            )
        log.info("%s: connected as @%s", self._name, user.username)
        await self._places.introduce("telegram", [str(user.id)])
        me = TelegramIdentity(user.id, user.username or "", channel=self._name, bots=self._endpoint.bots)
        return Updates(me, Presses(self._bot, me, self._errands), self._places)

    async def _remove_webhook(self) -> None:
        """One that somebody once set ends every poll. What waits at Telegram stays there."""
        log.warning(
            "%s: a webhook is set for this bot; it is removed because %s.mode is polling",
            self._name,
            table_of(self._name),
        )
        await self._bot.delete_webhook(drop_pending_updates=False)
        self._is_called_elsewhere = False
