"""Typing indicators: what is not worth showing is not shown."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from channels.indicators import Allowance, Indicators
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import CleanText, Reply, ReplyKind
from tests.doubles import ManualClock, MemoryBus, ScriptedAdapter

HERE = ReplyAddress("test", "lane", "{}")


@dataclass
class TypingAdapter(ScriptedAdapter):
    """A platform with indicators."""

    typing_period_s: float = 5.0
    shown: list[ReplyAddress] = field(default_factory=list)

    async def show_typing(self, address: ReplyAddress, status: str) -> None:
        self.shown.append(address)


async def test_an_answer_that_comes_at_once_is_not_announced() -> None:
    """Each indicator is a call that counts against the platform's limits."""
    adapter = TypingAdapter()
    indicators = Indicators(adapter, MemoryBus(), ManualClock())
    indicators.accepted(HERE)
    (typing,) = (task for task in asyncio.all_tasks() if task.get_name() == f"{adapter.name}-typing")
    indicators.answering(Reply("r1", "t1", SessionKey("test", "u1"), HERE, CleanText("hello"), ReplyKind.ANSWER, 1))
    await asyncio.wait({typing})
    assert adapter.shown == []


class TestAnAllowance:
    def test_lets_a_burst_pass_and_no_more(self) -> None:
        allowance = Allowance(per_s=5, burst=3)
        assert [allowance.spend(1000.0) for _ in range(5)] == [True, True, True, False, False]

    def test_fills_up_with_time(self) -> None:
        allowance = Allowance(per_s=4, burst=1)
        assert [allowance.spend(at_s) for at_s in (10.0, 10.125, 10.25, 10.375)] == [True, False, True, False]

    def test_is_never_more_than_the_burst(self) -> None:
        allowance = Allowance(per_s=5, burst=2)
        assert [allowance.spend(at_s) for at_s in (10.0, 10.0, 99.0, 99.0, 99.0)] == [True, True, True, True, False]
