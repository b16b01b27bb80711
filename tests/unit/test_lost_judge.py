"""Who was away himself, or whose clock jumps, finds nobody dead until everybody could say again that he lives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.limits import LOST_JUMP_S, LOST_LOOK_S, LOST_UNSEEN_S, SUBAGENT_ALIVE_S
from agent.subagents.wakes import LostJudge

STEADY = (LOST_LOOK_S, LOST_LOOK_S)


def judged(*steps: tuple[float, float]) -> list[bool]:
    """What each look may say; between two of them so many seconds pass, and so many on the clock."""
    judge, now_s, clock_s, found = LostJudge(), 500.0, 1_800_000_000.0, []
    for passed_s, by_clock_s in ((0.0, 0.0), *steps):
        now_s += passed_s
        clock_s += by_clock_s
        found.append(judge.may_judge(now_s=now_s, now_ms=round(clock_s * 1000)))
    return found


def test_the_first_look_believes_what_it_finds() -> None:
    """Who died before this process began was found dead in time."""
    assert judged(STEADY, STEADY) == [True, True, True]


@pytest.mark.parametrize(
    "break_",
    [
        pytest.param((30.0, 30.0), id="paused, or without a database"),
        pytest.param((LOST_LOOK_S, 3600.0), id="the clock jumps ahead"),
        pytest.param((LOST_LOOK_S, -3600.0), id="the clock jumps back"),
        pytest.param((LOST_LOOK_S, 30.0), id="the machine slept"),
    ],
)
def test_behind_a_break_everybody_has_as_long_as_ever(break_: tuple[float, float]) -> None:
    looks = int(SUBAGENT_ALIVE_S / LOST_LOOK_S)
    assert judged(break_, *[STEADY] * looks) == [True, *[False] * looks, True]


@given(st.lists(st.tuples(st.floats(0, 20), st.floats(-20, 20)), max_size=30))
def test_nobody_is_found_dead_by_who_saw_too_little(steps: list[tuple[float, float]]) -> None:
    """`steps`: seconds that pass, and by how much the clock jumps meanwhile."""
    found, at_s, broken_s = judged(*((passed, passed + jump) for passed, jump in steps)), 0.0, -SUBAGENT_ALIVE_S
    for (passed_s, jump_s), may_judge in zip(steps, found[1:], strict=True):
        at_s += passed_s
        if passed_s > LOST_UNSEEN_S + 0.01 or abs(jump_s) > LOST_JUMP_S + 0.01:
            broken_s = at_s
        assert not may_judge or at_s - broken_s >= SUBAGENT_ALIVE_S - 0.01
