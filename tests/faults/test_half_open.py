"""A link on which nothing arrives any more, and nobody says so: noticed by the lack of progress, and replaced."""

from __future__ import annotations

import pytest

from channels.core.adapter import CONNECTED, ChannelAdapter
from channels.discord import connection as discord_connection
from channels.discord.adapter import DiscordAdapter
from channels.emulators.discord import DiscordEmulator
from channels.slack import client as slack_socket
from channels.slack import connection as slack_connection
from channels.slack.adapter import SlackAdapter
from channels.telegram import connection as telegram_polling
from channels.telegram.adapter import TelegramAdapter
from channels.telegram.client import TelegramEndpoint
from gateway.bus.bus import RedisBus
from tests.parts.answering import EchoAgent
from tests.parts.emulated_slack import APP_TOKEN, BOT_TOKEN
from tests.parts.platforms import TELEGRAM_TOKEN
from tests.parts.towns import Town, discord_endpoint, parts_on, town
from tests.parts.waiting import until
from tests.parts.wires import wire_to

__all__ = ["town"]

pytestmark = pytest.mark.timeout(120)


def impatient(town: Town, bus: RedisBus, address: str) -> ChannelAdapter:
    """Our adapter at `address`, quick to lose patience."""
    if town.platform == "telegram":
        return TelegramAdapter(
            TelegramEndpoint(TELEGRAM_TOKEN, address),
            parts_on(bus),
            timeouts=telegram_polling.PollTimeouts(poll_s=1, silence_s=1.0),
        )
    if isinstance(town.stage, DiscordEmulator):
        town.stage.switches.heartbeat_ms = 500
        return DiscordAdapter(
            discord_endpoint(address),
            parts_on(bus),
            timeouts=discord_connection.GatewayTimeouts(silence_s=2.0, lost_s=3.0),
        )
    return SlackAdapter(
        slack_connection.SlackEndpoint(BOT_TOKEN, APP_TOKEN, f"{address}/api/"),
        parts_on(bus),
        timeouts=slack_socket.SocketTimeouts(ping_every_s=0.5, dead_s=3.0),
    )


@pytest.mark.long
async def test_a_half_open_link_is_noticed_and_nothing_is_lost_on_it(town: Town, bus: RedisBus) -> None:
    """The state says so while it lasts; what was said meanwhile is answered afterwards."""
    host, _, port = town.api_base.removeprefix("http://").partition(":")
    dm = town.dm(town.ann)
    async with wire_to((host, int(port))) as wire, EchoAgent(bus).at_work():
        adapter = impatient(town, bus, f"http://127.0.0.1:{wire.port}")
        async with town.line(bus, adapter=adapter) as line:
            await town.stage.say(town.ann.id, dm.id, "one")
            await town.until_answers(1, dm)
            wire.half_open()
            await town.stage.say(town.ann.id, dm.id, "two")
            await until(lambda: line.state != CONNECTED)
            await wire.mend()
            await until(lambda: line.state == CONNECTED)
            assert await town.until_answers(2, dm) == ["echo: one", "echo: two"]
            await town.stays_silent(2)
