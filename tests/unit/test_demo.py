"""What the headless demo takes for a right answer."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from gateway.ops.demo.__main__ import SECRET, STEPS, DemoStep, ShownLine, Where, problems_of
from gateway.ops.demo.rig import descendants, process_table

STEP = DemoStep("Ada", Where.DIRECT, "say hello", expects=("hello",), forbids=("quiet",), ends_with="the end.")


def said(*texts: str) -> list[ShownLine]:
    return [ShownLine(str(number), True, text) for number, text in enumerate(texts)]


def test_a_right_answer_has_no_problems() -> None:
    assert problems_of(STEP, said("hello, this is", "the end.")) == []


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        ((), "no answer"),
        (("the end.",), "'hello' is not in the answer"),
        (("hello quiet the end.",), "quie… should not be in the answer"),
        (("hello", "and more"), "the end of the answer is missing"),
        (("hello ```python", "the end."), "a code block was torn apart"),
        (
            ("hello paragraph is number 1 of, paragraph is number 3 of the end.",),
            "paragraphs are missing or out of order",
        ),
    ],
)
def test_a_wrong_answer_is_described(texts: tuple[str, ...], problem: str) -> None:
    assert problems_of(STEP, said(*texts)) == [problem]


def test_an_answer_in_too_few_messages_was_not_split() -> None:
    step = DemoStep("Ada", Where.DIRECT, "long", messages_min=2)
    assert problems_of(step, said("all of it")) == ["1 message(s) instead of at least 2"]


def test_the_script_covers_every_place_both_people_a_secret_and_silence() -> None:
    assert {step.where for step in STEPS} == set(Where)
    assert {step.who for step in STEPS} == {"Ada", "Ben"}
    assert any(SECRET in step.says and SECRET in step.forbids for step in STEPS)
    assert any(not step.is_answered for step in STEPS)


def test_only_the_processes_below_one_are_found() -> None:
    table = {1: (0, "init"), 5: (1, "up"), 6: (5, "agent"), 7: (6, "child"), 8: (1, "somebody else's")}
    assert descendants(5, table) == {6: "agent", 7: "child"}


def test_the_processes_of_this_machine_are_listed() -> None:
    parent, command = process_table()[os.getpid()]
    assert parent == os.getppid()
    assert Path(sys.executable).name in command
