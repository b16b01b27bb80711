"""Any order of sub-agents that end, a turn that commits, later ones that read results and are kept or broken off,
processes that look and processes that die: each thing is told once, and not before its turn is committed. Over the real
book in SQLite; the bus is a set of ids."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from agent.features.access import People
from agent.subagents.wakes import SessionWaker
from gateway.clock import SystemClock
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import InboundMessage
from gateway.contracts.ports import Admission, Verdict
from gateway.contracts.sessions import Session, TurnCommit, TurnState
from gateway.contracts.subagents import Barrier, WaitMode, WakeAddress
from gateway.scrub import Scrubber
from gateway.store import Store, open_store
from gateway.tasks import Wakeup
from tests.doubles import ManualClock
from tests.parts.agents import message
from tests.parts.subtasks import Subtasks

ANN = SessionKey.parse("telegram:1")
TURN = "t_now"
NAMES = ("alpha", "beta", "gamma")
WORKERS = (0, 1)


class Gate:
    """Lets one call after the other through, when it is told to."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(0)
        self.is_reached = asyncio.Event()

    def before(self, port: Any) -> Any:
        """`port`, whose calls all come through here."""

        def __getattr__(_self: object, name: str) -> Callable[..., Awaitable[Any]]:  # noqa: N807 - a port is whatever it is asked for
            async def call(*arguments: Any, **named: Any) -> Any:
                self.is_reached.set()
                await self._places.acquire()
                return await getattr(port, name)(*arguments, **named)

            return call

        return type("Gated", (), {"__getattr__": __getattr__})()

    def open(self) -> None:
        """One more call."""
        self.is_reached.clear()
        self._places.release()


def told_in(wake: InboundMessage) -> set[str]:
    """The sub-agents whose results a wake tells."""
    return {name for name in NAMES if f"{name} found something" in wake.text}


class Lane:
    """The bus: what is known by its id is not taken again."""

    def __init__(self) -> None:
        self.messages: dict[str, InboundMessage] = {}

    async def enqueue(self, wake: InboundMessage, *, settle_ms: int = 0) -> Admission:
        if wake.id in self.messages:
            unsaid = told_in(wake) - told_in(self.messages[wake.id])
            assert not unsaid, "a wake that the bus has already counts as telling what it does not tell"
            return Admission(Verdict.DUPLICATE, queued=0, is_running=False)
        self.messages[wake.id] = wake
        return Admission(Verdict.ACCEPTED, queued=1, is_running=False)


class Everybody:
    """All people are admitted."""

    async def is_admitted(self, user: SessionKey, spoken_in: Sequence[str] = ()) -> bool:
        return True


class Wakings(RuleBasedStateMachine):
    """Each rule is one step of one participant."""

    template: ClassVar[Path]

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        path = Path(self.folder.name) / "trivet.db"
        shutil.copy(self.template, path)
        self.runner = asyncio.Runner()
        self.store: Store = self.runner.run(self.opened(f"sqlite+aiosqlite:///{path}"))
        self.subtasks = Subtasks(self.store)
        self.lane = Lane()
        self.live = set(NAMES)
        self.barrier: Barrier | None = None
        self.is_committed = False
        self.later = 0
        self.read: set[str] = set()
        self.gates: dict[int, Gate] = {}
        self.looking: dict[int, asyncio.Task[None]] = {}

    async def opened(self, url: str) -> Store:
        return open_store(url)

    def teardown(self) -> None:
        """Whatever happened, the rest happens, and then everything was told once."""
        self.runner.run(self.finish())
        self.runner.close()
        self.folder.cleanup()

    # --- the turn and its sub-agents

    @initialize()
    def begin(self) -> None:
        """A turn runs, and has started three sub-agents."""
        self.session = self.runner.run(self.begun())

    async def begun(self) -> Session:
        said = message("split it", str(ANN))
        start = await self.store.turns.begin(turn_id=TURN, key=ANN, fence=1, messages=[said], now_ms=1)
        await self.subtasks.spawn(*NAMES, turn_id=TURN)
        return start.session

    @rule(name=st.sampled_from(NAMES))
    def end(self, name: str) -> None:
        if name in self.live:
            self.live.discard(name)
            self.runner.run(self.subtasks.end(name))

    @precondition(lambda self: not self.is_committed)
    @rule(needed=st.integers(0, 3))
    def commit(self, needed: int) -> None:
        """With a barrier, or (0) without one."""
        assert not self.lane.messages
        self.is_committed = True
        self.barrier = self.waits(needed) if needed else None
        self.runner.run(
            self.store.turns.commit(
                TurnCommit(TURN, self.session.id, ANN, 1, TurnState.DONE, ("m",), barrier=self.barrier)
            )
        )

    @precondition(lambda self: self.is_committed)
    @rule(name=st.sampled_from(NAMES), is_kept=st.booleans())
    def ask(self, name: str, is_kept: bool) -> None:
        """A later turn asks for the result of one, and is committed or broken off."""
        if name not in self.live:
            self.later += 1
            self.runner.run(self.asked(name, f"t_later_{self.later}", fence=1 + self.later, is_kept=is_kept))

    async def asked(self, name: str, turn_id: str, *, fence: int, is_kept: bool) -> None:
        said = message("what of it?", str(ANN), message_id=f"telegram:{turn_id}")
        await self.store.turns.begin(turn_id=turn_id, key=ANN, fence=fence, messages=[said], now_ms=1)
        if is_kept:
            self.read.add(name)
            done = TurnCommit(turn_id, self.session.id, ANN, fence, TurnState.DONE, (said.id,), collected=(name,))
            await self.store.turns.commit(done)

    def waits(self, needed: int) -> Barrier:
        said = message("", str(ANN))
        wake = WakeAddress(ANN, said.address, said.author_id, said.author_name, said.is_private)
        return Barrier(f"{TURN}:wait", self.session.id, TURN, NAMES, WaitMode.COUNT, needed, wake, 1)

    # --- those who wake

    @rule(worker=st.sampled_from(WORKERS))
    def look(self, worker: int) -> None:
        """It begins to look, or takes its next step."""
        if worker not in self.looking:
            gate = self.gates[worker] = Gate()
            self.looking[worker] = self.runner.run(self.started(self.waking(gate.before)))
        self.runner.run(self.stepped(worker))
        if self.looking[worker].done():
            self.looking.pop(worker).result()

    @rule(worker=st.sampled_from(WORKERS))
    def die(self, worker: int) -> None:
        """Behind whatever it did last."""
        if worker in self.looking:
            self.looking.pop(worker).cancel()

    def waking(self, through: Callable[[Any], Any] = lambda port: port) -> SessionWaker:
        store = SimpleNamespace(tasks=through(self.store.tasks), sessions=self.store.sessions)
        return SessionWaker(
            cast(Store, store),
            cast(Any, through(self.lane)),
            cast(People, Everybody()),
            Wakeup(),
            Scrubber(),
            ManualClock(SystemClock().now_ms()),
            ended=lambda _task: None,
        )

    async def started(self, waking: SessionWaker) -> asyncio.Task[None]:
        return asyncio.create_task(waking.wake_due())

    async def stepped(self, worker: int) -> None:
        """One more call of a port; returns at the next one, or at the end."""
        gate = self.gates[worker]
        gate.open()
        reached = asyncio.create_task(gate.is_reached.wait())
        await asyncio.wait({reached, self.looking[worker]}, return_when=asyncio.FIRST_COMPLETED)
        reached.cancel()

    # --- the end

    async def finish(self) -> None:
        for looking in self.looking.values():
            looking.cancel()
        await asyncio.gather(*self.looking.values(), return_exceptions=True)
        if self.is_committed:
            for name in sorted(self.live):
                await self.subtasks.end(name)
                await self.waking().wake_due()
            await self.waking().wake_due()
            assert await self.store.tasks.due_wakes(limit=10) == []
            self.check(await self.store.tasks.overtaken(list(self.lane.messages)))
        await self.store.close()

    def check(self, overtaken: frozenset[str]) -> None:
        wakes = self.lane.messages.values()
        for name in NAMES:
            told = sum(name in told_in(wake) for wake in wakes)
            assert told == 1 or (told == 0 and name in self.read), f"{name} was told {told} times: {wakes}"
        for message_id in overtaken:
            assert told_in(self.lane.messages[message_id]) <= self.read, "nobody was ever told of it"
        for wake in self.lane.messages.values():
            if self.barrier is not None and wake.id.endswith(":wait"):
                assert len(told_in(wake) | self.read) >= self.barrier.needed


@pytest.mark.parametrize("examples", [8, pytest.param(300, marks=[pytest.mark.long, pytest.mark.timeout(900)])])
def test_whatever_happens_each_thing_is_told_once(sqlite_template: Path, examples: int) -> None:
    Wakings.template = sqlite_template
    run_state_machine_as_test(
        Wakings,
        settings=settings(max_examples=examples, stateful_step_count=25, suppress_health_check=list(HealthCheck)),
    )
