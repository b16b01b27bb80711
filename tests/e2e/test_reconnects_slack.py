"""Whatever ends a socket of Slack's, the next one is asked for anew, and what was said meanwhile is answered once."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

import aiohttp
import pytest

from channels.core.adapter import CONNECTED
from channels.emulators.slack import SlackEmulator
from channels.slack import limits
from channels.slack.adapter import SlackAdapter
from channels.slack.client import SocketTimeouts
from channels.slack.connection import SlackEndpoint
from gateway.bus.bus import RedisBus
from tests.parts.answering import EchoAgent, agent
from tests.parts.emulated_slack import APP_TOKEN, BOT_TOKEN
from tests.parts.only_slack import stage, town
from tests.parts.towns import Town, parts_on
from tests.parts.waiting import until

__all__ = ["agent", "stage", "town"]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pauses are for networks."""
    monkeypatch.setattr(limits, "RETRY_FIRST_S", 0.1)
    monkeypatch.setattr(limits, "WATCH_EVERY_S", 0.1)


async def goes_on(town: Town, stage: SlackEmulator, bus: RedisBus, break_it: Callable[[], object]) -> None:
    """A message before, one right after the break, and one when all is well: each is answered once."""
    dm = town.dm(town.ann)
    async with town.line(bus) as line:
        await until(lambda: stage.sockets.connections == 2)
        await stage.say(town.ann.id, dm.id, "before")
        await town.until_answers(1, dm)
        break_it()
        await stage.say(town.ann.id, dm.id, "meanwhile")
        await town.until_answers(2, dm)
        await until(lambda: stage.sockets.connections == 2 and line.state == CONNECTED)
        await stage.say(town.ann.id, dm.id, "after")
        assert await town.until_answers(3, dm) == ["echo: before", "echo: meanwhile", "echo: after"]
        await town.stays_silent(3)


def _words(town: Town) -> list[str]:
    return re.findall(r"word \d", " ".join(town.texts()))


@pytest.mark.parametrize("reason", ["warning", "refresh_requested", "too_many_websockets"])
async def test_a_farewell_is_followed_by_another_socket(
    town: Town, stage: SlackEmulator, bus: RedisBus, agent: EchoAgent, reason: str
) -> None:
    """A warning ends nothing yet; whatever else Slack says ends the socket, and only that."""
    await goes_on(town, stage, bus, lambda: stage.sockets.disconnect(reason))


async def test_sockets_that_are_cut_are_mended(
    town: Town, stage: SlackEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    await goes_on(town, stage, bus, stage.sockets.cut)


async def test_what_the_socket_of_a_lost_machine_got_is_answered_before_what_was_said_later(
    town: Town, stage: SlackEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """Slack goes on sending to a socket whose machine has gone, until it notices, and repeats it elsewhere later."""
    stage.switches.ack_within_s = 1.0
    words = [f"word {number}" for number in range(9)]
    url = stage.sockets.new_url(town.api_base.removeprefix("http://"))
    nobody_reads = aiohttp.ClientSession()
    async with nobody_reads, nobody_reads.ws_connect(url), town.line(bus):
        await until(lambda: stage.sockets.connections == 3)
        for word in words:
            await stage.say(town.ann.id, town.dm(town.ann).id, word)
        await until(lambda: len(_words(town)) == len(words), lambda: _words(town))
        assert _words(town) == words


async def test_what_is_said_while_the_first_socket_is_on_its_way_is_read_back(
    town: Town, stage: SlackEmulator, bus: RedisBus, agent: EchoAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slack has nobody to tell, and says it again a minute later."""
    monkeypatch.setattr(limits, "CONNECT_TIMEOUT_S", 0.5)
    stage.switches.refuses_sockets, stage.switches.retry_after_s = 3, (0.0, 600.0)
    async with town.starting(bus):
        await until(lambda: stage.switches.refuses_sockets <= 1)
        await stage.say(town.ann.id, town.dm(town.ann).id, "hello")
        assert await town.until_answers(1) == ["echo: hello"]


async def test_a_slack_that_drops_whom_it_has_greeted_is_not_stormed(
    town: Town, stage: SlackEmulator, bus: RedisBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK would come back hundreds of times a second."""
    monkeypatch.setattr(limits, "RETRY_FIRST_S", 3600.0)
    stage.switches.drops_after_hello = many = 10_000
    async with town.line(bus):
        await until(lambda: many - stage.switches.drops_after_hello > limits.LOSSES_MAX)
        await asyncio.sleep(0.3)
        assert many - stage.switches.drops_after_hello <= 2 * (limits.LOSSES_MAX + 1)


async def test_a_slack_that_goes_on_dropping_is_asked_ever_more_rarely(
    town: Town, stage: SlackEmulator, bus: RedisBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after the time in which so many losses might be the network's, and after a connection was built anew."""
    monkeypatch.setattr(limits, "RETRY_FIRST_S", 0.05)
    monkeypatch.setattr(limits, "LOSSES_WITHIN_S", 0.2)
    stage.switches.drops_after_hello = many = 10_000
    stage.switches.tier_per_minute = dict.fromkeys(stage.switches.tier_per_minute, 10_000)
    endpoint = SlackEndpoint(BOT_TOKEN, APP_TOKEN, f"{town.api_base}/api/", connections=2)
    impatient = SlackAdapter(endpoint, parts_on(bus), timeouts=SocketTimeouts(ping_every_s=0.1, dead_s=0.3))
    async with town.line(bus, adapter=impatient):
        await until(lambda: many - stage.switches.drops_after_hello > 4 * limits.LOSSES_MAX)
        left = stage.switches.drops_after_hello
        await asyncio.sleep(2.0)
        assert left - stage.switches.drops_after_hello <= 2 * limits.LOSSES_MAX


async def test_an_address_that_is_refused_is_asked_for_anew(
    town: Town, stage: SlackEmulator, bus: RedisBus, agent: EchoAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK would try the spent one for ever; each handler of ours gets one of its own."""
    monkeypatch.setattr(limits, "CONNECT_TIMEOUT_S", 0.5)
    stage.switches.refuses_sockets = 2
    async with town.line(bus):
        await stage.say(town.ann.id, town.dm(town.ann).id, "hello")
        assert await town.until_answers(1) == ["echo: hello"]


@pytest.mark.long
async def test_socket_mode_that_is_switched_off_is_told_to_the_operator(
    town: Town, stage: SlackEmulator, bus: RedisBus
) -> None:
    """`link_disabled`: the state says that we hear nothing, and never says that all is well."""
    async with town.line(bus) as line:
        stage.sockets.disconnect("link_disabled")
        await until(lambda: line.state != CONNECTED)
