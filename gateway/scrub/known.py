"""The process's own secrets, found wherever they appear and in whatever form they were wrapped.

This is the one tier that misses nothing: a value is searched as it is, escaped in any way (forms.py), in hex,
and in base64 at each of the three positions it can have inside a longer text; on one line or broken over several.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from gateway.scrub.finding import trie_of
from gateway.scrub.forms import Form, forms
from gateway.scrub.rules import Span

RULE: Final = "known"
VALUE_CHARS_MIN: Final = 6
"""A shorter value is a word, not a secret: hiding it would shred every text."""

_GAP: Final = re.compile(r"[=\\]{0,2}(?:\r\n?|\n)[ \t>|#*]{0,16}\Z")
_GAP_CHARS_MAX: Final = 20
_CUT_CHARS: Final = 3


class KnownValues:
    """Exact search for a fixed set of secrets. Empty is cheap."""

    __slots__ = ("_by_cut", "_crossing", "_every", "_finder")

    def __init__(self, values: Iterable[str] = ()) -> None:
        every = list(dict.fromkeys(form for value in values for line in _lines(value) for form in forms(line)))
        self._every = sorted(every, key=lambda form: len(form.plain), reverse=True)
        self._finder = re.compile(trie_of([form.head() for form in every])) if every else None
        self._crossing = [form for form in every if form.crosses_units]
        self._by_cut: dict[str, list[Form]] = {}
        for form in every:
            for cut in _cuts(form):
                self._by_cut.setdefault(cut, []).append(form)

    def spans(self, text: str, start: int, end: int) -> Iterator[Span]:
        """Every occurrence in `text[start:end]`, from left to right, none overlapping another."""
        if self._finder is None:
            return
        at = start
        while head := self._finder.search(text, at, end):
            at = head.start()
            stops = (form.end_in(text, at, end) for form in self._every if form.symbols[0].match(text, at, end))
            stop = next(filter(None, stops), None)
            if stop is not None:
                yield Span(at, stop, RULE)
            at = stop or at + 1

    def reaches_over(self, text: str, start: int, border: int, read_until: int) -> int:
        """Where in `text[start:border]` a value begins, or may begin, that ends behind `border`; else `border`.

        Only a value with spaces in it can do that, or one that is broken over lines. What stands in the text up to
        `read_until` says whether it goes on.
        """
        if self._finder is None:
            return border
        earliest = border
        for form in self._open_at(text, start, border):
            since = max(start, border - form.reach_chars)
            for first in form.symbols[0].finditer(text, since, earliest):
                at = first.start()
                if form.is_begun(text, at, read_until) or (form.end_in(text, at, read_until) or 0) > border:
                    earliest = at
                    break
        return earliest

    def _open_at(self, text: str, start: int, border: int) -> list[Form]:
        """The forms that may be going on at `border`."""
        since = max(start, border - _GAP_CHARS_MAX)
        has_break = text.find("\n", since, border) >= 0 or text.find("\r", since, border) >= 0
        gap = _GAP.search(text, since, border) if has_break else None
        if gap is None:
            return self._crossing
        before = text[max(start, gap.start() - _CUT_CHARS) : gap.start()].lower()
        broken = [form for chars in range(len(before) + 1) for form in self._by_cut.get(before[chars:], ())]
        return broken + self._crossing


def _cuts(form: Form) -> set[str]:
    """What may stand before a line break in the middle of it: its last few characters, empty for anything."""
    plain = form.plain.lower()
    if not (form.plain.isascii() and form.plain.isalnum()):
        return {""}
    return {plain[max(0, at - _CUT_CHARS) : at] for at in range(1, len(plain))}


def _lines(value: str) -> Iterator[str]:
    """A value of several lines (a key file) is searched line by line."""
    for line in value.splitlines():
        if len(line.strip()) >= VALUE_CHARS_MIN and not line.startswith("-----"):
            yield line.strip()
