"""What a model wrote cannot pass for our words in a question to a person."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.tools.questions import (
    Duration,
    answer_to,
    code_in,
    ending_by,
    lasts_of,
    question_text,
    tool_question,
    visible,
)
from channels.markdown.parse import parse
from channels.markdown.tree import Fence, Paragraph
from gateway.contracts.messages import ControlKind
from gateway.i18n import ENGLISH

ARGUMENTS = st.dictionaries(
    st.text(max_size=20), st.text(max_size=200) | st.text(alphabet='`~\n\u2028 {}"*ab', max_size=100), max_size=4
)
HIDDEN = {
    "right-to-left override": "\u202e",
    "isolate": "\u2066",
    "zero-width space": "\u200b",
    "joiner": "\u200d",
    "line separator": "\u2028",
    "next line": "\x85",
    "carriage return": "\r",
    "no-break space": "\xa0",
    "tag": "\U000e0041",
    "variation selector": "\ufe0f",
    "Hangul filler": "\u3164",
    "delete": "\x7f",
}


@given(ARGUMENTS)
def test_arguments_stay_within_their_fence_and_are_all_there(arguments: dict[str, str]) -> None:
    """Whoever reads the fence as JSON has what would be run."""
    asked, fence = parse(tool_question("write", "write", arguments, ENGLISH))
    assert isinstance(asked, Paragraph)
    assert isinstance(fence, Fence)
    assert json.loads(fence.text) == arguments


@pytest.mark.parametrize("char", HIDDEN.values(), ids=HIDDEN)
def test_nothing_that_nobody_sees_is_in_a_question(char: str) -> None:
    arguments = {"command": f"ls{char}-l"}
    shown = tool_question("shell", "execute", arguments, ENGLISH)
    assert char not in shown
    assert json.dumps(arguments) == "".join(shown.partition("```")[2].strip("`\n").split("\n")).replace("{ ", "{")


@given(st.text(alphabet="aé中😀 .,'\u0301\n", max_size=50))
def test_what_people_write_is_shown_as_it_is(text: str) -> None:
    assert visible(text) == text


def test_a_name_formats_nothing() -> None:
    ended = ending_by(ControlKind.APPROVE, Duration.ONCE, "**Ann** [x](https://e)\n# B", ENGLISH)
    assert ended == "**Approved** by Ann x https e B."


def test_the_words_that_answer_stand_below() -> None:
    assert question_text("Shall I?", "K7QM2PXA", ENGLISH, minutes=15).endswith(
        "Waits 15 minutes for `/approve K7QM2PXA` or `/deny K7QM2PXA`."
    )


@pytest.mark.parametrize("kind", [ControlKind.APPROVE, ControlKind.DENY])
@pytest.mark.parametrize("lasts", Duration)
def test_an_answer_is_read_as_it_is_written_and_nothing_is_denied_for_good(kind: ControlKind, lasts: Duration) -> None:
    answer = answer_to(kind, "K7QM2PXA", lasts)
    is_known = kind is ControlKind.APPROVE or lasts is Duration.ONCE
    assert code_in(kind, answer.partition(" ")[2]) == ("K7QM2PXA" if is_known else "")
    assert lasts_of(answer) is lasts
    assert lasts_of(f"{answer.upper()} \n") is lasts


@pytest.mark.parametrize(
    "argument", ["", "K7QM2PXA forever", "K7QM2PXA\nalways", "K7QM2PXA always always", "../etc", "K7QM2PXA\u202ealways"]
)
def test_anything_else_is_an_answer_to_nothing(argument: str) -> None:
    assert code_in(ControlKind.APPROVE, argument) == ""
