"""Discord's other ways: interactions by HTTP, which prove themselves; several connections to the gateway."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from channels.core.adapter import CONNECTED
from channels.core.webhooks import Webhooks
from channels.discord.adapter import DiscordAdapter
from channels.emulators.discord import DiscordEmulator
from channels.emulators.discord.world import MessageFlag
from channels.emulators.serving import LOOPBACK
from gateway.bus.bus import RedisBus
from tests.parts.called import Exchange, sharded_discord_town
from tests.parts.doors import OpenDoor
from tests.parts.emulated_discord import TOKEN
from tests.parts.towns import Town, discord_endpoint, discord_town, parts_on
from tests.parts.waiting import until


@dataclass
class Called:
    """An emulated Discord that knows our endpoint, and what is behind it."""

    town: Town
    stage: DiscordEmulator
    exchange: Exchange
    url: str

    def adapter(self, bus: RedisBus, holder: str = "test") -> DiscordAdapter:
        endpoint = replace(discord_endpoint(self.town.api_base), public_key=self.stage.public_key)
        made = DiscordAdapter(endpoint, parts_on(bus, holder))
        self.exchange.behind.append(made)
        return made


@pytest.fixture
async def called() -> AsyncIterator[Called]:
    exchange = Exchange()
    async with discord_town() as town, Webhooks({"/webhooks/discord": exchange}).served(LOOPBACK, 0) as port:
        assert isinstance(town.stage, DiscordEmulator)
        yield Called(town, town.stage, exchange, f"http://{LOOPBACK}:{port}/webhooks/discord")


@contextlib.asynccontextmanager
async def listening(adapter: DiscordAdapter, door: OpenDoor) -> AsyncIterator[None]:
    running = asyncio.create_task(adapter.run(door))
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def question(called: Called) -> tuple[str, str]:
    """A message of the bot in Ann's direct chat, that might have buttons: the place and its id."""
    dm = called.town.dm(called.town.ann)
    async with httpx.AsyncClient(trust_env=False) as http:
        answer = await http.post(
            f"{called.town.api_base}/api/v10/channels/{dm.id}/messages",
            json={"content": "Shall I?"},
            headers={"Authorization": f"Bot {TOKEN}"},
        )
    return dm.id, str(answer.json()["id"])


async def test_the_portal_takes_the_endpoint(called: Called, bus: RedisBus) -> None:
    """It answers a PING, and refuses one with a wrong signature; also before we are connected."""
    called.adapter(bus)
    assert await called.stage.use_http(called.url)
    assert called.exchange.answers == [200, 401]


async def test_a_press_is_taken_once_and_its_word_follows(called: Called, bus: RedisBus) -> None:
    door = OpenDoor()
    async with listening(called.adapter(bus), door):
        await until(lambda: called.exchange.behind[0]._connection._interactions._inside)  # type: ignore[attr-defined]
        assert await called.stage.use_http(called.url)
        place, message = await question(called)
        asked = called.stage.interactions.press(called.town.ann.id, message, place, "/approve A1")
        await until(lambda: "Done." in called.town.texts())
    assert [press.text for press in door.pressed] == ["/approve A1"]
    assert asked.answer_kind == 6  # acknowledged, with nothing to be seen
    assert called.stage.http_interactions is not None
    assert not called.stage.http_interactions.failures


async def test_a_press_is_answered_where_the_server_acknowledges_with_no_content(called: Called, bus: RedisBus) -> None:
    """Over the gateway; the SDK would read what was made of the first answer."""
    door = OpenDoor()
    called.stage.switches.says_little = True
    adapter = DiscordAdapter(discord_endpoint(called.town.api_base), parts_on(bus))
    async with listening(adapter, door):
        await until(lambda: adapter.state == CONNECTED)
        place, message = await question(called)
        called.stage.interactions.press(called.town.ann.id, message, place, "/approve A1")
        await until(lambda: "Done." in called.town.texts())


async def test_a_command_of_the_menu_is_taken_the_same_way(called: Called, bus: RedisBus) -> None:
    door = OpenDoor()
    async with listening(called.adapter(bus), door):
        await until(lambda: called.exchange.behind[0]._connection._interactions._inside)  # type: ignore[attr-defined]
        assert await called.stage.use_http(called.url)
        asked = called.stage.interactions.run_command(
            called.town.ann.id, called.town.dm(called.town.ann).id, "sessions"
        )
        await until(lambda: asked.is_answered)
    assert [each.text for each in door.heard] == ["/sessions"]
    assert asked.answer_kind == 5  # an answer follows


@pytest.mark.long
async def test_a_process_that_only_stands_by_takes_presses_too(called: Called, bus: RedisBus) -> None:
    """Whoever listens at the gateway: Discord asks any of us, once."""
    door = OpenDoor()
    async with listening(called.adapter(bus, "first"), OpenDoor()):
        await until(lambda: called.exchange.behind[0].state == CONNECTED)  # type: ignore[attr-defined]
        async with listening(called.adapter(bus, "second"), door):
            await until(lambda: called.exchange.behind[1]._connection._interactions._inside)  # type: ignore[attr-defined]
            called.exchange.behind = called.exchange.behind[1:]
            assert await called.stage.use_http(called.url)
            place, message = await question(called)
            called.stage.interactions.press(called.town.ann.id, message, place, "/approve A1")
            await until(lambda: door.pressed)


async def test_while_the_bus_is_away_the_one_who_presses_is_told(called: Called, bus: RedisBus) -> None:
    door = OpenDoor(is_shut=True)
    async with listening(called.adapter(bus), door):
        await until(lambda: called.exchange.behind[0]._connection._interactions._inside)  # type: ignore[attr-defined]
        assert await called.stage.use_http(called.url)
        place, message = await question(called)
        asked = called.stage.interactions.press(called.town.ann.id, message, place, "/approve A1")
        await until(lambda: asked.is_answered)
    assert asked.answer_kind == 4
    assert int((asked.answer_data or {})["flags"]) & MessageFlag.EPHEMERAL  # for nobody else to see


@pytest.mark.parametrize("age_s", [0, 3600])
async def test_a_signature_of_somebody_else_or_of_long_ago_is_refused(
    called: Called, bus: RedisBus, age_s: int
) -> None:
    called.adapter(bus)
    body, at = json.dumps({"type": 1}).encode(), str(int(time.time()) - age_s)
    key = called.stage._signing_key if age_s else Ed25519PrivateKey.generate()
    headers = {"X-Signature-Timestamp": at, "X-Signature-Ed25519": key.sign(at.encode() + body).hex()}
    async with httpx.AsyncClient(trust_env=False) as http:
        assert (await http.post(called.url, content=body, headers=headers)).status_code == 401


async def test_the_sessions_of_the_day_are_not_overdrawn(bus: RedisBus) -> None:
    """Who begins one too many loses the token."""
    async with discord_town() as town:
        assert isinstance(town.stage, DiscordEmulator)
        town.stage.switches.sessions_left = 0
        adapter = town.adapter(bus)
        async with town.starting(bus, adapter=adapter):
            await until(lambda: "no new session" in adapter.state)
            assert town.stage.gateway.identified == 0


@pytest.mark.long
async def test_a_shard_whose_session_is_gone_reads_back_what_it_missed(bus: RedisBus) -> None:
    async with sharded_discord_town() as town:
        stage, door = town.stage, OpenDoor()
        assert isinstance(stage, DiscordEmulator)
        adapter = town.adapter(bus)
        assert isinstance(adapter, DiscordAdapter)
        async with listening(adapter, door):
            await until(lambda: adapter.state == CONNECTED)
            assert stage.gateway.identified == 2
            await stage.say(town.ann.id, town.group.id, "before", mention_bot=True)
            await until(lambda: len(door.heard) == 1)
            stage.gateway.invalidate(resumable=False)
            await stage.say(town.ann.id, town.group.id, "in between", mention_bot=True)
            await until(lambda: stage.gateway.identified == 4)
            await until(lambda: len(door.heard) >= 2)
        assert [each.text for each in door.heard] == ["before", "in between"]
