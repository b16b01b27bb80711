"""The note after a round with failures: what failed, in the model's ear, so that it looks for the cause. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from agent.limits import NOTE_CHARS_MAX
from agent.tools.tool import ToolResult
from agent.tools.truncation import grapheme_start
from gateway.contracts.messages import CleanText
from gateway.contracts.ports import Scrubber


def correction_note(results: Sequence[ToolResult], scrubber: Scrubber) -> CleanText | None:
    """One note on all failures of a round, None if there are none.

    It repeats results that are clean already, and is scrubbed all the same: the calls' names are the model's.
    """
    failures = [result for result in results if result.is_error]
    if not failures:
        return None
    lines = [f"- {result.name[:64]}: {_in_short(result.text)}" for result in failures]
    return scrubber.scrub(
        "\n".join(
            [
                "<tool-failures>",
                *lines,
                "Find the cause before you try again: the same call fails the same way.",
                "</tool-failures>",
            ]
        )
    )


def _in_short(text: str) -> str:
    line = " ".join(text[: 8 * NOTE_CHARS_MAX].split())
    if len(line) <= NOTE_CHARS_MAX:
        return line
    return line[: grapheme_start(line, NOTE_CHARS_MAX - 1)] + "…"
