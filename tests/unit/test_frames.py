"""The wire form of frames, pinned by golden files, and what is read of hands that write it otherwise."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any, Final

import pytest

from agent.subagents.protocol import (
    LINE_BYTES_MAX,
    LINE_PARTS_MAX,
    CalledTool,
    CancelFrame,
    ChildMessage,
    ChunkFrame,
    DoneFrame,
    FailedFrame,
    Frame,
    FrameReader,
    FrameTooLong,
    InitFrame,
    ModelCall,
    ModelDelta,
    ModelResult,
    OfferedTool,
    ProcessLimits,
    ReadyFrame,
    ToolCallFrame,
    ToolOutcome,
    Unread,
    encoded,
)

GOLDEN: Final = Path(__file__).parents[1] / "golden" / "frames"
CALL: Final = CalledTool("c1", "file_read", '{"path":"a.txt"}')
TALK: Final = (
    ChildMessage("user", "grüß dich, 世界 👋\nWhat stands in a.txt?"),
    ChildMessage("assistant", "", (CALL,)),
    ChildMessage("tool", "a.txt does not exist", call_id="c1", is_error=True),
)
SCHEMA: Final = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
FRAMES: Final[dict[str, Frame]] = {
    "init": InitFrame(
        task_id="k7",
        workspace="/data/workspaces/telegram-1",
        rounds_max=6,
        limits=ProcessLimits(cpu_s=60, memory_bytes=2**30, file_bytes=2**26, descriptors=256, processes=64),
        confinement="landlock",
        sub_type="explore",
        system="You look around.",
        messages=TALK[:1],
        tools=(OfferedTool("file_read", "Read a file.", SCHEMA, True), OfferedTool("web_search", "Ask.", {}, False)),
        wrap_up="Answer now.",
    ),
    "model_delta": ModelDelta("m1", 'He said: "no"\\'),
    "model_result": ModelResult("m1", "Let me see.", (CALL,), 1_200, 34, 0.0125),
    "model_result_refused": ModelResult("m1", calls=(CALL,), outcomes=(ToolOutcome("c1", "$.path: 7 is no", True),)),
    "model_result_too_long": ModelResult("m2", error="The prompt is too long.", is_too_long=True),
    "tool_result": ToolOutcome("c1", "three\u2028lines\r\n", is_error=False),
    "cancel": CancelFrame("stopped"),
    "ready": ReadyFrame(4_242, "landlock"),
    "chunk": ChunkFrame("Let "),
    "model_call": ModelCall("m1", TALK, ("file_read", "web_search"), "You look around."),
    "tool_call": ToolCallFrame("c2", "web_search", '{"query":"x"}'),
    "done": DoneFrame(
        success=True, response="It is not there.", tokens_in=1_200, tokens_out=34, cost_usd=0.0125, duration_ms=900
    ),
    "error": FailedFrame("MemoryError"),
}


def read(*pieces: bytes) -> list[Frame | Unread]:
    reader = FrameReader()
    return [found for piece in pieces for found in reader.feed(piece)] + reader.end()


def read_row(**row: Any) -> Frame | Unread:
    (found,) = read(json.dumps(row).encode() + b"\n")
    return found


@pytest.mark.parametrize("name", FRAMES)
def test_the_wire_form_of_each_frame_is_pinned(name: str) -> None:
    golden = (GOLDEN / f"{name}.jsonl").read_bytes()
    assert encoded(FRAMES[name]) == golden
    assert read(golden) == [FRAMES[name]]


def test_every_frame_has_its_golden_file() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(FRAMES)
    assert {type(frame) for frame in FRAMES.values()} == set(Frame.__args__)


def test_the_shortest_init_that_a_hand_may_write_means_the_usual() -> None:
    found = read_row(type="init", config={}, agent_config={"messages": [{"role": "user", "text": "hello"}]})
    assert found == InitFrame("", "", 12, ProcessLimits(), "", "", "", (ChildMessage("user", "hello"),), (), "")


def test_what_is_missing_or_null_has_its_usual_value() -> None:
    assert read_row(type="model_result", id="m1", text="yes", calls=None, error=None) == ModelResult("m1", "yes")
    assert read_row(type="tool_result", id="c1", text="yes") == ToolOutcome("c1", "yes", is_error=False)
    assert read_row(type="cancel") == CancelFrame("")
    assert read_row(type="ready") == ReadyFrame(0, "")
    assert read_row(type="done", result={"success": True}) == DoneFrame(True, "", 0, 0, 0.0, 0)
    limits = read_row(type="init", config={"limits": {"cpu_s": 7}})
    assert isinstance(limits, InitFrame)
    assert limits.limits == ProcessLimits(cpu_s=7)
    tools = read_row(type="init", agent_config={"tools": [{"name": "web_search"}]})
    assert isinstance(tools, InitFrame)
    assert tools.tools == (OfferedTool("web_search", "", {"type": "object"}, runs_here=False),)


def test_arguments_that_were_written_as_an_object_are_their_text() -> None:
    found = read_row(type="model_result", id="m1", calls=[{"id": "c1", "name": "n", "arguments": {"path": "ä"}}])
    assert found == ModelResult("m1", calls=(CalledTool("c1", "n", '{"path": "ä"}'),))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"\xff\xfe{}", "a line that is no UTF-8"),
        (b"Traceback (most recent call last):", "a line that is no JSON"),
        (b'{"type":"done","result":{"cost_usd":NaN}}', "a line that is no JSON"),
        (b"[" * 100_000, "a line that is no JSON"),
        (b"7" * 10_000, "a line that is no JSON"),
        (b"[]", "a line that is no JSON object"),
        (b"{}", "an object without a type"),
        (b'{"type":7}', "an object without a type"),
        (b'{"type":"ghp_0123456789 and more"}', "an object without a type"),
        (b'{"type":"tomorrow"}', "a frame of the unknown type tomorrow"),
        (b'{"type":"chunk"}', "a frame chunk in which delta is missing"),
        (b'{"type":"chunk","delta":7}', "a frame chunk in which delta is no text"),
        (
            b'{"type":"tool_call","id":"c1","name":"n","arguments":[]}',
            "a frame tool_call in which arguments is no text",
        ),
        (b'{"type":"model_result","id":"m","calls":[7]}', "a frame model_result in which calls is no list of objects"),
        (b'{"type":"model_result","id":"m","calls":{}}', "a frame model_result in which calls is no list"),
        (
            b'{"type":"model_result","id":"m","tokens_in":1.5}',
            "a frame model_result in which tokens_in is no whole number",
        ),
        (b'{"type":"model_result","id":"m","tokens_in":true}', "a frame model_result in which tokens_in is no number"),
        (
            b'{"type":"model_result","id":"m","tokens_in":-1}',
            "a frame model_result in which tokens_in is out of bounds",
        ),
        (
            b'{"type":"model_result","id":"m","cost_usd":1e999}',
            "a frame model_result in which cost_usd is out of bounds",
        ),
        (b'{"type":"model_call","id":"m","tools":[7]}', "a frame model_call in which tools is no list of texts"),
        (
            b'{"type":"model_call","id":"m","messages":[{"role":"system"}]}',
            "a frame model_call in which role is none of assistant, tool, user",
        ),
        (b'{"type":"done","result":7}', "a frame done in which result is no object"),
        (b'{"type":"done","result":{"success":"yes"}}', "a frame done in which success is neither true nor false"),
    ],
)
def test_what_is_no_frame_is_a_reason_that_quotes_nothing(line: bytes, reason: str) -> None:
    assert read(line + b"\n" + encoded(ChunkFrame("next"))) == [Unread(reason), ChunkFrame("next")]


def test_no_depth_of_nesting_is_more_than_a_line_that_was_not_read() -> None:
    for depth in range(800, 1_100, 3):
        nested = b'{"a":' * depth + b"1" + b"}" * depth
        found = read(
            b'{"type":"tool_call","id":"c1","name":"n","arguments":' + nested + b"}\n" + encoded(ChunkFrame("next"))
        )
        assert len(found) == 2
        assert found[1] == ChunkFrame("next")


def test_empty_lines_and_foreign_line_ends_are_nothing_to_speak_of() -> None:
    assert read(b"\n \r\n" + encoded(ChunkFrame("a"))[:-1] + b"\r\n\n") == [ChunkFrame("a")]


def test_a_last_line_without_its_end_is_read_when_nothing_follows() -> None:
    reader = FrameReader()
    assert reader.feed(encoded(CancelFrame("now"))[:-1]) == []
    assert reader.end() == [CancelFrame("now")]
    assert reader.end() == []


def test_half_of_a_surrogate_pair_is_written_as_json_writes_it() -> None:
    line = encoded(ChunkFrame("a\ud83d"))
    assert b"\\ud83d" in line
    assert read(line) == [ChunkFrame("a\ud83d")]


def test_a_line_of_just_the_limit_is_sent_and_read() -> None:
    frame = ChunkFrame("x" * (LINE_BYTES_MAX - len(encoded(ChunkFrame(""))) + 1))
    line = encoded(frame)
    assert len(line) == LINE_BYTES_MAX + 1
    assert read(line[:1_000], line[1_000:], encoded(CancelFrame(""))) == [frame, CancelFrame("")]


def test_a_line_over_the_limit_is_neither_sent_nor_read() -> None:
    text = "x" * (LINE_BYTES_MAX - len(encoded(ChunkFrame(""))) + 2)
    with pytest.raises(
        FrameTooLong, match="a frame chunk of 8388609 bytes has more than 8388608 bytes or 250000 parts"
    ):
        encoded(ChunkFrame(text))
    line = json.dumps({"type": "chunk", "delta": text}, separators=(",", ":")).encode()
    unread = Unread("a line of more than 8388608 bytes")
    assert read(line + b"\n" + encoded(CancelFrame(""))) == [unread, CancelFrame("")]
    assert read(line[:100], line[100:], b"\n", encoded(CancelFrame(""))) == [unread, CancelFrame("")]
    assert read(line) == [unread]


@pytest.mark.parametrize("part", [b"[]", b"{}", b"7", b'"\\""', b'{"role":"user"}'])
def test_a_line_of_countless_parts_is_not_read(part: bytes) -> None:
    """Some of them would take gigabytes and seconds, while nobody else is heard."""
    line = b'{"type":"model_call","id":"m1","messages":[' + b",".join([part] * LINE_PARTS_MAX) + b"]}\n"
    assert len(line) < LINE_BYTES_MAX
    found = read(line + encoded(CancelFrame("")))
    assert found == [Unread("a line of more than 250000 parts"), CancelFrame("")]


def test_a_frame_of_countless_parts_is_not_sent() -> None:
    with pytest.raises(FrameTooLong, match=r"a frame model_call of .* or 250000 parts"):
        encoded(ModelCall("m1", (), ("",) * (LINE_PARTS_MAX // 2)))


def test_a_long_text_is_one_part_whatever_stands_in_it() -> None:
    frame = ChunkFrame('[{"a":1},\\"\n' * 400_000)
    assert len(encoded(frame)) > LINE_BYTES_MAX * 3 // 4
    assert read(encoded(frame)) == [frame]


def test_a_line_without_end_takes_no_more_memory_than_the_limit() -> None:
    reader, piece = FrameReader(), b"x" * 65_536
    for _ in range(LINE_BYTES_MAX // len(piece)):
        assert reader.feed(piece) == []
    assert reader.feed(piece) == [Unread("a line of more than 8388608 bytes")]
    tracemalloc.start()
    try:
        for _ in range(2 * LINE_BYTES_MAX // len(piece)):
            assert reader.feed(piece) == []
        assert tracemalloc.get_traced_memory()[1] < LINE_BYTES_MAX // 8
    finally:
        tracemalloc.stop()
    assert reader.feed(b"\n" + encoded(ChunkFrame("on"))) == [ChunkFrame("on")]
