"""Bot API servers that are not Telegram's own: older ones, half ones, and what stands in front of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from channels.emulators.telegram import TelegramEmulator
from channels.telegram.adapter import TelegramAdapter
from channels.telegram.client import Endpoint
from gateway.bus.bus import RedisBus
from gateway.clock import SystemClock
from tests.parts.answering import EchoAgent
from tests.parts.doors import OpenDoor
from tests.parts.platforms import TELEGRAM_TOKEN, ServedTelegram
from tests.parts.towns import Town, telegram_town
from tests.parts.waiting import until


@pytest.fixture
async def town() -> AsyncIterator[Town]:
    async with telegram_town() as built:
        yield built


@pytest.fixture
def stage(town: Town) -> TelegramEmulator:
    assert isinstance(town.stage, TelegramEmulator)
    return town.stage


@pytest.fixture
async def agent(bus: RedisBus) -> AsyncIterator[EchoAgent]:
    async with EchoAgent(bus).at_work() as echo:
        yield echo


@pytest.mark.parametrize("switch", ["only_basics", "front_pages", "status_200"])
async def test_a_server_with_its_own_ways_is_spoken_to(
    town: Town, stage: TelegramEmulator, bus: RedisBus, agent: EchoAgent, switch: str
) -> None:
    """One that knows nothing but messages; a page of a proxy, which says nothing of the token; refusals that only their
    own words call refusals."""
    stage.faults.other[switch] = 1
    stage.faults.rate_limit, stage.faults.retry_after_s = 1, 1
    async with town.line(bus):
        await stage.say(town.ann.id, town.dm(town.ann).id, "hello")
        assert await town.until_answers(1) == ["echo: hello"]


async def test_an_answer_to_a_message_that_is_gone_is_sent_all_the_same(
    town: Town, stage: TelegramEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """Servers that do not know how to leave the quote away refuse the whole."""
    stage.faults.other["no_reply_targets"] = 1
    async with town.line(bus):
        await stage.say(town.ann.id, town.group.id, "hello", mention_bot=True)
        await town.until_answers(1, town.group)
    (answer,) = town.answers(town.group)
    assert (answer.text, answer.reply_to) == ("echo: hello", None)


async def test_a_server_that_never_waits_is_not_stormed(telegram_emulator: ServedTelegram, bus: RedisBus) -> None:
    telegram_emulator.emulator.faults.other["hasty_polls"] = 1
    adapter = TelegramAdapter(
        Endpoint(TELEGRAM_TOKEN, telegram_emulator.api_base),
        positions=bus.intake,
        leases=bus.deliveries,
        places=bus.places,
        clock=SystemClock(),
        holder="test",
    )
    running = asyncio.create_task(adapter.run(OpenDoor()))
    try:
        await until(lambda: telegram_emulator.emulator.polls >= 2)
        await asyncio.sleep(0.5)
        assert telegram_emulator.emulator.polls <= 6
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
