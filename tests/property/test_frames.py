"""The language between a sub-agent and its parent, for any frame, any split of its bytes and any noise between."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from agent.subagents.protocol import (
    CalledTool,
    CancelFrame,
    ChildMessage,
    ChunkFrame,
    DoneFrame,
    FailedFrame,
    Frame,
    FrameReader,
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

TEXT = st.text(max_size=40)
COUNT = st.integers(0, 2**63 - 1)
MONEY = st.floats(0, 1e6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
CALLS = st.lists(st.builds(CalledTool, TEXT, TEXT, TEXT), max_size=3).map(tuple)
OUTCOME = st.builds(ToolOutcome, TEXT, TEXT, st.booleans())
OUTCOMES = st.lists(OUTCOME, max_size=3).map(tuple)
SAID = st.lists(
    st.builds(ChildMessage, st.sampled_from(["user", "assistant", "tool"]), TEXT, CALLS, TEXT, st.booleans()),
    max_size=3,
).map(tuple)
TOOLS = st.lists(
    st.builds(OfferedTool, TEXT, TEXT, st.dictionaries(TEXT, JSON, max_size=3), st.booleans()), max_size=3
).map(tuple)
FRAMES: st.SearchStrategy[Frame] = st.one_of(
    st.builds(
        InitFrame,
        TEXT,
        TEXT,
        COUNT,
        st.builds(ProcessLimits, COUNT, COUNT, COUNT, COUNT, COUNT),
        TEXT,
        TEXT,
        TEXT,
        SAID,
        TOOLS,
        TEXT,
        COUNT,
    ),
    st.builds(ModelDelta, TEXT, TEXT),
    st.builds(ModelResult, TEXT, TEXT, CALLS, COUNT, COUNT, MONEY, TEXT, st.booleans(), OUTCOMES),
    OUTCOME,
    st.builds(CancelFrame, TEXT),
    st.builds(ReadyFrame, COUNT, TEXT, COUNT),
    st.builds(ChunkFrame, TEXT),
    st.builds(ModelCall, TEXT, SAID, st.lists(TEXT, max_size=3).map(tuple), TEXT),
    st.builds(ToolCallFrame, TEXT, TEXT, TEXT),
    st.builds(DoneFrame, st.booleans(), TEXT, COUNT, COUNT, MONEY, COUNT),
    st.builds(FailedFrame, TEXT),
)
NEARLY_JSON = st.text(st.sampled_from('{}[]":,\\u0d8e+-.NaInfity\x00\t \r'), max_size=40)
NOISE = st.one_of(
    NEARLY_JSON.map(str.encode),
    NEARLY_JSON.map(lambda text: b'{"type":"tool_call","id":' + text.encode() + b"}"),
    st.binary(max_size=30).map(lambda noise: noise.replace(b"\n", b"\r")),
    JSON.map(lambda value: json.dumps(value).encode()),
    st.dictionaries(TEXT, JSON, max_size=3).map(lambda row: json.dumps({"type": "tomorrows", **row}).encode()),
)


def read(pieces: list[bytes]) -> list[Frame | Unread]:
    reader = FrameReader()
    return [found for piece in pieces for found in reader.feed(piece)] + reader.end()


def split(wire: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(wire), *(cut % (len(wire) + 1) for cut in cuts)})
    return [wire[start:end] for start, end in pairwise(places)]


@given(FRAMES)
def test_every_frame_is_one_line_and_reads_as_it_was(frame: Frame) -> None:
    line = encoded(frame)
    assert line.index(b"\n") == len(line) - 1
    assert line.decode("utf-8")
    assert read([line]) == [frame]


@given(st.lists(FRAMES, max_size=4), st.lists(st.integers(0), max_size=8))
def test_no_split_of_the_bytes_changes_what_is_read(frames: list[Frame], cuts: list[int]) -> None:
    wire = b"".join(map(encoded, frames))
    assert read(split(wire, cuts)) == frames
    assert read([bytes([byte]) for byte in wire]) == frames


@given(st.lists(st.tuples(NOISE, FRAMES), max_size=4), st.lists(st.integers(0), max_size=8))
def test_noise_between_lines_costs_no_frame(lines: list[tuple[bytes, Frame]], cuts: list[int]) -> None:
    wire = b"".join(noise + b"\n" + encoded(frame) for noise, frame in lines)
    found = read(split(wire, cuts))
    assert [each for each in found if not isinstance(each, Unread)] == [frame for _, frame in lines]
    assert len(found) <= 2 * len(lines)


@given(st.lists(FRAMES, max_size=4), st.lists(st.integers(0), max_size=8))
def test_lines_may_end_as_elsewhere_and_be_indented(frames: list[Frame], cuts: list[int]) -> None:
    wire = b"".join(b" \t" + encoded(frame)[:-1] + b"\r\n" for frame in frames)
    assert read(split(wire, cuts)) == frames


@given(FRAMES, JSON)
@example(CancelFrame("x"), {"type": "init"})
def test_a_field_that_nobody_knows_is_passed_over(frame: Frame, value: object) -> None:
    row = {"field of tomorrow": value, **json.loads(encoded(frame))}
    assert read([json.dumps(row).encode() + b"\n"]) == [frame]


@given(FRAMES, st.data())
def test_whatever_stands_in_a_field_the_frame_is_read_or_refused(frame: Frame, data: st.DataObject) -> None:
    """One line in, one value out; never an exception."""
    row = json.loads(encoded(frame))
    holder, name = data.draw(st.sampled_from(list(_places(row))))
    holder[name] = data.draw(JSON)
    assert len(read([json.dumps(row).encode() + b"\n"])) == 1


def _places(value: object) -> Iterator[tuple[dict[str, object], str]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield value, name
            yield from _places(inner)
