"""What tools put out, in words that can be passed on: of any length, and from tools that failed. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from agent.limits import TOOL_RAW_CHARS_MAX
from gateway.scrub.cutting import head

_TOO_LONG: Final = "\n[… the rest of {chars} characters is lost: ask for less at once …]"


def readable(raw: str) -> str:
    """What a tool returned, at most TOOL_RAW_CHARS_MAX characters of it, and with every half of a surrogate pair
    replaced, which no database takes."""
    if len(raw) > TOOL_RAW_CHARS_MAX:
        raw = head(raw, TOOL_RAW_CHARS_MAX) + _TOO_LONG.format(chars=len(raw))
    return raw.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def failure_note(failures: Iterable[tuple[str, str]]) -> str:
    """The note on tools that failed: the name of each and, in one line, what it said."""
    lines = [f"- {name[:64]}: {said}" for name, said in failures]
    return "\n".join(
        [
            "<tool-failures>",
            *lines,
            "Find the cause before you try again: the same call fails the same way.",
            "</tool-failures>",
        ]
    )
