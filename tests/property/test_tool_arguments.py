"""Tool arguments as models write them: JSON, with escapes or without, sometimes broken."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.tools.arguments import parse_arguments, written_out
from gateway.contracts.errors import ToolError
from gateway.scrub import scrub
from tests.scrubbing import leaks, positives

LEAKING_MAX = 0.005

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
)


@given(json_values)
def test_writing_out_changes_no_value(value: object) -> None:
    assert json.loads(written_out(json.dumps(value))) == value


@given(st.text())
def test_whatever_a_model_writes_can_be_stored(text: str) -> None:
    """Half a surrogate pair, which no database takes, is replaced."""
    written_out(text).encode()


def test_nothing_at_all_is_no_arguments() -> None:
    assert written_out("") == "{}"


@pytest.mark.parametrize(("written", "meant"), [("5.0", "5"), ("2e3", "2000"), ("2.5", "2.5"), ("[1.0]", "[1]")])
def test_a_whole_number_is_one_however_it_is_written(written: str, meant: str) -> None:
    """A schema takes 5.0 for an integer, and code that counts lines does not."""
    assert repr(parse_arguments(f'{{"first_line": {written}}}')) == f"{{'first_line': {meant}}}"


def test_a_number_beyond_all_bounds_is_none() -> None:
    with pytest.raises(ToolError, match="1e400"):
        parse_arguments('{"first_line": 1e400}')


@pytest.mark.parametrize("between", ["", "\n", ", ", ";"])
def test_the_arguments_of_two_calls_are_not_those_of_the_last(between: str) -> None:
    """Half of what was asked for would be done, and the result would tell of no more."""
    with pytest.raises(ToolError, match="more than one object"):
        parse_arguments(f'{{"path": "a"}}{between}{{"path": "b"}}')


@pytest.mark.parametrize("behind", ["}", "<|end|>", "\n```", " {}"])
def test_what_is_behind_the_arguments_and_says_nothing_is_left_out(behind: str) -> None:
    assert parse_arguments(f'{{"path": "a"}}{behind}') == {"path": "a"}


def test_arguments_nested_beyond_reason_are_taken_as_text() -> None:
    assert written_out("[" * 200_000) == "[" * 200_000


@pytest.mark.parametrize("broken", ["", '"'])
def test_escapes_hide_no_secret(broken: str) -> None:
    """What is recognised in a text is recognised in the arguments that carry it, complete or cut off."""
    recognised = [sample for sample in positives(404, rows=3) if not leaks(sample, scrub(sample.text))]
    leaking = []
    for sample in recognised:
        arguments = json.dumps({"fact": sample.text}).removesuffix(f"{broken}}}" if broken else "")
        if leaks(sample, scrub(written_out(arguments))):
            leaking.append(sample.text)
    assert len(leaking) <= LEAKING_MAX * len(recognised), leaking
