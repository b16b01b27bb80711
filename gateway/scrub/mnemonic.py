"""Seed phrases: twelve to twenty-four words of one list of BIP-39, which nobody says in a row by chance.

Those in English are found wherever they stand; those in the nine other languages behind an announcement (`lines.toml`).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from gateway.scrub.rules import SecretSpan

RULE: Final = "seed-phrase"
WORDS_MIN: Final = 12
WORDS_MAX: Final = 24
_DISTINCT_MIN: Final = 9
_DISTINCT_OF_TWELVE_MIN: Final = 6
_WORD_CHARS_MAX: Final = 8
_LEAST_OCTETS: Final = WORDS_MIN * 4 - 1
_LETTERS: Final = b"abcdefghijklmnopqrstuvwxyz \n"
_FLAT: Final = bytes(ord("x") if octet in _LETTERS else ord(" ") for octet in range(256))
_LONG: Final = b"x" * _LEAST_OCTETS
_PIECE: Final = re.compile(r"[^ \n]+")
_BEFORE: Final = "\"'`(:=,>"
_LAST_WORD: Final = re.compile(rf"(?<![^\s{_BEFORE}])[a-z]{{3,{_WORD_CHARS_MAX}}}[ \n]\Z")
_BETWEEN: Final = re.compile(r"[\s\d.):,;、|·-]+")


def _lines() -> list[str]:
    """Return the ten lists, English first, each in one line."""
    return Path(__file__).with_name("mnemonics.txt").read_text(encoding="utf-8").splitlines()[1:]


@cache
def _english() -> frozenset[str]:
    return frozenset(_lines()[0].split())


@cache
def _lists() -> tuple[frozenset[str], ...]:
    """Return all ten: two megabytes, which few processes ever need."""
    return tuple(frozenset(line.split()) for line in _lines())


@cache
def _english_octets() -> frozenset[bytes]:
    return frozenset(map(str.encode, _english()))


def is_mnemonic(value: str) -> bool:
    """Tell whether a value is words of one of the ten lists, numbered or not, and enough of them."""
    words = [word for word in _BETWEEN.split(value) if word]
    return len(words) >= WORDS_MIN and any(listed.issuperset(words) for listed in _lists())


def seed_phrases(text: str, start: int, end: int) -> list[SecretSpan]:
    """Return the seed phrases in `text[start:end]`. What cannot hold one is passed over among bytes, as fast as bytes
    are searched.
    """
    found: list[SecretSpan] = []
    octets = text[start:end].encode(errors="surrogatepass")
    flat = octets.translate(_FLAT)
    at = flat.find(_LONG)
    while at >= 0:
        stop = flat.find(b" ", at)
        stop = stop if stop >= 0 else len(flat)
        if _may_hold(octets[at:stop].split()):
            begins = start + len(octets[:at].decode(errors="surrogatepass"))
            found += _in_stretch(text, begins, begins + stop - at, end)
        at = flat.find(_LONG, stop)
    return found


def _in_stretch(text: str, at: int, stop: int, end: int) -> Iterator[SecretSpan]:
    """Yield the phrases in a stretch of small letters and spaces."""
    listed = _english()
    words: list[tuple[int, int]] = []
    for word in _PIECE.finditer(text, at, stop):
        is_whole = word.end() < stop or stop == end or not text[stop].isalnum()
        is_word = is_whole and word.group() in listed and not (word.start() == at and _is_glued(text, at))
        if words and (not is_word or len(words) == WORDS_MAX or word.start() - words[-1][1] != 1):
            yield from _phrase(text, words)
            words = []
        if is_word:
            words.append(word.span())
    yield from _phrase(text, words)


def _may_hold(words: list[bytes]) -> bool:
    """Tell whether enough words of the list follow each other: one that is none lets all before it be passed over."""
    listed, last = _english_octets(), WORDS_MIN - 1
    while last < len(words):
        at = last
        while at > last - WORDS_MIN and words[at] in listed:
            at -= 1
        if at == last - WORDS_MIN and len(set(words[at + 1 : last + 1])) >= _DISTINCT_OF_TWELVE_MIN:
            return True
        last = at + WORDS_MIN if at > last - WORDS_MIN else last + WORDS_MIN // 2
    return False


def _is_glued(text: str, at: int) -> bool:
    return at > 0 and not text[at - 1].isspace() and text[at - 1] not in _BEFORE


def _phrase(text: str, spans: list[tuple[int, int]]) -> Iterator[SecretSpan]:
    words = [text[start:end] for start, end in spans]
    if len(words) >= WORDS_MIN and len(set(words)) >= _DISTINCT_MIN and words != sorted(words):
        yield SecretSpan(spans[0][0], spans[-1][1], RULE)


class ListedRun:
    """The words of the list that stand in a row before some place: the beginning of a phrase, perhaps."""

    __slots__ = ("_border", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._border = -1

    def open_at(self, text: str, start: int, border: int) -> int:
        """Return where in `text[start:border]` words begin that may become a phrase behind `border`; else `border`.

        Asked again for a border in the same row, it does not read it again.
        """
        if not (self._starts and self._starts[0] < border <= self._border):
            self._read(text, start, border)
        count = bisect_left(self._starts, border)
        return self._starts[count - count % WORDS_MAX] if count % WORDS_MAX else border

    def _read(self, text: str, start: int, border: int) -> None:
        listed, at = _english(), border
        starts: list[int] = []
        while word := _LAST_WORD.search(text, max(start, at - _WORD_CHARS_MAX - 2), at):
            if word.group()[:-1] not in listed:
                break
            at = word.start()
            starts.append(at)
        self._starts, self._border = starts[::-1], border
