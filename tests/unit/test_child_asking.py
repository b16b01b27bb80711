"""How a sub-agent's process waits for what it asked for, from whichever thread it comes."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.subagents.child import OwnTools, ParentLink, ToolThreads
from agent.subagents.protocol import (
    ChunkFrame,
    Frame,
    FrameTooLong,
    ModelCall,
    ModelDelta,
    ModelResult,
    ToolCallFrame,
    ToolOutcome,
    ToParent,
    Unread,
)
from tests.parts.child_talk import HERE, THERE, a_call, changes_held_up

ASKED = ModelCall("m1", (), ())


class Talk:
    """A child's side of a talk, with the frames that it has sent and passed over."""

    def __init__(self, home: Path | None = None, *, threads: int = 2) -> None:
        self.sent: list[ToParent] = []
        self.passed_over: list[Frame | Unread] = []
        crew = ToolThreads()
        crew.stand(threads)
        tools = (*HERE, *THERE)
        self.asking = ParentLink(
            self._send, OwnTools(tools, home, crew), [tool.name for tool in tools], pass_over=self.passed_over.append
        )

    def _send(self, frame: ToParent) -> None:
        if isinstance(frame, ToolCallFrame) and len(frame.arguments) > 1_000:
            raise FrameTooLong("tool_call", len(frame.arguments))
        self.sent.append(frame)


def test_pieces_of_the_answer_are_passed_on_and_what_answers_nothing_is_passed_over() -> None:
    talk = Talk()
    stray = (ModelDelta("m0", "late"), ModelResult("m0", "late"), ToolOutcome("c1", "early", is_error=False))
    for frame in (*stray, ModelDelta("m1", "yes"), Unread("noise"), ModelResult("m1", "yes")):
        talk.asking.hear(frame)
    assert talk.asking.model(ASKED) == ModelResult("m1", "yes")
    assert talk.sent == [ASKED, ChunkFrame("yes")]
    assert talk.passed_over == [*stray, Unread("noise")]


def test_outcomes_stand_in_call_order_whoever_was_first(tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    calls = [a_call("shell", "c1"), a_call("file_list", "c2"), a_call("web_search", "c3"), a_call("shell", "c4")]
    for name in ("c4", "c2", "c1"):
        talk.asking.hear(ToolOutcome(name, f"{name} of the parent", is_error=False))
    outcomes = talk.asking.tools(calls, [ToolOutcome("c3", "refused", is_error=True)])
    assert [outcome.text for outcome in outcomes] == [
        "c1 of the parent",
        "The folder is empty.",
        "refused",
        "c4 of the parent",
    ]
    assert [frame.id for frame in talk.sent if isinstance(frame, ToolCallFrame)] == ["c1", "c4"]
    assert talk.passed_over == [ToolOutcome("c2", "c2 of the parent", is_error=False)]


def test_a_call_that_fits_into_no_frame_is_an_outcome() -> None:
    (outcome,) = Talk().asking.tools([a_call("shell", command="x" * 2_000)], ())
    assert outcome.is_error
    assert outcome.text.startswith("a frame tool_call of ")


def test_a_tool_that_takes_too_long_is_given_up_and_answers_no_later_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even one of the same id: some models give all their calls the same."""
    talk, write = Talk(tmp_path), a_call("file_write", path="a", content="a")
    with changes_held_up(tmp_path), monkeypatch.context() as patch:
        patch.setattr("agent.subagents.child.TOOL_TIMEOUT_S", 0.0)
        assert talk.asking.tools([write], ()) == [
            ToolOutcome("c1", "file_write did not finish within 0 s", is_error=True)
        ]
    (found,) = talk.asking.tools([a_call("file_read", path="a")], ())
    assert found == ToolOutcome("c1", "     1  a", is_error=False)
    talk.asking.hear(ModelResult("m1", "done"))
    assert talk.asking.model(ASKED).text == "done"


def test_more_calls_than_hands_all_come_to_an_end_in_the_order_of_what_they_touch(tmp_path: Path) -> None:
    talk = Talk(tmp_path, threads=1)
    calls = [a_call("file_write", f"c{n}", path=f"{n % 2}", content=str(n)) for n in range(9)]
    calls += [a_call("file_rename", "move", path="0", to="2"), a_call("file_read", "last", path="2")]
    outcomes = talk.asking.tools(calls, ())
    assert [outcome.is_error for outcome in outcomes] == [False] * len(calls)
    assert outcomes[-1].text == "     1  8"
