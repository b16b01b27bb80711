"""A wish for sub-agents in plain words, of the five languages that Trivet speaks. Pure.

Split this over three helpers: count the files, list the folders, find the tests
Use 4 sub-agents in the background to compare frameworks
Teile das auf drei Helfer auf: lies die Dateien; suche die Tests; fasse zusammen
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_SIDE_BY_SIDE: Final = re.compile(
    r"\bin parallel\b|\bat the same time\b|\bside by side\b|\bparallel\b|\bgleichzeitig\b|\ben paralelo\b"
    r"|\bпараллельно\b|\bодновременно\b|并行|同时",
    re.IGNORECASE,
)
_BEHIND: Final = re.compile(
    r"\bin the background\b|\bim hintergrund\b|\ben segundo plano\b|\bв фоне\b|在?后台", re.IGNORECASE
)
_NUMBERS: Final = (
    "two|zwei|dos|два|две|двух|двум|двоих|两|二",
    "three|drei|tres|три|трёх|трех|трём|трем|троих|三",
    "four|vier|cuatro|четыре|четырёх|четырех|四",
    "five|fünf|cinco|пять|пяти|五",
    "six|sechs|seis|шесть|шести|六",
    "seven|sieben|siete|семь|семи|七",
    "eight|acht|ocho|восемь|восьми|八",
    "nine|neun|nueve|девять|девяти|九",
)
_NUMBER: Final = {word: number for number, words in enumerate(_NUMBERS, 2) for word in words.split("|")}
_COUNT: Final = re.compile(
    rf"\b[2-9]\b|[2-9](?=[个位])|\b(?:{'|'.join(_NUMBERS)})\b|[两二三四五六七八九](?=[个位])", re.IGNORECASE
)
_HELPER: Final = re.compile(
    r"\b(?:sub|unter)-?\s?agent\w*|\b(?:суб|под)-?агент\w*|子代理|子智能体"
    rf"|(?:{_COUNT.pattern})\s+(?:helpers|workers|assistants|children|helfern?|gehilfen|ayudantes|помощник\w*)\b"
    r"|[2-9两二三四五六七八九][个位](?:助手|帮手)",
    re.IGNORECASE,
)
_COLON: Final = re.compile(r"[:：]\s*")
_STRONG: Final = re.compile(r"\s*[|;；]\s*|\s*\n\s*(?:[-*•]|\d+[.)])?\s*")
_WEAK: Final = re.compile(r"\s*[,，、]\s*(?:and|und|y|и)?\s+|\s*[,，、]\s*|\s+(?:and|und|y|и)\s+|(?<=\S)和(?=\S)")
_LINK: Final = re.compile(
    r"\A\W*(?:(?:to|for|and|who|which|that|um|zu|und|für|die|der|para|que|y|чтобы|и|для|которые|来|去)\s+|[来去])?",
    re.IGNORECASE,
)
_QUESTION: Final = re.compile(r"[?？]\s*\Z")
_OTHERWISE: Final = 3
_PARTS_MAX: Final = 9


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be done, in parts that do not wait for each other; `in_background`: nobody waits for them."""

    parts: tuple[str, ...]
    in_background: bool = False


def wish(said: str) -> Wish | None:
    """What is wished for; None where no sub-agents are wished for, or are only asked about."""
    is_listed = len(_listed(_behind_colon(said))) > 1
    if not is_listed and (_HELPER.search(said) is None or (_QUESTION.search(said) and not _COUNT.search(said))):
        return None
    if is_listed and _HELPER.search(said) is None and _SIDE_BY_SIDE.search(said) is None:
        return None
    return Wish(parts_of(said), _BEHIND.search(said) is not None)


def parts_of(said: str) -> tuple[str, ...]:
    """The parts that a job is split into: those that are listed behind a colon, else as many as are wished for."""
    parts = _listed(_behind_colon(said))
    if len(parts) > 1:
        return parts
    counted = _COUNT.search(_COLON.split(said, maxsplit=1)[0])
    number = _number(counted[0]) if counted else _OTHERWISE
    job = parts[0] if parts else _job(said)
    return tuple(f"part {at} of {number}: {job}" for at in range(1, number + 1))


def _behind_colon(said: str) -> str:
    return _COLON.split(said, maxsplit=1)[-1] if _COLON.search(said) else ""


def _listed(text: str) -> tuple[str, ...]:
    """By bars, semicolons and lines if there are any, else by commas and the last `and`."""
    strong = _told(_STRONG.split(text.strip()))
    return (strong if len(strong) > 1 else _told(_WEAK.split(text.strip())))[:_PARTS_MAX]


def _told(parts: Sequence[str]) -> tuple[str, ...]:
    stripped = (part.strip(" \t\r\n.。-*•") for part in parts)
    return tuple(part for part in stripped if part)


def _job(said: str) -> str:
    """What they are to do: what stands behind the word for them, else everything."""
    named = _HELPER.search(said)
    behind = _LINK.sub("", _BEHIND.sub("", said[named.end() :]).strip()) if named else ""
    return behind.strip(" .。!?") or said


def _number(word: str) -> int:
    return int(word) if word.isdigit() else _NUMBER[word.lower()]
