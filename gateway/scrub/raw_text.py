"""Raw text before it is scrubbed: which files are text, and cuts that leave no half of a secret. Pure.

Whoever can, scrubs first and cuts then. Where a text is longer than anybody will read, what the cut may have gone
through goes with it, whatever it is: the run of characters at the edge, the word before it, which may be the first line
of a wrapped token, the rest of a key file. No rule is asked: a sub-agent's process, which cuts, has none."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from typing import Final

EDGE_CHARS_MAX: Final = 4_096  # of one run at a cut: longer ones are no token but a page without spaces
_VISIBLE: Final = "".join(map(chr, range(ord("!"), ord("~") + 1)))
_FIRST_RUN: Final = re.compile(rf"\A[!-~]{{1,{EDGE_CHARS_MAX}}}")
_WRAP: Final = " \t\r\n\\=>|"  # what may stand between the two halves of a wrapped token
_LINE_CHARS_MAX: Final = 2_048  # of the first half
_NO_TOKEN: Final = re.compile(r"[\s\u0400-\u052f\u3041-\u3096\u30a1-\u30fa\u3400-\u9fff\uac00-\ud7a3]")
"""Between tokens, in whichever spelling: spaces, and letters of scripts that are no other form of ours."""
KEY_MARK: Final = "-----BEGIN "  # nothing in a text without it is a key
_KEY_BEGINS: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY")
_KEY_LINES_MAX: Final = 400  # of a key file; a beginning without an end is not followed further
_KEY_EDGE: Final = re.compile(r"-----(BEGIN|END)[A-Z0-9 ]{0,64}-----")


def head(text: str, chars_max: int) -> str:
    """Return the beginning of a raw text, at most so many characters; all of a text that is no longer."""
    return text if len(text) <= chars_max else without_broken_end(text[:chars_max])


def without_broken_end(text: str) -> str:
    """Return the beginning of a text that was cut somewhere, without what may be half a secret."""
    whole = text[:-EDGE_CHARS_MAX] + text[-EDGE_CHARS_MAX:].rstrip(_VISIBLE)
    if whole.endswith(tuple(_VISIBLE)):
        return whole
    told = whole.rstrip(_WRAP)
    return told[: len(told) - len(_NO_TOKEN.split(told[-_LINE_CHARS_MAX:])[-1])]


def without_broken_start(text: str) -> str:
    """Return the end of a raw text whose beginning was cut off, without what may be the second half of a secret."""
    broken = _FIRST_RUN.match(text)
    run_end = broken.end() if broken else 0
    edge = _KEY_EDGE.search(text)
    if edge is not None and edge[1] == "END":
        return text[edge.end() :]
    if edge is not None and edge.start() < run_end:
        return text[edge.start() :]
    return text[run_end:]


def key_starts(lines: Iterable[str]) -> Iterator[int]:
    """Yield for each line of a text where the private key begins that it is a part of, else the line's own number, from
    0. A line of a key has no form to be recognised by: it may be shown with the key's beginning, or not at all."""
    begun: int | None = None
    for at, line in enumerate(lines):
        if begun is not None and at - begun > _KEY_LINES_MAX:
            begun = None
        if begun is None and KEY_MARK in line and _KEY_BEGINS.search(line):
            begun = at
        yield at if begun is None else begun
        if "-----END" in line:
            begun = None


# Which files are text, and how their bytes are read: UTF-8 and what looks like it byte by byte, UTF-16 and UTF-32
# with a mark, UTF-16 without one. Pure.

_BINARY: Final = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_UNPRINTABLE: Final = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_MARKED: Final = (  # the longer marks first: the one of UTF-16 begins that of UTF-32
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_LOOKED_AT: Final = 4_096  # bytes at the beginning: what a text is written in is plain by then
_PLAIN_SHARE: Final = 0.4  # of UTF-16 that is mostly Latin, half of all bytes are zero, and always the same half


def is_text(content: bytes) -> bool:
    """Tell whether people can read it: no control character but tabs, line ends and the escapes of terminals."""
    return not _BINARY.search(content) or _in_wide_letters(content) is not None


def decoded(content: bytes) -> tuple[str, str]:
    """Decode a text, its byte order mark included; return it with its encoding: encoded again it is what it was. What
    is not UTF-8 is read byte by byte: a secret and its placeholder are ASCII in every such encoding."""
    if _BINARY.search(content) and (wide := _in_wide_letters(content)) is not None:
        return wide
    try:
        return content.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        return content.decode("latin-1"), "latin-1"


def wide_encoding(content: bytes) -> str | None:
    """Return the encoding of content that begins like a text whose letters take several bytes each; else None."""
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
    """Decode content in wide letters; None for content that only begins like it."""
    if (encoding := wide_encoding(content)) is None:
        return None
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        return None
    return None if _UNPRINTABLE.search(text) else (text, encoding)
