"""What a planner writes is a plan that can be worked off, or is sent back with what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.features.plans import BadPlan, plan_text, read_plan
from agent.limits import PLAN_STEPS_MAX
from gateway.i18n import ENGLISH


def step(number: int, depends_on: Sequence[int] = (), **changes: object) -> Mapping[str, Any]:
    return {
        "id": f"S{number}",
        "title": f"Step {number}",
        "detail": "Do it.",
        "depends_on": [f"S{name}" for name in depends_on],
        "risks": ["It may fail."],
        "rollback": "Undo it.",
    } | changes


def written(*steps: Mapping[str, Any], **changes: object) -> str:
    return json.dumps({"goal": "Tidy up", "steps": list(steps)} | changes)


def problems_of(text: str) -> str:
    with pytest.raises(BadPlan) as caught:
        read_plan(text)
    return "; ".join(caught.value.problems)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("I would first look around.", "no JSON object"),
        ("{]}", "no JSON object"),
        (written(), "steps"),
        (written(step(1, [2])), "'S2', which is no step"),
        (written(step(1, [1])), "S1 → S1 wait for each other"),
        (written(step(1, [3]), step(2, [1]), step(3, [2])), "wait for each other"),
        (written(step(1), step(1)), "the same id"),
        (written(step(1, id="one")), "$.steps[0].id"),
        (written(step(1, id="S1\n")), "$.steps[0].id"),
        (written(step(1, title="")), "$.steps[0].title"),
        (written(step(1, risks="none")), "$.steps[0].risks"),
        (written({"id": "S1"}), "'title' is a required property"),
        (written(*(step(number) for number in range(1, PLAN_STEPS_MAX + 2))), "$.steps"),
        (json.dumps([step(1)]), "goal"),
    ],
)
def test_what_is_no_plan_is_refused_with_what_is_wrong(text: str, problem: str) -> None:
    assert problem in problems_of(text)


def test_a_plan_is_found_between_words_and_fences() -> None:
    """Models explain themselves and fence their answers; broken JSON is mended where it can be."""
    plan = read_plan(f"Here it is:\n```json\n{written(step(1), step(2, [1]))[:-1]},}}\n```\nGood luck!")
    assert [found.id for found in plan.steps] == ["S1", "S2"]


def test_a_plan_reads_as_a_document() -> None:
    text = plan_text(read_plan(written(step(1), step(2, [1], rollback=""))), ENGLISH)
    assert text == (
        "**Plan: Tidy up**\n\n**S1. Step 1**\n\nDo it.\n\n- Risk: It may fail.\n- Rollback: Undo it.\n\n"
        "**S2. Step 2** (after S1)\n\nDo it.\n\n- Risk: It may fail."
    )


GRAPHS = st.integers(1, PLAN_STEPS_MAX).flatmap(
    lambda count: st.tuples(
        st.permutations(range(1, count + 1)),
        st.lists(st.tuples(st.integers(1, count), st.integers(1, count)), max_size=30),
    )
)


@given(GRAPHS)
def test_each_step_finds_done_what_it_depends_on(graph: tuple[list[int], list[tuple[int, int]]]) -> None:
    """Any graph without cycles, in any order: nothing is lost, and nothing comes before what it needs."""
    order, edges = graph
    rank = {number: place for place, number in enumerate(sorted(order))}
    needs = {number: {a for a, b in edges if b == number and rank[a] < rank[number]} for number in order}
    plan = read_plan(written(*(step(number, sorted(needs[number])) for number in order)))
    assert sorted(found.id for found in plan.steps) == sorted(f"S{number}" for number in order)
    done: set[str] = set()
    for found in plan.steps:
        assert done.issuperset(found.depends_on)
        done.add(found.id)


@given(GRAPHS)
def test_a_plan_is_refused_exactly_when_steps_wait_for_each_other(
    graph: tuple[list[int], list[tuple[int, int]]],
) -> None:
    order, edges = graph
    needs = {number: {a for a, b in edges if b == number} for number in order}
    text = written(*(step(number, sorted(needs[number])) for number in order))
    reachable = {number: set(found) for number, found in needs.items()}
    for _ in order:
        reachable = {number: found.union(*(needs[near] for near in found)) for number, found in reachable.items()}
    if any(number in found for number, found in reachable.items()):
        assert "wait for each other" in problems_of(text)
    else:
        assert len(read_plan(text).steps) == len(order)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["goal", "steps", "id"]), inner),
    )
)
def test_whatever_a_model_writes_is_a_plan_or_a_problem(value: object) -> None:
    try:
        plan = read_plan(json.dumps(value))
    except BadPlan as bad:
        problems = bad.problems
    else:
        problems = tuple(found.title for found in plan.steps)
    assert problems
