"""What a model wrote cannot pass for our words in a question to a person."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent.questions import ending_by, question_text, tool_question
from channels.text.markdown import parse
from channels.text.tree import Fence, Paragraph
from gateway.contracts.messages import ControlKind
from gateway.words import ENGLISH

ARGUMENTS = st.text(max_size=400) | st.text(alphabet='`~\n {}"*ab', max_size=200)


@given(ARGUMENTS)
def test_arguments_stay_within_their_fence(arguments: str) -> None:
    asked, *rest = parse(tool_question("write", "write", arguments, ENGLISH, chars_max=100))
    assert isinstance(asked, Paragraph)
    kinds = [type(block) for block in rest]
    is_cut = len(kinds) > 1 or (kinds == [Paragraph])
    assert kinds in ([], [Fence], [Fence, Paragraph], [Paragraph])  # a fence in which there is nothing to see is none
    assert not is_cut or "not shown" in str(rest[-1])


def test_of_long_arguments_the_rest_is_counted() -> None:
    assert "300 more characters are not shown" in tool_question("write", "write", "x" * 400, ENGLISH, chars_max=100)


def test_a_name_formats_nothing() -> None:
    assert ending_by(ControlKind.APPROVE, "**Ann** [x](https://e)\n# B", ENGLISH) == "**Approved** by Ann x https e B."


def test_the_words_that_answer_stand_below() -> None:
    assert question_text("Shall I?", "K7QM2PXA", ENGLISH, minutes=15).endswith(
        "Waits 15 minutes for `/approve K7QM2PXA` or `/deny K7QM2PXA`."
    )
