"""Who is woken when sub-agents are over, and who is not: one process's look by hand, on a real bus and database."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from agent.features.access import People
from agent.limits import WAKE_CHARS_MAX
from agent.subagents.wakes import SessionWaker
from gateway.bus.bus import RedisBus
from gateway.clock import SystemClock
from gateway.contracts.access import Projection
from gateway.contracts.ids import SessionKey, is_wake
from gateway.contracts.messages import InboundMessage
from gateway.contracts.ports import Admission, Verdict
from gateway.contracts.sessions import Grant, GrantRole, OpenSession, TurnCommit, TurnState
from gateway.contracts.subagents import SubTask, TaskState
from gateway.scrub import Scrubber
from gateway.store import Store
from gateway.tasks import Wakeup
from tests.parts.agents import message
from tests.parts.effects import apply_effects
from tests.parts.keepers import policy_of
from tests.parts.subtasks import Subtasks

ANN, BOB = SessionKey.parse("telegram:1"), SessionKey.parse("telegram:2")
TURN = "t_first"


@dataclass
class InboundHandler:
    """The way to a bus, which answers as it is told to first, and notes what went through."""

    bus: RedisBus
    refusals: list[Verdict] = field(default_factory=list)
    taken: list[InboundMessage] = field(default_factory=list)

    async def enqueue(self, wake: InboundMessage, *, settle_ms: int = 0) -> Admission:
        if self.refusals:
            return Admission(self.refusals.pop(0), queued=20, is_running=True)
        admission = await self.bus.intake.enqueue(wake, settle_ms=settle_ms)
        if admission.verdict is Verdict.ACCEPTED:
            self.taken.append(wake)
        return admission


@dataclass
class Process:
    """One process's share in waking."""

    store: Store
    door: InboundHandler
    admits: bool = True
    lost: list[SubTask] = field(default_factory=list)

    def waking(self) -> SessionWaker:
        people = People(self.door.bus.access, self.store.access, policy_of(is_open=self.admits), SystemClock())
        clock = SystemClock()
        return SessionWaker(
            self.store, cast(Any, self.door), people, Wakeup(), Scrubber(), clock, ended=self.lost.append
        )

    async def look(self) -> list[InboundMessage]:
        """Look once; all that was put on lanes so far."""
        await self.waking().wake_due()
        return self.door.taken

    async def nothing_is_due(self) -> bool:
        return await self.store.tasks.due_wakes(limit=10) == []


@pytest.fixture
async def subtasks(sqlite_store: Store) -> Subtasks:
    """Ann has said something, and was answered."""
    await begin(sqlite_store)
    await commit(sqlite_store)
    return Subtasks(sqlite_store)


@pytest.fixture
def process(bus: RedisBus, sqlite_store: Store) -> Process:
    return Process(sqlite_store, InboundHandler(bus))


async def begin(store: Store, turn_id: str = TURN, *, fence: int = 1, key: SessionKey = ANN) -> None:
    said = message("hello", str(key), message_id=f"telegram:{turn_id}")
    await store.turns.begin(turn_id=turn_id, key=key, fence=fence, messages=[said], now_ms=1)


async def commit(store: Store, turn_id: str = TURN, *, fence: int = 1) -> None:
    session = await store.sessions.current(ANN)
    assert session is not None
    await store.turns.commit(TurnCommit(turn_id, session.id, ANN, fence, TurnState.DONE, (f"telegram:{turn_id}",)))


async def test_a_wake_is_a_message_in_the_name_of_who_asked(subtasks: Subtasks, process: Process) -> None:
    await subtasks.spawn("alpha")
    await subtasks.end("alpha")
    (wake,) = await process.look()
    said = message("", str(ANN))
    assert is_wake(wake.id)
    assert (wake.key, wake.address, wake.author_id, wake.author_name) == (
        ANN,
        said.address,
        said.author_id,
        said.author_name,
    )
    assert await process.look() == [wake]
    assert await process.nothing_is_due()


async def test_what_ends_while_its_turn_runs_waits_for_the_turn(subtasks: Subtasks, process: Process) -> None:
    await begin(subtasks.store, "t_second", fence=2)
    await subtasks.spawn("alpha", turn_id="t_second")
    await subtasks.end("alpha")
    assert await process.look() == []
    await commit(subtasks.store, "t_second", fence=2)
    assert len(await process.look()) == 1


@pytest.mark.parametrize("verdict", [Verdict.LANE_FULL, Verdict.QUEUE_FULL])
async def test_what_a_full_lane_refuses_stays_due(subtasks: Subtasks, process: Process, verdict: Verdict) -> None:
    await subtasks.spawn("alpha")
    await subtasks.end("alpha")
    process.door.refusals = [verdict, verdict]
    assert await process.look() == []
    assert await process.look() == []
    assert len(await process.look()) == 1


async def test_a_full_lane_holds_up_nobody_else(
    subtasks: Subtasks, process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many wakes of its own are due before the others'."""
    monkeypatch.setattr("agent.limits.WAKES_AT_ONCE", 2)
    names = [f"alpha {number}" for number in range(5)]
    await subtasks.spawn(*names)
    await subtasks.end(*names)
    await begin(subtasks.store, "t_bob", key=BOB)
    bobs = Subtasks(subtasks.store, str(BOB))
    await bobs.spawn("beta")
    await bobs.end("beta")
    process.door.refusals = [Verdict.LANE_FULL]
    assert [wake.key for wake in await process.look()] == [BOB]
    assert len(await process.look()) == 6


async def test_who_may_not_speak_is_not_woken(subtasks: Subtasks, process: Process) -> None:
    """Nor later, when he may again."""
    await subtasks.spawn("alpha")
    await subtasks.end("alpha")
    await process.door.bus.access.project(Projection(grants=[Grant(ANN, GrantRole.BLOCKED, "operator", 1)]))
    assert await process.look() == []
    await process.door.bus.access.project(Projection(grants=[]))
    assert await process.look() == []


async def test_what_somebody_cancelled_wakes_nobody(subtasks: Subtasks, process: Process) -> None:
    await subtasks.spawn("alpha")
    await subtasks.end("alpha", state=TaskState.CANCELLED)
    assert await process.look() == []
    assert await process.nothing_is_due()


async def test_a_conversation_that_was_left_is_not_woken(subtasks: Subtasks, process: Process) -> None:
    await subtasks.spawn("alpha")
    await apply_effects(subtasks.store, ANN, [OpenSession()], now_ms=2)
    await subtasks.end("alpha")
    assert await process.look() == []
    assert await process.nothing_is_due()


async def test_a_wake_fits_into_a_message_however_much_was_said(subtasks: Subtasks, process: Process) -> None:
    """With a handle to the rest of each result."""
    await subtasks.spawn("alpha")
    await subtasks.end("alpha", result="word " * 30_000)
    (wake,) = await process.look()
    assert len(wake.text) < 5_000 < WAKE_CHARS_MAX
    assert 'read_more with handle "alpha"' in wake.text


async def test_what_a_sub_agent_says_is_scrubbed_once_more(subtasks: Subtasks, process: Process) -> None:
    """A cut may bring together what was apart."""
    await subtasks.spawn("alpha")
    await subtasks.end("alpha", result="the key is sk-ant-api03-" + "Ab3dEf6hIj" * 9)
    (wake,) = await process.look()
    assert "Ab3dEf6hIj" not in wake.text
    assert "[redacted:" in wake.text


async def test_sub_agents_whose_process_died_are_lost_and_told(subtasks: Subtasks, process: Process) -> None:
    """By whichever process notices first; who shows them is told, too."""
    await subtasks.spawn("alpha", lives_ms=-1)
    await process.waking().lose()
    (wake,) = await process.look()
    assert "its process was lost" in wake.text
    assert [task.id for task in process.lost] == ["alpha"]
