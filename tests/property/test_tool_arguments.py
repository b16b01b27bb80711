"""Tool arguments as models write them: JSON, with escapes or without, sometimes broken."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.tools.arguments import written_out
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
