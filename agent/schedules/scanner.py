"""A text under the words of one language: what stands at a position, and where it ends. Pure."""

from __future__ import annotations

import re
from typing import Final

from agent.schedules.parts import Unclear
from agent.schedules.vocabulary import Language

_SPACE: Final = re.compile(r"\s*")
_SPACE_OR_COMMA: Final = re.compile(r"[\s,，]*")
_DIGITS: Final = re.compile(r"\d{1,6}(?!\d)")
_DAY_NUMBER: Final = re.compile(r"\d{1,2}(?![\d:])")
_DAYS_OF_ALL_MONTHS: Final = range(1, 29)


class Scanner:
    """Looks at one text. Every answer is an end, or a meaning with its end; None where nothing stands."""

    def __init__(self, text: str, language: Language) -> None:
        self.text = text
        self.is_spaced = language.is_spaced
        self.has_bare_units = language.has_bare_units
        self._language = language

    def begins_inside_a_word(self, at: int) -> bool:
        """True where no phrase can begin."""
        return self.is_spaced and at > 0 and self.text[at - 1].isalnum()

    def knows(self, name: str) -> bool:
        """Whether the language has words of this list at all."""
        return self._language.words[name].is_known

    def words(self, name: str, at: int) -> int | None:
        """Where the phrase of the list `name` ends."""
        return self._language.words[name].end(self.text, at)

    def meaning(self, table: str, at: int) -> tuple[str, int] | None:
        """What the phrase of the table `table` means."""
        return self._language.meanings[table].find(self.text, at)

    def behind_spaces(self, at: int) -> int:
        """The next position that is no white space."""
        return _end(_SPACE.match(self.text, at), at)

    def behind_commas(self, at: int) -> int:
        """The next position that is neither white space nor a comma."""
        return _end(_SPACE_OR_COMMA.match(self.text, at), at)

    def behind(self, name: str, at: int) -> int:
        """Behind a word that may stand there, and what separates it."""
        return self.behind_commas(self.words(name, at) or at)

    def number(self, at: int) -> tuple[int, int] | None:
        """A whole number, in digits or in words."""
        match = _DIGITS.match(self.text, at)
        return (int(match[0]), match.end()) if match is not None else self.number_word(at)

    def number_word(self, at: int) -> tuple[int, int] | None:
        """A number in words; where words stand without spaces, not a part of a longer one."""
        found = self.meaning("numbers", at)
        if found is None or (not self.is_spaced and self.meaning("numbers", found[1]) is not None):
            return None
        return int(found[0]), found[1]

    def weekday(self, at: int, *, is_short_allowed: bool) -> tuple[int, int] | None:
        """A weekday from 1 to 7. Short forms are words of their own elsewhere ("sat", "sun")."""
        found = self.meaning("weekdays", at)
        if found is None and is_short_allowed:
            found = self.meaning("short_weekdays", at)
            if found is not None and self.text.startswith(".", found[1]):
                found = found[0], found[1] + 1
        return None if found is None else (int(found[0]), found[1])

    def ordinal(self, at: int) -> tuple[int, int] | None:
        """The day of any month: `1st`, `1.`, `1号`. Raises `Unclear` for one that some months lack."""
        match = _DAY_NUMBER.match(self.text, at)
        end = None if match is None else self.words("ordinal", self.behind_spaces(match.end()))
        if match is None or end is None:
            return None
        if int(match[0]) not in _DAYS_OF_ALL_MONTHS:
            raise Unclear(lambda words: words.say("not every month has that day: say one from 1 to 28"), end)
        return int(match[0]), end


def _end(match: re.Match[str] | None, at: int) -> int:
    return at if match is None else match.end()
