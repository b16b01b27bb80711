"""How a text is cut into search terms, and how facts are ranked by them. Pure, one way for both databases.

The full-text engines disagree about everything that matters here (PostgreSQL takes a Chinese sentence for
one word, FTS5 knows no Russian endings), so they only look terms up; the terms are ours:

- letters are compared without case and accents, `ё` as `е`;
- a word is found by itself and by what remains of it without its last letter or two: enough for most endings
  of English and Russian, and the more of a word is shared, the higher it scores;
- a question looks for stems only that are most of a word ("house" does not ask for "hour");
- what contains a digit is found whole only;
- scripts without spaces, or with endings that are words of their own (Chinese, Japanese, Korean, Thai, …), are
  cut into single characters and pairs.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar

import regex

from gateway.store.stopwords import STOPWORDS

T = TypeVar("T")

TERM_CHARS_MAX: Final = 64
"""What is longer is no word; PostgreSQL takes 2,046 bytes."""

_ENDING_CHARS_MAX: Final = 2
_STEM_CHARS_MIN: Final = 3
_STEM_SHARE_MIN: Final = 0.7  # of the word, in a question: dogs -> dog, собака -> собак, but not house -> hou

UNSPACED: Final = r"\p{Hangul}\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_RUN: Final = regex.compile(rf"(?P<unspaced>[{UNSPACED}]+)|(?P<word>[\p{{L}}\p{{N}}--[{UNSPACED}]]+)", regex.V1)


def fact_terms(text: str, *, count_max: int) -> list[str]:
    """The terms under which a fact is found: distinct, in the order of the text."""
    return _distinct(_terms(text), count_max)


def query_terms(text: str, *, count_max: int) -> list[str]:
    """The terms to look up for somebody who asks: the telling ones, or all where none is telling."""
    return telling_terms(text, count_max=count_max) or _distinct(_asked(text), count_max)


def telling_terms(text: str, *, count_max: int) -> list[str]:
    """The terms that say what a text is about: those of words that are not in every sentence. A single
    character of an unspaced script counts only when it stands alone."""
    return _distinct((term for word, terms in _asked_of(text) if word not in _STOP for term in terms), count_max)


def ranked(query: Sequence[str], candidates: Sequence[tuple[T, str]], *, limit: int) -> list[T]:
    """The best `limit` candidates, each given with its terms as they are stored, between spaces: a shared term
    weighs more the fewer candidates have it. Equal ones keep their order."""
    spaced = [(term, f" {term} ") for term in query]
    shared = [[term for term, wanted in spaced if wanted in terms] for terms in (f" {has} " for _, has in candidates)]
    counts = Counter(term for terms in shared for term in terms)
    weights = {term: math.log1p(len(shared) / count) for term, count in counts.items()}
    scores = [sum(weights[term] for term in terms) for terms in shared]
    best = sorted(range(len(shared)), key=lambda index: -scores[index])
    return [candidates[index][0] for index in best[: max(limit, 0)]]


def _asked(text: str) -> Iterator[str]:
    return (term for _, terms in _asked_of(text) for term in terms)


def _asked_of(text: str) -> Iterator[tuple[str, Iterable[str]]]:
    """The words and pairs of a question, each with its terms."""
    for run in _RUN.finditer(_folded(text)):
        if run["unspaced"]:
            yield from ((pair, (pair,)) for pair in _pairs(run["unspaced"], with_single=False))
        else:
            word = run["word"][:TERM_CHARS_MAX]
            yield word, _stems(word)


def _stems(word: str) -> Iterator[str]:
    return (term for term in _word(word) if len(term) >= _STEM_SHARE_MIN * len(word))


def _terms(text: str) -> Iterator[str]:
    for run in _RUN.finditer(_folded(text)):
        if run["unspaced"]:
            yield from _pairs(run["unspaced"], with_single=True)
        else:
            yield from _word(run["word"][:TERM_CHARS_MAX])


def _folded(text: str) -> str:
    plain = "".join(char for char in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(char))
    return unicodedata.normalize("NFC", plain)


_STOP: Final = frozenset(map(_folded, STOPWORDS))


def _pairs(run: str, *, with_single: bool) -> Iterator[str]:
    if with_single or len(run) == 1:
        yield from run
    yield from (run[index : index + 2] for index in range(len(run) - 1))


def _word(word: str) -> Iterator[str]:
    yield word
    if word.isalpha():
        longest, shortest = len(word) - 1, max(_STEM_CHARS_MIN, len(word) - _ENDING_CHARS_MAX)
        yield from (word[:chars] for chars in range(longest, shortest - 1, -1))


def _distinct(terms: Iterator[str], count_max: int) -> list[str]:
    found: dict[str, None] = {}
    for term in terms:
        found[term] = None
        if len(found) >= count_max:
            break
    return list(found)
