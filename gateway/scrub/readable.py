"""Which files are text, and how their bytes are read: UTF-8 and what looks like it byte by byte, UTF-16 and UTF-32 with
a mark, UTF-16 without one. Pure."""

from __future__ import annotations

import codecs
import re
from typing import Final

_BINARY: Final = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_UNPRINTABLE: Final = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_MARKED: Final = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""The longer marks first: the one of UTF-16 begins that of UTF-32."""
_LOOKED_AT: Final = 4_096  # bytes at the beginning: what a text is written in is plain by then
_PLAIN_SHARE: Final = 0.4  # of UTF-16 that is mostly Latin, half of all bytes are zero, and always the same half


def is_text(content: bytes) -> bool:
    """True for what people read: no character of control but tabs, line ends and the escapes of terminals."""
    return not _BINARY.search(content) or _in_wide_letters(content) is not None


def decoded(content: bytes) -> tuple[str, str]:
    """A text, its mark included, and its encoding: encoded again it is what it was. What is no UTF-8 is read byte by
    byte: a secret and its placeholder are ASCII in every such encoding."""
    if _BINARY.search(content) and (wide := _in_wide_letters(content)) is not None:
        return wide
    try:
        return content.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        return content.decode("latin-1"), "latin-1"


def wide_encoding(content: bytes) -> str | None:
    """The encoding of what begins like a text whose letters take several bytes each; None for anything else."""
    for mark, encoding in _MARKED:
        if content.startswith(mark):
            return encoding
    first = content[:_LOOKED_AT]
    if len(first) < 2 or len(content) % 2:
        return None
    half = len(first) // 2
    even, odd = first[0::2].count(0) / half, first[1::2].count(0) / half
    if odd > _PLAIN_SHARE and not even:
        return "utf-16-le"
    return "utf-16-be" if even > _PLAIN_SHARE and not odd else None


def _in_wide_letters(content: bytes) -> tuple[str, str] | None:
    """Not what only happens to begin like a text."""
    encoding = wide_encoding(content)
    if encoding is None:
        return None
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        return None
    return None if _UNPRINTABLE.search(text) else (text, encoding)
