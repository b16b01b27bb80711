"""Estimates of prompt sizes, and words for outputs that are long, old or failed. Pure and light."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from agent.limits import TOOL_RAW_CHARS_MAX
from gateway.contracts.errors import FailureCause
from gateway.scrub.raw_text import head

if TYPE_CHECKING:
    from gateway.contracts.sessions import Entry


_CHARS_PER_TOKEN: Final = 4.0
_WIDE_CHARS_PER_TOKEN: Final = 1.5
_NARROW: Final = re.compile("[\x00-\u2e7f]+")  # before the CJK radicals: from there on a character is most of a token
_ENTRY_OVERHEAD_TOKENS: Final = 4  # role and separators


def estimate_tokens(text: str) -> int:
    """Estimate characters / 4, and / 1.5 for CJK text. Never zero for a text that is not empty."""
    wide = 0 if text.isascii() else len(_NARROW.sub("", text))
    tokens = (len(text) - wide) / _CHARS_PER_TOKEN + wide / _WIDE_CHARS_PER_TOKEN
    return int(tokens) + (1 if text else 0)


def entry_tokens(entry: Entry) -> int:
    """Estimate one entry in a prompt, tool calls included."""
    calls = sum(estimate_tokens(call.arguments) + estimate_tokens(call.name) for call in entry.tool_calls)
    return estimate_tokens(entry.text) + calls + _ENTRY_OVERHEAD_TOKENS


def entries_tokens(entries: Iterable[Entry]) -> int:
    """Sum up `entry_tokens`."""
    return sum(map(entry_tokens, entries))


# The replacement for an old tool output. Pure, and light: it is loaded in sub-agents, too.


def stand_in(output: str) -> str:
    """Write the replacement for an output, in our own words and with nothing of the output in them but its size."""
    return f"<output pruned, ~{estimate_tokens(output)} tokens>"


# What tools put out, in words that can be passed on: of any length, and from tools that failed. Pure.


_TOO_LONG: Final = "\n[… the rest of {chars} characters is lost: ask for less at once …]"


def readable(raw: str) -> str:
    """Cut what a tool returned to TOOL_RAW_CHARS_MAX characters, and replace every unpaired half of a surrogate
    pair, which no database takes."""
    if len(raw) > TOOL_RAW_CHARS_MAX:
        raw = head(raw, TOOL_RAW_CHARS_MAX) + _TOO_LONG.format(chars=len(raw))
    return raw.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


_FAILS_AGAIN: Final = "The same call fails the same way. Find the cause first:"
_ADVICE: Final = {
    FailureCause.ARGUMENTS: "Wrong arguments: correct them by the tool's schema and by what the error says.",
    FailureCause.PREREQUISITE: "Something is not as the call assumed: look first, put that right, then call again.",
    FailureCause.BUSY: "Out of time or rate-limited: ask for less or try once more, then go on without it.",
    FailureCause.REFUSED: "Not to be had: do not call it again. Use another tool, or say what cannot be done.",
}


def failure_note(failures: Iterable[tuple[str, str]], causes: Iterable[FailureCause] = ()) -> str:
    """Write the note on tools that failed: the name of each and, in one line, what it said; then what to do about each
    of their `causes`, or (none is known) about any."""
    lines = [f"- {name[:64]}: {said}" for name, said in failures]
    known = set(causes) or set(FailureCause)
    advice = (text for cause, text in _ADVICE.items() if cause in known)
    return "\n".join(["<tool-failures>", *lines, _FAILS_AGAIN, *advice, "</tool-failures>"])
