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
"""A longer unit is cut here, in a stream and in a whole text alike: nothing may wait for ever."""

CONTEXT_CHARS: Final = 64
"""How far a rule may look back: a stream keeps this much of what it already gave away."""

CJK: Final = "\u2e80-\u2fff\u3040-\u318f\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
HARD: Final = (
    r"\s\u2013-\u2015\u2018-\u201f\u2026\u3000-\u303f\u00ab\u00bb\uff0c\uff1b\uff01\uff1f\uff08\uff09\uff5f-\uff65"
)

UNIT_END: Final = rf"(?=[{HARD}{CJK}]|\Z)"
"""For a pattern that asks whether a run ends: true at the border of a closed unit as it is within a whole text."""

_LAST_BORDER: Final = re.compile(
    f"(?s:.*)(?:[{HARD}]|(?<=[{CJK}])(?=[^{CJK}])|(?<=[^{CJK}])(?=[{CJK}]))",
)


def closed_until(text: str, start: int, end: int) -> int:
    """The end of the last closed unit in `text[start:end]`, `start` if there is none."""
    border = _LAST_BORDER.match(text, start, end)
    return border.end() if border else start
