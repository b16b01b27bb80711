"""Pieces of a raw text that may be cut before they are scrubbed: a cut through a secret leaves no half of it. Pure.

Whoever can, scrubs first and cuts then. Where a text is longer than anybody will read, what the cut may have gone
through goes with it, whatever it is: the run of characters at the edge, the word before it, which may be the first line
of a wrapped token, the rest of a key file. No rule is asked: a sub-agent's process, which cuts, has none.
"""

from __future__ import annotations

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
KEY_MARK: Final = "-----BEGIN "
"""Nothing in a text without it is a key."""

_KEY_BEGINS: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY")
_KEY_LINES_MAX: Final = 400  # of a key file; a beginning without an end is not followed further
_KEY_EDGE: Final = re.compile(r"-----(BEGIN|END)[A-Z0-9 ]{0,64}-----")


def head(text: str, chars_max: int) -> str:
    """The beginning of a raw text, of at most so many characters; all of a text that is no longer."""
    return text if len(text) <= chars_max else without_broken_end(text[:chars_max])


def without_broken_end(text: str) -> str:
    """A beginning that somebody cut off somewhere, without what may be half a secret."""
    whole = text[:-EDGE_CHARS_MAX] + text[-EDGE_CHARS_MAX:].rstrip(_VISIBLE)
    if whole.endswith(tuple(_VISIBLE)):
        return whole
    told = whole.rstrip(_WRAP)
    return told[: len(told) - len(_NO_TOKEN.split(told[-_LINE_CHARS_MAX:])[-1])]


def without_broken_start(text: str) -> str:
    """The end of a raw text whose beginning was cut off, without what may be the second half of a secret."""
    broken = _FIRST_RUN.match(text)
    run_end = broken.end() if broken else 0
    edge = _KEY_EDGE.search(text)
    if edge is not None and edge[1] == "END":
        return text[edge.end() :]
    if edge is not None and edge.start() < run_end:
        return text[edge.start() :]
    return text[run_end:]


def key_starts(lines: Iterable[str]) -> Iterator[int]:
    """For each line of a text: where the private key begins that it is a part of, else the line's own number, from 0.
    A line of a key has no looks to be told by: it may be shown with the key's beginning, or not at all."""
    begun: int | None = None
    for at, line in enumerate(lines):
        if begun is not None and at - begun > _KEY_LINES_MAX:
            begun = None
        if begun is None and KEY_MARK in line and _KEY_BEGINS.search(line):
            begun = at
        yield at if begun is None else begun
        if "-----END" in line:
            begun = None
