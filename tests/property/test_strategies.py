"""Whatever its sub-agents do, a strategy ends, keeps its bounds and its order, and calls a failure a failure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from agent.limits import (
    ORCHESTRATION_ITERATIONS_MAX,
    ORCHESTRATION_ROUNDS_MAX,
    ORCHESTRATION_SIDES_MAX,
    ORCHESTRATION_STEPS_MAX,
    SUBAGENT_LABEL_CHARS_MAX,
    SUBAGENT_PROMPT_CHARS_MAX,
    SUBAGENT_RESULTS_CHARS_MAX,
)
from agent.subagents.orchestration import Account, StepRow
from agent.subagents.steps import Conclusion, Ended, Result, StepOrder, Strategy, prompt_of, shares
from agent.subagents.strategies import read_verdict, schema, strategy_of
from agent.tools.results import abridged
from gateway.contracts.errors import ToolError
from tests.parts.strategies import APPROVED, TYPES, parts, refused

CHILDREN_MAX = 30
"""Ten iterations with an author, a reviewer and a second question each."""

LONG = "A long answer. " * 2_000
ANSWERS = (
    st.sampled_from(
        [APPROVED, refused("mend it"), refused(LONG), "approved", "an answer", LONG, json.dumps({"parts": []})]
    )
    | st.integers(1, 12).map(lambda count: parts(*(f"part {n}" for n in range(count))))
    | st.text(max_size=200)
)
ENDINGS = st.one_of(
    ANSWERS.map(Ended),
    st.tuples(ANSWERS | st.just(""), st.sampled_from(["failed: killed_by_signal_9", "timed_out: limit_300_s"])).map(
        lambda both: Ended(*both)
    ),
)
TASKS = st.sampled_from(["Look.", "Write it. " * 390])
KINDS = st.sampled_from(TYPES)


@st.composite
def steps(draw: st.DrawFn, *, with_needs: bool = False) -> list[Mapping[str, Any]]:
    count = draw(st.integers(1, ORCHESTRATION_STEPS_MAX))
    found: list[Mapping[str, Any]] = []
    for number in range(count):
        needs = draw(st.lists(st.integers(0, number - 1), max_size=4, unique=True)) if with_needs and number else []
        task, kind = draw(TASKS), draw(KINDS)
        found.append({"id": f"n{number}", "type": kind, "task": task, "needs": [f"n{need}" for need in needs]})
    return draw(st.permutations(found)) if with_needs else found


def roles(*names: str) -> st.SearchStrategy[list[Mapping[str, Any]]]:
    role = st.fixed_dictionaries({"id": st.sampled_from(names), "type": KINDS}, optional={"task": TASKS})
    return st.lists(role, max_size=2, unique_by=lambda step: step["id"])


CALLS = st.one_of(
    st.fixed_dictionaries({"strategy": st.just("sequential"), "steps": steps()}),
    st.fixed_dictionaries({"strategy": st.just("parallel"), "steps": steps()}),
    st.fixed_dictionaries({"strategy": st.just("graph"), "steps": steps(with_needs=True)}),
    st.fixed_dictionaries(
        {
            "strategy": st.just("debate"),
            "steps": st.lists(
                st.fixed_dictionaries({"type": KINDS, "task": TASKS}), min_size=2, max_size=ORCHESTRATION_SIDES_MAX
            ),
            "rounds": st.integers(1, ORCHESTRATION_ROUNDS_MAX),
        }
    ),
    st.fixed_dictionaries(
        {"strategy": st.just("review"), "rounds": st.integers(1, ORCHESTRATION_ITERATIONS_MAX)},
        optional={"steps": roles("author", "reviewer")},
    ),
    st.fixed_dictionaries({"strategy": st.just("hierarchical")}, optional={"steps": roles("lead", "worker")}),
)


def strategy(call: Mapping[str, Any]) -> Strategy:
    arguments = {"goal": "The goal. " * 200, **call}
    Draft202012Validator(schema()).validate(arguments)
    return strategy_of(arguments, TYPES)


class PlatformRun:
    """One orchestration from its beginning to its outcome, its sub-agents ending as `data` says, in any order."""

    def __init__(self, strategy: Strategy, data: st.DataObject) -> None:
        self.strategy = strategy
        self.ended: dict[str, Ended] = {}
        self.begun: dict[str, StepOrder] = {}
        while not isinstance(move := strategy.move(self.ended), Conclusion):
            assert move.orders
            for assignment in move.orders:
                assert assignment.id not in self.ended
                assert self.begun.setdefault(assignment.id, assignment) == assignment
                check_assignment(assignment, self.ended)
            assert self.begun.keys() - self.ended.keys() == {assignment.id for assignment in move.orders}
            assert len(self.begun) <= strategy.children_max
            over = data.draw(st.sampled_from(move.orders))
            self.ended[over.id] = data.draw(ENDINGS)
        assert self.begun.keys() == self.ended.keys()
        self.outcome = move


def check_assignment(assignment: StepOrder, ended: Mapping[str, Ended]) -> None:
    prompt = prompt_of(assignment, "K" * 8)
    assert len(prompt) <= SUBAGENT_PROMPT_CHARS_MAX
    assert prompt.startswith(assignment.brief)
    assert prompt.endswith(assignment.form or assignment.closing)
    assert assignment.closing in prompt
    assert len(assignment.label) <= SUBAGENT_LABEL_CHARS_MAX
    assert assignment.sub_type in TYPES
    check_results(assignment.results, ended)


def check_results(results: tuple[Result, ...], ended: Mapping[str, Ended]) -> None:
    for result in results:
        assert ended[result.id].is_done or result.problem


@given(CALLS, st.data())
@settings(max_examples=100)
def test_a_strategy_ends_within_its_bounds_and_hands_failures_on_as_failures(
    call: Mapping[str, Any], data: st.DataObject
) -> None:
    chosen = strategy(call)
    assert chosen.children_max <= CHILDREN_MAX
    played = PlatformRun(chosen, data)
    check_results(played.outcome.answer, played.ended)
    if not played.outcome.problem:
        assert played.outcome.answer
        assert all(played.ended[result.id].is_done for result in played.outcome.answer)
    else:
        failed = [end for end in played.ended.values() if not end.is_done]
        assert failed or chosen.name in ("review", "hierarchical")


@given(steps(with_needs=True), st.data())
@settings(max_examples=80)
def test_a_graph_runs_what_it_can_and_nothing_before_what_it_needs(
    drawn: list[Mapping[str, Any]], data: st.DataObject
) -> None:
    """A step is run exactly when all that it needs is done; the graph succeeds exactly when all of it is."""
    played = PlatformRun(strategy({"strategy": "graph", "steps": drawn}), data)
    needs: dict[str, list[str]] = {step["id"]: step["needs"] for step in drawn}
    for name, needed in needs.items():
        can_run = all(need in played.ended and played.ended[need].is_done for need in needed)
        assert (name in played.begun) == can_run
        if can_run:
            assert {result.id for result in played.begun[name].results} == set(needed)
    assert (not played.outcome.problem) == all(name in played.ended and played.ended[name].is_done for name in needs)
    undone = played.strategy.graph(played.ended).undone
    assert {left.id for left in undone} == needs.keys() - played.ended.keys()


@given(st.integers(1, ORCHESTRATION_ITERATIONS_MAX), st.data())
@settings(max_examples=80)
def test_work_is_approved_only_by_a_verdict(iterations: int, data: st.DataObject) -> None:
    played = PlatformRun(strategy({"strategy": "review", "rounds": iterations}), data)
    newest = list(played.ended.values())[-1]
    verdict = read_verdict(newest.text) if newest.is_done else None
    by_reviewer = list(played.ended)[-1].startswith("review")
    assert (not played.outcome.problem) == (by_reviewer and verdict is not None and verdict.approved)
    if not played.outcome.problem:
        assert played.outcome.answer[0].id.startswith("draft")


@given(CALLS, st.data(), st.integers(0, 30))
@settings(max_examples=60)
def test_an_account_fits_wherever_the_orchestration_ended(
    call: Mapping[str, Any], data: st.DataObject, ends: int
) -> None:
    """Also where it was cut short: what there is is shown, and what is missing is named."""
    played = PlatformRun(strategy(call), data)
    ended = dict(list(played.ended.items())[:ends])
    begun = {name: played.begun[name] for name in ended}
    is_short = len(ended) < len(played.ended)
    outcome = Conclusion(played.strategy.graph(ended).achieved, "the time was up") if is_short else played.outcome
    undone = [left for left in played.strategy.graph(ended).undone if left.id not in begun]
    rows = [StepRow(name, "explore", ended[name].problem or "completed", 1.5, 100, "T" * 26) for name in begun]
    rows += [StepRow(left.id, left.sub_type, f"not run: {left.why}") for left in undone]
    text = Account(played.strategy.name, outcome, tuple(rows), 12.0, 100 * len(rows), 500_000, 0.5).text("K" * 8)
    assert len(text) <= SUBAGENT_RESULTS_CHARS_MAX
    assert text.startswith("The orchestration") == bool(outcome.problem)
    for row in rows:
        assert f"| {row.id} | {row.sub_type} | " in text
    for result in outcome.answer:
        assert not result.problem or outcome.problem


@given(st.lists(st.integers(0, 10_000), max_size=30), st.integers(-10, 20_000))
def test_room_is_shared_fairly(wanted: list[int], room: int) -> None:
    """Nobody gets more than it wants, all together no more than there is, and whoever gets less than it wants gets as
    much as anybody."""
    given_to = shares(wanted, room)
    assert sum(given_to) <= max(room, 0)
    assert all(share <= want for share, want in zip(given_to, wanted, strict=True))
    for share, want in zip(given_to, wanted, strict=True):
        assert share == want or share >= max(given_to) - 1


@given(st.text(max_size=2_000), st.integers(0, 1_000), st.sampled_from(["", "T" * 26]))
def test_a_cut_text_fits_and_a_short_one_is_not_cut(text: str, room: int, handle: str) -> None:
    kept = abridged(text, room, handle=handle)
    assert len(kept) <= room
    assert kept == text or len(text) > room


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["approved", "feedback"]), inner),
    max_leaves=6,
)


@given(JSON, st.text(max_size=20), st.text(max_size=20))
def test_an_approval_is_an_object_with_a_true_field_and_nothing_around_it(value: Any, before: str, behind: str) -> None:
    is_alone = not before.strip(" \t\r\n") and not behind.strip(" \t\r\n")
    verdict = read_verdict(f"{before}{json.dumps(value)}{behind}")
    approves = isinstance(value, dict) and value.get("approved") is True
    assert (verdict is not None and verdict.approved) == (approves and is_alone)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 30) | st.text(max_size=20) | KINDS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["id", "type", "task", "needs"]), inner)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(list(schema()["properties"])), ANYTHING), CALLS)
@settings(max_examples=100)
def test_arguments_that_pass_the_schema_are_a_strategy_or_an_error(
    strange: Mapping[str, Any], call: Mapping[str, Any]
) -> None:
    arguments = {"goal": "Go.", **strange, "strategy": call["strategy"]}
    if Draft202012Validator(schema()).is_valid(arguments):
        assert 1 <= children_max(arguments) <= CHILDREN_MAX


def children_max(arguments: Mapping[str, Any]) -> int:
    """How many sub-agents it may take at most; one for a call that is refused with a word about its strategy."""
    try:
        return strategy_of(arguments, TYPES).children_max
    except ToolError as error:
        return 1 if arguments["strategy"] in str(error) else 0
