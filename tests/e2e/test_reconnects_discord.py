"""Whatever ends a session with Discord's gateway, the next one begins, and what was said meanwhile is answered once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from channels.core.adapter import CONNECTED, ChannelAdapter
from channels.discord import connection, limits
from channels.discord.adapter import DiscordAdapter
from channels.discord.client import GatewayUnstable, watch_heartbeat
from channels.emulators.discord import DiscordEmulator
from channels.emulators.discord.gateway import GatewayEvent
from channels.emulators.stage import Json
from gateway.bus.bus import RedisBus
from gateway.contracts.errors import CredentialsRejected
from tests.parts.answering import EchoAgent, agent
from tests.parts.incoming import NobodyHome
from tests.parts.only_discord import stage, town
from tests.parts.towns import Town, discord_endpoint, parts_on
from tests.parts.waiting import until

__all__ = ["agent", "stage", "town"]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pauses are for networks."""
    monkeypatch.setattr(limits, "RETRY_FIRST_S", 0.1)


def impatient(town: Town, bus: RedisBus) -> ChannelAdapter:
    """Our adapter, quick to notice silence."""
    return DiscordAdapter(
        discord_endpoint(town.api_base), parts_on(bus), timeouts=connection.GatewayTimeouts(silence_s=1.0, lost_s=2.0)
    )


async def goes_on(
    town: Town,
    stage: DiscordEmulator,
    bus: RedisBus,
    break_it: Callable[[], object],
    mend_it: Callable[[], object] | None = None,
) -> None:
    """A message before, one right after the break, and one when all is well: each is answered once, in order. What
    does not mend by itself is mended when our side has noticed."""
    dm = town.dm(town.ann)
    async with town.line(bus, adapter=impatient(town, bus)) as line:
        await stage.say(town.ann.id, dm.id, "before")
        await town.until_answers(1, dm)
        opened = stage.gateway.opened
        break_it()
        await stage.say(town.ann.id, dm.id, "meanwhile")
        if mend_it is not None:
            await until(lambda: line.state != CONNECTED)
            mend_it()
        await until(lambda: stage.gateway.opened > opened)
        await until(lambda: line.state == CONNECTED)
        await town.until_answers(2, dm)
        await stage.say(town.ann.id, dm.id, "after")
        assert await town.until_answers(3, dm) == ["echo: before", "echo: meanwhile", "echo: after"]
        await town.stays_silent(3)


async def test_a_server_that_goes_down_for_maintenance_is_resumed(
    town: Town, stage: DiscordEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """Op 7."""
    await goes_on(town, stage, bus, stage.gateway.ask_to_reconnect)
    assert (stage.gateway.identified, stage.gateway.resumed) == (1, 1)


async def test_a_close_for_no_known_reason_is_resumed(
    town: Town, stage: DiscordEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """Close code 4000."""
    await goes_on(town, stage, bus, lambda: stage.gateway.close(4000))
    assert stage.gateway.identified == 1


async def test_a_session_that_may_be_resumed_is(
    town: Town, stage: DiscordEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """Op 9, true."""
    await goes_on(town, stage, bus, lambda: stage.gateway.invalidate(resumable=True))
    assert stage.gateway.identified == 1


@pytest.mark.long
async def test_a_session_that_is_gone_is_begun_anew_and_its_gap_read_back(
    town: Town, stage: DiscordEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """Op 9, false: the SDK waits five seconds, and what was said then is in the history only."""
    await goes_on(town, stage, bus, lambda: stage.gateway.invalidate(resumable=False))
    assert stage.gateway.identified == 2


async def test_a_link_that_is_half_dead_is_noticed_by_silence(
    town: Town, stage: DiscordEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """Discord asks for a heartbeat every 41 seconds; ours are more frequent, and their answers are missed."""
    assert stage.switches.heartbeat_ms == 41_250

    def link(*, is_half_dead: bool) -> None:
        stage.faults.half_dead = is_half_dead

    await goes_on(town, stage, bus, lambda: link(is_half_dead=True), lambda: link(is_half_dead=False))


@pytest.mark.long
async def test_silence_with_nothing_to_say_is_life(
    town: Town, stage: DiscordEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """An idle gateway that answers our heartbeats keeps its session."""
    async with town.line(bus, adapter=impatient(town, bus)):
        await asyncio.sleep(1.5)  # longer than the silence that would be death
        await stage.say(town.ann.id, town.dm(town.ann).id, "hello")
        await town.until_answers(1)
    assert stage.gateway.opened == 1


async def test_a_first_connect_that_is_refused_is_tried_again(
    town: Town, stage: DiscordEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """The SDK dies of an AttributeError then; the next client is another one."""
    stage.switches.refuses_sockets = 1
    async with town.line(bus, adapter=impatient(town, bus)):
        await stage.say(town.ann.id, town.dm(town.ann).id, "hello")
        assert await town.until_answers(1) == ["echo: hello"]


@pytest.mark.long
async def test_a_gateway_that_stays_away_is_not_left_to_the_sdks_patience(
    town: Town, stage: DiscordEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """It may wait for 17 minutes between two tries; after a while we build a new client instead, and say so."""
    dm = town.dm(town.ann)
    async with town.line(bus, adapter=impatient(town, bus)) as line:
        await stage.say(town.ann.id, dm.id, "before")
        await town.until_answers(1, dm)
        stage.switches.refuses_sockets = 1_000
        await stage.cut_connections()
        await until(lambda: line.state != CONNECTED)
        await stage.say(town.ann.id, dm.id, "meanwhile")
        await until(lambda: line.state.startswith("not connected"))
        stage.switches.refuses_sockets = 0
        assert await town.until_answers(2, dm) == ["echo: before", "echo: meanwhile"]


async def test_a_gateway_that_drops_everybody_is_not_stormed(
    town: Town, stage: DiscordEmulator, bus: RedisBus, agent: EchoAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK would connect a dozen times a second; after a few losses the pause is ours, and it grows."""
    monkeypatch.setattr(limits, "RETRY_FIRST_S", 5.0)
    async with town.line(bus, adapter=impatient(town, bus)) as line:
        stage.switches.drops_after_hello = 1_000
        await stage.cut_connections()
        await until(lambda: line.state == "not connected (GatewayUnstable)")
        opened = stage.gateway.opened
        await asyncio.sleep(1.0)
        assert stage.gateway.opened == opened


@pytest.mark.parametrize("code", [4004, 4013, 4014])
async def test_what_only_the_operator_can_mend_ends_the_line(
    town: Town, stage: DiscordEmulator, bus: RedisBus, code: int
) -> None:
    """A token that was reset, an intent that was taken away, a version that is too old: a sentence says what to do."""
    adapter = impatient(town, bus)
    running = asyncio.create_task(adapter.run(NobodyHome()))
    await until(lambda: adapter.state == CONNECTED)
    stage.gateway.close(code)
    with pytest.raises(CredentialsRejected, match=r"token|intent|version"):
        await running


async def test_events_that_nobody_knows_change_nothing(
    town: Town, stage: DiscordEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """Of next year, or of features that we do not use: the connection stays the one it was."""
    payloads: tuple[Json, ...] = ({}, {"id": "1"}, {"guild_id": str(stage.guild.id), "user_id": "7"})
    async with town.line(bus, adapter=impatient(town, bus)):
        for name in ("SOMETHING_OF_NEXT_YEAR", "MESSAGE_POLL_FINALIZED", "GUILD_APPLICATION_COMMAND_INDEX_UPDATE"):
            for payload in payloads:
                stage.gateway.dispatch(GatewayEvent(name, lambda _all, payload=payload: payload))  # type: ignore[misc]
        await stage.say(town.ann.id, town.dm(town.ann).id, "hello")
        assert await town.until_answers(1) == ["echo: hello"]
    assert stage.gateway.opened == 1


class TestPulse:
    async def test_losses_far_apart_are_the_networks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(limits, "LOSSES_WITHIN_S", 0.0)
        client = Failing()
        pulse = asyncio.create_task(watch_heartbeat(client, every_s=0.01))
        await until(lambda: pulse.done() or client.losses > limits.LOSSES_MAX + 1)
        assert not pulse.done()
        pulse.cancel()

    async def test_losses_together_are_not(self) -> None:
        client = Failing()
        with pytest.raises(GatewayUnstable):
            await watch_heartbeat(client, every_s=0.01)
        assert client.losses == limits.LOSSES_MAX + 1


class Failing:
    """A client that loses its gateway at every probe."""

    def __init__(self) -> None:
        self.losses = 0

    async def probe(self) -> None:
        self.losses += 1
