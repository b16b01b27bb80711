"""One pass over a text for hundreds of literals at once, on whichever engine is installed.

Two engines, one answer: the Rust automaton of `ahocorasick_rs` (the extra `accelerator`; it has no wheels for
musl) and, where it is absent, a regular expression of the standard library that branches once per character.
Whoever asks cannot tell them apart but by the clock; `trivet doctor` says which one is at work.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import Any, Final, Protocol

with contextlib.suppress(ImportError):
    import ahocorasick_rs

Hit = tuple[int, int, int]
"""Which of the literals stands there, where it begins and where it ends."""

SURROGATE: Final = re.compile("[\ud800-\udfff]")
"""A half of a character, which Python's text may hold and UTF-8 may not."""


class Finder(Protocol):
    """Exact search for a fixed set of literals."""

    @property
    def literals(self) -> tuple[str, ...]:
        """Return the literals that are searched for; a hit names its literal by the index in this tuple."""
        ...

    def find(self, text: str, start: int = 0, end: int | None = None) -> list[Hit]:
        """Find every place of every literal in `text[start:end]`, also overlapping ones, by start and then by end."""
        ...


class TrieFinder:
    """`Finder` on the standard library."""

    __slots__ = ("_at_once", "_pattern", "_places", "literals")

    def __init__(self, literals: Iterable[str]) -> None:
        self.literals = tuple(sorted(set(literals)))
        self._pattern = re.compile(trie_pattern(self.literals) or r"(?!)")
        self._places = {literal: place for place, literal in enumerate(self.literals)}
        self._at_once = _beginnings(self.literals)

    def find(self, text: str, start: int = 0, end: int | None = None) -> list[Hit]:
        """See `Finder.find`."""
        stop = len(text) if end is None else end
        hits: list[Hit] = []
        search = self._pattern.search
        while longest := search(text, start, stop):
            at, literal = longest.start(), longest.group()
            hits += [(which, at, at + length) for which, length in self._at_once.get(literal, ())]
            hits.append((self._places[literal], at, longest.end()))
            start = at + 1
        return hits


class AutomatonFinder:
    """`Finder` on the Aho-Corasick automaton of `ahocorasick_rs`: one step per byte, however many literals."""

    __slots__ = ("_automaton", "literals")

    def __init__(self, literals: Iterable[str]) -> None:
        self.literals = tuple(sorted(set(literals)))
        self._automaton = ahocorasick_rs.AhoCorasick(self.literals, store_patterns=False)

    def find(self, text: str, start: int = 0, end: int | None = None) -> list[Hit]:
        """See `Finder.find`."""
        piece = text[start:end]
        try:
            hits = self._automaton.find_matches_as_indexes(piece, overlapping=True)
        except UnicodeEncodeError:
            hits = self._automaton.find_matches_as_indexes(SURROGATE.sub("\ufffd", piece), overlapping=True)
        if len(hits) > 1:
            hits.sort(key=_BY_PLACE)
        return [(which, at + start, stop + start) for which, at, stop in hits] if start else hits


_BY_PLACE: Final = itemgetter(1, 2)

ENGINE: type[TrieFinder] | type[AutomatonFinder] = AutomatonFinder if "ahocorasick_rs" in sys.modules else TrieFinder
"""The one at work here."""


def finder(literals: Iterable[str]) -> Finder:
    """Build the search for these literals, on the engine in use."""
    return ENGINE(literals)


def engine_name() -> str:
    """Return the name of the engine for people."""
    return "ahocorasick_rs" if ENGINE is AutomatonFinder else "re (the extra `accelerator` is not installed)"


def trie_pattern(literals: Iterable[str]) -> str:
    """Build a pattern that matches any of the literals, the longest first, and branches once per character."""
    return trie_of(tuple(map(_escaped, literal)) for literal in literals)


def trie_of(sequences: Iterable[Sequence[str]]) -> str:
    """Build a `trie_pattern` for sequences of small patterns in place of characters. Characters after which the same
    follows are one set: an alphabet in the middle of an anchor costs one step, not one for each of its characters.
    """
    root: dict[str, Any] = {}
    for sequence in sequences:
        node = root
        for symbol in sequence:
            node = node.setdefault(symbol, {})
        node[""] = {}

    def branch(node: dict[str, Any]) -> str:
        alike: dict[tuple[str, str], list[str]] = {}
        for symbol, child in sorted(node.items()):
            if symbol:
                is_character = len(symbol.removeprefix("\\")) == 1
                alike.setdefault((branch(child), "" if is_character else symbol), []).append(symbol)
        ways = [(f"[{''.join(each)}]" if len(each) > 1 else each[0]) + rest for (rest, _), each in alike.items()]
        if not ways:
            return ""
        body = ways[0] if len(ways) == 1 else f"(?:{'|'.join(ways)})"
        if "" not in node:
            return body
        return f"(?:{body})?"

    return branch(root)


_escaped: Final = cache(re.escape)


def _beginnings(literals: tuple[str, ...]) -> Mapping[str, tuple[tuple[int, int], ...]]:
    """Return for each literal that begins with others of them, which are sorted, those others, the shortest first:
    place and length."""
    found: dict[str, tuple[tuple[int, int], ...]] = {}
    shorter: list[tuple[int, int]] = []
    for place, literal in enumerate(literals):
        while shorter and not literal.startswith(literals[shorter[-1][0]]):
            shorter.pop()
        if shorter:
            found[literal] = tuple(shorter)
        shorter.append((place, len(literal)))
    return found
