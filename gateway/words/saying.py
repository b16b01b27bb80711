"""Sentences in one language. The values are put in after the translation, so none of them is ever looked up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, LiteralString, NewType, overload

from gateway.contracts.messages import CleanText
from gateway.words.catalogue import catalogue_of
from gateway.words.languages import Language

Sentence = NewType("Sentence", str)
"""A sentence of ours in English, to be said later. Only `sentence` makes one."""


def sentence(own: LiteralString) -> Sentence:
    """Mark a literal as one that people read, where it stands apart from where it is said."""
    return Sentence(own)


_GROUPS: Final = {Language.RU: "\u00a0", Language.DE: ".", Language.ES: "\u00a0"}
_POINTS: Final = {Language.RU: ",", Language.DE: ",", Language.ES: ","}


@dataclass(frozen=True, slots=True)
class Words:
    """How we speak one language. A test pins that `own` is always a literal or a `Sentence`.

    The types say what is clean: a sentence of ours with values that are clean, or numbers. With any other value it is a
    `str`, for whoever says it to scrub.
    """

    language: Language

    @overload
    def say(self, own: LiteralString | Sentence, /, **values: CleanText | int) -> CleanText: ...
    @overload
    def say(self, own: LiteralString | Sentence, /, **values: str | int) -> str: ...
    def say(self, own: str, /, **values: str | int) -> str:
        """The sentence with its values in the places that are named after them."""
        return CleanText(_filled(catalogue_of(self.language).gettext(own), values))

    def known(self, text: str) -> str:
        """What came in English, over the bus or out of an error: in these words if it is a whole sentence of ours,
        without values, else as it is."""
        return catalogue_of(self.language).gettext(text) if text else text

    @overload
    def count(
        self, one: LiteralString | Sentence, many: LiteralString | Sentence, count: int, /, **values: CleanText | int
    ) -> CleanText: ...
    @overload
    def count(
        self, one: LiteralString | Sentence, many: LiteralString | Sentence, count: int, /, **values: str | int
    ) -> str: ...
    def count(self, one: str, many: str, count: int, /, **values: str | int) -> str:
        """The form of the sentence that goes with a number, which stands where `{count}` is."""
        form = catalogue_of(self.language).ngettext(one, many, count)
        return CleanText(_filled(form, {**values, "count": self.number(count)}))

    def number(self, value: int | float, places: int = 0) -> CleanText:
        """A number as it is written in this language, with so many decimals."""
        whole, _, rest = f"{value:,.{places}f}".partition(".")
        grouped = whole.replace(",", _GROUPS.get(self.language, ","))
        return CleanText(grouped + (_POINTS.get(self.language, ".") + rest if rest else ""))

    def lasting(self, duration_ms: float) -> CleanText:
        """How long something took, the same everywhere: in whole seconds, from a minute on in minutes and seconds."""
        seconds = max(round(duration_ms / 1000), 0)
        if seconds < 60:
            return self.say("{seconds} s", seconds=seconds)
        return self.say("{minutes} min {seconds} s", minutes=seconds // 60, seconds=seconds % 60)

    def listed(self, *items: str) -> str:
        """`a`, `a and b`, `a, b and c`."""
        if len(items) < 2:
            return "".join(items)
        return self.say("{several} and {last}", several=self._comma.join(items[:-1]), last=items[-1])

    @property
    def _comma(self) -> str:
        return "、" if self.language is Language.ZH else ", "


def _filled(text: str, values: dict[str, str | int]) -> str:
    return text.format_map(values)


ENGLISH: Final = Words(Language.EN)

Spoken = Callable[[Words], str]
"""Something to be said before anybody knows to whom: `lambda words: words.say("{day} has passed", day=day)`."""
