"""Bytes as text, where they are text: UTF-8 and UTF-16, with or without a mark; the rest letter by letter. Pure."""

from __future__ import annotations

import codecs
import re
from typing import Final

from gateway.scrub.readable import is_text

_MARKED: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""The longer marks first: the one of UTF-16 begins that of UTF-32."""
_LOOKED_AT: Final = 4_096  # bytes at the beginning: what a text is written in is plain by then
_PLAIN_SHARE: Final = 0.4  # of UTF-16 that is mostly Latin, half of all bytes are zero, and always the same half
_UNPRINTABLE: Final = re.compile("[\x00-\x08\x0e-\x1f\x7f]")


def text_in(content: bytes) -> str | None:
    """The text; None for what is none. A letter that nobody can read becomes a mark of replacement."""
    for mark, encoding in _MARKED:
        if content.startswith(mark):
            return _checked(content[len(mark) :].decode(encoding, errors="replace"))
    if (guessed := _unmarked(content)) is not None:
        return _checked(content.decode(guessed, errors="replace"))
    return content.decode("utf-8", errors="replace") if is_text(content) else None


def _unmarked(content: bytes) -> str | None:
    """UTF-16 that does not say so."""
    first = content[:_LOOKED_AT]
    if len(first) < 2 or len(content) % 2:
        return None
    half = len(first) // 2
    even, odd = first[0::2].count(0) / half, first[1::2].count(0) / half
    if odd > _PLAIN_SHARE and not even:
        return "utf-16-le"
    return "utf-16-be" if even > _PLAIN_SHARE and not odd else None


def _checked(text: str) -> str | None:
    """Not what only happens to begin like a text."""
    return None if _UNPRINTABLE.search(text[:_LOOKED_AT]) else text
