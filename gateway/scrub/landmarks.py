"""Everything in a text that a secret may begin with or be announced by, found in one pass.

The anchors of the rules, the announcing words and the line that begins a key block are all literals, so one
search for the lower-case forms of all of them finds every place that may matter. In nearly all texts of
nearly all people it finds nothing, and then there is nothing more to do.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from gateway.scrub.finding import finder
from gateway.scrub.keyblock import BEGIN
from gateway.scrub.rules import Site, rule_book
from gateway.scrub.words import vocabulary


class Landmarks(NamedTuple):
    """Positions in one stretch of text, each list from left to right."""

    anchors: list[Site]
    words: list[tuple[int, int]]
    """Where announcing words may stand, the longest of those that overlap."""
    blocks: list[int]
    """Where a key block may begin."""


class _Meaning(NamedTuple):
    """What a literal stands for where it is found in lower case."""

    spellings: tuple[str, ...]
    """The anchors that look like this in lower case, as their rules spell them."""
    is_loose: bool
    """Is it an anchor in any case?"""
    is_begin: bool
    is_word: bool


class Chart:
    """Finds landmarks."""

    __slots__ = ("_finder", "_meanings")

    def __init__(self) -> None:
        rules, words, begin = rule_book(), vocabulary().announcing, BEGIN.lower()
        self._finder = finder({*rules.spellings, *words, begin})
        self._meanings = tuple(
            _Meaning(rules.spellings.get(literal, ()), literal in rules.in_any_case, literal == begin, literal in words)
            for literal in self._finder.literals
        )

    def landmarks(self, text: str, lowered: str, start: int, end: int) -> Landmarks:
        """Those of `text[start:end]`; `lowered` is the text in lower case, as long as the text."""
        anchors: list[Site] = []
        words: list[tuple[int, int]] = []
        blocks: list[int] = []
        meanings = self._meanings
        for which, at, stop in self._finder.find(lowered, start, end):
            spellings, is_loose, is_begin, is_word = meanings[which]
            if is_begin and text.startswith(BEGIN, at):
                blocks.append(at)
            anchor = text[at:stop] if is_loose else ""
            for spelling in spellings:
                if text.startswith(spelling, at):
                    anchor = spelling
                    break
            if anchor:
                if anchors and anchors[-1][0] == at:
                    anchors[-1] = (at, anchor)
                else:
                    anchors.append((at, anchor))
            if is_word:
                if words and words[-1][0] == at:
                    words[-1] = (at, stop)
                elif not words or words[-1][1] <= at:
                    words.append((at, stop))
        return Landmarks(anchors, words, blocks)


@cache
def chart() -> Chart:
    """The one for what is shipped, on the engine that is at work here."""
    return Chart()
