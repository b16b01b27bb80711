"""What ends sub-agents, and wakes that nobody wants any more: /new, /undo, /stop, a turn that begins anew.

The sub-agents are rows that the test ends; who runs them is told elsewhere.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.bus.bus import RedisBus
from gateway.contracts.ids import turn_id_of
from gateway.contracts.messages import ControlKind, ControlRequest
from gateway.contracts.subagents import TaskMode, TaskState
from gateway.store import Store
from tests.parts.agents import AgentProcess, message, running_agent
from tests.parts.minds import Mind
from tests.parts.subtasks import WAIT, Subtasks, becomes, idle, lined_up, look_all_the_time, yielded
from tests.parts.waiting import until


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


# --- who may be woken, and where


async def test_new_ends_what_works_and_wakes_nobody(agent: AgentProcess, subtasks: Subtasks, mind: Mind) -> None:
    """Also not with what was done before, and not the new conversation."""
    await agent.ask("hello")
    await subtasks.spawn("alpha", "beta", "gamma")
    await yielded(agent, mind)
    await subtasks.end("alpha")
    assert await agent.ask("/new") == "A new conversation has begun. 2 sub-agents were ended."
    assert await subtasks.unwanted() == {"beta", "gamma"}
    await subtasks.end("beta", state=TaskState.CANCELLED)
    await subtasks.end("gamma")
    assert await agent.store.tasks.due_wakes(limit=10) == []
    calls = len(mind.asked)
    assert "fresh" in await agent.ask("say fresh")
    assert len(mind.asked) == calls + 1
    assert not any("found something" in message.text for message in mind.asked[-1].messages)


async def test_a_wake_that_new_has_overtaken_tells_nothing(agent: AgentProcess, subtasks: Subtasks, mind: Mind) -> None:
    """It lies on the lane already, behind the /new."""
    await agent.ask("hello")
    await subtasks.spawn("alpha")
    gate = mind.hold()
    await agent.say("think about it")
    await mind.until_asked(2)
    await agent.say("/new")
    await subtasks.end("alpha")
    await lined_up(agent, 2)
    gate.set()
    await agent.heard(3)
    await idle(agent)
    assert len(mind.asked) == 2
    assert await agent.transcript() == []


@pytest.mark.parametrize("command", ["/undo", "/retry"])
async def test_what_is_taken_back_is_not_worked_for(
    agent: AgentProcess, subtasks: Subtasks, mind: Mind, command: str
) -> None:
    """Those of earlier exchanges go on."""
    await agent.ask("hello")
    await subtasks.spawn("early")
    await agent.say("say two")
    await agent.heard(2)
    await subtasks.spawn("late", "later")
    await subtasks.end("later")
    ending = asyncio.create_task(agent.ask(command))
    await becomes(subtasks.unwanted, {"late"})
    await subtasks.end("late", state=TaskState.CANCELLED)
    assert ("1 sub-agent was ended." in await ending) == (command == "/undo")
    assert await subtasks.live() == ["early"]
    assert await agent.store.tasks.due_wakes(limit=10) == []


async def test_a_waiting_turn_can_be_taken_back_and_tried_again(
    agent: AgentProcess, subtasks: Subtasks, mind: Mind
) -> None:
    """It ended with a tool's result. The model is asked the same again, and nothing of before is in its prompt."""
    await agent.ask("hello")
    await subtasks.spawn("alpha")
    await yielded(agent, mind)
    await subtasks.end("alpha")
    await agent.heard(2)
    await subtasks.spawn("beta")
    await agent.say("/retry")
    await until(lambda: len(mind.asked) == 4)
    assert mind.heard(3)[-1] == WAIT
    assert not any("alpha" in message.text for message in mind.asked[3].messages)


async def test_who_goes_back_to_an_earlier_conversation_is_told_what_ends(
    agent: AgentProcess, subtasks: Subtasks
) -> None:
    await agent.ask("hello")
    assert await agent.ask("/new") == "A new conversation has begun."
    await subtasks.spawn("alpha")
    assert (await agent.ask("/resume 1")).endswith(" 1 sub-agent was ended.")


# --- stopping


async def test_stop_ends_the_sub_agents_and_the_waiting(agent: AgentProcess, subtasks: Subtasks, mind: Mind) -> None:
    """Nothing ran, yet there was something to stop. What ends after that wakes nobody."""
    await agent.ask("hello")
    await subtasks.spawn("alpha", "beta", "gamma")
    await yielded(agent, mind)
    await subtasks.end("alpha")
    await agent.control(ControlKind.STOP)
    await becomes(subtasks.unwanted, {"beta", "gamma"})
    await subtasks.end("beta", state=TaskState.CANCELLED)
    await subtasks.end("gamma")
    assert (await agent.heard(2))[-1].text == "Stopped. 2 sub-agents were ended."
    assert await agent.store.tasks.due_wakes(limit=10) == []
    assert "there" in await agent.ask("say there")
    assert len(agent.replies) == 3


async def test_stop_takes_turn_and_sub_agents(agent: AgentProcess, subtasks: Subtasks, mind: Mind) -> None:
    await agent.ask("hello")
    await subtasks.spawn("alpha")
    mind.hold()
    await agent.say("think for ever")
    await mind.until_asked(2)
    await agent.control(ControlKind.STOP)
    await becomes(subtasks.unwanted, {"alpha"})
    await subtasks.end("alpha", state=TaskState.CANCELLED)
    assert (await agent.heard(2))[-1].text == "Stopped. 1 sub-agent was ended."


async def test_stop_does_not_wait_for_a_process_that_is_gone(agent: AgentProcess, subtasks: Subtasks) -> None:
    """Whoever ran them does not answer; the stop does, and they can do no more."""
    await agent.ask("hello")
    await subtasks.spawn("alpha")
    await agent.control(ControlKind.STOP)
    assert (await agent.heard(2))[-1].text == "Stopped. 1 sub-agent was ended."


async def test_nobody_stops_anothers_sub_agents(agent: AgentProcess, subtasks: Subtasks) -> None:
    await agent.ask("hello")
    await subtasks.spawn("alpha")
    await agent.ask("hello", "telegram:2")
    await agent.control(ControlKind.STOP, "telegram:2")
    assert (await agent.heard(3))[-1].text == "There was nothing to stop."
    assert await subtasks.unwanted() == set()


async def test_status_names_who_is_at_work(agent: AgentProcess, subtasks: Subtasks) -> None:
    await agent.ask("hello")
    await subtasks.spawn("alpha", "beta")
    await subtasks.end("beta")
    await agent.control(ControlKind.STATUS)
    status = (await agent.heard(2))[-1].text
    assert "Work: only sub-agents are running, " in status  # the word of beta's end may be waiting
    assert re.search(r"1 sub-agent is not done yet:\n\n- explore: label of alpha \(at work for [01] s\)", status)
    assert "label of beta" not in status


async def test_where_names_them_too(agent: AgentProcess, subtasks: Subtasks, mind: Mind) -> None:
    """Those that a turn in work waits for, those of which no turn knows any more, and none."""
    await agent.ask("hello")
    await agent.control(ControlKind.WHERE)
    where = (await agent.heard(2))[-1].text
    assert where.startswith("Nothing is in work. 0 messages waiting.\n\nYour last answers:")
    mind.hold()
    await agent.say("think for ever")
    await mind.until_asked(2)
    await subtasks.spawn("alpha", mode=TaskMode.INLINE)
    await agent.control(ControlKind.WHERE)
    where = (await agent.heard(3))[-1].text
    assert re.match(r"In work for \d s\. 0 messages waiting\.\n\n1 sub-agent is not done yet:\n\n- explore: ", where)
    await agent.control(ControlKind.STOP)
    await agent.heard(4)
    await subtasks.spawn("beta", "gamma")
    await agent.control(ControlKind.WHERE)
    where = (await agent.heard(5))[-1].text
    assert where.startswith("Only sub-agents are in work. 0 messages waiting.\n\n3 sub-agents are not done yet:")


async def test_stop_counts_those_that_went_with_their_turn(agent: AgentProcess, subtasks: Subtasks, mind: Mind) -> None:
    """A turn that is stopped takes its own with it, often before anybody can ask who lives. What was cancelled before
    was not ended by this."""
    await agent.ask("hello")
    await subtasks.spawn("earlier", "done", "alpha", "beta", mode=TaskMode.INLINE)
    await subtasks.end("earlier", state=TaskState.CANCELLED)
    await subtasks.end("done")
    began_ms = agent.clock.now_ms()
    mind.hold()
    await agent.say("think for ever")
    await mind.until_asked(2)
    await until(lambda: agent.clock.now_ms() > began_ms)
    stop = replace(message("/stop"), received_at_ms=agent.clock.now_ms())
    await subtasks.end("alpha", state=TaskState.CANCELLED)
    await agent.bus.intake.request_control(ControlRequest(ControlKind.STOP, stop))
    await becomes(subtasks.unwanted, {"beta"})
    await subtasks.end("beta", state=TaskState.CANCELLED)
    assert (await agent.heard(2))[-1].text == "Stopped. 2 sub-agents were ended."


@pytest.mark.parametrize("change", [pytest.param("an edit", marks=pytest.mark.long), "a deletion", "an interruption"])
async def test_what_a_turn_started_ends_when_it_begins_anew_or_is_taken_back(
    agent: AgentProcess, subtasks: Subtasks, mind: Mind, change: str
) -> None:
    """What was asked for before goes on."""
    await agent.ask("hello")
    await subtasks.spawn("earlier")
    said = message("think about it", message_id="telegram:bot:chat:changed")
    gate = mind.hold()
    await agent.say(said.text, message_id=said.id)
    await mind.until_asked(2)
    await subtasks.spawn("alpha", turn_id=turn_id_of(said.id))
    match change:
        case "an edit":
            await agent.edit(said.id, "think of something else")
        case "a deletion":
            await agent.delete(said.id)
        case _:
            await agent.say("or rather not", interrupts=True)
    await becomes(subtasks.unwanted, {"alpha"})
    await subtasks.end("alpha", "earlier")
    gate.set()
    answers = 2 if change == "a deletion" else 3
    assert "earlier found something" in (await agent.heard(answers))[-1].text
    assert not any("alpha found something" in reply.text for reply in agent.replies)


async def test_who_wants_everything_forgotten_has_nobody_work_for_him(agent: AgentProcess, subtasks: Subtasks) -> None:
    """They might remember something."""
    await agent.ask("hello")
    await subtasks.spawn("alpha")
    await agent.ask("/forget all")
    assert await subtasks.unwanted() == set()
    await agent.ask("/forget all yes")
    assert await subtasks.unwanted() == {"alpha"}
