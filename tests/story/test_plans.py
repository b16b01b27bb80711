"""A plan is made, shown, approved or not, and worked off: on a real bus and a real database."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from agent.models.demo import ScriptedClient
from agent.models.requests import ModelAnswer, ModelEvent, ModelRequest, RequestedCall, TextDelta, TokenCount
from gateway.bus.bus import RedisBus
from gateway.config.tools import ToolSettings
from gateway.contracts.access import PlaceRule
from gateway.contracts.errors import ModelRejected
from gateway.contracts.ids import WORKSPACES, SessionKey, folder_name
from gateway.contracts.messages import ControlKind, ReplyKind
from gateway.contracts.profiles import READING
from gateway.contracts.sessions import EntryKind, Role, TodoState, UsagePurpose
from gateway.contracts.subagents import TaskState
from gateway.store import Store
from tests.parts.agents import AgentProcess, running_agent
from tests.parts.children import own_children
from tests.parts.waiting import until

ANN = SessionKey.parse("telegram:1")
STEP = {"detail": "See that it is done.", "depends_on": [], "risks": ["None known."], "rollback": "Put it back."}
GOOD = json.dumps(
    {
        "goal": "A tidy workspace",
        "steps": [
            {"id": "S1", "title": "Sort"} | STEP,
            {"id": "S2", "title": "Delete"} | STEP | {"depends_on": ["S1"]},
        ],
    }
)
CYCLE = GOOD.replace('"depends_on": []', '"depends_on": ["S2"]', 1)


class Planning(ScriptedClient):
    """A model whose planner says what it is told to, one answer after the other; an object is a tool call."""

    def __init__(self, *answers: str | RequestedCall | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[ModelRequest] = []
        self.gate: asyncio.Event | None = None

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if request.purpose is not UsagePurpose.PLAN:
            async for event in super().stream(request):
                yield event
            return
        self.asked.append(request)
        if self.gate is not None:
            await self.gate.wait()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        calls = (answer,) if isinstance(answer, RequestedCall) else ()
        text = answer if isinstance(answer, str) else ""
        yield TextDelta(text)
        yield ModelAnswer(text, calls, "stop", TokenCount(100, 10), 0.5, request.model)


def agent_with(
    bus: RedisBus, store: Store, tmp_path: Path, model: Planning, *, tools: ToolSettings | None = None
) -> AbstractAsyncContextManager[AgentProcess]:
    """The planner is a process of its own; only what its model says comes from here."""
    return running_agent(bus, store, model, tmp_path, grace_s=0.2, tools=tools)


async def todos(store: Store) -> list[tuple[str, TodoState]]:
    return [(todo.text, todo.state) for todo in await store.transcript.todos(ANN)]


async def spent_on_plans(store: Store) -> int:
    session = await store.sessions.current(ANN)
    assert session is not None
    return session.tokens


async def test_an_approved_plan_becomes_the_task_list_and_is_worked_off(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    """What the model gets to read is the plan, as the words of the user; the transcript keeps it."""
    model = Planning(GOOD)
    async with agent_with(bus, sqlite_store, tmp_path, model) as agent:
        await agent.say("/plan tidy up")
        question = await agent.question()
        assert question.text.startswith("**Plan: A tidy workspace**\n\n**S1. Sort**")
        assert "**S2. Delete** (after S1)" in question.text
        assert "plan of 2 steps" in question.text
        assert await todos(sqlite_store) == []
        await agent.press(question.choices[0].command, str(ANN))
        answer = (await agent.heard(3))[-1]
        assert answer.kind is ReplyKind.ANSWER
        assert "- S1 Sort: done\n- S2 Delete: done" in answer.text
        assert await todos(sqlite_store) == [("S1: Sort", TodoState.DONE), ("S2: Delete", TodoState.DONE)]
        said = await agent.transcript()
        assert any("The user approved this plan" in line for line in said)
        assert any(line.startswith("/plan tidy up") and "**S2. Delete**" in line for line in said)
        (request,) = model.asked
        assert {spec.name for spec in request.tools} == set(READING)
        assert (request.key, request.messages[-1].text) == (ANN, "tidy up")


async def test_a_planner_has_no_tool_that_its_place_lacks(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> None:
    """A command is no way around what an operator decided about a group."""
    place = SessionKey("telegram", "", ("-100",))
    await sqlite_store.access.put_place_rule(place, PlaceRule(tools=(READING[0],)), actor="cli", now_ms=1)
    model = Planning(GOOD)
    async with agent_with(bus, sqlite_store, tmp_path, model) as agent:
        await agent.say("/plan tidy up", "telegram:1/-100")
        await agent.question()
        (request,) = model.asked
        assert [spec.name for spec in request.tools] == [READING[0]]


async def test_a_denied_plan_changes_nothing_and_is_kept(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> None:
    async with agent_with(bus, sqlite_store, tmp_path, Planning(GOOD)) as agent:
        await agent.say("/plan tidy up")
        question = await agent.question()
        await agent.press(question.choices[1].command, str(ANN))
        answer = (await agent.heard(3))[-1]
        assert "nothing was done" in answer.text
        assert answer.kind is ReplyKind.NOTICE
        assert await todos(sqlite_store) == []
        session = await sqlite_store.sessions.current(ANN)
        assert session is not None
        (note,) = await sqlite_store.transcript.page(session.id)
        assert note.kind is EntryKind.NOTE
        assert note.text.startswith("The user did not approve this plan. Do nothing of it;")
        assert "**S1. Sort**" in note.text.partition("<foreign mark=")[2]
        await until_spent(sqlite_store, 110)


async def until_spent(store: Store, tokens: int) -> None:
    """Costs are recorded beside everything else."""
    for _ in range(200):
        if await spent_on_plans(store) == tokens:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{await spent_on_plans(store)} tokens, not {tokens}")


async def test_the_planner_reads_the_workspace_and_is_told_once_what_is_wrong(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    """Its own tool works, one that it may not use does not; the correction names the cycle; all calls are charged."""
    folder = tmp_path / WORKSPACES / folder_name(ANN) / "files"
    folder.mkdir(parents=True)
    (folder / "notes.txt").write_text("the canary sings")
    model = Planning(
        RequestedCall("c1", "file_read", '{"path": "notes.txt"}'),
        RequestedCall("c2", "todo_write", '{"todos": [{"text": "mine", "state": "pending"}]}'),
        CYCLE,
        GOOD,
    )
    async with agent_with(bus, sqlite_store, tmp_path, model) as agent:
        await agent.say("/plan tidy up")
        question = await agent.question()
        results = [message.text for message in model.asked[2].messages if message.role is Role.TOOL]
        assert "the canary sings" in results[0]
        assert results[1].startswith("there is no tool 'todo_write'")
        assert "S1 → S2 → S1 wait for each other" in model.asked[3].messages[-1].text.replace(
            "S2 → S1 → S2", "S1 → S2 → S1"
        )
        assert model.asked[3].messages[-1].text.startswith("tidy up\n\n")
        assert '"S1"' not in model.asked[3].messages[-1].text.partition("<foreign mark=")[0]
        assert await todos(sqlite_store) == []
        await until_spent(sqlite_store, 440)
        await agent.press(question.choices[1].command, str(ANN))
        await agent.heard(3)


async def test_a_planner_that_writes_no_plan_is_given_up(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> None:
    async with agent_with(bus, sqlite_store, tmp_path, Planning(CYCLE, "I cannot")) as agent:
        assert await agent.ask("/plan tidy up") == "There is no plan: the planner wrote no usable plan."


async def test_a_planner_whose_model_fails_is_a_plain_sentence(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    """What the provider said stays in the log."""
    async with agent_with(bus, sqlite_store, tmp_path, Planning(ModelRejected("no such key"))) as agent:
        answer = await agent.ask("/plan tidy up")
        assert answer == "There is no plan: the planner did not finish (the model did not answer)."


async def test_a_planner_that_is_killed_is_a_plain_sentence(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> None:
    """And whoever asks again gets a plan."""
    model = Planning(GOOD)
    model.gate = asyncio.Event()
    async with agent_with(bus, sqlite_store, tmp_path, model) as agent:
        await agent.say("/plan tidy up")
        await until(lambda: model.asked)
        os.kill(own_children()[-1], signal.SIGKILL)
        (answer,) = await agent.heard(1)
        assert answer.text == ("There is no plan: the planner did not finish (its process was killed by signal 9).")
        model.gate.set()
        await agent.say("/plan tidy up")
        question = await agent.question()
        await agent.press(question.choices[1].command, str(ANN))
        await agent.heard(4)


@pytest.mark.long
async def test_a_plan_that_nobody_answers_is_dropped(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> None:
    """The model of a later turn knows that, and sees the plan as what it is: nobody's order."""
    async with agent_with(bus, sqlite_store, tmp_path, Planning(GOOD), tools=ToolSettings(approval_ttl_s=1)) as agent:
        await agent.say("/plan tidy up")
        await agent.question()
        answer = (await agent.heard(3))[-1]
        assert answer.text == "Nobody approved the plan in time, so nothing was done."
        assert await todos(sqlite_store) == []
        session = await sqlite_store.sessions.current(ANN)
        assert session is not None
        (note,) = await sqlite_store.transcript.page(session.id)
        assert note.text.startswith("The user did not answer about this plan. Do nothing of it;")


async def test_a_stop_ends_planning(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> None:
    model = Planning(GOOD)
    model.gate = asyncio.Event()
    async with agent_with(bus, sqlite_store, tmp_path, model) as agent:
        await agent.say("/plan tidy up")
        await until(lambda: model.asked)
        await agent.control(ControlKind.STOP)
        (stopped,) = await agent.heard(1)
        assert "Stopped" in stopped.text
        (planner,) = await sqlite_store.tasks.newest(limit=9)
        assert planner.state is TaskState.CANCELLED
        model.gate.set()
        await agent.ask("hello")
        assert [reply.kind for reply in agent.replies].count(ReplyKind.QUESTION) == 0


async def test_the_model_asks_for_a_plan_by_itself(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> None:
    """As a tool call, of a user who may write nothing: the plan comes back as its result."""
    async with agent_with(bus, sqlite_store, tmp_path, Planning(GOOD, GOOD)) as agent:
        await agent.say('tool plan {"task": "tidy up"}')
        question = await agent.question()
        await agent.press(question.choices[0].command, str(ANN))
        answer = (await agent.heard(3))[-1]
        assert "The user approved this plan" in answer.text
        assert [text for text, _ in await todos(sqlite_store)] == ["S1: Sort", "S2: Delete"]
