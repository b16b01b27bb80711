"""Search in texts: their terms, their ranking, and the look-up on either database.

The full-text engines disagree about everything that matters here (PostgreSQL takes a Chinese sentence for one word,
FTS5 knows no Russian endings), so they only look terms up; the terms are ours:

- letters are compared without case and accents, `ё` as `е`;
- a word is found by itself and by what remains of it without its last letter or two: enough for most endings
  of English and Russian, and the more of a word is shared, the higher it scores;
- a question looks for stems only that are most of a word ("house" does not ask for "hour");
- what contains a digit is found whole only;
- scripts without spaces, or with endings that are words of their own (Chinese, Japanese, Korean, Thai, …), are
  cut into single characters and pairs.

All but the last part is pure."""

from __future__ import annotations

import math
import struct
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from operator import mul
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any, Final, TypeVar

import regex
from sqlalchemy import ColumnElement, Row, Select, Table, column, select, table, text

from gateway.contracts.memory import Vector, cosine, unit
from gateway.limits import FACT_COSINE_SAME, FACT_LIKENESS_SAME
from gateway.store.engine import Connection
from gateway.store.tables import facts, passages

T = TypeVar("T")

TERM_CHARS_MAX: Final = 64
"""A longer one is no word; PostgreSQL takes 2,046 bytes."""

_ENDING_CHARS_MAX: Final = 2
_STEM_CHARS_MIN: Final = 3
_STEM_SHARE_MIN: Final = 0.7  # of the word, in a question: dogs -> dog, собака -> собак, but not house -> hou

UNSPACED: Final = r"\p{Hangul}\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_RUN: Final = regex.compile(rf"(?P<unspaced>[{UNSPACED}]+)|(?P<word>[\p{{L}}\p{{N}}--[{UNSPACED}]]+)", regex.V1)


def fact_terms(text: str, *, count_max: int) -> list[str]:
    """Return the terms under which a fact is found: distinct, in the order of the text."""
    return _distinct(_terms(text), count_max)


def query_terms(text: str, *, count_max: int) -> list[str]:
    """Return the terms to look up for somebody who asks: the telling ones, or all where none is telling."""
    return telling_terms(text, count_max=count_max) or _distinct(_asked(text), count_max)


def telling_terms(text: str, *, count_max: int) -> list[str]:
    """Return the terms that say what a text is about: those of words that are not in every sentence. A single character
    of an unspaced script counts only when it is alone."""
    return _distinct((term for word, terms in _asked_of(text) if word not in _STOP for term in terms), count_max)


def ranked(query: Sequence[str], candidates: Sequence[tuple[T, str]], *, limit: int, share_min: float = 0.0) -> list[T]:
    """Return the best `limit` candidates, each given with its terms as they are stored, between spaces: a shared term
    weighs more the fewer candidates have it. Equal ones keep their order; those with less than that share of the best
    score are left out."""
    spaced = [(term, f" {term} ") for term in query]
    shared = [[term for term, wanted in spaced if wanted in terms] for terms in (f" {has} " for _, has in candidates)]
    counts = Counter(term for terms in shared for term in terms)
    weights = {term: math.log1p(len(shared) / count) for term, count in counts.items()}
    scores = [sum(weights[term] for term in terms) for terms in shared]
    best = sorted(range(len(shared)), key=lambda index: -scores[index])[: max(limit, 0)]
    return [candidates[index][0] for index in best if scores[index] >= share_min * scores[best[0]]]


def _asked(text: str) -> Iterator[str]:
    return (term for _, terms in _asked_of(text) for term in terms)


def _asked_of(text: str) -> Iterator[tuple[str, Iterable[str]]]:
    """Return the words and pairs of a question, each with its terms."""
    for run in _RUN.finditer(_folded(text), concurrent=False):  # to let other threads in for each word costs more
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
    if text.isascii():
        return text.lower()
    plain = "".join(char for char in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(char))
    return unicodedata.normalize("NFC", plain)


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


# --- words that are in every sentence

# The most frequent function words of the languages that most people write in; accents do not count. A missing one
# costs a line of memory that does not belong there, one too many a question that finds nothing: so only words that are
# hardly ever the matter itself.

_STOP: Final = frozenset(map(_folded, Path(__file__).with_name("stop_words.txt").read_text("utf-8").split()))

# --- whether two facts say the same

# Careful on purpose: two facts that are kept apart cost a line, two that are taken for one cost a fact. So what holds a
# digit or a sign (4711, C++, -5, €) has to be equal in both, whatever else they share.

_EDGES: Final = " \t.,;:!?…\"'“”„«»‹›‘’()[]。，！？；：、"
_WORD_RUN: Final = regex.compile(rf"[{UNSPACED}]+|[^{UNSPACED}]+", regex.V1)


def normalised(text: str) -> str:
    """Return what two wordings have in common that differ in case, spaces, forms of letters and closing marks only."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).strip(_EDGES)


def say_the_same(one: str, other: str, vectors: tuple[Vector, Vector] | None = None) -> bool:
    """Tell whether two facts are equal but for their form, or almost the same words, or (with vectors) the same to a
    model."""
    if normalised(one) == normalised(other):
        return True
    mine, yours = _words(one), _words(other)
    if not mine or not yours or _exact(mine) != _exact(yours):
        return False
    if len(mine & yours) >= FACT_LIKENESS_SAME * len(mine | yours):
        return True
    return vectors is not None and cosine(*vectors) >= FACT_COSINE_SAME


def _words(text: str) -> frozenset[str]:
    """Return words with the signs inside and at their edges; of scripts without spaces, pairs of characters."""
    found: set[str] = set()
    for word in normalised(text).split():
        for run in _WORD_RUN.findall(word.strip(_EDGES)):
            is_unspaced = regex.match(rf"[{UNSPACED}]", run, regex.V1) and len(run) > 1
            found.update((run[at : at + 2] for at in range(len(run) - 1)) if is_unspaced else (run,))
    return frozenset(found)


def _exact(words: frozenset[str]) -> frozenset[str]:
    """Return those that are no plain words: one of them makes all the difference."""
    return frozenset(word for word in words if not regex.fullmatch(r"[\p{L}\p{M}'’-]+", word))


# --- several rankings made into one

# Reciprocal-rank fusion: a thing gets 1 / (60 + its rank) from each ranking that has it. Places count, scores do not,
# so rankings that measure in different units (shared words, cosines) can be added. 60 is the constant of the paper
# (Cormack, Clarke, Büttcher 2009): agreement of two rankings outweighs the top of one.

H = TypeVar("H", bound=Hashable)

_DAMPING: Final = 60


def fused(*rankings: Sequence[H]) -> list[H]:
    """Rank everything in one of the rankings, once, best first. Of equals the one that came first in an
    earlier ranking comes first."""
    scores: defaultdict[H, float] = defaultdict(float)
    for ranking in rankings:
        for rank, thing in enumerate(dict.fromkeys(ranking), 1):
            scores[thing] += 1 / (_DAMPING + rank)
    return sorted(scores, key=lambda thing: -scores[thing])


# --- what a model finds alike

# Each model has a scale of its own: of one everything lies between 0.75 and 0.85, of another what belongs together has
# 0.2. So a cosine is measured by those of the same question with everything else that somebody keeps.


def similarities(near: Vector, kept: Sequence[tuple[H, bytes]]) -> dict[H, tuple[float, float]]:
    """Return for each of `kept`, given with its vector, the cosine with `near`, and by how many standard deviations it
    is above the mean of all (0 where they do not differ); the highest first. Vectors of another size are left out."""
    wanted = unit(near)
    vectors = ((thing, to_vector(vector)) for thing, vector in kept if len(vector) == len(wanted) * _FLOAT_BYTES)
    cosines = {thing: sum(map(mul, wanted, vector)) for thing, vector in vectors}
    middle, spread = (fmean(cosines.values()), pstdev(cosines.values())) if cosines else (0.0, 0.0)
    return {
        thing: (likeness, (likeness - middle) / spread if spread else 0.0)
        for thing, likeness in sorted(cosines.items(), key=lambda item: -item[1])
    }


_FLOAT_BYTES: Final = 4


def from_vector(vector: Sequence[float]) -> bytes:
    """Return a vector as `facts.vector` holds it: little-endian 32-bit floats."""
    return struct.pack(f"<{len(vector)}f", *vector)


def to_vector(kept: bytes) -> Vector:
    """Read back, as the inverse of `from_vector`, up to the precision of a 32-bit float."""
    return struct.unpack(f"<{len(kept) // _FLOAT_BYTES}f", kept)


# --- full text

# On SQLite each table with `terms` has an FTS5 table over them, kept by triggers. Its `ascii` tokenizer takes every
# character beyond ASCII for a part of a word: our terms stay whole. On PostgreSQL it has a GIN index over them as a
# tsvector, built from our terms directly (`array_to_tsvector`); the query is a cast of quoted lexemes, so no parser,
# dictionary or locale of the server has a say.

TIDY: Final = (
    "INSERT INTO facts_index(facts_index) VALUES ('optimize')",
    "INSERT INTO passages_index(passages_index) VALUES ('optimize')",
)
"""Merges the parts of each index: what was deleted is gone from it, not only crossed out."""

_SCOPES: Final = {facts.name: "owner", passages.name: "key"}
"""The column that says whose a row is: it is indexed, too."""


def _sqlite_has_a_term(content: Table) -> ColumnElement[Any]:
    """Match a row that has one of the terms of the parameter `terms_query`."""
    index = table(f"{content.name}_index", column("rowid"))
    return content.c.id.in_(select(index.c.rowid).where(text(f"{index.name} MATCH :terms_query")))


def _sqlite_terms_query(content: Table, whose: Sequence[str], terms: Sequence[str]) -> str:
    """Return the FTS5 expression for "of one of these owners or keys, with one of these terms". Every part is a quoted
    string, so nothing in it is read as syntax."""
    wanted = " OR ".join(_quoted(term) for term in terms)
    scope = " OR ".join(map(_quoted, whose))
    return f"{_SCOPES[content.name]} : ({scope}) AND terms : ({wanted})"


def _quoted(part: str) -> str:
    return '"' + part.replace('"', '""') + '"'


def _postgres_has_a_term(content: Table) -> ColumnElement[Any]:
    """Match a row that has one of the terms of the parameter `terms_query`. The left side is exactly the expression of
    the index."""
    vector = f"array_to_tsvector(string_to_array({content.name}.terms, ' '))"
    return text(f"{vector} @@ CAST(CAST(:terms_query AS text) AS tsquery)")  # type: ignore[return-value]


def _postgres_terms_query(_content: Table, _whose: Sequence[str], terms: Sequence[str]) -> str:
    """Return the tsquery for "one of these terms"; terms are letters and digits, and quoted all the same."""
    return " | ".join("'" + term.replace("\\", "\\\\").replace("'", "''") + "'" for term in terms)


_HAS_A_TERM: Final = {"sqlite": _sqlite_has_a_term, "postgresql": _postgres_has_a_term}
TERMS_QUERY: Final = {"sqlite": _sqlite_terms_query, "postgresql": _postgres_terms_query}


class Search:
    """A statement on `content`, narrowed to the rows that have one of some terms; built once per database."""

    def __init__(self, content: Table, among: Select[Any]) -> None:
        self._content = content
        self._statements = {name: among.where(has_a_term(content)) for name, has_a_term in _HAS_A_TERM.items()}

    def find(
        self, connection: Connection, whose: Sequence[str], terms: Sequence[str], parameters: dict[str, Any]
    ) -> Sequence[Row[Any]]:
        """Find the rows. `whose` (owners or keys) narrows the look-up, the statement has to name them all the same."""
        dialect = connection.dialect.name
        query = TERMS_QUERY[dialect](self._content, whose, terms)
        return connection.execute(self._statements[dialect], parameters | {"terms_query": query}).all()
