"""The words for times, one file for each language in `words/`, as patterns.

A pattern matches one phrase of a list at a position of a text: the longest that stands there, in any case and, in
languages that put spaces between words, never a part of a longer word.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

LANGUAGES: Final = ("en", "de", "es", "ru", "zh")


@dataclass(frozen=True, slots=True)
class Words:
    """A list of phrases. `at` says where one that stands at a position ends."""

    pattern: re.Pattern[str]
    is_known: bool

    def end(self, text: str, start: int) -> int | None:
        """Where the phrase at `start` ends, None if there is none."""
        match = self.pattern.match(text, start)
        return None if match is None else match.end()


@dataclass(frozen=True, slots=True)
class Meanings:
    """Phrases with a meaning each: a number, or a word of ours."""

    pattern: re.Pattern[str]
    meanings: Mapping[str, str]

    def find(self, text: str, start: int) -> tuple[str, int] | None:
        """The meaning of the phrase at `start` and where it ends, None if there is none."""
        match = self.pattern.match(text, start)
        meaning = None if match is None else self.meanings.get(_folded(match[0]))
        return None if match is None or meaning is None else (meaning, match.end())


@dataclass(frozen=True, slots=True)
class Language:
    """How one language speaks of times. What each list is for stands in its file."""

    name: str
    is_spaced: bool
    has_bare_units: bool
    words: Mapping[str, Words]
    meanings: Mapping[str, Meanings]


@cache
def languages() -> tuple[Language, ...]:
    """Every language, in a fixed order."""
    return tuple(_load(name) for name in LANGUAGES)


_LISTS: Final = (
    *("me", "lead_in", "every", "in", "after", "at", "on", "and", "through", "oclock", "next", "next_week", "this"),
    *("of", "ordinal", "second", "noon", "midnight", "workday", "weekend", "refused", "lasting"),
)
_TABLES: Final = (
    *("adverbs", "units", "numbers", "spans", "past", "days", "parts", "each_part", "day_parts"),
    *("weekdays", "short_weekdays", "each_weekday", "months"),
)


def _load(name: str) -> Language:
    source = resources.files(__package__).joinpath("words", f"{name}.toml").read_text("utf-8")
    table: dict[str, Any] = tomllib.loads(source)
    is_spaced = table.get("is_spaced", True)
    return Language(
        name,
        is_spaced,
        table.get("has_bare_units", False),
        {key: _words(table.get(key, ()), is_spaced=is_spaced) for key in _LISTS},
        {key: _meanings(table[key], is_spaced=is_spaced) for key in _TABLES},
    )


def _words(phrases: Sequence[str], *, is_spaced: bool) -> Words:
    return Words(_pattern(phrases, is_spaced=is_spaced), bool(phrases))


def _meanings(table: Mapping[str, Sequence[str]], *, is_spaced: bool) -> Meanings:
    by_phrase = {_folded(phrase): meaning for meaning, phrases in table.items() for phrase in phrases}
    return Meanings(_pattern(by_phrase, is_spaced=is_spaced), by_phrase)


def _pattern(phrases: Iterable[str], *, is_spaced: bool) -> re.Pattern[str]:
    longest_first = sorted(phrases, key=len, reverse=True)
    if not longest_first:
        return re.compile(r"(?!)")
    return re.compile("|".join(_spelled(phrase, is_spaced=is_spaced) for phrase in longest_first), re.IGNORECASE)


def _spelled(phrase: str, *, is_spaced: bool) -> str:
    spelled = r"\s+".join(map(re.escape, phrase.split()))
    return spelled + r"(?![^\W\d]|['’]\w)" if is_spaced and phrase[-1].isalnum() else spelled


def _folded(phrase: str) -> str:
    return " ".join(phrase.casefold().split())
