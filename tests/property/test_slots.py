"""Slots: never too many, never one lost, and nobody's crowd holds up another's first."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.contracts.ids import SessionKey
from gateway.tasks import SharedThreads, Slots

LIVE_MAX = 3
ADA, BEA, CAT = (SessionKey("telegram", user) for user in "123")


@dataclass
class Stage:
    """Those who come, work until they are told to end, and go; in one event loop, step by step."""

    slots: Slots = field(default_factory=lambda: Slots(LIVE_MAX))
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    owners: list[SessionKey] = field(default_factory=list)
    ends: list[asyncio.Event] = field(default_factory=list)
    admitted: list[int] = field(default_factory=list)
    left: set[int] = field(default_factory=set)

    def come(self, owner: SessionKey) -> None:
        number = len(self.tasks)
        self.owners.append(owner)
        self.ends.append(asyncio.Event())
        self.tasks.append(asyncio.create_task(self._work(number, owner)))

    async def _work(self, number: int, owner: SessionKey) -> None:
        async with self.slots.held(owner):
            self.admitted.append(number)
            try:
                await self.ends[number].wait()
            finally:
                self.left.add(number)

    async def settle(self) -> None:
        for _ in range(4):
            await asyncio.sleep(0)

    @property
    def live(self) -> list[int]:
        return [number for number in self.admitted if number not in self.left]

    @property
    def waiting(self) -> list[int]:
        gone = {number for number, task in enumerate(self.tasks) if task.done()}
        return [number for number in range(len(self.tasks)) if number not in gone and number not in self.admitted]

    async def clear(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


steps = st.lists(
    st.tuples(st.just("come"), st.sampled_from([ADA, BEA, CAT]))
    | st.tuples(st.sampled_from(["end", "cancel", "both"]), st.integers(0, 30))
    | st.tuples(st.just("settle"), st.none()),
    max_size=40,
)


async def played(script: Sequence[tuple[str, object]]) -> None:
    """One script; what is promised holds whenever the loop has come to rest."""
    stage = Stage()
    for what, operand in [*script, ("settle", None)]:
        if isinstance(operand, SessionKey):
            stage.come(operand)
        elif isinstance(operand, int) and operand < len(stage.tasks):
            if what in {"end", "both"}:
                stage.ends[operand].set()
            if what in {"cancel", "both"}:
                stage.tasks[operand].cancel()
        elif what == "settle":
            await stage.settle()
            assert len(stage.live) == stage.slots.live <= LIVE_MAX
            assert len(stage.waiting) == stage.slots.waiting
            assert not stage.waiting or len(stage.live) == LIVE_MAX, "a slot is free and somebody waits"
    for owner in (ADA, BEA, CAT):
        mine = [number for number in stage.admitted if stage.owners[number] == owner]
        assert mine == sorted(mine), "of one user, first come is first served"
    await stage.clear()
    assert stage.slots.live == stage.slots.waiting == 0


@given(steps)
def test_slots_are_never_too_many_never_lost_and_never_idle(script: Sequence[tuple[str, object]]) -> None:
    """Whoever comes, ends or is cancelled, in whatever order, also while a slot is being handed over."""
    asyncio.run(played(script))


async def test_one_users_crowd_does_not_hold_up_anothers_first() -> None:
    stage = Stage()
    for _ in range(20):
        stage.come(ADA)
    await stage.settle()
    stage.come(BEA)
    stage.come(BEA)
    stage.come(CAT)
    await stage.settle()
    for number in (0, 1, 2):
        stage.ends[number].set()
        await stage.settle()
    assert [stage.owners[number] for number in stage.admitted] == [ADA, ADA, ADA, BEA, CAT, ADA]
    await stage.clear()


async def test_an_owner_has_a_share_whatever_is_free() -> None:
    slots = Slots(LIVE_MAX, owner_max=1)
    stage = Stage(slots)
    for owner in (ADA, ADA, BEA):
        stage.come(owner)
    await stage.settle()
    assert [stage.owners[number] for number in stage.admitted] == [ADA, BEA]
    stage.ends[0].set()
    await stage.settle()
    assert [stage.owners[number] for number in stage.admitted] == [ADA, BEA, ADA]
    await stage.clear()


async def test_a_thread_that_nobody_waits_for_any_more_keeps_its_slot() -> None:
    """It still runs: whoever gave it up gets no second one before it has ended, and then gets it."""
    threads, loop = SharedThreads("test", live_max=2, owner_max=1), asyncio.get_running_loop()
    began, may_end = asyncio.Event(), threading.Event()

    def work() -> bool:
        loop.call_soon_threadsafe(began.set)
        return may_end.wait(10)

    given_up = asyncio.create_task(threads.call(ADA, work))
    await began.wait()
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    second = asyncio.create_task(threads.call(ADA, threading.get_ident))
    assert await threads.call(BEA, lambda: "done") == "done"
    assert not second.done()
    may_end.set()
    assert await second
