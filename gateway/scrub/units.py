"""Where a text may be cut without changing what is found in it.

A text is a sequence of units: runs of characters that words and tokens are made of, runs of Chinese,
Japanese or Korean characters, and single characters that are neither (spaces, CJK punctuation). A unit is
looked at only when it is closed, that is when the first character of the next one has been seen; so the
outcome cannot depend on how the text arrived.
"""

from __future__ import annotations

import re
from typing import Final

RUN_CHARS_MAX: Final = 16 * 1024
"""A longer unit is cut here, in a stream and in a whole text alike: nothing may wait for ever.

The cut is counted in characters, and a placeholder has not as many as its secret: of a text with such a unit a second
scrub may remove more than the first. Counting anew from each secret would mean to read every unit twice."""

CONTEXT_CHARS: Final = 128
"""How far a rule may look back: a stream keeps this much of what it already gave away."""

_CJK: Final = "\u2e80-\u2fff\u3040-\ud7ff"
_HARD: Final = (
    r"\s\u00ab\u00bb\u2013-\u2015\u2018-\u201f\u2026\u3000-\u303f\uff01\uff08\uff09\uff0c\uff1b\uff1f\uff5f-\uff65"
)
# spaces, dashes, typographic quotes, CJK punctuation: never part of a word or a token

_LAST_BORDER: Final = re.compile(
    f"(?s:.*)(?:[{_HARD}]|(?<=[{_CJK}])(?=[^{_CJK}])|(?<=[^{_CJK}])(?=[{_CJK}]))",
)
_UNIT: Final = re.compile(f"[{_CJK}]+|[^{_CJK}{_HARD}]+")


def closed_until(text: str, start: int, end: int) -> int:
    """The end of the last closed unit in `text[start:end]`, `start` if there is none."""
    border = _LAST_BORDER.match(text, start, end)
    return border.end() if border else start


def unit_end(text: str, at: int, end: int) -> int:
    """The end of the unit that the character `at` belongs to; `end` closes a unit."""
    unit = _UNIT.match(text, at, end)
    return unit.end() if unit else at + 1


def is_cjk(char: str) -> bool:
    """Is it written without spaces between words?"""
    return "\u2e80" <= char <= "\u2fff" or "\u3040" <= char <= "\ud7ff"
