"""What the machine goes into at an announcing word: most announce a value, a few open something of their own.

identified by '…'      log in with bob / …      sshpass -p … ssh bob@box"""

from __future__ import annotations

import re
from typing import Final

from gateway.scrub.announced import AnnouncedValue
from gateway.scrub.judge import Bond, is_secret
from gateway.scrub.known import PLACEHOLDER, placeholder_in
from gateway.scrub.lines import TableColumn, may_be_head
from gateway.scrub.rules import SecretSpan
from gateway.scrub.states import CookieLine, NearVendor, State, StepResult
from gateway.scrub.view import unit_end
from gateway.scrub.words import Announcement, KeywordFamily, announces_more, vocabulary

SECOND_WORD: Final = re.compile(r"[ _-]?(?:(?:d[aeiou]?l?|el|al|es|för|na|for) (?:la )?|d')?(?P<word>[^\W\d_]{1,16}|)")
_REACH_CHARS: Final = 96


def opened_by(word: Announcement, text: str, shown_at: int = -1) -> State:
    """Return the state that an announcing word of `text` begins; the last secret before it ended at `shown_at`."""
    if word.family is KeywordFamily.COOKIE:
        return CookieLine()
    if word.family is KeywordFamily.LOGIN:
        return LoginPair(word.end)
    if word.family is KeywordFamily.VENDOR:
        return NearVendor(word.end)
    if word.family is KeywordFamily.COMMAND:
        return CommandLine(word)
    if word.word in vocabulary().together:
        return Phrase(word)
    return TableColumn(word) if may_be_head(word, text, shown_at) else AnnouncedValue(word)


class ReadAhead(State):
    """State: a secret was cut, and more may belong to it: it ended with an announcing word (words.py, `swallowed`), or
    another value follows. What that opens is read ahead: unless it finds a secret, nothing but the first was there."""

    __slots__ = ("_at", "_opened")
    POSITIONS = ("_at", "_opened")

    def __init__(self, opened: State, at: int) -> None:
        self._opened, self._at = opened, at

    def step(self, text: str, at: int, end: int, *, is_last: bool) -> StepResult:
        """See `State.step`. `at` stays where the secret ended until there is a verdict."""
        while self._at - at <= _REACH_CHARS:
            step = self._opened.step(text, self._at, end, is_last=is_last)
            if step.cut is not None:
                return step if step.is_over else step._replace(becomes=step.becomes or self._opened)
            self._opened, self._at = step.becomes or self._opened, step.at
            if step.becomes is None and not step.is_over:
                return StepResult(at, waits=True) if not is_last else StepResult(at, is_over=True)
            if step.is_over:
                break
        return StepResult(at, is_over=True)


class Phrase(State):
    """State: the first word of a phrase was read; does the second follow?"""

    def __init__(self, first: Announcement) -> None:
        self._first = first

    def step(self, text: str, at: int, end: int, *, is_last: bool) -> StepResult:
        """See `State.step`."""
        second = SECOND_WORD.match(text, at, end)
        assert second is not None, "it may be empty"
        if second.start("word") == end and not is_last:
            return StepResult(at, waits=True)
        last, stop = second["word"].lower(), second.end()
        family = vocabulary().together[self._first.word].get(last)
        if family is KeywordFamily.LOGIN:
            return StepResult(stop, becomes=LoginPair(stop))
        if family:
            word = self._first.word if last in vocabulary().numbers else last
            value = self._first._replace(end=stop, word=word, family=family, needs_sign=False)
            return StepResult(stop, becomes=AnnouncedValue(value))
        if self._first.family is KeywordFamily.PHRASE:
            return StepResult(at, is_over=True)
        first = self._first._replace(end=at)
        return StepResult(at, becomes=TableColumn(first) if may_be_head(first, text) else AnnouncedValue(first))


class LoginPair(State):
    """State: a name is expected, and behind a separator its password."""

    POSITIONS = ("_begun_at",)

    _CONNECTS: Final = re.compile(r"[:=—–-]{1,2}\Z|[-=]{1,2}>\Z|[:=]|[*_`\"']{1,2}")
    _PAIR: Final = re.compile(r"(?P<name>[A-Za-z][a-z.@_-]{0,39}\d{0,4})[:/](?!/)(?P<value>\S{6,64})")
    _SEPARATES: Final = re.compile(r"/{1,2}\Z|[|:]\Z|(?P<word>and|и|und|y|et|e|och|og|en|i|a|ve|та)\Z")
    _NAME: Final = re.compile(r"[\w.@+-]{1,40}(?P<separator>[:,]?)\Z")
    _ENDS: Final = re.compile(r"\n|</|\\{0,3}\"[,}\]]")
    _WORDS_MAX: Final = 4

    _has_name = _is_labelled = _is_separated = False
    _words = 0

    def __init__(self, begun_at: int, *, is_another: bool = False) -> None:
        self._begun_at, self._is_another = begun_at, is_another

    def step(self, text: str, at: int, end: int, *, is_last: bool) -> StepResult:
        """See `State.step`."""
        while at < end:
            unit = unit_end(text, at, min(end, at + _REACH_CHARS))
            is_far = at - self._begun_at > _REACH_CHARS
            if is_far or self._ENDS.match(text, at, unit) or PLACEHOLDER.match(text, at, unit):
                break
            if string_end := self._ENDS.search(text, at + 1, unit):
                unit = string_end.start()
            if text[at].isspace() or text[at] in "—–：":
                at += 1
                continue
            if self._is_separated:
                step = self._value(text, at, unit)
                name = self._NAME.match(text, at, unit) if step.cut is None and self._is_labelled else None
                if name is None:
                    return step
                self._is_labelled, self._is_separated = False, name["separator"] == ":"
                at = name.end()
                continue
            if text.startswith("-p", at, unit) and not text.startswith("-pa", at, unit):
                self._is_separated = True
                at += 2
                continue
            if announces_more(text[at:unit]):
                break
            if pair := self._PAIR.match(text, at, unit):
                return self._value(text, pair.start("value"), unit)
            if not self._words and is_secret(
                text[at:unit].strip("\"'`*,;"), KeywordFamily.KEY, Bond.LOOSE, is_quoted=False
            ):
                return self._value(text, at, unit)
            moved = self._connect(text, at, unit)
            if moved == at and not self._is_separated:
                break
            at = moved
        return StepResult(at, is_over=at < end)

    def _connect(self, text: str, at: int, unit: int) -> int:
        """Pass a word, a sign or the name; return `at` itself to give up."""
        if self._has_name and is_secret(text[at:unit], KeywordFamily.PERSONAL, Bond.LOOSE, is_quoted=False):
            self._is_separated = True
            return at
        if self._has_name and (separates := self._SEPARATES.match(text, at, unit)):
            self._is_separated = not (self._is_another and separates["word"])
            return separates.end()
        if connects := self._CONNECTS.match(text, at, unit):
            return connects.end()
        name = self._NAME.match(text, at, unit)
        self._words += 1
        if self._is_another and unit == at + 1 and text[at] in ",;)":
            return unit
        if name is None or self._words > self._WORDS_MAX * (1 + self._is_another):
            return at
        self._has_name = True
        self._is_separated = self._is_labelled = name["separator"] == ":" and self._words > 1
        return name.end()

    def _value(self, text: str, at: int, stop: int) -> StepResult:
        at = stop - len(text[at:stop].lstrip("\"'`*|("))
        stop = at + len(text[at:stop].rstrip(".,;:)]}>*|?`\"'"))
        is_whole = placeholder_in(text, at, stop) is None
        if is_whole and is_secret(text[at:stop], KeywordFamily.PERSONAL, Bond.SAID, is_quoted=False):
            cut = SecretSpan(at, stop, KeywordFamily.PERSONAL.rule)
            return StepResult(stop, cut=cut, becomes=LoginPair(stop, is_another=True))
        return StepResult(at, is_over=True)


class CommandLine(State):
    """State: the name of a program was read, one of whose options takes a password."""

    POSITIONS = ("_begun_at",)

    _ENDS: Final = frozenset("\n|;&")
    _CLUSTERED: Final = frozenset(["-u", "-P"])
    _CLUSTER: Final = re.compile(r"-[A-Za-z]{2,5}\Z")

    def __init__(self, word: Announcement) -> None:
        self._begun_at = word.end
        self._options = vocabulary().options[word.word]

    def step(self, text: str, at: int, end: int, *, is_last: bool) -> StepResult:
        """See `State.step`."""
        while at < end:
            unit = unit_end(text, at, min(end, at + _REACH_CHARS))
            if at - self._begun_at > _REACH_CHARS or text[at] in self._ENDS:
                return StepResult(at, is_over=True)
            if option := self._option(text, at, unit):
                is_pair = bool({"-u", "-U", "--user"} & self._options)
                word = Announcement(option, option, "", KeywordFamily.PERSONAL, is_spaced=False, is_pair=is_pair)
                return StepResult(option, becomes=AnnouncedValue(word, Bond.SAID))
            if announces_more(text[at:unit]) and not text.startswith("__", at):
                return StepResult(at, is_over=True)
            at = unit
        return StepResult(at)

    def _option(self, text: str, at: int, unit: int) -> int | None:
        """Return the end of an option that begins here, None if none does."""
        for option in self._options:
            if text.startswith(option, at, unit) and not text[at - 1].isalnum():
                return at + len(option)
            if option in self._CLUSTERED and self._CLUSTER.match(text, at, unit) and text[unit - 1] == option[1]:
                return unit
        return None
