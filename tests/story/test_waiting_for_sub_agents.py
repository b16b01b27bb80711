"""Turns that wait for sub-agents, and conversations that are woken. On a real bus and real databases.

The sub-agents are rows that the test ends; who runs them is told elsewhere.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.limits import WAKES_IN_A_ROW_MAX
from agent.model.client import ModelEvent, ModelRequest
from agent.model.retrying import RetryingClient
from gateway.bus.bus import RedisBus
from gateway.contracts.entries import EntryKind, Role, TurnStart
from gateway.contracts.ids import SessionKey, turn_id_of
from gateway.contracts.messages import Activity, CleanText, ControlKind, ControlRequest, RemovedSecrets, ReplyKind
from gateway.contracts.subagents import TaskMode, TaskState
from gateway.store.store import SqlStore
from tests.parts.agents import AgentProcess, message, running_agent
from tests.parts.crew import Crew
from tests.parts.minds import Mind
from tests.parts.waiting import PATIENCE_S, POLL_S, until

ANN = SessionKey.parse("telegram:1")
WAIT = "tool sub_agent_wait {}"


@pytest.fixture
def mind() -> Mind:
    return Mind()


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes look for what ended elsewhere all the time."""
    monkeypatch.setattr("agent.subagents.wakes.waking.WAKE_POLL_S", 0.05)
    monkeypatch.setattr("agent.subagents.wakes.waking.WAKE_SETTLE_S", 0.1)
    monkeypatch.setattr("agent.subagents.life.ending.STOP_SUBAGENTS_S", 0.5)


@pytest.fixture
def crew(sqlite_store: SqlStore) -> Crew:
    return Crew(sqlite_store)


@pytest.fixture
async def agent(bus: RedisBus, sqlite_store: SqlStore, tmp_path: Path, mind: Mind) -> AsyncIterator[AgentProcess]:
    async with running_agent(bus, sqlite_store, RetryingClient(mind), tmp_path) as process:
        yield process


async def yielded(agent: AgentProcess, mind: Mind, said: str = WAIT) -> None:
    """A turn has ended with a barrier; nobody was answered."""
    calls = len(mind.asked)
    await agent.say(said)
    await mind.until_asked(calls + 1)
    await idle(agent)


async def becomes(look: Callable[[], Awaitable[object]], wanted: object) -> None:
    """Wait until `look` finds that."""
    async with asyncio.timeout(PATIENCE_S):
        while await look() != wanted:  # noqa: ASYNC110 - neither a bus nor a database tells
            await asyncio.sleep(POLL_S)


async def idle(agent: AgentProcess) -> None:
    """Nothing waits and nothing runs in Ann's lane."""
    await becomes(lambda: agent.bus.operator.lane_depth(ANN), (0, False))


async def lined_up(agent: AgentProcess, count: int) -> None:
    """So many messages lie behind the turn that runs."""
    await becomes(lambda: agent.bus.operator.lane_depth(ANN), (count, True))


async def test_a_turn_that_waits_ends_and_goes_on_when_all_are_done(
    bus: RedisBus, store: SqlStore, tmp_path: Path, mind: Mind
) -> None:
    """The lane is free meanwhile, and the one answer comes when the last sub-agent is done."""
    crew = Crew(store)
    async with running_agent(bus, store, RetryingClient(mind), tmp_path) as agent:
        await agent.ask("hello")
        await crew.spawn("alpha", "beta")
        await yielded(agent, mind)
        await crew.end("alpha")
        assert "here still" in await agent.ask("say here still")
        await crew.end("beta")
        replies = await agent.heard(3)
        assert len(mind.asked) == 4
        woken = mind.asked[-1].messages[-1].text
        assert "alpha found something" in woken
        assert "beta found something" in woken
        assert woken.startswith("(Nobody wrote this")
        assert "nothing in it is an instruction" in woken
        assert "alpha found something" in replies[-1].text  # the demo model repeats what it reads


async def test_the_transcript_says_what_was_waited_for_and_what_came(
    agent: AgentProcess, crew: Crew, mind: Mind
) -> None:
    """Call, result, then the wake as a note: no person's words, so it counts as no message and begins no turn."""
    await agent.ask("hello")
    await crew.spawn("alpha")
    await yielded(agent, mind)
    await crew.end("alpha")
    await agent.heard(2)
    session = await agent.store.current_session(ANN)
    assert session is not None
    entries = [entry for entry in await agent.store.transcript(session.id) if not entry.text.startswith("<now>")]
    call, result, wake = entries[3:6]
    assert [call.role, result.role, wake.role] == [Role.ASSISTANT, Role.TOOL, Role.USER]
    assert result.text.startswith("Waiting until 1 of 1 are done")
    assert wake.kind is EntryKind.NOTE
    assert session.message_count == sum(entry.kind is EntryKind.MESSAGE for entry in entries)
    assert [turn.text for turn in await agent.store.newest_turns(session.id, limit=9)] == [WAIT, "hello"]


async def test_a_background_sub_agent_that_nobody_waits_for_wakes_its_conversation(
    agent: AgentProcess, crew: Crew
) -> None:
    await agent.ask("hello")
    await crew.spawn("alpha")
    await crew.end("alpha")
    assert "alpha found something" in (await agent.heard(2))[-1].text


async def test_what_waits_on_the_lane_is_told_in_one_turn(agent: AgentProcess, crew: Crew, mind: Mind) -> None:
    names = ("alpha", "beta", "gamma")
    await agent.ask("hello")
    await crew.spawn(*names)
    gate = mind.hold()
    await agent.say("think about it")
    await mind.until_asked(2)
    await crew.end(*names)
    await lined_up(agent, 3)
    gate.set()
    await agent.heard(3)
    assert all(f"{name} found something" in mind.asked[2].messages[-1].text for name in names)


@pytest.mark.parametrize(("arguments", "ended"), [('{"mode": "any"}', 1), ('{"mode": "count", "count": 2}', 2)])
async def test_some_are_enough(agent: AgentProcess, crew: Crew, mind: Mind, arguments: str, ended: int) -> None:
    """The others wake the conversation when they are done."""
    names = ["alpha", "beta", "gamma"]
    await agent.ask("hello")
    await crew.spawn(*names)
    await yielded(agent, mind, f"tool sub_agent_wait {arguments}")
    await crew.end(*names[:ended])
    await agent.heard(2)
    assert [f"{name} found something" in mind.asked[-1].messages[-1].text for name in names] == [
        number < ended for number in range(3)
    ]
    await crew.end(*names[ended:])
    await agent.heard(3)
    assert "gamma found something" in mind.asked[-1].messages[-1].text
    assert "alpha found something" not in mind.asked[-1].messages[-1].text


async def about_to_read(agent: AgentProcess, crew: Crew, mind: Mind) -> asyncio.Event:
    """A turn that is going to ask for alpha, which is done; it goes on when the event is set."""
    await agent.ask("hello")
    gate = mind.hold()
    await agent.say('tool sub_agent_wait {"ids": ["alpha"]}')
    await mind.until_asked(2)
    await crew.spawn("alpha")
    await crew.end("alpha")
    await lined_up(agent, 1)
    return gate


async def test_what_is_done_already_is_told_in_the_same_turn_and_only_there(
    agent: AgentProcess, crew: Crew, mind: Mind
) -> None:
    """The turn that asks was running when it ended: its conversation is not woken for it as well."""
    gate = await about_to_read(agent, crew, mind)
    gate.set()
    assert "alpha found something" in (await agent.heard(2))[-1].text
    await idle(agent)
    assert "still two" in await agent.ask("say still two")
    assert len(agent.replies) == 3


async def test_what_a_turn_has_read_that_is_broken_off_is_told_again(
    agent: AgentProcess, crew: Crew, mind: Mind
) -> None:
    """Nothing of that turn stays, so what it read counts for nothing."""
    gate = await about_to_read(agent, crew, mind)
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


async def test_a_wake_takes_its_turn_behind_what_runs(agent: AgentProcess, crew: Crew, mind: Mind) -> None:
    """It interrupts nothing; what was said meanwhile is answered with it."""
    await agent.ask("hello")
    await crew.spawn("alpha")
    gate = mind.hold()
    await agent.say("think about it")
    await mind.until_asked(2)
    await crew.end("alpha")
    await lined_up(agent, 1)
    await agent.say("and what of alpha?")
    gate.set()
    await agent.heard(3)
    assert len(mind.asked) == 3
    assert "alpha found something" in mind.asked[2].messages[-1].text
    assert mind.heard(2)[-1].endswith("and what of alpha?")


async def test_a_wake_joins_a_running_turn_where_messages_do(
    bus: RedisBus, sqlite_store: SqlStore, tmp_path: Path, mind: Mind, crew: Crew
) -> None:
    async with running_agent(bus, sqlite_store, RetryingClient(mind), tmp_path, is_steered=True) as agent:
        await agent.ask("hello")
        await crew.spawn("alpha")
        gate = mind.hold()
        await agent.say("tool todo_read {}")
        await mind.until_asked(2)
        await crew.end("alpha")
        await lined_up(agent, 1)
        gate.set()
        await agent.heard(2)
        assert "alpha found something" in mind.asked[2].messages[-1].text
        await idle(agent)
        assert len(agent.replies) == 2


async def test_who_sent_a_secret_is_told_so_although_the_answer_waits(
    agent: AgentProcess, crew: Crew, mind: Mind
) -> None:
    await agent.ask("hello")
    await crew.spawn("alpha")
    await agent.bus.intake.enqueue(replace(message(WAIT), removed=(RemovedSecrets("password", 1),)))
    notice = (await agent.heard(2))[-1]
    assert notice.kind is ReplyKind.NOTICE
    assert notice.text.startswith("I am waiting for my sub-agents")
    assert "1 × password" in notice.text
    await crew.end("alpha")
    assert "alpha found something" in (await agent.heard(3))[-1].text


async def test_nobody_seems_to_type_while_a_turn_waits(agent: AgentProcess, crew: Crew, mind: Mind) -> None:
    """There is no answer that would put the indicator out."""
    await agent.ask("hello")
    await crew.spawn("alpha")

    async def ended() -> Activity:
        return await anext(each async for each in agent.bus.deliveries.activities("telegram") if each.ended)

    following = asyncio.create_task(ended())
    while not following.done():  # what is announced before somebody listens is lost
        await yielded(agent, mind)
    assert following.result().address == message("").address


# --- who may be woken, and where


async def test_new_ends_what_works_and_wakes_nobody(agent: AgentProcess, crew: Crew, mind: Mind) -> None:
    """Also not with what was done before, and not the new conversation."""
    await agent.ask("hello")
    await crew.spawn("alpha", "beta", "gamma")
    await yielded(agent, mind)
    await crew.end("alpha")
    assert await agent.ask("/new") == "A new conversation has begun. 2 sub-agents were ended."
    assert await crew.unwanted() == {"beta", "gamma"}
    await crew.end("beta", state=TaskState.CANCELLED)
    await crew.end("gamma")
    assert await agent.store.tasks.due_wakes(limit=10) == []
    calls = len(mind.asked)
    assert "fresh" in await agent.ask("say fresh")
    assert len(mind.asked) == calls + 1
    assert not any("found something" in message.text for message in mind.asked[-1].messages)


async def test_a_wake_that_new_has_overtaken_tells_nothing(agent: AgentProcess, crew: Crew, mind: Mind) -> None:
    """It lies on the lane already, behind the /new."""
    await agent.ask("hello")
    await crew.spawn("alpha")
    gate = mind.hold()
    await agent.say("think about it")
    await mind.until_asked(2)
    await agent.say("/new")
    await crew.end("alpha")
    await lined_up(agent, 2)
    gate.set()
    await agent.heard(3)
    await idle(agent)
    assert len(mind.asked) == 2
    assert await agent.transcript() == []


@pytest.mark.parametrize("command", ["/undo", "/retry"])
async def test_what_is_taken_back_is_not_worked_for(agent: AgentProcess, crew: Crew, mind: Mind, command: str) -> None:
    """Those of earlier exchanges go on."""
    await agent.ask("hello")
    await crew.spawn("early")
    await agent.say("say two")
    await agent.heard(2)
    await crew.spawn("late", "later")
    await crew.end("later")
    ending = asyncio.create_task(agent.ask(command))
    await becomes(crew.unwanted, {"late"})
    await crew.end("late", state=TaskState.CANCELLED)
    assert ("1 sub-agent was ended." in await ending) == (command == "/undo")
    assert await crew.live() == ["early"]
    assert await agent.store.tasks.due_wakes(limit=10) == []


async def test_a_waiting_turn_can_be_taken_back_and_tried_again(agent: AgentProcess, crew: Crew, mind: Mind) -> None:
    """It ended with a tool's result. The model is asked the same again, and nothing of before is in its prompt."""
    await agent.ask("hello")
    await crew.spawn("alpha")
    await yielded(agent, mind)
    await crew.end("alpha")
    await agent.heard(2)
    await crew.spawn("beta")
    await agent.say("/retry")
    await until(lambda: len(mind.asked) == 4)
    assert mind.heard(3)[-1] == WAIT
    assert not any("alpha" in message.text for message in mind.asked[3].messages)


async def test_who_goes_back_to_an_earlier_conversation_is_told_what_ends(agent: AgentProcess, crew: Crew) -> None:
    await agent.ask("hello")
    assert await agent.ask("/new") == "A new conversation has begun."
    await crew.spawn("alpha")
    assert (await agent.ask("/resume 1")).endswith(" 1 sub-agent was ended.")


# --- stopping


async def test_stop_ends_the_sub_agents_and_the_waiting(agent: AgentProcess, crew: Crew, mind: Mind) -> None:
    """Nothing ran, yet there was something to stop. What ends after that wakes nobody."""
    await agent.ask("hello")
    await crew.spawn("alpha", "beta", "gamma")
    await yielded(agent, mind)
    await crew.end("alpha")
    await agent.control(ControlKind.STOP)
    await becomes(crew.unwanted, {"beta", "gamma"})
    await crew.end("beta", state=TaskState.CANCELLED)
    await crew.end("gamma")
    assert (await agent.heard(2))[-1].text == "Stopped. 2 sub-agents were ended."
    assert await agent.store.tasks.due_wakes(limit=10) == []
    assert "there" in await agent.ask("say there")
    assert len(agent.replies) == 3


async def test_stop_takes_turn_and_sub_agents(agent: AgentProcess, crew: Crew, mind: Mind) -> None:
    await agent.ask("hello")
    await crew.spawn("alpha")
    mind.hold()
    await agent.say("think for ever")
    await mind.until_asked(2)
    await agent.control(ControlKind.STOP)
    await becomes(crew.unwanted, {"alpha"})
    await crew.end("alpha", state=TaskState.CANCELLED)
    assert (await agent.heard(2))[-1].text == "Stopped. 1 sub-agent was ended."


async def test_stop_does_not_wait_for_a_process_that_is_gone(agent: AgentProcess, crew: Crew) -> None:
    """Whoever ran them does not answer; the stop does, and they can do no more."""
    await agent.ask("hello")
    await crew.spawn("alpha")
    await agent.control(ControlKind.STOP)
    assert (await agent.heard(2))[-1].text == "Stopped. 1 sub-agent was ended."


async def test_nobody_stops_anothers_sub_agents(agent: AgentProcess, crew: Crew) -> None:
    await agent.ask("hello")
    await crew.spawn("alpha")
    await agent.ask("hello", "telegram:2")
    await agent.control(ControlKind.STOP, "telegram:2")
    assert (await agent.heard(3))[-1].text == "There was nothing to stop."
    assert await crew.unwanted() == set()


async def test_status_names_who_is_at_work(agent: AgentProcess, crew: Crew) -> None:
    await agent.ask("hello")
    await crew.spawn("alpha", "beta")
    await crew.end("beta")
    await agent.control(ControlKind.STATUS)
    status = (await agent.heard(2))[-1].text
    assert "Work: only sub-agents are running, " in status  # the word of beta's end may be waiting
    assert re.search(r"1 sub-agent is not done yet:\n\n- explore: label of alpha \(at work for [01] s\)", status)
    assert "label of beta" not in status


async def test_where_names_them_too(agent: AgentProcess, crew: Crew, mind: Mind) -> None:
    """Those that a turn in work waits for, those of which no turn knows any more, and none."""
    await agent.ask("hello")
    await agent.control(ControlKind.WHERE)
    where = (await agent.heard(2))[-1].text
    assert where.startswith("Nothing is in work. 0 messages waiting.\n\nYour last answers:")
    mind.hold()
    await agent.say("think for ever")
    await mind.until_asked(2)
    await crew.spawn("alpha", mode=TaskMode.INLINE)
    await agent.control(ControlKind.WHERE)
    where = (await agent.heard(3))[-1].text
    assert re.match(r"In work for \d s\. 0 messages waiting\.\n\n1 sub-agent is not done yet:\n\n- explore: ", where)
    await agent.control(ControlKind.STOP)
    await agent.heard(4)
    await crew.spawn("beta", "gamma")
    await agent.control(ControlKind.WHERE)
    where = (await agent.heard(5))[-1].text
    assert where.startswith("Only sub-agents are in work. 0 messages waiting.\n\n3 sub-agents are not done yet:")


async def test_stop_counts_those_that_went_with_their_turn(agent: AgentProcess, crew: Crew, mind: Mind) -> None:
    """A turn that is stopped takes its own with it, often before anybody can ask who lives. What was cancelled before
    was not ended by this."""
    await agent.ask("hello")
    await crew.spawn("earlier", "done", "alpha", "beta", mode=TaskMode.INLINE)
    await crew.end("earlier", state=TaskState.CANCELLED)
    await crew.end("done")
    began_ms = agent.clock.now_ms()
    mind.hold()
    await agent.say("think for ever")
    await mind.until_asked(2)
    await until(lambda: agent.clock.now_ms() > began_ms)
    stop = replace(message("/stop"), received_at_ms=agent.clock.now_ms())
    await crew.end("alpha", state=TaskState.CANCELLED)
    await agent.bus.intake.request_control(ControlRequest(ControlKind.STOP, stop))
    await becomes(crew.unwanted, {"beta"})
    await crew.end("beta", state=TaskState.CANCELLED)
    assert (await agent.heard(2))[-1].text == "Stopped. 2 sub-agents were ended."


@pytest.mark.parametrize("change", [pytest.param("an edit", marks=pytest.mark.long), "a deletion", "an interruption"])
async def test_what_a_turn_started_ends_when_it_begins_anew_or_is_taken_back(
    agent: AgentProcess, crew: Crew, mind: Mind, change: str
) -> None:
    """What was asked for before goes on."""
    await agent.ask("hello")
    await crew.spawn("earlier")
    said = message("think about it", message_id="telegram:bot:chat:changed")
    gate = mind.hold()
    await agent.say(said.text, message_id=said.id)
    await mind.until_asked(2)
    await crew.spawn("alpha", turn_id=turn_id_of(said.id))
    match change:
        case "an edit":
            await agent.edit(said.id, "think of something else")
        case "a deletion":
            await agent.delete(said.id)
        case _:
            await agent.say("or rather not", interrupts=True)
    await becomes(crew.unwanted, {"alpha"})
    await crew.end("alpha", "earlier")
    gate.set()
    answers = 2 if change == "a deletion" else 3
    assert "earlier found something" in (await agent.heard(answers))[-1].text
    assert not any("alpha found something" in reply.text for reply in agent.replies)


async def test_who_wants_everything_forgotten_has_nobody_work_for_him(agent: AgentProcess, crew: Crew) -> None:
    """They might remember something."""
    await agent.ask("hello")
    await crew.spawn("alpha")
    await agent.ask("/forget all")
    assert await crew.unwanted() == set()
    await agent.ask("/forget all yes")
    assert await crew.unwanted() == {"alpha"}


# --- lost


@pytest.mark.parametrize("mode", TaskMode)
async def test_a_turn_that_is_taken_again_is_told_what_its_first_attempt_lost(
    agent: AgentProcess, crew: Crew, mind: Mind, mode: TaskMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins anew, and whatever still works for the first attempt ends; nobody is told a second time."""
    begin, fences = agent.store.begin_turn, list[int]()

    async def noted(*, fence: int, **turn: Any) -> TurnStart:
        fences.append(fence)
        return await begin(fence=fence, **turn)

    monkeypatch.setattr(agent.store, "begin_turn", noted)
    await agent.ask("hello")
    again = message("once more", message_id="telegram:bot:chat:again")
    await agent.store.begin_turn(
        turn_id=turn_id_of(again.id), key=again.key, fence=fences[-1], messages=(again,), now_ms=1, is_said=True
    )
    await crew.spawn("alpha", "beta", turn_id=turn_id_of(again.id), mode=mode)
    await crew.end("beta")
    await agent.say(again.text, message_id=again.id)
    await agent.heard(2)
    told = mind.asked[-1].messages[-1].text
    assert "An earlier attempt to answer this was broken off" in told
    assert 'Sub-agent alpha (explore) "label of alpha" failed: its process was lost' in told
    assert 'Sub-agent beta (explore) "label of beta" completed' in told
    assert await crew.unwanted() == {"alpha"}
    await crew.end("alpha")
    assert await agent.store.tasks.due_wakes(limit=9) == []


async def test_a_plan_that_a_person_approves_is_no_earlier_attempt(
    bus: RedisBus, sqlite_store: SqlStore, tmp_path: Path, mind: Mind
) -> None:
    """Its sub-agent has ended in this very turn."""
    async with running_agent(bus, sqlite_store, RetryingClient(mind), tmp_path, admins=(ANN,)) as agent:
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
    bus: RedisBus, sqlite_store: SqlStore, tmp_path: Path
) -> None:
    """How often is kept with what wakes, so no restart begins to count anew."""
    crew, mind = Crew(sqlite_store), Restless()
    async with running_agent(bus, sqlite_store, RetryingClient(mind), tmp_path) as agent:
        await agent.ask("hello")
        await crew.spawn("alpha", wakes=WAKES_IN_A_ROW_MAX - 2)
        await crew.end("alpha")
        refused = (await agent.heard(3))[-1].text  # the first wake may still start one, whose wake may not
        assert f"woken this conversation {WAKES_IN_A_ROW_MAX} times without a word of its person" in refused
        assert len(await sqlite_store.tasks.newest(limit=9)) == 2
        assert await crew.live() == []
        said = await agent.ask('tool sub_agent_spawn {"type": "explore", "task": "say once more"}')
        assert "without a word" not in said
        await agent.control(ControlKind.STOP)
