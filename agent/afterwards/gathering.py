"""What a model is given to find lasting facts in, and what is made of its answer. Pure (agent.md section 9)."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, Final

from agent.limits import (
    GATHER_CHARS_MAX,
    GATHER_REQUESTS_MAX,
    GATHERED_FACT_CHARS_MAX,
    GATHERED_FACTS_MAX,
    GATHERED_REPLY_CHARS_MAX,
)
from agent.model.client import PromptMessage
from gateway.contracts.alongside import words_in
from gateway.contracts.entries import Entry, EntryKind, Role
from gateway.contracts.messages import CleanText, clipped, joined, own_words

_SPEAKERS: Final = {Role.USER: own_words("User: "), Role.ASSISTANT: own_words("Assistant: ")}
_CHARS_MAX: Final = {Role.USER: GATHER_CHARS_MAX, Role.ASSISTANT: GATHERED_REPLY_CHARS_MAX}


def said_by_people(entries: Iterable[Entry]) -> list[Entry]:
    """What can hold a fact: words of the user, and the answers that they are about. No tool results: what a page
    or a file says is no fact about the user, nor what somebody else is quoted with."""
    return [
        entry
        for entry in entries
        if entry.kind is EntryKind.MESSAGE
        and entry.role in _SPEAKERS
        and not entry.is_undone
        and words_in(entry.text).strip()
    ]


def gathering_requests(said: Sequence[Entry], known: Sequence[CleanText]) -> list[tuple[PromptMessage, ...]]:
    """The conversation in parts that a small model can read, oldest first; of a very long one the newest parts.
    Nothing where the user said nothing."""
    parts: list[list[CleanText]] = []
    room = 0
    for entry in said:
        line = joined(_SPEAKERS[entry.role], clipped(words_in(entry.text), _CHARS_MAX[entry.role]))
        if len(line) > room:
            parts.append([])
            room = GATHER_CHARS_MAX
        parts[-1].append(line)
        room -= len(line)
    told = _block(own_words("<known>"), known, own_words("</known>"))
    asked = [
        [*told, *_block(own_words("<conversation>"), part, own_words("</conversation>"))]
        for part in parts[-GATHER_REQUESTS_MAX:]
        if any(line.startswith(_SPEAKERS[Role.USER]) for line in part)
    ]
    return [(PromptMessage(Role.USER, joined(*lines, by="\n")),) for lines in asked]


def _block(opening: CleanText, lines: Sequence[CleanText], closing: CleanText) -> list[CleanText]:
    return [opening, *lines, closing] if lines else []


def facts_in(answer: str) -> list[str]:
    """The facts in a model's answer: whatever else it wrote is no fact. Still to be scrubbed."""
    found: dict[str, None] = {}
    for line in answer.splitlines():
        fact = _fact_in(line.strip().strip("`,"))
        if fact:
            found[fact] = None
    return list(found)[:GATHERED_FACTS_MAX]


def _fact_in(line: str) -> str:
    """One line, "" if it is none of ours, or no fact of a sensible size: half a fact may say the opposite."""
    if not line.startswith("{"):
        return ""
    try:
        written: Any = json.loads(line)
    except (ValueError, RecursionError):
        return ""
    text = written.get("fact") if isinstance(written, dict) else None
    if not isinstance(text, str):
        return ""
    plain = "".join(char if unicodedata.category(char)[0] != "C" else " " for char in text)
    fact = " ".join(plain.split())
    return fact if len(fact) <= GATHERED_FACT_CHARS_MAX else ""
