"""Texts for people, in their language. English is in the source and is the key of its translations.

    words = words_for(message.language, message.text, known=session.language)    which language: a value, passed on
    words.say("I do not know /{name}.", name=clean_name)                         one sentence
    words.count("{count} turn", "{count} turns", turns)                          the form that goes with a number
    NOT_OPEN: Final = sentence("This question is no longer open.")               one for later: words.say(NOT_OPEN)

A sentence is written like that, as a literal, with named placeholders, and runs `make words`; a test
names what has no translation. A sentence whose values are clean (or numbers) is `CleanText`; one with other values is
text to be scrubbed, as ever. Logs, prompts, the operator's API and the command line stay English."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from gettext import GNUTranslations, NullTranslations
from pathlib import Path
from typing import Final, LiteralString, NewType, overload

from gateway.contracts.commands import CommandSpec
from gateway.contracts.ids import is_firing, is_wake
from gateway.contracts.messages import CleanText, InboundMessage

# The languages that we have words in, and which of them is somebody's. Pure.


class Language(StrEnum):
    """The value is the primary subtag of its IETF tag, and the name of its catalogue."""

    EN = "en"
    RU = "ru"
    ZH = "zh"
    """Simplified Chinese: readers of the other script read it more easily than English."""
    ES = "es"
    DE = "de"


_BY_SUBTAG: Final = {language.value: language for language in Language}
_LOOKED_AT: Final = 400  # characters: enough to see a script
_NO_PROSE: Final = re.compile(r"^\s*/\w+|`[^`]*`|\w+://\S+|[@#]\w+")
_RUSSIAN: Final = re.compile(r"[а-яё]", re.IGNORECASE)
_OTHER_CYRILLIC: Final = re.compile(r"(?![а-яё])[\u0400-\u052f]", re.IGNORECASE)
_HAN: Final = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]")
_KANA_OR_HANGUL: Final = re.compile(r"[\u3040-\u30ff\u1100-\u11ff\uac00-\ud7af]")


def language_named(tag: str) -> Language | None:
    """Return the language of an IETF tag, whatever its script or region (`zh-Hans-CN`, `de_AT`). English for a language
    without a catalogue, None for an empty tag."""
    if not tag:
        return None
    return _BY_SUBTAG.get(re.split("[-_]", tag, maxsplit=1)[0].lower(), Language.EN)


def language_written(text: str) -> Language | None:
    """Return the language that a text is written in, where its script alone makes that certain; else None."""
    prose = _NO_PROSE.sub(" ", text[:_LOOKED_AT])
    letters = sum(map(str.isalpha, prose))
    if 2 * len(_RUSSIAN.findall(prose)) > letters:
        return None if _OTHER_CYRILLIC.search(prose) else Language.RU
    if 2 * len(_HAN.findall(prose)) > letters:
        return None if _KANA_OR_HANGUL.search(prose) else Language.ZH
    return None


# The catalogues: one `<language>.po` to be read and written by people, and the `.mo` beside it that is made of it.
#
# `make words` brings both up to date with the sentences of the source; a test pins that they are. English has none.


CATALOGUES: Final = Path(__file__).parent


@cache
def catalogue_of(language: Language) -> NullTranslations:
    """Read once, when it is needed first."""
    if language is Language.EN:
        return NullTranslations()
    with (CATALOGUES / f"{language.value}.mo").open("rb") as compiled:
        return GNUTranslations(compiled)


# Sentences in one language. The values are put in after the translation, so none of them is ever looked up.


Sentence = NewType("Sentence", str)
"""A sentence of ours in English, to be said later. Only `sentence` makes one."""


def sentence(own: LiteralString) -> Sentence:
    """Mark a literal as one that people read, where it stands apart from where it is said."""
    return Sentence(own)


_GROUPS: Final = {Language.RU: "\u00a0", Language.DE: ".", Language.ES: "\u00a0"}
_POINTS: Final = {Language.RU: ",", Language.DE: ",", Language.ES: ","}


@dataclass(frozen=True, slots=True)
class Words:
    """The words of one language. A test pins that `own` is always a literal or a `Sentence`.

    The types say what is clean: a sentence of ours with values that are clean, or numbers. With any other value it is a
    `str`, for the caller to scrub."""

    language: Language

    @overload
    def say(self, own: LiteralString | Sentence, /, **values: CleanText | int) -> CleanText: ...
    @overload
    def say(self, own: LiteralString | Sentence, /, **values: str | int) -> str: ...
    def say(self, own: str, /, **values: str | int) -> str:
        """Return the sentence with its values in the places that are named after them."""
        return CleanText(_filled(catalogue_of(self.language).gettext(own), values))

    def known(self, text: str) -> str:
        """Translate a text that came in English, over the bus or from an error, if it is a whole sentence of ours
        without values; else return it as it is."""
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
        """Return the form of the sentence that goes with a number, which is written where `{count}` is."""
        form = catalogue_of(self.language).ngettext(one, many, count)
        return CleanText(_filled(form, {**values, "count": self.number(count)}))

    def number(self, value: int | float, places: int = 0) -> CleanText:
        """Write a number in this language, with that many decimals."""
        whole, _, rest = f"{value:,.{places}f}".partition(".")
        grouped = whole.replace(",", _GROUPS.get(self.language, ","))
        return CleanText(grouped + (_POINTS.get(self.language, ".") + rest if rest else ""))

    def lasting(self, duration_ms: float) -> CleanText:
        """Write how long something took, in every language alike: in whole seconds, from a minute on in minutes and
        seconds."""
        seconds = max(round(duration_ms / 1000), 0)
        if seconds < 60:
            return self.say("{seconds} s", seconds=seconds)
        return self.say("{minutes} min {seconds} s", minutes=seconds // 60, seconds=seconds % 60)

    def listed(self, *items: str) -> str:
        """List items as `a`, `a and b`, `a, b and c`."""
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


# Which language somebody is spoken to in. Pure.
#
# What the platform says of a person comes first, then what the script of the words makes certain, then what was last
# known in that place, then English. The operator's `words.language` replaces the first, at intake.


def words_for(tag: str, text: str = "", *, known: str = "") -> Words:
    """Return the words for the author of `text`. `tag` is what the platform says, `known` what was last known there."""
    return Words(language_named(tag) or language_written(text) or language_named(known) or Language.EN)


def language_of(message: InboundMessage) -> Language | None:
    """Return what one message shows of its author's language; None for nothing. A message of a schedule or of an ended
    sub-agent has no author."""
    text = "" if is_firing(message.id) or is_wake(message.id) else message.text
    return language_named(message.language) or language_written(text)


# The table of commands in people's languages, for /help and for the menus of the platforms.


def about_in(spec: CommandSpec, language: Language) -> CleanText:
    """Describe the command in at most 100 characters (a test pins it): what every platform's menu takes."""
    return Words(language).say(spec.about)


def argument_in(spec: CommandSpec, language: Language) -> CleanText:
    """Name what may follow the command, in one or two words; empty for nothing."""
    return Words(language).say(spec.argument) if spec.argument else CleanText("")
