"""What a model wrote cannot pass for our words in a question to a person."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.questions import ending_by, question_text, tool_question, visible
from channels.text.markdown import parse
from channels.text.tree import Fence, Paragraph
from gateway.contracts.messages import ControlKind
from gateway.words import ENGLISH

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
    assert ending_by(ControlKind.APPROVE, "**Ann** [x](https://e)\n# B", ENGLISH) == "**Approved** by Ann x https e B."


def test_the_words_that_answer_stand_below() -> None:
    assert question_text("Shall I?", "K7QM2PXA", ENGLISH, minutes=15).endswith(
        "Waits 15 minutes for `/approve K7QM2PXA` or `/deny K7QM2PXA`."
    )
