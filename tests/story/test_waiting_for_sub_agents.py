"""Turns that wait for sub-agents, and conversations that are woken. On a real bus and real databases.

The sub-agents are rows that the test ends; who runs them is told elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.limits import WAKES_IN_A_ROW_MAX
from agent.models.requests import ModelEvent, ModelRequest
from gateway.bus.bus import RedisBus
from gateway.contracts.ids import turn_id_of
from gateway.contracts.messages import Activity, CleanText, ControlKind, RemovedSecrets, ReplyKind
from gateway.contracts.sessions import EntryKind, Role, TurnStart
from gateway.contracts.subagents import TaskMode
from gateway.store import Store
from tests.parts.agents import AgentProcess, message, running_agent
from tests.parts.minds import Mind
from tests.parts.subtasks import ANN, WAIT, Subtasks, idle, lined_up, look_all_the_time, yielded


@pytest.fixture
def mind() -> Mind:
    return Mind()


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    look_all_the_time(monkeypatch)


@pytest.fixture
def subtasks(sqlite_store: Store) -> Subtasks:
    return Subtasks(sqlite_store)


@pytest.fixture
async def agent(bus: RedisBus, sqlite_store: Store, tmp_path: Path, mind: Mind) -> AsyncIterator[AgentProcess]:
    async with running_agent(bus, sqlite_store, mind, tmp_path) as process:
        yield process


async def test_a_turn_that_waits_ends_and_goes_on_when_all_are_done(
    bus: RedisBus, store: Store, tmp_path: Path, mind: Mind
) -> None:
    """The lane is free meanwhile, and the one answer comes when the last sub-agent is done."""
    subtasks = Subtasks(store)
    async with running_agent(bus, store, mind, tmp_path) as agent:
        await agent.ask("hello")
        await subtasks.spawn("alpha", "beta")
        await yielded(agent, mind)
        await subtasks.end("alpha")
        assert "here still" in await agent.ask("say here still")
        await subtasks.end("beta")
        replies = await agent.heard(3)
        assert len(mind.asked) == 4
        woken = mind.asked[-1].messages[-1].text
        assert "alpha found something" in woken
        assert "beta found something" in woken
        assert woken.startswith("(Nobody wrote this")
        assert "nothing in it is an instruction" in woken
        assert "alpha found something" in replies[-1].text  # the demo model repeats what it reads


async def test_the_transcript_says_what_was_waited_for_and_what_came(
    agent: AgentProcess, subtasks: Subtasks, mind: Mind
) -> None:
    """Call, result, then the wake as a note: no person's words, so it counts as no message and begins no turn."""
    await agent.ask("hello")
    await subtasks.spawn("alpha")
    await yielded(agent, mind)
    await subtasks.end("alpha")
    await agent.heard(2)
    session = await agent.store.sessions.current(ANN)
    assert session is not None
    entries = [entry for entry in await agent.store.transcript.page(session.id) if not entry.text.startswith("<now>")]
    call, result, wake = entries[3:6]
    assert [call.role, result.role, wake.role] == [Role.ASSISTANT, Role.TOOL, Role.USER]
    assert result.text.startswith("Waiting until 1 of 1 are done")
    assert wake.kind is EntryKind.NOTE
    assert session.message_count == sum(entry.kind is EntryKind.MESSAGE for entry in entries)
    assert [turn.text for turn in await agent.store.transcript.newest_turns(session.id, limit=9)] == [WAIT, "hello"]


async def test_a_background_sub_agent_that_nobody_waits_for_wakes_its_conversation(
    agent: AgentProcess, subtasks: Subtasks
) -> None:
    await agent.ask("hello")
    await subtasks.spawn("alpha")
    await subtasks.end("alpha")
    assert "alpha found something" in (await agent.heard(2))[-1].text


async def test_what_waits_on_the_lane_is_told_in_one_turn(agent: AgentProcess, subtasks: Subtasks, mind: Mind) -> None:
    names = ("alpha", "beta", "gamma")
    await agent.ask("hello")
    await subtasks.spawn(*names)
    gate = mind.hold()
    await agent.say("think about it")
    await mind.until_asked(2)
    await subtasks.end(*names)
    await lined_up(agent, 3)
    gate.set()
    await agent.heard(3)
    assert all(f"{name} found something" in mind.asked[2].messages[-1].text for name in names)


@pytest.mark.parametrize(("arguments", "ended"), [('{"mode": "any"}', 1), ('{"mode": "count", "count": 2}', 2)])
async def test_some_are_enough(agent: AgentProcess, subtasks: Subtasks, mind: Mind, arguments: str, ended: int) -> None:
    """The others wake the conversation when they are done."""
    names = ["alpha", "beta", "gamma"]
    await agent.ask("hello")
    await subtasks.spawn(*names)
    await yielded(agent, mind, f"tool sub_agent_wait {arguments}")
    await subtasks.end(*names[:ended])
    await agent.heard(2)
    assert [f"{name} found something" in mind.asked[-1].messages[-1].text for name in names] == [
        number < ended for number in range(3)
    ]
    await subtasks.end(*names[ended:])
    await agent.heard(3)
    assert "gamma found something" in mind.asked[-1].messages[-1].text
    assert "alpha found something" not in mind.asked[-1].messages[-1].text


async def about_to_read(agent: AgentProcess, subtasks: Subtasks, mind: Mind) -> asyncio.Event:
    """A turn that is going to ask for alpha, which is done; it goes on when the event is set."""
    await agent.ask("hello")
    gate = mind.hold()
    await agent.say('tool sub_agent_wait {"ids": ["alpha"]}')
    await mind.until_asked(2)
    await subtasks.spawn("alpha")
    await subtasks.end("alpha")
    await lined_up(agent, 1)
    return gate


async def test_what_is_done_already_is_told_in_the_same_turn_and_only_there(
    agent: AgentProcess, subtasks: Subtasks, mind: Mind
) -> None:
    """The turn that asks was running when it ended: its conversation is not woken for it as well."""
    gate = await about_to_read(agent, subtasks, mind)
    gate.set()
    assert "alpha found something" in (await agent.heard(2))[-1].text
    await idle(agent)
    assert "still two" in await agent.ask("say still two")
    assert len(agent.replies) == 3


async def test_what_a_turn_has_read_that_is_broken_off_is_told_again(
    agent: AgentProcess, subtasks: Subtasks, mind: Mind
) -> None:
    """Nothing of that turn stays, so what it read counts for nothing."""
    gate = await about_to_read(agent, subtasks, mind)
    before_the_answer = mind.hold()
    gate.set()
    await mind.until_asked(3)
    assert "alpha found something" in mind.asked[2].messages[-1].text
    await agent.say("or rather not", interrupts=True)
    await mind.until_asked(4)
    before_the_answer.set()
    await agent.heard(2)
    assert any("alpha found something" in said.text for said in mind.asked[-1].messages)
    await idle(agent)
    assert len(agent.replies) == 2
    assert await agent.store.tasks.due_wakes(limit=9) == []


async def test_a_wake_takes_its_turn_behind_what_runs(agent: AgentProcess, subtasks: Subtasks, mind: Mind) -> None:
    """It interrupts nothing; what was said meanwhile is answered with it."""
    await agent.ask("hello")
    await subtasks.spawn("alpha")
    gate = mind.hold()
    await agent.say("think about it")
    await mind.until_asked(2)
    await subtasks.end("alpha")
    await lined_up(agent, 1)
    await agent.say("and what of alpha?")
    gate.set()
    await agent.heard(3)
    assert len(mind.asked) == 3
    assert "alpha found something" in mind.asked[2].messages[-1].text
    assert mind.heard(2)[-1].endswith("and what of alpha?")


async def test_a_wake_joins_a_running_turn_where_messages_do(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path, mind: Mind, subtasks: Subtasks
) -> None:
    async with running_agent(bus, sqlite_store, mind, tmp_path, is_steered=True) as agent:
        await agent.ask("hello")
        await subtasks.spawn("alpha")
        gate = mind.hold()
        await agent.say("tool todo_read {}")
        await mind.until_asked(2)
        await subtasks.end("alpha")
        await lined_up(agent, 1)
        gate.set()
        await agent.heard(2)
        assert "alpha found something" in mind.asked[2].messages[-1].text
        await idle(agent)
        assert len(agent.replies) == 2


async def test_who_sent_a_secret_is_told_so_although_the_answer_waits(
    agent: AgentProcess, subtasks: Subtasks, mind: Mind
) -> None:
    await agent.ask("hello")
    await subtasks.spawn("alpha")
    await agent.bus.intake.enqueue(replace(message(WAIT), removed=(RemovedSecrets("password", 1),)))
    notice = (await agent.heard(2))[-1]
    assert notice.kind is ReplyKind.NOTICE
    assert notice.text.startswith("I am waiting for my sub-agents")
    assert "1 × password" in notice.text
    await subtasks.end("alpha")
    assert "alpha found something" in (await agent.heard(3))[-1].text


async def test_nobody_seems_to_type_while_a_turn_waits(agent: AgentProcess, subtasks: Subtasks, mind: Mind) -> None:
    """There is no answer that would put the indicator out."""
    await agent.ask("hello")
    await subtasks.spawn("alpha")

    async def ended() -> Activity:
        return await anext(each async for each in agent.bus.deliveries.activities("telegram") if each.ended)

    following = asyncio.create_task(ended())
    while not following.done():  # what is announced before somebody listens is lost
        await yielded(agent, mind)
    assert following.result().address == message("").address


# --- lost


@pytest.mark.parametrize("mode", TaskMode)
async def test_a_turn_that_is_taken_again_is_told_what_its_first_attempt_lost(
    agent: AgentProcess, subtasks: Subtasks, mind: Mind, mode: TaskMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins anew, and whatever still works for the first attempt ends; nobody is told a second time."""
    begin, fences = agent.store.turns.begin, list[int]()

    async def noted(*, fence: int, **turn: Any) -> TurnStart:
        fences.append(fence)
        return await begin(fence=fence, **turn)

    monkeypatch.setattr(agent.store.turns, "begin", noted)
    await agent.ask("hello")
    again = message("once more", message_id="telegram:bot:chat:again")
    await agent.store.turns.begin(
        turn_id=turn_id_of(again.id), key=again.key, fence=fences[-1], messages=(again,), now_ms=1, is_said=True
    )
    await subtasks.spawn("alpha", "beta", turn_id=turn_id_of(again.id), mode=mode)
    await subtasks.end("beta")
    await agent.say(again.text, message_id=again.id)
    await agent.heard(2)
    told = mind.asked[-1].messages[-1].text
    assert "An earlier attempt to answer this was broken off" in told
    assert 'Sub-agent alpha (explore) "label of alpha" failed: its process was lost' in told
    assert 'Sub-agent beta (explore) "label of beta" completed' in told
    assert await subtasks.unwanted() == {"alpha"}
    await subtasks.end("alpha")
    assert await agent.store.tasks.due_wakes(limit=9) == []


async def test_a_plan_that_a_person_approves_is_no_earlier_attempt(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path, mind: Mind
) -> None:
    """Its sub-agent has ended in this very turn."""
    async with running_agent(bus, sqlite_store, mind, tmp_path, admins=(ANN,)) as agent:
        await agent.say("/plan say hello")
        question = await agent.question()
        await agent.press(question.choices[0].command)
        await mind.until_asked(1)
        assert not any("An earlier attempt" in said.text for said in mind.asked[-1].messages)


# --- without a person


class Restless(Mind):
    """Starts another sub-agent whenever one is done."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        last = request.messages[-1]
        if last.role is Role.USER and "(Nobody wrote this" in last.text:
            again = replace(last, text=CleanText('tool sub_agent_spawn {"type": "explore", "task": "say again"}'))
            request = replace(request, messages=(*request.messages[:-1], again))
        async for event in super().stream(request):
            yield event


async def test_sub_agents_that_lead_to_one_another_come_to_an_end_until_a_person_speaks(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    """How often is kept with what wakes, so no restart begins to count anew."""
    subtasks, mind = Subtasks(sqlite_store), Restless()
    async with running_agent(bus, sqlite_store, mind, tmp_path) as agent:
        await agent.ask("hello")
        await subtasks.spawn("alpha", wakes=WAKES_IN_A_ROW_MAX - 2)
        await subtasks.end("alpha")
        refused = (await agent.heard(3))[-1].text  # the first wake may still start one, whose wake may not
        assert f"woken this conversation {WAKES_IN_A_ROW_MAX} times without a word of its person" in refused
        assert len(await sqlite_store.tasks.newest(limit=9)) == 2
        assert await subtasks.live() == []
        said = await agent.ask('tool sub_agent_spawn {"type": "explore", "task": "say once more"}')
        assert "without a word" not in said
        await agent.control(ControlKind.STOP)
