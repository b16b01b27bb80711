"""Towns whose platform calls us: the same people and places, behind our own HTTP server."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from channels.core.adapter import ChannelAdapter, SupportsWebhooks, WebhookAnswer, WebhookCall, unavailable_answer
from channels.core.webhooks import Webhooks
from channels.emulators.discord import DiscordEmulator
from channels.emulators.serving import LOOPBACK
from channels.emulators.slack import SlackEmulator
from channels.emulators.telegram import TelegramEmulator
from channels.slack import connection as slack_connection
from channels.slack.adapter import SlackAdapter
from channels.telegram import connection as telegram_polling
from channels.telegram.adapter import TelegramAdapter
from channels.telegram.client import TelegramEndpoint
from gateway.bus.bus import RedisBus
from gateway.limits import POLLER_LEASE_TTL_S
from tests.parts.emulated_slack import BOT_TOKEN as SLACK_BOT_TOKEN
from tests.parts.emulated_slack import SIGNING_SECRET as SLACK_SIGNING_SECRET
from tests.parts.platforms import TELEGRAM_TOKEN
from tests.parts.towns import AdapterMaker, Town, discord_town, parts_on, slack_town, telegram_town


@dataclass
class Exchange:
    """Puts each call through to the processes behind it in turn, as a load balancer does."""

    behind: list[SupportsWebhooks] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    turn: int = 0

    is_called = True
    call_timeout_s = 1.5

    async def called(self, call: WebhookCall) -> WebhookAnswer:
        if not self.behind:
            return unavailable_answer()
        self.turn += 1
        answer = await self.behind[self.turn % len(self.behind)].called(call)
        self.answers.append(answer.status)
        return answer


@dataclass
class CalledTown(Town):
    """A town with its exchange, whose platform calls `url`; `listener` makes an adapter that is not called."""

    exchange: Exchange = field(default_factory=Exchange)
    url: str = ""
    listener: AdapterMaker | None = None


@contextlib.asynccontextmanager
async def called_telegram_town() -> AsyncIterator[CalledTown]:
    exchange = Exchange()
    async with telegram_town() as town, Webhooks({"/webhooks/telegram": exchange}).served(LOOPBACK, 0) as port:
        stage = town.stage
        assert isinstance(stage, TelegramEmulator)
        stage.faults.other["webhook_retry_s"] = 0.05
        url = f"http://{LOOPBACK}:{port}/webhooks/telegram"

        def adapter(bus: RedisBus, holder: str = "test", lease_ttl_s: float = POLLER_LEASE_TTL_S) -> ChannelAdapter:
            made = TelegramAdapter(
                TelegramEndpoint(TELEGRAM_TOKEN, town.api_base, hook_url=url),
                parts_on(bus, holder),
                timeouts=telegram_polling.PollTimeouts(lease_ttl_s=lease_ttl_s),
            )
            exchange.behind = [made]
            return made

        yield _called(town, adapter, exchange, url)


@contextlib.asynccontextmanager
async def called_slack_town() -> AsyncIterator[CalledTown]:
    exchange = Exchange()
    async with slack_town() as town, Webhooks({"/webhooks/slack": exchange}).served(LOOPBACK, 0) as port:
        stage = town.stage
        assert isinstance(stage, SlackEmulator)
        stage.switches.retry_after_s = (0.1, 0.5, 2.0)
        url = f"http://{LOOPBACK}:{port}/webhooks/slack"

        def adapter(bus: RedisBus, holder: str = "test", lease_ttl_s: float = POLLER_LEASE_TTL_S) -> ChannelAdapter:
            made = SlackAdapter(
                slack_connection.SlackEndpoint(
                    SLACK_BOT_TOKEN, "", f"{town.api_base}/api/", signing_secret=SLACK_SIGNING_SECRET
                ),
                parts_on(bus, holder),
            )
            exchange.behind = [made]
            return made

        await stage.use_http(url)
        yield _called(town, adapter, exchange, url)


@contextlib.asynccontextmanager
async def sharded_discord_town() -> AsyncIterator[Town]:
    """Two connections, one of which tells of the guild, and the first of direct chats."""
    async with discord_town() as town:
        stage = town.stage
        assert isinstance(stage, DiscordEmulator)
        stage.switches.shards = stage.switches.max_concurrency = 2
        yield town


def _called(town: Town, adapter: object, exchange: Exchange, url: str) -> CalledTown:
    fields = {name: getattr(town, name) for name in Town.__dataclass_fields__} | {"adapter": adapter}
    return CalledTown(**fields, exchange=exchange, url=url, listener=town.adapter)
