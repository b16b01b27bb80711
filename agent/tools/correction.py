"""The note after a round with failures: what failed, in the model's ear, so that it looks for the cause. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from agent.limits import NOTE_CHARS_MAX
from agent.tools.framing import unframed
from agent.tools.outputs import failure_note
from agent.tools.tool import ToolResult
from agent.tools.truncation import grapheme_start
from gateway.contracts.messages import CleanText
from gateway.contracts.ports import Scrubber


def correction_note(results: Sequence[ToolResult], scrubber: Scrubber) -> CleanText | None:
    """One note on all failures of a round, None if there are none.

    It repeats results that are clean already, and is scrubbed all the same: the calls' names are the model's.
    """
    failures = [(result.name, _in_short(result.text)) for result in results if result.is_error]
    return scrubber.scrub(failure_note(failures)) if failures else None


def _in_short(text: str) -> str:
    """The frame of foreign text is longer than what is quoted of it: so few words are said to be others'."""
    foreign = unframed(text)
    said = text if foreign is None else f"(written by others) {foreign}"
    line = " ".join(said[: 8 * NOTE_CHARS_MAX].split())
    if len(line) <= NOTE_CHARS_MAX:
        return line
    return line[: grapheme_start(line, NOTE_CHARS_MAX - 1)] + "…"
