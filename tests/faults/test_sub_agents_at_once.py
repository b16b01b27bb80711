"""More sub-agents are wanted than may run, with real processes: who is too much waits, nobody fails, nobody is left."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path

import pytest

from agent.limits import SUBAGENTS_LIVE_MAX
from agent.subagents.confinement import Confinement
from agent.subagents.runs import SubagentRun, SubOrder
from agent.subagents.sandbox import ChildSandbox, find_confinement
from agent.subagents.supervisor import Supervisor
from gateway.clock import SystemClock
from gateway.contracts.errors import ConfigError
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.subagents import TaskState
from gateway.scrub import Scrubber
from gateway.store import Store
from tests.contract.subtask_samples import conversation
from tests.parts.children import RecordingHost, alive, command, order
from tests.parts.scripted_children import in_turn, scripted_children
from tests.parts.waiting import until

ASKS_ONCE = 'say("tool_call", id="1", name="t", arguments="{}"); hear(); done(sys.argv[2])'


class Children:
    """Each is a process that asks for a tool, which it gets when the gate opens."""

    def __init__(self, sandbox: ChildSandbox) -> None:
        self.mark = secrets.token_hex(8)
        self.gate = asyncio.Event()
        self.most = 0
        self._sandbox = sandbox
        self._live = 0

    async def act(self, run: SubagentRun) -> str:
        program = (*command(ASKS_ONCE), self.mark, run.task.prompt)
        self._live += 1
        self.most = max(self.most, self._live)
        ending = await Supervisor(self._sandbox, Scrubber(), SystemClock(), command=program).supervise(
            order(), RecordingHost(gate=self.gate)
        )
        self._live -= 1
        return ending.response

    def are(self, count: int, depth: int) -> bool:
        """True when so many live, each of which is `depth` processes."""
        return self._live == count and len(alive(self.mark)) == count * depth


def an_order(number: int) -> SubOrder:
    return SubOrder("explore", CleanText(f"part {number}"), CleanText(""), 60)


async def test_nine_processes_of_a_session_live_and_the_tenth_begins_when_one_has_ended(sqlite_store: Store) -> None:
    children = Children(ChildSandbox(Confinement.PLAIN))
    async with scripted_children(sqlite_store, children.act) as made:
        wanted = SUBAGENTS_LIVE_MAX + 3
        running = [
            asyncio.create_task(made.agents.delegate(made.context, an_order(number))) for number in range(wanted)
        ]
        await until(lambda: children.are(SUBAGENTS_LIVE_MAX, 1))
        children.gate.set()
        ended = await asyncio.gather(*running)
    assert [(task.state, task.result) for task in ended] == [
        (TaskState.COMPLETED, f"part {number}") for number in range(wanted)
    ]
    assert children.most == SUBAGENTS_LIVE_MAX
    assert alive(children.mark) == []


@pytest.mark.long
@pytest.mark.parametrize("confinement", list(Confinement))
async def test_more_sessions_than_one_process_holds_all_get_their_turn(
    confinement: Confinement, sqlite_store: Store
) -> None:
    """Three conversations want twelve each of a process that runs sixteen; each conversation has its nine at most."""
    try:
        children = Children(await find_confinement(confinement, hidden=[Path.home()]))
    except ConfigError as error:
        pytest.skip(str(error))
    depth = 3 if confinement is Confinement.BUBBLEWRAP else 1
    async with scripted_children(sqlite_store, children.act, live_max=16) as made:
        keys = [SessionKey("telegram", name) for name in ("801", "802")]
        contexts = [made.context, *[in_turn(await conversation(sqlite_store, key)) for key in keys]]
        running = [
            asyncio.create_task(made.agents.delegate(context, an_order(number)))
            for context in contexts
            for number in range(12)
        ]
        await until(lambda: children.are(16, depth))
        children.gate.set()
        ended = await asyncio.gather(*running)
    assert {task.state for task in ended} == {TaskState.COMPLETED}
    assert children.most == 16
    assert alive(children.mark) == []
