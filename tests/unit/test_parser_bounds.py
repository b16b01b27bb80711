"""Whatever reads a model's or a person's text on an event loop is quick at its bound: nobody else waits for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from agent.features.memory.consolidation import facts_in
from agent.features.plans import BadPlan, read_plan
from agent.features.schedules.times import read_request, read_time
from agent.features.titles import sanitize_title
from agent.limits import (
    PLAN_ANSWER_CHARS_MAX,
    REPAIRED_CHARS_MAX,
    SCHEDULE_PHRASE_CHARS_MAX,
    TITLE_OUTPUT_CHARS_MAX,
    TOOL_ARGUMENTS_CHARS_MAX,
)
from agent.models.transcript import tone_of
from agent.subagents.strategies import BadParts, read_parts, read_verdict
from agent.tools.arguments import cleaned, parse_arguments, written_out
from agent.tools.files.patch import parse_patch
from agent.tools.files.tools import READING, WRITING
from agent.tools.registry import Fitting
from agent.tools.results import unframed
from agent.tools.secrets import placeholders_in
from gateway.contracts.commands import find_command
from gateway.contracts.errors import ToolError
from gateway.contracts.messages import CleanText
from gateway.limits import INBOUND_CHARS_MAX

CPU_S: Final = 0.1
NOW: Final = datetime(2026, 1, 5, 12, tzinfo=UTC)
UNITS: Final = (
    *("{", "[", '"', "'", "\\", "(", ")", "<", ">", "`", "*", "_", "-", "#", "|", "/", "a", " ", "\n", "\t", "1", ":"),
    *(
        '{"a":',
        '["a" ',
        '"a"',
        "a:",
        "a,",
        '",',
        '":',
        '["a"”',
        "{}",
        "[1,",
        "```json ",
        "<think>",
        "</think",
        "[a](",
        "**a",
    ),
    *(
        "<foreign mark=a>\n",
        "--- a\n+++ b\n",
        "@@ -1 +1 @@\n-a\n+a\n",
        "@@ -1 +1 @@\n",
        "every 1 day ",
        "at 1 ",
        "in 1 h ",
    ),
    *(
        "\\u0061",
        "[redacted:",
        "A",
        "ugh ",
        "a+rg",
        "still ",
        "[ERROR",
        "é",
        "\u0301",
        "👨‍👩‍👧",
        "\u200b",
        "/a ",
        "/a@",
    ),
)
STARTS: Final = ("", '{"a": ["')
ENDS: Final = ("", '"}')


def _texts(chars: int, *, of_prose: bool) -> Iterator[str]:
    """For what reads no JSON, no beginning or end of it: its worst texts have none."""
    for start in STARTS[:1] if of_prose else STARTS:
        for unit in UNITS:
            for end in ENDS[:1] if of_prose else ENDS:
                yield start + (unit * chars)[: chars - len(start) - len(end)] + end


def _checked(schema: Any) -> Callable[[str], object]:
    return Fitting(schema).arguments


def _as_is(text: str) -> CleanText:
    return CleanText(text)


PARSERS: Final[dict[str, tuple[int, Callable[[str], object]]]] = {
    "broken arguments": (REPAIRED_CHARS_MAX, parse_arguments),
    "arguments": (TOOL_ARGUMENTS_CHARS_MAX, parse_arguments),
    "clean arguments": (TOOL_ARGUMENTS_CHARS_MAX, lambda text: cleaned(text, _as_is)),
    "arguments written out": (TOOL_ARGUMENTS_CHARS_MAX, written_out),
    "placeholders": (TOOL_ARGUMENTS_CHARS_MAX, lambda text: placeholders_in({"a": text})),
    **{f"{tool.name} fits": (TOOL_ARGUMENTS_CHARS_MAX, _checked(tool.schema)) for tool in (*READING[:1], *WRITING[:1])},
    "the files of a patch": (TOOL_ARGUMENTS_CHARS_MAX, parse_patch),
    "a plan": (PLAN_ANSWER_CHARS_MAX, read_plan),
    "a verdict": (INBOUND_CHARS_MAX, read_verdict),
    "parts": (INBOUND_CHARS_MAX, lambda text: read_parts(text, types=["a"], otherwise="a", parts_max=3)),
    "facts": (INBOUND_CHARS_MAX, facts_in),
    "a title": (TITLE_OUTPUT_CHARS_MAX, lambda text: sanitize_title(text, _as_is)),
    "a command": (INBOUND_CHARS_MAX, find_command),
    "a command in a channel": (INBOUND_CHARS_MAX, find_command),
    "a tone": (INBOUND_CHARS_MAX, tone_of),
    "a frame": (INBOUND_CHARS_MAX, unframed),
    "a time": (SCHEDULE_PHRASE_CHARS_MAX, lambda text: read_time(text, now=NOW, zone=UTC)),
    "a request": (INBOUND_CHARS_MAX, lambda text: read_request(text, now=NOW, zone=UTC)),
}
PROSE: Final = frozenset({"a title", "a tone", "a time", "a request", "a question", "a repeatable question"})


def _spent_s(parse: Callable[[str], object], text: str) -> float:
    began_s = time.process_time()
    with suppress(ToolError, BadPlan, BadParts, ValueError):
        parse(text)
    return time.process_time() - began_s


@pytest.mark.parametrize("name", PARSERS)
def test_a_parser_is_quick_at_its_bound(name: str) -> None:
    chars, parse = PARSERS[name]
    worst_s, worst = 0.0, ""
    for text in _texts(chars, of_prose=name in PROSE):
        took_s = _spent_s(parse, text)
        if took_s >= CPU_S:
            took_s = _spent_s(parse, text)  # the garbage of the tests before may have been collected in the first
        if took_s > worst_s:
            worst_s, worst = took_s, text[:60]
    assert worst_s < CPU_S, f"{worst_s * 1000:.0f} ms for {worst!r}"
