"""Several bots in one room: who is heard, and that two who answer each other come to an end."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from channels.core.runtime import ChannelRuntime
from channels.emulators.stage import Person
from gateway.bus.bus import RedisBus
from gateway.contracts.access import AccessPolicy, StrangerRule
from gateway.limits import BOT_TURNS_MAX, BOT_TURNS_WINDOW_S
from tests.parts.answering import EchoAgent, agent
from tests.parts.towns import OPEN, Town, town
from tests.parts.waiting import until

__all__ = ["agent", "town"]

HEARING = replace(OPEN, hears_bots=True)


@pytest.fixture
def rival(town: Town) -> Person:
    town.stage.faults.other["bot_to_bot"] = 1
    return town.stage.add_bot("Rival")


@contextlib.asynccontextmanager
async def hearing(town: Town, bus: RedisBus, rival: Person) -> AsyncIterator[ChannelRuntime]:
    async with town.line(bus, HEARING, adapter=town.adapter(bus, bots=(rival.id,))) as line:
        yield line


async def says(town: Town, person: Person, text: str) -> None:
    await town.stage.say(person.id, town.group.id, text, mention_bot=True)


async def marked(town: Town, agent: EchoAgent) -> list[str]:
    """What was heard up to now, by a word in a direct chat that comes after it."""
    await town.stage.say(town.ann.id, town.dm(town.ann).id, "marker")
    await until(lambda: agent.heard[-1:] != [] and agent.heard[-1].text == "marker")
    return [message.text for message in agent.heard if message.text != "marker"]


async def test_two_bots_that_answer_each_other_come_to_an_end(
    town: Town, bus: RedisBus, agent: EchoAgent, rival: Person
) -> None:
    """And go on when a person has spoken, whoever he spoke to."""
    async with hearing(town, bus, rival):
        for number in range(BOT_TURNS_MAX):
            await says(town, rival, f"and {number}?")
            await town.until_answers(number + 1, town.group)
        await says(town, rival, "and now?")
        assert len(await marked(town, agent)) == BOT_TURNS_MAX
        await town.stage.say(town.ben.id, town.group.id, "will you stop?")
        await says(town, rival, "no")
        assert (await town.until_answers(BOT_TURNS_MAX + 1, town.group))[-1] == "echo: no"


@pytest.mark.long
async def test_bots_that_nobody_named_are_not_heard(town: Town, bus: RedisBus, agent: EchoAgent, rival: Person) -> None:
    other = town.stage.add_bot("Other")
    async with hearing(town, bus, rival):
        await says(town, other, "hello")
        await says(town, rival, "hello, too")
        await town.until_answers(1, town.group)
        assert await marked(town, agent) == ["hello, too"]


async def test_a_bot_of_ours_is_never_heard(town: Town, bus: RedisBus, agent: EchoAgent, rival: Person) -> None:
    """Though the operator named it: two accounts of ours are one and the same."""
    await bus.places.introduce(town.platform, [rival.id])
    async with hearing(town, bus, rival):
        await says(town, rival, "hello colleague")
        assert await marked(town, agent) == []


@pytest.mark.long
async def test_a_bot_is_told_nothing_when_it_is_turned_away(
    town: Town, bus: RedisBus, agent: EchoAgent, rival: Person
) -> None:
    """It would answer."""
    closed = replace(HEARING, access=AccessPolicy(StrangerRule.CLOSED))
    async with town.line(bus, closed, adapter=town.adapter(bus, bots=(rival.id,))):
        await says(town, rival, "hello")
        await says(town, town.ann, "hello")
        await town.until_answers(1, town.group)
        await town.stays_silent(1)


async def test_each_account_is_known_as_ours(town: Town, bus: RedisBus, raw_redis: Any) -> None:
    async with town.line(bus):
        assert raw_redis.scard(f"{{q0}}:bots:{town.platform}") >= 1


async def test_a_message_that_comes_again_counts_once(bus: RedisBus, raw_redis: Any) -> None:
    room = "telegram:-100:7"
    for _ in range(3):
        for number in range(BOT_TURNS_MAX):
            assert await bus.places.hear_bot(room, f"m{number}", speaker="5")
    assert not await bus.places.hear_bot(room, "one too many", speaker="5")
    assert await bus.places.hear_bot("telegram:-100", "elsewhere", speaker="5")
    assert 0 < raw_redis.ttl(f"{{q0}}:spoke:{room}") <= BOT_TURNS_WINDOW_S
    await bus.places.person_spoke(room)
    assert await bus.places.hear_bot(room, "one too many", speaker="5")
