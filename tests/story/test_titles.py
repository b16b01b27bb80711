"""What the place of a conversation hears of its title."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.models.demo import ScriptedClient
from agent.models.requests import ModelEvent, ModelRequest
from gateway.bus.bus import RedisBus
from gateway.contracts.messages import ReplyKind
from gateway.contracts.sessions import UsagePurpose
from gateway.ops.admin.trace import hops_of
from gateway.store import Store
from tests.parts.agents import AgentProcess, message, running_agent
from tests.parts.waiting import PATIENCE_S

ANNA = "discord:1/500/600"


@pytest.fixture
async def agent(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> AsyncIterator[AgentProcess]:
    async with running_agent(bus, sqlite_store, ScriptedClient(), tmp_path) as process:
        yield process


async def told(agent: AgentProcess, count: int) -> list[str | None]:
    """The first `count` titles that reached the channel."""
    async with asyncio.timeout(PATIENCE_S):
        while len(agent.titles) < count:
            await agent.deliver("discord")
    return [title.title for title in agent.titles]


@pytest.mark.long
async def test_it_is_told_of_the_first_and_of_each_that_follows(agent: AgentProcess) -> None:
    """Made by itself, chosen by the user, made anew after /new, and that of a conversation that is taken up again; the
    answers are what they are without it, and a trace shows it as what it is."""
    await agent.ask("plan a trip to Rome with two children", ANNA)
    assert await told(agent, 1) == ["Plan a trip to Rome with"]
    assert agent.titles[0].address == agent.replies[0].address
    await agent.ask("/title Holiday", ANNA)
    assert await told(agent, 2) == ["Plan a trip to Rome with", "Holiday"]
    await agent.ask("/new", ANNA)
    await agent.ask("what is for dinner tonight, dear?", ANNA)
    await told(agent, 3)
    await agent.ask("/resume 1", ANNA)
    assert (await told(agent, 4))[3] == "Holiday"
    assert {title.kind for title in agent.titles} == {ReplyKind.TITLE}
    assert {title.text for title in agent.titles} == {""}
    hops = [hop.name for hop in await hops_of(agent.titles[0].turn_id, agent.store, agent.bus.operator)]
    assert (hops.count("title"), hops.count("reply committed")) == (1, 1)


class Slow(ScriptedClient):
    """Answers a turn when it may; `asked` is what calls were for, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[UsagePurpose] = []
        self.may_answer = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.asked.append(request.purpose)
        if request.purpose is UsagePurpose.TURN:
            await self.may_answer.wait()
        async for event in super().stream(request):
            yield event


async def test_it_is_made_while_the_answer_is_waited_for_and_never_before(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    client = Slow()
    async with running_agent(bus, sqlite_store, client, tmp_path) as agent:
        await agent.bus.intake.enqueue(message("plan a trip to Rome with two children", ANNA))
        assert await told(agent, 1) == ["Plan a trip to Rome with"]
        assert client.asked == [UsagePurpose.TURN, UsagePurpose.TITLE]
        client.may_answer.set()
        await agent.heard(1, "discord")


async def test_a_conversation_in_several_places_costs_one_call(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    client = Slow()
    client.may_answer.set()
    async with running_agent(bus, sqlite_store, client, tmp_path) as agent:
        for answered, lane in enumerate(("1", "500", "600"), 1):
            said = message(f"hello from {lane}", "discord:1")
            elsewhere = replace(said, address=replace(said.address, lane=lane), is_private=answered == 1)
            await agent.bus.intake.enqueue(elsewhere)
            await agent.heard(answered, "discord")
            await told(agent, 1)
    assert client.asked.count(UsagePurpose.TITLE) == 1


async def test_it_is_not_told_of_a_conversation_that_is_elsewhere_too(agent: AgentProcess) -> None:
    """Where a person has one conversation in all places, its title may come from his direct messages."""
    said = replace(message("my diagnosis", "discord:1"), is_private=False)
    await agent.bus.intake.enqueue(said)
    await agent.heard(1, "discord")
    session = await agent.store.sessions.current(said.key)
    assert session is not None
    await agent.ask("/title My diagnosis", "discord:1")
    assert await told(agent, 1) == ["My diagnosis"]
    assert agent.titles[0].address == message("", "discord:1").address


async def test_a_place_that_can_bear_no_name_is_told_of_none(agent: AgentProcess) -> None:
    """Neither of the title that a conversation is given nor of the one that its user chooses; both are kept."""
    said = replace(message("what is for dinner tonight, dear?", ANNA), is_nameable=False)
    chosen = replace(message("/title Holiday", ANNA), is_nameable=False)
    for answered, told_here in enumerate((said, chosen), 1):
        await agent.bus.intake.enqueue(told_here)
        await agent.heard(answered, "discord")
    session = await agent.store.sessions.current(said.key)
    assert session is not None
    assert session.title == "Holiday"
    await agent.ask("/title Rome", ANNA)
    assert await told(agent, 1) == ["Rome"]
