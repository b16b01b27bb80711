"""What people read when they are asked, and what they are told afterwards. CommonMark, without filler. Pure.

What a model wrote stands in a fence that it cannot close: nothing in it can pass for a word of ours.
"""

from __future__ import annotations

import json
import re
from typing import Final

from gateway.contracts.messages import ControlKind

QUESTION_PREFIX: Final = "ask:"
"""How the ids of questions, and of all that belongs to them, begin."""

_TICKS: Final = re.compile(r"`+")
_NAME_MARKS: Final = re.compile(r"[^\w .-]")

_CLAUSES: Final = {
    "read": "It reads.",
    "write": "It changes files or data.",
    "execute": "It runs a program.",
    "network": "It reaches out to the network.",
    "spend": "It spends money.",
}


def tool_question(tool: str, risk: str, arguments: str, *, chars_max: int) -> str:
    """May this call run? Of longer arguments the beginning is shown, and how much is missing is said."""
    written = _indented(arguments)
    shown = written[:chars_max]
    note = "" if shown == written else f"\n\n{len(written) - len(shown):,} more characters are not shown."
    return f"May I run `{_plain(tool)}`? {_CLAUSES.get(risk, '')}\n\n{_fenced(shown)}{note}"


def question_text(text: str, code: str, *, minutes: int) -> str:
    """The question with the words that answer it."""
    return f"{text}\n\nWaits {_minutes(minutes)} for `/approve {code}` or `/deny {code}`."


def ended_text(question: str, ending: str) -> str:
    """What stands in the place of a `question_text` once it is settled: how it ended instead of how to answer."""
    asked, _, _ = question.rpartition("\n\n")
    return f"{asked}\n\n{ending}"


def ending_by(kind: ControlKind, name: str) -> str:
    """How a person settled it."""
    return f"**{_SETTLED[kind]}** by {_plain(name)}."


_SETTLED: Final = {ControlKind.APPROVE: "Approved", ControlKind.DENY: "Denied"}

EXPIRED: Final = "**Nobody answered in time**, so it was not done."
WITHDRAWN: Final = "**No longer open.**"

DONE_WORDS: Final = {kind: f"{word}." for kind, word in _SETTLED.items()}
NOT_OPEN_WORD: Final = "This question is no longer open."
NOT_YOURS_WORD: Final = "Only the person I asked, or an admin, can answer this."
NO_CODE_WORD: Final = "Say which question, with the code that stands under it: `/approve CODE` or `/deny CODE`."


def settled_word(ending: str) -> str:
    """For whoever comes too late, with another answer."""
    return f"That is settled already. {ending}"


def _minutes(count: int) -> str:
    return "1 minute" if count <= 1 else f"{count} minutes"


def _plain(name: str) -> str:
    """A name in our sentence: none of its characters formats anything."""
    return " ".join(_NAME_MARKS.sub(" ", name).split()) or "somebody"


def _indented(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments or "{}"), ensure_ascii=False, indent=1)
    except (ValueError, RecursionError):
        return arguments


def _fenced(text: str) -> str:
    longest = max((len(ticks) for ticks in _TICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"
