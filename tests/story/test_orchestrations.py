"""Several sub-agents on one thing, in processes of their own: each strategy, and what comes of it when one is killed,
the user stops it, or its budget or its time is up."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from agent.models.demo import ScriptedClient
from agent.models.requests import ModelAnswer, ModelEvent, ModelRequest, RequestedCall, TextDelta, TokenCount
from gateway.bus.bus import RedisBus
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import ControlKind, ReplyKind
from gateway.contracts.sessions import Role, UsagePurpose
from gateway.contracts.subagents import SubTask, TaskState
from gateway.store import Store
from tests.parts.agents import AgentProcess, running_agent
from tests.parts.children import own_children
from tests.parts.strategies import APPROVED, parts, refused, sides, step
from tests.parts.waiting import PATIENCE_S, until

ANN = SessionKey.parse("telegram:1")


def orchestrate(**arguments: Any) -> RequestedCall:
    """The call of a model that has several sub-agents work on one thing."""
    return RequestedCall("c1", "orchestrate", json.dumps({"goal": "Find the fault.", **arguments}))


class Cast(ScriptedClient):
    """A model that plays all roles. In the user's turn it calls `orchestrate` and keeps what comes of it. As a
    sub-agent it says the next of its `lines`, or makes the call that stands there: those of the first key that stands
    in its task; behind a key that is `held` it thinks until `gate` is open."""

    def __init__(
        self, lines: Mapping[str, str | Sequence[str | RequestedCall]], *, held: str = "", **call: Any
    ) -> None:
        self._lines = {key: [line] if isinstance(line, str) else list(line) for key, line in lines.items()}
        self._call = orchestrate(**call)
        self._held = held
        self.gate = asyncio.Event()
        self.tasks: list[str] = []
        self.result = ""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        match request.purpose:
            case UsagePurpose.SUBAGENT:
                line = await self._line(request)
                text, calls = (line, ()) if isinstance(line, str) else ("", (line,))
                answer = ModelAnswer(text, calls, "stop", TokenCount(390, 10), 0.001, request.model)
            case UsagePurpose.TURN:
                answer = self._turn(request)
            case _:
                async for event in super().stream(request):
                    yield event
                return
        yield TextDelta(answer.text)
        yield answer

    def _turn(self, request: ModelRequest) -> ModelAnswer:
        tokens = TokenCount(10, 10)
        results = [message.text for message in request.messages if message.role is Role.TOOL]
        if not results:
            return ModelAnswer("", (self._call,), "tool_calls", tokens, 0.0, request.model)
        self.result = results[-1]
        return ModelAnswer("So much for that.", (), "stop", tokens, 0.0, request.model)

    async def _line(self, request: ModelRequest) -> str | RequestedCall:
        task = request.messages[0].text
        self.tasks.append(task)
        key = next(key for key in self._lines if key in task)
        if key == self._held:
            await self.gate.wait()
        lines = self._lines[key]
        return lines.pop(0) if len(lines) > 1 else lines[0]


def agent_with(bus: RedisBus, store: Store, tmp_path: Path, cast: Cast) -> AbstractAsyncContextManager[AgentProcess]:
    return running_agent(bus, store, cast, tmp_path, grace_s=0.2)


async def answer_of(agent: AgentProcess) -> str:
    """The answer of the turn; the status lines before it are heard, too."""
    while not (answers := [reply.text for reply in agent.replies if reply.kind is ReplyKind.ANSWER]):
        await agent.heard(len(agent.replies) + 1)
    return answers[0]


def shown_of(agent: AgentProcess) -> str:
    """The quiet lines of the chat, as people read them."""
    return "\n".join(line.text.replace("\\", "") for line in agent.statuses)


async def board(store: Store) -> dict[str, SubTask]:
    """All sub-agents by what their labels say of the step, behind the strategy."""
    return {task.label.split(":")[0].partition(" ")[2]: task for task in await store.tasks.newest(limit=100)}


@pytest.mark.parametrize(
    ("call", "lines", "answer", "labels"),
    [
        pytest.param(
            {"strategy": "sequential", "steps": [step("look"), step("write", kind="architect")]},
            {"Do look": "it is in line 3", "Do write": "Line 3 is wrong."},
            "Line 3 is wrong.",
            {"1/2 look", "2/2 write"},
            id="sequential",
        ),
        pytest.param(
            {"strategy": "parallel", "steps": [step("left"), step("right"), step("synthesis", kind="architect")]},
            {"Do left": "L", "Do right": "R", "You make one answer": "L and R."},
            "L and R.",
            {"1/3 left", "2/3 right", "3/3 synthesis"},
            id="parallel",
        ),
        pytest.param(
            {"strategy": "debate", "steps": sides("tabs", "spaces"), "rounds": 1},
            {"You judge": "Spaces win.", "position: tabs": "Tabs!", "position: spaces": "Spaces!"},
            "Spaces win.",
            {"round 1/1 side 1", "round 1/1 side 2", "judgement"},
            id="debate",
            marks=pytest.mark.long,
        ),
        pytest.param(
            {"strategy": "review", "steps": [step("reviewer", kind="reviewer")], "rounds": 2},
            {
                "You review": ["This is approved.", refused("no end"), APPROVED],
                "was reviewed and not approved": "A draft with an end.",
                "You are the author": "A draft.",
            },
            "A draft with an end.",
            {"1/2 author", "1/2 reviewer", "2/2 author", "2/2 reviewer"},
            id="review",
            marks=pytest.mark.long,
        ),
        pytest.param(
            {"strategy": "hierarchical", "steps": [{"id": "lead", "type": "architect"}]},
            {
                "Now you split it": parts("Count the doors.", "Count the windows."),
                "You lead": "Two doors, three windows.",
                "Count the doors": "2",
                "Count the windows": "3",
            },
            "Two doors, three windows.",
            {"splitting", "part 1/2", "part 2/2", "joining"},
            id="hierarchical",
            marks=pytest.mark.long,
        ),
        pytest.param(
            {"strategy": "graph", "steps": [step("roof", "walls"), step("walls", "floor"), step("floor")]},
            {"Do roof": "tiled", "Do walls": "bricks", "Do floor": "oak"},
            "tiled",
            {"1/3 roof", "2/3 walls", "3/3 floor"},
            id="graph",
            marks=pytest.mark.long,
        ),
    ],
)
async def test_a_strategy_is_played_by_processes_of_their_own(
    bus: RedisBus,
    sqlite_store: Store,
    tmp_path: Path,
    call: Mapping[str, Any],
    lines: Mapping[str, str | Sequence[str]],
    answer: str,
    labels: set[str],
) -> None:
    cast = Cast(lines, **call)
    async with agent_with(bus, sqlite_store, tmp_path, cast) as agent:
        await agent.say("Find it.")
        assert await answer_of(agent) == "So much for that."
        assert answer in cast.result.partition("\n---\n")[0]
        assert not cast.result.startswith("The orchestration")
        tasks = await board(sqlite_store)
        assert tasks.keys() == labels
        assert {task.state for task in tasks.values()} == {TaskState.COMPLETED}
        assert all(task.id in cast.result or "reviewer" in label for label, task in tasks.items())
        assert own_children() == []
    session = await sqlite_store.sessions.current(ANN)
    assert session is not None
    assert session.tokens >= 400 * len(cast.tasks)


async def test_a_child_that_is_killed_is_a_failure_that_the_others_live_with(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    lines = {"You make one answer": "Only L.", "Do left": "L", "Do right": "R"}
    cast = Cast(lines, held="Do right", strategy="parallel", steps=[step("left"), step("right")])
    async with agent_with(bus, sqlite_store, tmp_path, cast) as agent:
        await agent.say("Find it.")
        await until(lambda: len(cast.tasks) == 2)
        await until_over(sqlite_store, "1/3 left")
        async with asyncio.timeout(PATIENCE_S):
            while "⏳ explore: parallel 2/3 right: Do right." not in shown_of(agent):
                await agent.deliver("telegram")
        os.kill(own_children()[-1], signal.SIGKILL)
        await answer_of(agent)
        assert "Only L." in cast.result
        assert "| right | explore | failed: its process was killed by signal 9 |" in cast.result
        assert "Step right (explore) (FAILED)" in cast.tasks[-1]


async def test_a_stop_kills_all_of_it(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> None:
    cast = Cast({"": "never"}, held="", strategy="debate", steps=sides("one", "two", "three"))
    async with agent_with(bus, sqlite_store, tmp_path, cast) as agent:
        await agent.say("Find it.")
        await until(lambda: len(cast.tasks) == 3)
        assert len(own_children()) >= 3
        await agent.control(ControlKind.STOP)
        for label in ("round 1/2 side 1", "round 1/2 side 2", "round 1/2 side 3"):
            await until_over(sqlite_store, label)
        await until(lambda: not own_children(), own_children)
        assert {task.state for task in (await board(sqlite_store)).values()} == {TaskState.CANCELLED}
        assert len(cast.tasks) == 3


@pytest.mark.long
async def test_a_sub_agent_may_have_sub_agents_of_its_own_work_together(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    """They are one level deeper, and what they cost is part of what it costs."""
    below = orchestrate(strategy="parallel", steps=[step("left"), step("right")])
    lines: dict[str, str | Sequence[str | RequestedCall]] = {
        "Do it all": [below, "All done."],
        "Do left": "L",
        "Do right": "R",
        "You make one answer": "L and R.",
    }
    cast = Cast(lines, strategy="sequential", steps=[{"id": "all", "type": "general", "task": "Do it all."}])
    async with agent_with(bus, sqlite_store, tmp_path, cast) as agent:
        await agent.say("Find it.")
        await answer_of(agent)
        tasks = await board(sqlite_store)
        above = tasks["1/1 all"]
        assert (above.result, above.depth, above.tokens) == ("All done.", 1, 2_000)
        assert {(task.depth, task.parent_task_id) for task in tasks.values() if task != above} == {(2, above.id)}
        assert f"| all | general | completed | {above.duration_ms / 1000:.1f} | 2000 | {above.id} |" in cast.result


@pytest.mark.long
async def test_a_budget_that_is_spent_ends_it_with_what_is_there(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    """What a sub-agent used is what its model calls were charged."""
    steps = [step(name) for name in "abcde"]
    cast = Cast({"Do ": "found"}, strategy="sequential", steps=steps, tokens_max=1_000)
    async with agent_with(bus, sqlite_store, tmp_path, cast) as agent:
        await agent.say("Find it.")
        await answer_of(agent)
        assert "failed: the budget of 1000 tokens was spent." in cast.result
        assert len(cast.tasks) == 3
        assert "| c | explore | completed |" in cast.result
        assert "| d | explore | not run: not reached |" in cast.result


@pytest.mark.long
async def test_one_budget_is_spent_by_all_of_every_depth_while_they_work(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    """Each call takes 400 tokens, and every sub-agent would go on for six: beyond the budget goes at most the call that
    each of them has open."""
    look = RequestedCall("l1", "file_list", "{}")
    below = RequestedCall("s1", "sub_agent", json.dumps({"type": "explore", "task": "Do look."}))
    lines = {"Do look": [look] * 100 + ["seen"], "Do ": [below] * 100 + ["done"]}
    steps = [step(name, kind="general") for name in ("left", "right")]
    cast = Cast(lines, strategy="parallel", steps=steps, tokens_max=3_000)
    async with agent_with(bus, sqlite_store, tmp_path, cast) as agent:
        await agent.say("Find it.")
        await answer_of(agent)
        assert "failed: all steps failed; the budget of 3000 tokens was spent." in cast.result
        assert "| left | general | failed: the budget of all together is spent |" in cast.result
        assert 8 <= len(cast.tasks) <= 8 + 3
        assert {task.reason for task in (await board(sqlite_store)).values()} == {"allotment_spent"}


@pytest.mark.long
async def test_at_the_deadline_what_runs_is_ended_and_what_is_there_is_told(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    lines = {"You make one answer": "never", "Do left": "L", "Do right": "R"}
    steps = [step("left"), step("right")]
    cast = Cast(lines, held="Do right", strategy="parallel", steps=steps, limit_s=10)
    async with agent_with(bus, sqlite_store, tmp_path, cast) as agent:
        await agent.say("Find it.")
        await answer_of(agent)
        assert "failed: the time was up." in cast.result
        assert "| right | explore | timed out: it took longer than" in cast.result
        assert "| the synthesis | general | not run: not reached |" in cast.result
        assert own_children() == []
        assert len(cast.tasks) == 2


async def until_over(store: Store, label: str) -> None:
    """Wait for the end of one sub-agent."""
    for _ in range(1_000):
        found = (await board(store)).get(label)
        if found is not None and found.state.is_over:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{label} did not end")
