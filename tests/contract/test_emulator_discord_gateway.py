"""The emulated gateway: sessions, resuming, what is lost and what is not; the real client first, raw frames after."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from channels.emulators.discord import DiscordEmulator
from channels.emulators.serving import listening
from channels.emulators.stage import PlaceKind
from tests.parts.emulated_discord import INTENTS, TOKEN, DiscordWorld, discord, discord_world
from tests.parts.waiting import until

__all__ = ["discord_world"]

Frame = dict[str, Any]


# --- the real client


async def test_after_a_cut_the_client_resumes_and_misses_nothing(discord_world: DiscordWorld) -> None:
    stage = discord_world.emulator
    ada, hall = stage.add_person("Ada"), stage.add_place(PlaceKind.GROUP, "Hall")
    async with discord_world.client() as client:
        await stage.cut_connections()
        for number in range(20):
            await stage.say(ada.id, hall.id, str(number))
        await until(lambda: client.resumes and len(client.messages) >= 20)
        assert client.texts() == [str(number) for number in range(20)]
        stage.gateway.ask_to_reconnect()
        await until(lambda: client.resumes == 2)
        stage.gateway.close(4000)
        await until(lambda: client.resumes == 3)
        stage.gateway.invalidate(resumable=True)
        await until(lambda: client.resumes == 4)
        await stage.say(ada.id, hall.id, "still here")
        await until(lambda: "still here" in client.texts())
        assert (client.readies, stage.gateway.identified) == (1, 1)


async def test_an_event_can_come_twice_and_one_can_be_broken(discord_world: DiscordWorld) -> None:
    """The library neither drops the second nor survives the event without its keys."""
    stage = discord_world.emulator
    ada, hall = stage.add_person("Ada"), stage.add_place(PlaceKind.GROUP, "Hall")
    async with discord_world.client() as client:
        stage.faults.duplicate = 1
        said = await stage.say(ada.id, hall.id, "twice")
        await until(lambda: len(client.messages) == 2)
        assert {str(message.id) for message in client.messages} == {said.id}
        stage.faults.poison = 1
        await stage.say(ada.id, hall.id, "after the poison")
        await until(client.running.done)
        with pytest.raises(KeyError):
            client.running.result()
    async with discord_world.client() as client:
        channel = client.get_partial_messageable(int(hall.id))
        missed = [m.content async for m in channel.history(after=discord.Object(int(said.id)))]
    assert missed == ["after the poison"]


async def test_an_intent_that_was_not_granted_ends_the_client(discord_world: DiscordWorld) -> None:
    discord_world.emulator.switches.has_message_content = False
    with pytest.raises(discord.PrivilegedIntentsRequired):
        async with discord_world.client():
            pass


async def test_a_closed_client_loses_its_session(discord_world: DiscordWorld) -> None:
    """A close with 1000 ends the session at once: the next client identifies."""
    stage = discord_world.emulator
    async with discord_world.client():
        assert stage.gateway.is_connected
    await until(lambda: not stage.gateway.is_connected)
    async with discord_world.client() as client:
        assert client.readies == 1
    assert (stage.gateway.identified, stage.switches.sessions_left) == (2, 998)


# --- raw frames


async def receive(socket: ClientConnection, wanted: Callable[[Frame], bool]) -> Frame:
    while True:
        frame: Frame = json.loads(await socket.recv())
        if wanted(frame):
            return frame


async def dispatched(socket: ClientConnection, name: str) -> Frame:
    return await receive(socket, lambda frame: frame["t"] == name)


async def op(socket: ClientConnection, number: int) -> Frame:
    return await receive(socket, lambda frame: frame["op"] == number)


async def send(socket: ClientConnection, number: int, data: object) -> None:
    await socket.send(json.dumps({"op": number, "d": data}))


async def close_code(socket: ClientConnection) -> int | None:
    """What the server closes with; whatever comes before is skipped."""
    with contextlib.suppress(ConnectionClosed):
        async for _ in socket:
            pass
    return socket.close_code


def identify(**more: object) -> Frame:
    return {"token": TOKEN, "intents": INTENTS, "properties": {}} | more


def gateway(world: DiscordWorld, query: str = "?v=10&encoding=json") -> connect:
    return connect(f"ws://{world.address}/gateway/{query}", proxy=None)


async def test_the_opening_of_a_session(discord_world: DiscordWorld) -> None:
    """HELLO, heartbeat and its acknowledgement, READY with where to resume, then the guilds, numbered from one."""
    stage = discord_world.emulator
    stage.add_place(PlaceKind.GROUP, "Hall")
    async with gateway(discord_world) as socket:
        assert json.loads(await socket.recv())["d"]["heartbeat_interval"] == 41_250
        await send(socket, 1, None)
        await op(socket, 11)
        await send(socket, 2, identify(shard=[0, 1]))
        ready = await dispatched(socket, "READY")
        assert (ready["s"], ready["d"]["shard"]) == (1, [0, 1])
        assert ready["d"]["resume_gateway_url"] == f"ws://{discord_world.address}/gateway"
        assert ready["d"]["guilds"] == [{"id": str(stage.guild.id), "unavailable": True}]
        guild = await dispatched(socket, "GUILD_CREATE")
        assert guild["s"] == 2
        managed = next(role for role in guild["d"]["roles"] if role["managed"])
        assert managed["tags"] == {"bot_id": ready["d"]["user"]["id"]}


async def test_a_session_that_is_gone_cannot_be_resumed(discord_world: DiscordWorld) -> None:
    stage = discord_world.emulator
    ada, hall = stage.add_person("Ada"), stage.add_place(PlaceKind.GROUP, "Hall")
    async with gateway(discord_world) as socket:
        await send(socket, 2, identify())
        session_id = (await dispatched(socket, "READY"))["d"]["session_id"]
        await dispatched(socket, "GUILD_CREATE")
        stage.gateway.invalidate(resumable=False)
        assert (await op(socket, 9))["d"] is False
    await stage.say(ada.id, hall.id, "into the void")
    async with gateway(discord_world) as socket:
        await send(socket, 6, {"token": TOKEN, "session_id": session_id, "seq": 2})
        assert (await op(socket, 9))["d"] is False
        await send(socket, 2, identify())
        await dispatched(socket, "GUILD_CREATE")
        await stage.say(ada.id, hall.id, "heard")
        assert (await dispatched(socket, "MESSAGE_CREATE"))["d"]["content"] == "heard"


async def test_a_resume_repeats_exactly_what_came_after_the_number() -> None:
    """The window is measured on the emulator's clock; a session that was left too long is forgotten."""
    now = [1_800_000_000.0]
    stage = DiscordEmulator(token=TOKEN, clock_s=lambda: now[0])
    ada, hall = stage.add_person("Ada"), stage.add_place(PlaceKind.GROUP, "Hall")
    async with listening(stage.app) as port:
        world = DiscordWorld(stage, port)
        async with gateway(world) as socket:
            await send(socket, 2, identify())
            session_id = (await dispatched(socket, "READY"))["d"]["session_id"]
            await dispatched(socket, "GUILD_CREATE")
            await stage.say(ada.id, hall.id, "three")
            await stage.say(ada.id, hall.id, "four")
            stage.gateway.cut()
        await until(lambda: not stage.gateway.is_connected)
        await stage.say(ada.id, hall.id, "five")
        resume = {"token": TOKEN, "session_id": session_id, "seq": 3}
        async with gateway(world) as socket:
            await send(socket, 6, resume)
            frames = [json.loads(await socket.recv()) for _ in range(4)][1:]
            assert [(frame["t"], frame["s"]) for frame in frames] == [
                ("MESSAGE_CREATE", 4),
                ("MESSAGE_CREATE", 5),
                ("RESUMED", 6),
            ]
            stage.gateway.cut()
        await until(lambda: not stage.gateway.is_connected)
        async with gateway(world) as socket:
            await send(socket, 6, resume | {"seq": 99})
            assert await close_code(socket) == 4007
        now[0] += stage.switches.resume_window_s + 1
        async with gateway(world) as socket:
            await send(socket, 6, resume)
            assert (await op(socket, 9))["d"] is False


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        ([(2, identify(token="wrong"))], 4004),
        ([(2, identify(intents=-1))], 4013),
        ([(2, identify(shard=[2, 1]))], 4010),
        ([(2, identify()), (2, identify())], 4005),
        ([(8, {})], 4003),
        ([(2, identify()), (5, {})], 4001),
        ([(2, "no mapping")], 4002),
        ([(2, identify(properties={"os": "x" * 5000}))], 4002),
        ([(6, {"token": "wrong", "session_id": "", "seq": 0})], 4004),
        ([(1, None)] * 121, 4008),
    ],
)
async def test_close_codes(discord_world: DiscordWorld, frames: list[tuple[int, object]], code: int) -> None:
    async with gateway(discord_world) as socket:
        for number, data in frames:
            await send(socket, number, data)
        assert await close_code(socket) == code


async def test_odd_connections_are_closed(discord_world: DiscordWorld) -> None:
    """An unknown version, a frame that is no JSON, a client that never beats."""
    async with gateway(discord_world, "?v=3") as socket:
        assert await close_code(socket) == 4012
    async with gateway(discord_world) as socket:
        await socket.send("{")
        assert await close_code(socket) == 4002
    discord_world.emulator.switches.heartbeat_ms = 20
    async with gateway(discord_world) as socket:
        assert await close_code(socket) == 4009


async def test_shards_hear_their_guilds_and_the_first_hears_direct_chats(discord_world: DiscordWorld) -> None:
    stage = discord_world.emulator
    ada, hall = stage.add_person("Ada"), stage.add_place(PlaceKind.GROUP, "Hall")
    dm = next(p for p in stage.places() if p.person_id == ada.id)
    home = (stage.guild.id >> 22) % 2
    async with gateway(discord_world) as zero, gateway(discord_world) as one:
        sockets = {0: zero, 1: one}
        for index, socket in sockets.items():
            await send(socket, 2, identify(shard=[index, 2]))
            ready = await dispatched(socket, "READY")
            assert bool(ready["d"]["guilds"]) == (index == home)
        await stage.say(ada.id, hall.id, "in the guild")
        await stage.say(ada.id, dm.id, "in private")
        first_at_home = await dispatched(sockets[home], "MESSAGE_CREATE")
        assert first_at_home["d"]["content"] == "in the guild"
        while (event := await dispatched(zero, "MESSAGE_CREATE"))["d"]["content"] != "in private":
            assert home == 0
        assert "guild_id" not in event["d"]


async def test_events_of_intents_not_asked_for_do_not_come(discord_world: DiscordWorld) -> None:
    stage = discord_world.emulator
    ada, hall = stage.add_person("Ada"), stage.add_place(PlaceKind.GROUP, "Hall")
    async with gateway(discord_world) as socket:
        await send(socket, 2, identify(intents=1 << 12))
        await dispatched(socket, "READY")
        await stage.say(ada.id, hall.id, "unheard")
        dm = next(p for p in stage.places() if p.person_id == ada.id)
        await stage.say(ada.id, dm.id, "heard")
        frame = json.loads(await socket.recv())
        assert (frame["t"], frame["d"]["content"], frame["d"]["channel_type"]) == ("MESSAGE_CREATE", "heard", 1)


async def test_a_half_dead_connection_stays_dead_and_a_later_one_works() -> None:
    """Neither side is told; what was lost is not made up for when the switch goes back."""
    stage = DiscordEmulator(token=TOKEN)
    beat = json.dumps({"op": 1, "d": None})
    async with listening(stage.app, is_half_dead=lambda: stage.faults.half_dead) as port:
        url = f"ws://127.0.0.1:{port}/gateway/?v=10&encoding=json"
        async with connect(url, ping_interval=None, close_timeout=0.1) as first:
            assert json.loads(await first.recv())["op"] == 10
            stage.faults.half_dead = True
            await first.send(beat)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await first.recv()
            stage.faults.half_dead = False
            await first.send(beat)
            async with connect(url, ping_interval=None) as second:
                assert json.loads(await second.recv())["op"] == 10
                await second.send(beat)
                assert json.loads(await second.recv())["op"] == 11
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await first.recv()


async def test_a_server_ends_in_order_while_a_client_is_closing() -> None:
    """It has read that the client closes, and not yet that its connection is gone."""
    async with listening(DiscordEmulator(token=TOKEN).app) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        asked = ("GET /gateway/?v=10&encoding=json HTTP/1.1", f"Host: 127.0.0.1:{port}", "Connection: Upgrade")
        upgrade = ("Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")
        writer.write("\r\n".join([*asked, *upgrade, "\r\n"]).encode())
        await reader.readuntil(b'"t": null}')
        writer.write(b"\x88\x80\0\0\0\0")
        await asyncio.sleep(0)
    writer.close()
    await writer.wait_closed()
