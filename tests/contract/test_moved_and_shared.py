"""A chat that moves, a place that shuts us out, and two processes of one account: order, and nothing twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from channels.emulators.stage import PlaceKind
from channels.emulators.telegram import TelegramEmulator
from gateway.bus.bus import RedisBus, open_bus
from gateway.bus.heartbeat import ProcessName
from gateway.contracts.messages import DeliveryState
from tests.parts.answering import EchoAgent, agent, until_delivered
from tests.parts.towns import Town, telegram_town
from tests.parts.towns import town as any_town
from tests.parts.waiting import until

__all__ = ["agent"]

town = any_town


@pytest.fixture
async def telegram() -> AsyncIterator[Town]:
    async with telegram_town() as town:
        yield town


def emulator(town: Town) -> TelegramEmulator:
    assert isinstance(town.stage, TelegramEmulator)
    return town.stage


class TestAGroupThatBecomesASupergroup:
    async def test_gets_the_answer_that_was_on_its_way_and_keeps_its_session(
        self, telegram: Town, bus: RedisBus, agent: EchoAgent
    ) -> None:
        """The question came under the old id, the answer goes to the new one, the next question has the same key."""
        stage = emulator(telegram)
        stage.faults.other["basic_groups"] = 1
        group = stage.add_place(PlaceKind.GROUP, "Club")
        thinking = asyncio.Event()
        agent.think_until(thinking)
        async with telegram.line(bus):
            await stage.say(telegram.ann.id, group.id, "before", mention_bot=True)
            await until(lambda: len(agent.heard) == 1)
            stage.upgrade_group(group.id)
            thinking.set()
            await until(lambda: telegram.texts(group) == ["echo: before"])
            await stage.say(telegram.ann.id, group.id, "after", mention_bot=True)
            await until(lambda: telegram.texts(group) == ["echo: before", "echo: after"])
        old, new = agent.heard
        assert old.key == new.key
        assert old.address.lane != new.address.lane

    async def test_is_found_when_the_send_is_what_tells_us(
        self, telegram: Town, bus: RedisBus, agent: EchoAgent
    ) -> None:
        """Nobody said a word of it before: the refusal names the new id."""
        stage = emulator(telegram)
        stage.faults.other["basic_groups"] = 1
        group = stage.add_place(PlaceKind.GROUP, "Club")
        async with telegram.line(bus):
            stage.faults.other["migrate"] = 1
            await stage.say(telegram.ann.id, group.id, "hello", mention_bot=True)
            await until(lambda: telegram.texts(group) == ["echo: hello"])
            await stage.say(telegram.ann.id, group.id, "again", mention_bot=True)
            await until(lambda: telegram.texts(group) == ["echo: hello", "echo: again"])
        assert len({str(message.key) for message in agent.heard}) == 1


async def test_a_place_that_shut_us_out_costs_one_call_until_somebody_speaks_there(
    town: Town, bus: RedisBus, agent: EchoAgent
) -> None:
    dm = town.dm(town.ann)
    thinking = asyncio.Event()
    agent.think_until(thinking)
    async with town.line(bus):
        await town.stage.say(town.ann.id, dm.id, "hello")
        await until(lambda: bool(agent.heard))
        town.stage.faults.blocked = True
        thinking.set()
        await until_delivered(bus, town.platform)
        town.stage.faults.blocked = False
        late = agent.reply_to(agent.heard[0], "late")
        await bus.deliveries.publish([late])
        await until_delivered(bus, town.platform)
        (record,) = await bus.operator.delivery_records(late.key, [late.id])
        assert (record.state, record.begun_at_ms) == (DeliveryState.FAILED, 0)
        await town.stage.say(town.ann.id, dm.id, "are you there?")
        await until(lambda: town.texts(dm) == ["echo: are you there?"])


@pytest.mark.long
async def test_two_processes_of_one_account_deliver_in_order_and_once(
    town: Town, bus: RedisBus, agent: EchoAgent, valkey_url: str
) -> None:
    """One of them delivers; when it leaves, the other goes on where it stopped."""
    other = await open_bus(valkey_url, process=ProcessName("elsewhere", 1, 1))
    dm = town.dm(town.ann)
    try:
        async with town.line(bus), town.starting(other):
            for number in range(12):
                await town.stage.say(town.ann.id, dm.id, str(number))
            await town.until_answers(12, dm)
        async with town.line(other):
            await town.stage.say(town.ann.id, dm.id, "12")
            await until(lambda: len(town.texts(dm)) >= 13)
        assert town.texts(dm) == [f"echo: {number}" for number in range(13)]
    finally:
        await other.close()
