"""The normalised view: the text as a reader sees it, with the way back to the text as it was sent.

A secret with a zero-width space inside, in full-width letters or with colour codes between its halves is
still a secret. All matching happens on this view; what is cut out is cut out of the original.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Final

_INVISIBLE: Final = "\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufe00-\ufe0f\ufeff"
_COLOUR: Final = r"\x1b\[[0-9;]{0,16}m"
_DROPPED: Final = re.compile(f"[{_INVISIBLE}]|{_COLOUR}")
_UNFINISHED_COLOUR: Final = re.compile(r"\x1b(?:\[[0-9;]{0,16})?\Z")
_ODD: Final = re.compile(f"[{_INVISIBLE}\x1b\u0130\uff01-\uff5e]")

_SENTENCE_MARKS: Final = frozenset("\uff0c\uff1b\uff01\uff1f\uff08\uff09")
"""Full-width marks that end a clause in Chinese; they stay themselves, so that they still end one."""

_PLAIN: Final = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F) if chr(code) not in _SENTENCE_MARKS} | {
    0x0130: "I"
}


def is_plain(text: str) -> bool:
    """Does every character stand for itself?"""
    return (text.isascii() and "\x1b" not in text) or not _ODD.search(text)


class View:
    """A growing text in two forms. `text` is normalised; `raw(start, end)` is the original of a span.

    Every character of `text` stands for exactly one of the original; characters that are not in the view
    (invisible ones, colour codes) belong to the span they lie in.
    """

    __slots__ = ("_drops", "_raw", "_unfinished", "text")

    def __init__(self) -> None:
        self.text = ""
        self._raw = ""
        self._drops: list[int] = []
        self._unfinished = ""

    def append(self, chunk: str, *, is_last: bool) -> None:
        """Take the next piece of the original. A colour code cut in two waits for its other half."""
        chunk = self._unfinished + chunk
        self._unfinished = ""
        if not is_last and (cut := _UNFINISHED_COLOUR.search(chunk)):
            chunk, self._unfinished = chunk[: cut.start()], cut.group()
        if (chunk.isascii() and "\x1b" not in chunk) or not _ODD.search(chunk):
            self.text += chunk
            self._raw += chunk
            return
        kept: list[str] = []
        length = len(self.text)
        done = 0
        for gone in _DROPPED.finditer(chunk):
            kept.append(chunk[done : gone.start()])
            length += gone.start() - done
            self._drops.extend([length] * (gone.end() - gone.start()))
            done = gone.end()
        kept.append(chunk[done:])
        self.text += "".join(kept).translate(_PLAIN)
        self._raw += chunk

    def raw_start(self, at: int) -> int:
        """Where the character `at` of the view stands in the original."""
        return at + bisect_right(self._drops, at) if self._drops else at

    def raw_end(self, at: int) -> int:
        """Where a span that ends before `at` ends in the original."""
        return self.raw_start(at - 1) + 1 if self._drops and at else at

    @property
    def raw_length(self) -> int:
        """How much of the original is held."""
        return len(self._raw)

    def raw(self, start: int, end: int) -> str:
        """A slice of the original, by its own positions."""
        return self._raw[start:end]

    def forget(self, before: int) -> tuple[int, int]:
        """Drop what lies before `before`; returns how much shorter the view and the original became."""
        raw_before = self.raw_start(before)
        self.text = self.text[before:]
        self._raw = self._raw[raw_before:]
        if self._drops:
            self._drops = [at - before for at in self._drops if at > before]
        return before, raw_before


def normalised(text: str) -> str:
    """The view of a whole text."""
    view = View()
    view.append(text, is_last=True)
    return view.text
