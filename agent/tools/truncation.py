"""Long texts made short: the head and the tail stay, whole graphemes only. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

import regex

_GRAPHEME: Final = regex.compile(r"\X")
_READS_ON: Final = '\n[… {count} characters left out; read_more with handle "{handle}" and offset {start} reads on …]\n'
_LEFT_OUT: Final = "\n[… {count} characters left out{advice} …]\n"
_MARK_CHARS: Final = 120  # of either, with its numbers and without handle and advice
_RUN_UP: Final = 256  # characters before a cut that decide where graphemes begin; no writing has longer ones


class Pieces(NamedTuple):
    """What is left of a long text: `text[:head_end]` and `text[tail_start:]`."""

    head_end: int
    tail_start: int


def abridged(text: str, chars_max: int, *, handle: str = "", advice: str = "") -> str:
    """`text` in at most `chars_max` characters: the middle goes, and a mark says how much of it, and how to read on
    where there is a `handle`, else the `advice`. Where there is room for no mark, only the head stays."""
    if len(text) <= chars_max:
        return text
    room = chars_max - _MARK_CHARS - len(handle or advice)
    if room <= 0:
        return text[: grapheme_start(text, chars_max)]
    head_end, tail_start = pieces(room, text)
    form = _READS_ON if handle else _LEFT_OUT
    mark = form.format(count=tail_start - head_end, handle=handle, start=head_end, advice=advice)
    return text[:head_end] + mark + text[tail_start:]


def pieces(length: int, text: str) -> Pieces:
    """Where to cut `text` so that head and tail together have at most `length` characters.

    Two thirds go to the head, where most tools say what matters. Both cuts are at the edge of a grapheme.
    """
    head_end = grapheme_start(text, length - length // 3)
    tail_start = len(text) - length // 3
    started = grapheme_start(text, tail_start)
    if started < tail_start:
        started = _next_start(text, started)
    return Pieces(head_end, max(started, head_end))


def grapheme_start(text: str, at: int) -> int:
    """The last edge of a grapheme that is not behind `at`."""
    if at <= 0 or at >= len(text):
        return max(0, min(at, len(text)))
    edge = _safe_start(text, at)
    for found in _GRAPHEME.finditer(text, edge):
        if found.end() > at:
            return at if found.start() == at else max(found.start(), edge)
        edge = found.end()
    return edge


def _next_start(text: str, start: int) -> int:
    found = _GRAPHEME.match(text, start)
    return found.end() if found else len(text)


def _safe_start(text: str, at: int) -> int:
    """Where to begin counting: an ASCII letter, digit or line end begins a grapheme in any company."""
    for start in range(at - 1, max(0, at - _RUN_UP), -1):
        if text[start] == "\n" and text[start - 1] != "\r":
            return start
        if text[start].isascii() and text[start].isalnum() and text[start - 1].isascii():
            return start
    return max(0, at - _RUN_UP)
