"""A message that ends in half a secret waits at the door for the other half, on all three platforms.

Nobody else waits with it, nothing is acknowledged before it is on the bus, and who kills us meanwhile loses nothing.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from channels.emulators.serving import serve
from channels.emulators.telegram import TelegramEmulator
from gateway.bus.bus import RedisBus
from gateway.scrub.placeholder import PLACEHOLDER
from tests.e2e.test_channels_role import TOKEN as BOT_TOKEN
from tests.e2e.test_channels_role import Telegram, role
from tests.parts.answering import EchoAgent, agent
from tests.parts.towns import Town, town
from tests.parts.waiting import until
from tests.scrubbing import draw

__all__ = ["agent", "town"]

TOKEN = draw("ghp_<base62:36>", seed=51)
HEAD, REST = f"take {TOKEN[:20]}", f"{TOKEN[20:]} please"


def heard(agent: EchoAgent) -> list[str]:
    """What came in, each placeholder as "…"."""
    return [PLACEHOLDER.sub("…", message.text) for message in agent.heard]


async def test_both_halves_come_in_clean_and_in_order(town: Town, bus: RedisBus, agent: EchoAgent) -> None:
    dm = town.dm(town.ann)
    async with town.line(bus):
        await town.stage.say(town.ann.id, dm.id, HEAD)
        await town.stage.say(town.ann.id, dm.id, REST)
        await town.until_answers(2, dm)
        assert heard(agent) == ["take …", "… please"]
        assert [message.mends for message in agent.heard] == [(), ()]


async def test_nobody_else_waits_with_it(town: Town, bus: RedisBus, agent: EchoAgent) -> None:
    """Neither in another chat, nor in the same group."""
    async with town.line(bus):
        await town.stage.say(town.ann.id, town.group.id, HEAD, mention_bot=True)
        await town.stage.say(town.ben.id, town.group.id, "hello", mention_bot=True)
        await town.stage.say(town.ben.id, town.dm(town.ben).id, "good morning")
        await until(lambda: len(agent.heard) == 3)
        assert sorted(heard(agent)[:2]) == ["good morning", "hello"]
        assert heard(agent)[2] == HEAD


async def test_a_half_that_stays_alone_is_answered_all_the_same(town: Town, bus: RedisBus, agent: EchoAgent) -> None:
    dm = town.dm(town.ann)
    async with town.line(bus):
        await town.stage.say(town.ann.id, dm.id, HEAD)
        await town.until_answers(1, dm)
        assert heard(agent) == [HEAD]
        await town.stage.say(town.ann.id, dm.id, REST)
        await town.until_answers(2, dm)
        assert heard(agent)[1] == "… please"
        assert len(agent.heard[1].mends) == 1
        await town.stays_silent(2)


async def test_whoever_ends_us_while_it_waits_loses_nothing(town: Town, bus: RedisBus, agent: EchoAgent) -> None:
    dm = town.dm(town.ann)
    async with town.line(bus):
        await town.stage.say(town.ann.id, dm.id, "hello")
        await town.until_answers(1, dm)
        await town.stage.say(town.ann.id, dm.id, HEAD)
        await asyncio.sleep(0.2)  # it is at the door by now, or on its way to it
    async with town.line(bus):
        await town.stage.say(town.ann.id, dm.id, REST)
        await town.until_answers(3, dm)
        assert [text for text in heard(agent) if text.startswith("take")] == ["take …"]
        assert heard(agent)[-1] == "… please"
        await town.stays_silent(3)


async def test_a_kill_while_it_waits_loses_nothing(
    bus: RedisBus, valkey_url: str, tmp_path: Path, agent: EchoAgent
) -> None:
    emulator = TelegramEmulator(token=BOT_TOKEN)
    async with serve({"telegram": emulator}) as where:
        telegram = Telegram(emulator, where.url_of("telegram"), valkey_url, tmp_path)
        async with role(telegram.settings) as process:
            await telegram.say("hello")
            await until(lambda: len(telegram.answers()) == 1)
            before = await bus.intake.position("telegram:4242001")
            await telegram.say(HEAD)
            while await bus.intake.position("telegram:4242001") == before:  # noqa: ASYNC110 - Redis tells who asks
                await asyncio.sleep(0.01)
            process.kill()
            await process.wait()
        async with role(telegram.settings):
            await telegram.say(REST)
            await until(lambda: len(telegram.answers()) == 3)
            assert heard(agent) == ["hello", "take …", "… please"]
