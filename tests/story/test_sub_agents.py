"""Sub-agents in a user's turn: real child processes, a real bus and a real database; only the model is scripted."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from agent.limits import SUBAGENT_RESULT_CHARS_MAX
from agent.models.demo import ScriptedClient
from agent.models.requests import ModelAnswer, ModelEvent, ModelRequest, RequestedCall, TextDelta, TokenCount
from agent.subagents import orchestration
from agent.subagents.sandbox import find_confinement
from gateway.bus.bus import RedisBus
from gateway.config.subagents import SubagentSettings
from gateway.contracts.access import Projection
from gateway.contracts.budgets import Measure, Period
from gateway.contracts.errors import BudgetSpent
from gateway.contracts.ids import WORKSPACES, SessionKey, folder_name
from gateway.contracts.messages import ControlKind
from gateway.contracts.profiles import DELEGATING
from gateway.contracts.sessions import Grant, GrantRole, Role, UsagePurpose
from gateway.contracts.subagents import Doing, Occupation, SubTask, TaskState
from gateway.store import Store
from tests.parts.agents import running_agent
from tests.parts.waiting import PATIENCE_S, until

ANN, BOB = SessionKey.parse("telegram:1"), SessionKey.parse("telegram:2")
SECRET = "ghp_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5"
Words = str | Sequence[RequestedCall] | Exception


class Cast(ScriptedClient):
    """A model in two roles: to the user's turn it says its words one after the other, a child is answered by what it
    was asked. While `gate` is set, children wait for it."""

    def __init__(self, *turn: Words, child: Callable[[ModelRequest], Words]) -> None:
        self.turn = list(turn)
        self.child = child
        self.asked: list[ModelRequest] = []
        self.gate: asyncio.Event | None = None

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if request.purpose not in {UsagePurpose.TURN, UsagePurpose.SUBAGENT}:
            async for event in super().stream(request):
                yield event
            return
        self.asked.append(request)
        await request.permit()
        said: Words
        if request.purpose is UsagePurpose.TURN:
            said = self.turn.pop(0)
        else:
            if self.gate is not None:
                await self.gate.wait()
            said = self.child(request)
        if isinstance(said, Exception):
            raise said
        text, calls = (said, ()) if isinstance(said, str) else ("", tuple(said))
        yield TextDelta(text)
        yield ModelAnswer(text, calls, "stop", TokenCount(100, 10), 0.5, request.model)

    def of(self, purpose: UsagePurpose) -> list[ModelRequest]:
        """What was asked for this purpose."""
        return [request for request in self.asked if request.purpose is purpose]


def results(request: ModelRequest) -> list[str]:
    """What tools have answered in this conversation."""
    return [message.text for message in request.messages if message.role is Role.TOOL]


def delegated(task: str, sub_type: str = "explore", *, tool: str = "sub_agent", number: int = 1) -> RequestedCall:
    """A call of `sub_agent`, or of its like."""
    return RequestedCall(f"c{number}", tool, json.dumps({"type": sub_type, "task": task}))


def using(tool: str, **arguments: object) -> Callable[[ModelRequest], Words]:
    """A child that calls one tool and repeats what it answered."""

    def answer(request: ModelRequest) -> Words:
        found = results(request)
        return "\n".join(found) if found else [RequestedCall("t1", tool, json.dumps(arguments))]

    return answer


async def newest_of(store: Store, key: SessionKey) -> list[SubTask]:
    """Those that work for `key`."""
    return [task for task in await store.tasks.newest(limit=10) if task.key == key]


async def newest(store: Store) -> SubTask:
    """The one sub-agent there is."""
    (task,) = await store.tasks.newest(limit=10)
    return task


async def shown_as(store: Store, occupation: Occupation) -> Doing:
    """What the board says of the one sub-agent, once it does this."""
    async with asyncio.timeout(PATIENCE_S):
        while (doing := (await newest(store)).doing) is None or doing.occupation is not occupation:  # noqa: ASYNC110 - SQL does not tell
            await asyncio.sleep(0.02)
    return doing


def children() -> set[int]:
    """The processes of sub-agents on this machine that descend from this one."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().split(b"\0")
                if b"agent.subagents.child" in command and b"bwrap" not in command[0] and _is_ours(int(entry.name)):
                    found.add(int(entry.name))
            except OSError:
                continue
    return found


def _is_ours(pid: int) -> bool:
    while pid > 1:
        if pid == os.getpid():
            return True
        pid = int(re.search(r"PPid:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1])  # type: ignore[index]
    return False


async def test_a_turn_has_three_sub_agents_at_once_and_answers_with_what_they_said(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    """None of them ends before all of them have begun. What they cost is on the bill of the user's conversation."""

    def answers(request: ModelRequest) -> Words:
        return f"done: {request.messages[0].text}"

    three = [delegated(f"part {number}", number=number) for number in range(3)]
    model = Cast(three, "All three are done.", child=answers)
    model.gate = asyncio.Event()
    async with running_agent(bus, sqlite_store, model, tmp_path) as agent:
        await agent.say("split it")
        await until(lambda: len(model.of(UsagePurpose.SUBAGENT)) == 3)
        model.gate.set()
        (reply,) = await agent.heard(1)
        assert reply.text == "All three are done."
        told = results(model.of(UsagePurpose.TURN)[-1])
        for number, text in enumerate(told):
            assert f'(explore) "part {number}" completed after' in text
            assert f"done: part {number}" in text
        tasks = await sqlite_store.tasks.newest(limit=10)
        assert [task.state for task in tasks] == [TaskState.COMPLETED] * 3
        assert {task.tokens for task in tasks} == {110}
        session = await sqlite_store.sessions.current(ANN)
        assert session is not None
        assert session.cost_usd == 2.5
        assert len(await sqlite_store.tasks.children(session.id)) == 3
        spent = await sqlite_store.usage.by_purpose(ANN, Period(0, 10**14))
        assert spent[UsagePurpose.SUBAGENT].cost_usd == 1.5


async def test_a_tool_that_a_person_has_to_approve_is_asked_for_in_the_users_chat(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    """It runs in the parent, in the place and under the name of the user whose turn it is. Its child's clock stands
    still meanwhile."""
    child = using("file_write", path="note.txt", content="hello")
    model = Cast([delegated("write a note", "writer")], "It is written.", child=child)
    async with running_agent(bus, sqlite_store, model, tmp_path, admins=(ANN,)) as agent:
        await agent.say("have a note written")
        question = await agent.question()
        assert "file_write" in question.text
        assert (await shown_as(sqlite_store, Occupation.APPROVAL)).tools == ("file_write",)
        await agent.press(question.choices[0].command, str(ANN))
        assert [reply.text for reply in await agent.heard(3)][-1] == "It is written."
        note = tmp_path / WORKSPACES / folder_name(ANN) / "files" / "note.txt"
        assert note.read_text() == "hello"


async def test_a_child_sees_the_files_of_its_own_user_and_nobody_elses(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    for owner, text in ((ANN, "the canary of Ann"), (BOB, "the canary of Bob")):
        folder = tmp_path / WORKSPACES / folder_name(owner) / "files"
        folder.mkdir(parents=True)
        (folder / "notes.txt").write_text(text)
    bobs = tmp_path / WORKSPACES / folder_name(BOB) / "files" / "notes.txt"
    beside = f"../../{folder_name(BOB)}/files/notes.txt"
    paths = ["notes.txt", str(bobs), f"/proc/self/root{bobs}", beside, "/etc/passwd"]
    calls = [
        *(RequestedCall(f"r{at}", "file_read", json.dumps({"path": path})) for at, path in enumerate(paths)),
        RequestedCall("s1", "file_search", json.dumps({"pattern": "canary"})),
    ]

    def looks(request: ModelRequest) -> Words:
        found = results(request)
        return "\n".join(found) if found else calls

    model = Cast([delegated("find the canary")], "Found.", child=looks)
    async with running_agent(bus, sqlite_store, model, tmp_path) as agent:
        assert await agent.ask("find it") == "Found."
        told = "\n".join(results(model.of(UsagePurpose.SUBAGENT)[-1]))
        assert "the canary of Ann" in told
        assert "Bob" not in told
        assert "root:" not in told


async def test_a_child_that_was_killed_is_an_error_that_the_parent_can_explain(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    model = Cast([delegated("look around")], "It was killed from outside.", child=lambda _: "never said")
    model.gate = asyncio.Event()
    async with running_agent(bus, sqlite_store, model, tmp_path) as agent:
        await agent.say("look around")
        await until(lambda: model.of(UsagePurpose.SUBAGENT))
        (pid,) = children()
        os.kill(pid, signal.SIGKILL)
        (reply,) = await agent.heard(1)
        assert reply.text == "It was killed from outside."
        assert "failed" in (told := results(model.of(UsagePurpose.TURN)[-1])[0])
        assert "killed by signal 9" in told
        task = await newest(sqlite_store)
        assert (task.state, task.reason) == (TaskState.FAILED, "killed_by_signal_9")


async def test_a_child_that_takes_too_long_is_ended_by_its_parents_clock(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    late = RequestedCall("c1", "sub_agent", json.dumps({"type": "explore", "task": "look around", "limit_s": 0.8}))
    model = Cast([late], "It took too long.", child=lambda _: "never said")
    model.gate = asyncio.Event()
    async with running_agent(bus, sqlite_store, model, tmp_path) as agent:
        assert await agent.ask("look around") == "It took too long."
        assert "longer than 0.8 s" in results(model.of(UsagePurpose.TURN)[-1])[0]
        assert (await newest(sqlite_store)).state is TaskState.TIMED_OUT
        assert children() == set()


async def test_a_child_whose_budget_is_spent_fails_with_that_reason(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    spent = BudgetSpent(Measure.TOKENS, reset_at_ms=10**14)
    model = Cast([delegated("look around")], "There is nothing left for today.", child=lambda _: spent)
    async with running_agent(bus, sqlite_store, model, tmp_path) as agent:
        assert await agent.ask("look around") == "There is nothing left for today."
        assert "today's allowance is spent" in results(model.of(UsagePurpose.TURN)[-1])[0]
        assert (await newest(sqlite_store)).reason == "budget_spent"


async def test_a_stop_ends_the_turn_and_its_child(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> None:
    model = Cast([delegated("look around")], child=lambda _: "never said")
    model.gate = asyncio.Event()
    async with running_agent(bus, sqlite_store, model, tmp_path) as agent:
        await agent.say("look around")
        await until(lambda: model.of(UsagePurpose.SUBAGENT))
        await agent.control(ControlKind.STOP)
        (reply,) = await agent.heard(1)
        assert "Stopped" in reply.text
        assert children() == set()
        assert (await newest(sqlite_store)).state is TaskState.CANCELLED


async def test_a_child_that_is_stopped_while_the_sandbox_is_being_tried_leaves_it_to_the_next(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = asyncio.Event()

    async def find_later(*given: Any, **options: Any) -> Any:
        await gate.wait()
        return await find_confinement(*given, **options)

    monkeypatch.setattr(orchestration, "find_confinement", find_later)
    model = Cast([delegated("look")], [delegated("look again")], "Seen.", child=lambda _: "a boat")
    async with running_agent(bus, sqlite_store, model, tmp_path) as agent:
        await agent.say("look")
        await until(lambda: model.of(UsagePurpose.TURN))
        async with asyncio.timeout(PATIENCE_S):
            while not await sqlite_store.tasks.newest(limit=1):  # noqa: ASYNC110 - SQL does not tell
                await asyncio.sleep(0.02)
        await agent.control(ControlKind.STOP)
        (stopped,) = await agent.heard(1)
        assert "Stopped" in stopped.text
        gate.set()
        assert await agent.ask("look again") == "Seen."
        assert "a boat" in results(model.of(UsagePurpose.TURN)[-1])[-1]


async def test_a_long_answer_is_cut_and_read_on_by_its_own_user_only(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    """The handle is the task's id; the answer is in the database, so that any process can give the rest."""
    long = "\n".join(f"line {number} of the report" for number in range(900)) + f"\n{SECRET}"
    model = Cast([delegated("write a report")], "There it is.", child=lambda _: long)
    async with running_agent(bus, sqlite_store, model, tmp_path) as agent:
        await agent.ask("write a report")
        told = results(model.of(UsagePurpose.TURN)[-1])[0]
        assert len(told) <= SUBAGENT_RESULT_CHARS_MAX
        assert SECRET not in told
        assert "line 0 of" in told
        assert "line 899 of" in told
        found = re.search(r'read_more with handle "(\w+)" and offset (\d+)', told)
        assert found is not None
        task, clean = await newest(sqlite_store), long.removesuffix(SECRET)
        assert found[1] == task.id
    reading = [RequestedCall("m1", "read_more", json.dumps({"handle": task.id, "offset": int(found[2])}))]
    model.turn = [reading, "Read.", reading, "Read."]
    async with running_agent(bus, sqlite_store, model, tmp_path) as another:
        await another.ask("go on")
        page = results(model.of(UsagePurpose.TURN)[-1])[-1]
        assert page.startswith(f"[characters {found[2]} to ")
        assert clean[int(found[2]) :][:1_000] in page
        await another.ask("go on", str(BOB))
        assert "unknown or has expired" in results(model.of(UsagePurpose.TURN)[-1])[-1]


async def test_one_in_the_background_leaves_the_turn_free_and_reports_when_it_is_done(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    spawning = [delegated("look around", tool="sub_agent_spawn")]
    model = Cast(spawning, "It is under way.", "It found the canary.", child=lambda _: "found the canary")
    model.gate = asyncio.Event()
    async with running_agent(bus, sqlite_store, model, tmp_path) as agent:
        assert await agent.ask("look around meanwhile") == "It is under way."
        await until(lambda: model.of(UsagePurpose.SUBAGENT))
        assert (await newest(sqlite_store)).state is TaskState.RUNNING
        model.gate.set()
        assert (await agent.heard(2))[-1].text == "It found the canary."
        assert "found the canary" in model.of(UsagePurpose.TURN)[-1].messages[-1].text


async def test_one_in_the_background_is_ended_by_whoever_spawned_it(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    model = Cast([delegated("look around", tool="sub_agent_spawn")], "Under way.", child=lambda _: "never said")
    model.gate = asyncio.Event()
    async with running_agent(bus, sqlite_store, model, tmp_path) as agent:
        await agent.ask("look around meanwhile")
        task = await newest(sqlite_store)
        cancelling = [RequestedCall("c2", "sub_agent_cancel", json.dumps({"id": task.id}))]
        model.turn = [cancelling, "Not yours.", cancelling, "Ended."]
        await agent.ask("end it", str(BOB))
        assert "no sub-agent of that id" in results(model.of(UsagePurpose.TURN)[-1])[-1]
        assert await agent.ask("end it") == "Ended."
        assert "was cancelled" in results(model.of(UsagePurpose.TURN)[-1])[-1]
        assert (await newest(sqlite_store)).state is TaskState.CANCELLED
        assert children() == set()


@pytest.mark.parametrize("tool", [pytest.param("sub_agent", marks=pytest.mark.long), "sub_agent_spawn"])
async def test_nobody_works_for_somebody_who_was_blocked(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path, tool: str
) -> None:
    """Nothing is said of it, neither now nor when he is let in again. What works for others goes on."""
    spawning = [delegated("look around", tool=tool)]
    model = Cast(spawning, spawning, "Under way.", "Under way.", child=lambda _: "never said")
    model.gate = asyncio.Event()

    async def until_ended() -> None:
        while any(not task.state.is_over for task in await newest_of(sqlite_store, ANN)):  # noqa: ASYNC110 - a database does not tell
            await asyncio.sleep(0.05)

    async with running_agent(bus, sqlite_store, model, tmp_path) as agent:
        for key in (ANN, BOB):
            await agent.say("look around", str(key))
        await until(lambda: len(model.of(UsagePurpose.SUBAGENT)) == 2)
        assert len(children()) == 2
        await bus.access.project(Projection(grants=[Grant(ANN, GrantRole.BLOCKED, "operator", 1)], revision=1))
        async with asyncio.timeout(PATIENCE_S):
            await until_ended()
        assert len(children()) == 1
        (ended,) = await newest_of(sqlite_store, ANN)
        assert ended.state is TaskState.CANCELLED
        await bus.access.project(Projection(grants=[], revision=2))
        await sqlite_store.tasks.want_cancelled(BOB)
        await agent.ask("say hello", "telegram:3")
        assert not [reply for reply in agent.replies if reply.key == ANN and reply.text != "Under way."]
        assert await sqlite_store.tasks.due_wakes(limit=9) == []


async def test_where_sub_agents_are_off_everything_that_needs_one_says_so(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    model = Cast([delegated("look around")], "I do it myself.", child=lambda _: "never asked")
    async with running_agent(bus, sqlite_store, model, tmp_path, subagents=SubagentSettings(enabled=False)) as agent:
        assert await agent.ask("look around") == "I do it myself."
        assert "sub_agent is off here" in results(model.of(UsagePurpose.TURN)[-1])[0]
        offered = {spec.name for spec in model.asked[0].tools}
        assert not offered & {*DELEGATING, "plan"}
        assert await agent.ask("/plan tidy up") == "There is no plan: sub-agents are switched off."
