"""The loop of a child, whatever its model and its tools answer."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from agent.limits import PRUNED_FROM_CHARS
from agent.subagents.protocol import (
    CalledTool,
    ChildMessage,
    DoneFrame,
    FailedFrame,
    ModelCall,
    ModelResult,
    ToolOutcome,
)
from agent.subagents.rounds import Rounds
from tests.parts.child_talk import THERE, an_init, with_rounds

CALLS = st.lists(
    st.builds(CalledTool, st.sampled_from(["", "a", "a-2", "b"]), st.just("shell"), st.just("{}")), max_size=5
)
OUTCOME = st.tuples(st.sampled_from(["ok", "x" * (PRUNED_FROM_CHARS + 1)]), st.booleans())
ANSWERS = st.lists(
    st.tuples(
        st.builds(
            ModelResult,
            st.just(""),
            st.sampled_from(["", "text"]),
            CALLS.map(tuple),
            st.integers(0, 9),
            st.integers(0, 9),
            is_too_long=st.booleans(),
        ),
        st.lists(OUTCOME, min_size=5, max_size=5),
    ),
    max_size=12,
)


@given(ANSWERS, st.integers(0, 4))
def test_every_prompt_is_one_that_providers_take_and_the_rounds_come_to_an_end(
    answers: list[tuple[ModelResult, list[tuple[str, bool]]]], rounds_max: int
) -> None:
    rounds = Rounds(with_rounds(an_init(tools=THERE), rounds_max))
    told: list[ModelResult] = []
    with_tools = 0
    for result, outcomes in answers:
        if rounds.ending is not None:
            break
        asked = rounds.next_call()
        _check(asked)
        assert asked.id == f"m{len(told) + 1}"
        assert asked.system == "You look around."
        calls = rounds.answered(result)
        told.append(result)
        assert not calls or asked.tools
        with_tools += bool(calls)
        returned = [ToolOutcome(call.id, *outcome) for call, outcome in zip(calls, outcomes, strict=False)]
        rounds.returned(calls, returned)
    assert with_tools <= rounds_max
    match rounds.ending:
        case DoneFrame() as done:
            assert (done.tokens_in, done.tokens_out) == (
                sum(r.tokens_in for r in told),
                sum(r.tokens_out for r in told),
            )
            assert done.response == told[-1].text
            assert done.success == bool(done.response)
        case FailedFrame():
            assert told[-1].is_too_long
        case None:
            assert len(told) == len(answers)


def _check(asked: ModelCall) -> None:
    """Calls are followed by their results, in call order and told apart; the user never speaks twice in a row."""
    messages = list(asked.messages)
    assert not [pair for pair in pairwise(messages) if pair[0].role == pair[1].role == "user"]
    assert messages[-1].role != "assistant"
    while messages:
        said = messages.pop(0)
        ids = [call.id for call in said.calls]
        assert len(set(ids)) == len(ids)
        assert "" not in ids
        results = [messages.pop(0) for _ in ids]
        assert [result.call_id for result in results] == ids
        assert all(result.role == "tool" for result in results)
        assert said.role != "tool"


@given(st.integers(1, 12))
def test_a_model_that_asks_for_tools_for_ever_is_asked_once_more_and_wraps_up(rounds_max: int) -> None:
    rounds = Rounds(with_rounds(an_init(tools=THERE), rounds_max))
    asked: list[ModelCall] = []
    for number in range(rounds_max + 1):
        assert rounds.ending is None
        asked.append(rounds.next_call())
        assert bool(asked[-1].tools) == (number < rounds_max)
        calls = rounds.answered(ModelResult("", "text", (CalledTool("c", "shell", "{}"),)))
        rounds.returned(calls, [ToolOutcome(call.id, "ok", is_error=False) for call in calls])
    assert asked[-1].messages[-1] == ChildMessage("user", "Answer now.")
    assert isinstance(rounds.ending, DoneFrame)
