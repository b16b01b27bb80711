"""Typing indicators: shown from acceptance on, always ended."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace

from channels.core.runtime import ENDED_KEPT, SHOWN_MAX, STATUS, TypingIndicators
from gateway.clock import SystemClock
from gateway.contracts.errors import AddressDead
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import Activity, CleanText, Reply, ReplyKind
from tests.doubles import MemoryBus
from tests.parts.garbage import garbage_of_ours
from tests.parts.scripted_adapters import ScriptedAdapter
from tests.parts.waiting import PATIENCE_S

PLACE = ReplyAddress("test", "lane", "{}")


@dataclass
class TypingAdapter(ScriptedAdapter):
    """A platform whose indicator lasts no time at all."""

    typing_period_s: float = 0.001
    shown: list[tuple[str, str]] = field(default_factory=list)
    is_refused: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def show_typing(self, address: ReplyAddress, status: str) -> None:
        self.changed.set()
        self.shown.append((address.lane, status))
        if self.is_refused:
            raise AddressDead("no")

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                self.changed.clear()
                await self.changed.wait()

    def count(self) -> int:
        return len(self.shown)


@contextlib.asynccontextmanager
async def showing(adapter: ScriptedAdapter, bus: MemoryBus | None = None) -> AsyncIterator[TypingIndicators]:
    indicators = TypingIndicators(adapter, bus or MemoryBus(), SystemClock(), show_after_s=0.0)
    running = asyncio.create_task(indicators.run())
    try:
        yield indicators
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def answer(turn_id: str = "t1") -> Reply:
    key = SessionKey("test", "u1")
    return Reply("r1", turn_id, key, PLACE, CleanText("done"), ReplyKind.ANSWER, 1)


async def stays_dark(adapter: TypingAdapter) -> None:
    """Nothing more is shown than was shown when this began."""
    before = adapter.count()
    for _ in range(20):
        await asyncio.sleep(0.001)
    assert adapter.count() == before


async def test_is_shown_again_and_again_while_a_turn_runs() -> None:
    adapter = TypingAdapter()
    async with showing(adapter) as indicators:
        indicators.follow(Activity(PLACE, "t1", 30.0))
        await adapter.until(lambda: adapter.count() >= 3)
    assert set(adapter.shown) == {("lane", STATUS)}


async def test_is_shown_at_acceptance_before_any_turn() -> None:
    adapter = TypingAdapter()
    async with showing(adapter) as indicators:
        indicators.accepted(PLACE)
        await adapter.until(lambda: adapter.count() >= 1)


async def test_one_that_has_ended_is_gone_at_once() -> None:
    """Without a search for garbage: there is one for nearly every message."""
    indicators = TypingIndicators(TypingAdapter(), MemoryBus(), SystemClock())
    with garbage_of_ours() as left:
        indicators.accepted(PLACE)
        await asyncio.sleep(0)
        indicators.answering(answer())
        await asyncio.sleep(0)
    assert left == set()


async def test_is_not_shown_for_an_answer_that_comes_at_once() -> None:
    adapter = TypingAdapter()
    indicators = TypingIndicators(adapter, MemoryBus(), SystemClock())
    indicators.accepted(PLACE)
    indicators.answering(answer())
    await stays_dark(adapter)
    assert adapter.shown == []


async def test_goes_out_when_the_turn_says_so() -> None:
    adapter = TypingAdapter()
    async with showing(adapter) as indicators:
        indicators.follow(Activity(PLACE, "t1", 30.0))
        await adapter.until(lambda: adapter.count() >= 1)
        indicators.follow(Activity(PLACE, "t1", 0.0, ended=True))
        await stays_dark(adapter)


async def test_goes_out_when_what_it_answers_was_taken_back_and_a_late_announcement_lights_nothing() -> None:
    """A platform that tells of a deletion does not say where the answer would have gone."""
    adapter = TypingAdapter()
    async with showing(adapter) as indicators:
        indicators.follow(Activity(PLACE, "t1", 30.0))
        await adapter.until(lambda: adapter.count() >= 1)
        indicators.ended("t1")
        indicators.follow(Activity(PLACE, "t1", 30.0))
        await stays_dark(adapter)


async def test_goes_out_by_itself_when_the_turn_died() -> None:
    """A dead worker announces nothing, not even its end; the place is told that nobody works any more."""
    adapter = TypingAdapter()
    async with showing(adapter) as indicators:
        indicators.follow(Activity(PLACE, "t1", 0.01))
        await adapter.until(lambda: adapter.shown[-1:] == [("lane", "")])
        await stays_dark(adapter)


async def test_goes_out_when_the_answer_leaves_and_a_late_announcement_lights_nothing() -> None:
    adapter = TypingAdapter()
    async with showing(adapter) as indicators:
        indicators.follow(Activity(PLACE, "t1", 30.0))
        await adapter.until(lambda: adapter.count() >= 1)
        indicators.answering(answer())
        indicators.follow(Activity(PLACE, "t1", 30.0))
        await stays_dark(adapter)


async def test_stays_while_another_turn_of_the_place_runs() -> None:
    adapter = TypingAdapter()
    async with showing(adapter) as indicators:
        indicators.follow(Activity(PLACE, "t1", 30.0))
        indicators.follow(Activity(PLACE, "t2", 30.0))
        indicators.answering(answer("t1"))
        before = adapter.count()
        await adapter.until(lambda: adapter.count() > before + 1)


async def test_a_place_that_refuses_is_not_asked_again_for_this_turn() -> None:
    adapter = TypingAdapter(is_refused=True)
    async with showing(adapter) as indicators:
        indicators.follow(Activity(PLACE, "t1", 30.0))
        await adapter.until(lambda: adapter.count() == 1)
        await stays_dark(adapter)


async def test_a_platform_without_indicators_costs_nothing() -> None:
    adapter = ScriptedAdapter()
    async with showing(adapter) as indicators:
        indicators.accepted(PLACE)
        indicators.answering(answer())
    assert adapter.sent == []


async def test_are_bounded() -> None:
    """Each costs requests: beyond the limit nothing is shown, and nothing breaks."""
    adapter = TypingAdapter(typing_period_s=60.0)
    async with showing(adapter) as indicators:
        for number in range(SHOWN_MAX + 10):
            indicators.accepted(ReplyAddress("test", f"lane {number}", "{}"))
        kept = [task for task in asyncio.all_tasks() if task.get_name() == f"{adapter.name}-typing"]
        assert len(kept) == SHOWN_MAX
        await adapter.until(lambda: adapter.count() >= SHOWN_MAX)
        for number in range(ENDED_KEPT + 10):
            indicators.answering(answer(f"turn {number}"))


class TestWhatAnswersLeaveOver:
    async def test_is_all_that_an_indicator_spends(self) -> None:
        """It asks for a token that nobody will miss, and is left out when there is none."""
        adapter, bus = TypingAdapter(), MemoryBus(waits_s=[1.0] * 3)
        async with showing(adapter, bus) as indicators:
            indicators.accepted(PLACE)
            await adapter.until(lambda: adapter.count() >= 1)
        assert bus.waits_s == []

    async def test_is_not_spent_on_a_place_that_shut_us_out(self) -> None:
        adapter = TypingAdapter(is_refused=True)
        async with showing(adapter) as indicators:
            indicators.accepted(PLACE)
            await adapter.until(lambda: adapter.count() == 1)
            await asyncio.gather(*_typing_tasks(adapter))
            indicators.accepted(PLACE)
            assert _typing_tasks(adapter) == set()


def _typing_tasks(adapter: TypingAdapter) -> set[asyncio.Task[None]]:
    return {task for task in asyncio.all_tasks() if task.get_name() == f"{adapter.name}-typing"}


async def test_goes_out_with_a_question_and_comes_back_when_it_is_settled() -> None:
    """While a person is asked, nobody writes."""
    adapter = TypingAdapter()
    async with showing(adapter) as indicators:
        indicators.follow(Activity(PLACE, "t1", 60.0))
        await adapter.until(lambda: adapter.count() > 0)
        indicators.answering(replace(answer(), kind=ReplyKind.QUESTION))
        indicators.follow(Activity(PLACE, "t1", 60.0))
        await stays_dark(adapter)
        before = adapter.count()
        indicators.answering(replace(answer(), id="r2", amends="r1"))
        indicators.follow(Activity(PLACE, "t1", 60.0))
        await adapter.until(lambda: adapter.count() > before)
