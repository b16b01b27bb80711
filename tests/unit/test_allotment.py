"""What sub-agents may take that work together."""

from __future__ import annotations

import pytest

from agent.tools.tool import Allotment, AllotmentSpent


def test_what_is_taken_counts_at_once() -> None:
    allotment = Allotment(1_000, None, above=None)
    allotment.take(999, 5.0)
    allotment.check()
    allotment.take(1, 0.0)
    with pytest.raises(AllotmentSpent, match="the budget of 1000 tokens was spent"):
        allotment.check()
    assert (allotment.tokens, allotment.cost_usd) == (1_000, 5.0)


def test_dollars_end_it_too() -> None:
    allotment = Allotment(1_000, 0.5, above=None)
    allotment.take(1, 0.5)
    assert allotment.problem == "the budget of $0.5 was spent"


def test_a_part_of_a_larger_work_has_no_more_than_is_left_of_that() -> None:
    above = Allotment(1_000, None, above=None)
    left, right = (Allotment(900, 10.0, above=above) for _ in range(2))
    left.take(600, 1.0)
    assert (left.problem, right.problem) == ("", "")
    right.take(400, 1.0)
    assert left.problem == right.problem == "the budget of 1000 tokens was spent"
    assert (above.tokens, above.cost_usd, left.tokens, right.tokens) == (1_000, 2.0, 600, 400)
