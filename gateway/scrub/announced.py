"""After an announcing word: find the value it announces, through signs, quotes and a few other words.

    my password is hunter2!      DB_PASSWORD="…"      {"api_key": "…"}      пароль от почты: …      密码是…

The walk goes from left to right over closed units and never looks back, so it can be interrupted anywhere.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.scrub.judge import Bond, is_pass_phrase, is_secret
from gateway.scrub.placeholder import PLACEHOLDER
from gateway.scrub.rules import Span
from gateway.scrub.states import Step
from gateway.scrub.units import is_cjk, unit_end
from gateway.scrub.words import Announcement, Family, is_announcing, vocabulary

_FILLERS_MAX: Final = 5
_NEWLINES_MAX: Final = 3
_CJK_WORDS_CHARS_MAX: Final = 12
REACH_CHARS: Final = 120
"""How far from the announcing word a value may begin."""

_VALUE_CHARS_MAX: Final = 512
_QUOTED_CHARS_MAX: Final = 160
_BARE: Final = r"(?:[^\"'`<>\\]|\\(?![nrtu\"'\\])|[<>](?![/a-zA-Z]))"
_BARE_VALUE: Final = re.compile(f"{_BARE}{{1,{_VALUE_CHARS_MAX}}}")
_BARE_REST: Final = re.compile(f"{_BARE}+")
_IDENTIFIER_REST: Final = re.compile(r"[A-Za-z0-9_-]{0,40}", re.ASCII)

# All of these are matched within one unit, whose end is their \Z.
_FENCE: Final = re.compile(r"`{3,}[a-z]{0,12}\Z|\\n")
_CLOSING: Final = re.compile(r"(?:\\{0,3}[\"']|[`*_\])}]){1,6}|</[a-z]{1,3}>")
_ASSIGNS: Final = re.compile(r":=|=>|={1,3}|->|:(?!//)|→|>(?=[^=>])")
_SAYS: Final = re.compile(r"[-|~]\Z")
_OPENING: Final = re.compile(r"[bBrRfFuU]?(?P<quote>\\*[\"']|`)|\*{1,2}|[(\[]")
_WORD: Final = re.compile(r"[^\W\d_](?:[^\W\d_]|['-](?=[^\W\d_])){0,23}(?=[:=,.;?!]?\Z)")
_STOP: Final = re.compile(r"[.;?!,]\Z")
_QUOTE_MARKS: Final = (">", "|")

_DASHES: Final = "—–"
_OPENING_MARKS: Final = "“”«„‘’「『《【"

_TRAILING: Final = re.compile(r"[.,;:)\]}>*|?~]+\Z|(?<=[A-Za-z0-9])_{1,2}\Z")
_NEXT_PAIR: Final = re.compile(r"[;,&](?=[A-Za-z_][\w. -]{0,30}[=:])|\\u0026|&amp;", re.ASCII)


class AnnouncedValue:
    """State: an announcing word was read, its value is expected."""

    __slots__ = (
        "_begun_at",
        "_bond",
        "_family",
        "_fillers",
        "_is_fresh",
        "_may_touch",
        "_needs_end_tag",
        "_needs_sign",
        "_newlines",
        "_quote",
        "_rest_read",
    )

    def __init__(self, announcement: Announcement) -> None:
        self._family = announcement.family
        self._begun_at = announcement.end
        self._may_touch = not announcement.is_spaced
        self._needs_sign = announcement.needs_sign
        self._needs_end_tag = False
        self._bond: Bond = Bond.ADJACENT
        self._fillers = 0
        self._newlines = 0
        self._quote = ""
        self._is_fresh = True
        self._rest_read = ""

    def moved(self, by: int) -> None:
        """The text lost `by` characters at its front."""
        self._begun_at -= by

    def step(self, text: str, at: int, end: int, *, is_last: bool) -> Step:
        """See `State.step`."""
        if self._is_fresh:
            self._is_fresh = False
            rest = _IDENTIFIER_REST.match(text, at, end)
            self._rest_read = rest.group() if rest and not self._may_touch and self._family is not Family.SCHEME else ""
            if vocabulary().denies_after.match(self._rest_read):
                return Step(at, is_over=True)
            at += len(self._rest_read)
        while at < end:
            if at - self._begun_at > REACH_CHARS:
                return Step(at, is_over=True)
            moved = self._connect(text, at, end)
            if moved is None:
                return Step(at, is_over=True)
            if moved == at:
                return self._value(text, at, end, is_last=is_last)
            at = moved
        return Step(at)

    # --- from the word to the value

    def _connect(self, text: str, at: int, end: int) -> int | None:
        """Past one connecting piece; `at` itself if a value may begin here; None to give up."""
        char = text[at]
        if char == "\n":
            self._newlines += 1
            return at + 1 if self._bond >= Bond.SAID and self._newlines <= _NEWLINES_MAX else None
        if char.isspace() or char in _OPENING_MARKS:
            return at + 1
        if char in _DASHES:
            self._bond = max(self._bond, Bond.SAID)
            return at + 1
        if is_cjk(char):
            unit = unit_end(text, at, min(end, at + _CJK_WORDS_CHARS_MAX + 1))
            return self._pass_cjk(text[at:unit], unit)
        unit = unit_end(text, at, min(end, at + _VALUE_CHARS_MAX))
        return self._pass_word(text, at, unit) if char.isalpha() else self._pass_sign(text, at, unit)

    def _pass_sign(self, text: str, at: int, unit: int) -> int | None:
        if _STOP.match(text, at, unit) or PLACEHOLDER.match(text, at, unit):
            return None
        if text[at] in _QUOTE_MARKS and text[at - 1] == "\n":
            return at + 1
        if self._bond >= Bond.SAID and (fence := _FENCE.match(text, at, unit)):
            return fence.end()
        if assigns := _ASSIGNS.match(text, at, unit):
            self._bond = Bond.ASSIGNED
            self._needs_end_tag = assigns.group() == ">"
            return assigns.end()
        if self._bond < Bond.ASSIGNED:
            if says := _SAYS.match(text, at, unit):
                self._bond = max(self._bond, Bond.SAID)
                return says.end()
            closing = _CLOSING.match(text, at, unit)
            if closing and self._fillers == 0 and at - self._begun_at <= len(self._rest_read):
                return closing.end()
        return self._open(text, at, unit)

    def _open(self, text: str, at: int, unit: int) -> int:
        """Past the quote or bracket a value stands in, if there is one."""
        opening = None if self._quote else _OPENING.match(text, at, unit)
        if opening is None:
            return at
        if self._bond == Bond.ASSIGNED and opening["quote"]:
            self._quote = opening["quote"]
        return opening.end()

    def _pass_cjk(self, words: str, unit: int) -> int | None:
        if vocabulary().says_cjk.search(words):
            self._bond = max(self._bond, Bond.SAID)
        self._fillers += 2
        return unit if self._fillers <= _FILLERS_MAX and len(words) <= _CJK_WORDS_CHARS_MAX else None

    def _pass_word(self, text: str, at: int, unit: int) -> int | None:
        if self._quote:
            return at
        word = _WORD.match(text, at, unit)
        if word is None:
            return self._open(text, at, unit)
        if word.group().lower() in vocabulary().types:
            self._bond = Bond.LOOSE
            return word.end()
        if self._bond == Bond.ASSIGNED and self._rest_read:
            return at
        return self._pass_filler(word.group(), word.end(), at)

    def _pass_filler(self, word: str, end: int, at: int) -> int | None:
        lowered = word.lower()
        if is_announcing(lowered):
            return None
        if lowered in vocabulary().says and self._bond < Bond.SAID:
            self._bond = Bond.SAID
            return end
        if self._rest_read.startswith("-") or vocabulary().denies_after.fullmatch(lowered):
            return None
        is_plain = word.islower() or word.istitle() or word.isupper()
        if not is_plain and is_secret(word, self._family, self._bond, is_quoted=False):
            return at
        self._fillers += 1
        if self._family is Family.VAGUE and lowered in vocabulary().certain_after:
            self._family = Family.KEY
            return end
        if lowered not in vocabulary().carries:
            self._bond = Bond.LOOSE
        return end if self._fillers <= _FILLERS_MAX else None

    # --- the value

    def _value(self, text: str, at: int, end: int, *, is_last: bool) -> Step:
        if not self._may_touch and at == self._begun_at + len(self._rest_read):
            return Step(at, is_over=True)
        if self._needs_sign and self._bond < Bond.SAID:
            return Step(at, is_over=True)
        if self._quote:
            quoted = self._quoted(text, at, end, is_last=is_last)
            if quoted is not None:
                return quoted
        value = _BARE_VALUE.match(text, at, unit_end(text, at, min(end, at + _VALUE_CHARS_MAX)))
        if value is None:
            return Step(at, is_over=True)
        if placeholder := PLACEHOLDER.search(text, at, value.end()):
            return Step(placeholder.end(), is_over=True)
        stop = self._without_followers(text, at, value.end())
        if self._needs_end_tag and not text.startswith("</", stop):
            return Step(at, is_over=True)
        if stop <= at or not is_secret(text[at:stop], self._family, self._bond, is_quoted=bool(self._quote)):
            return Step(at, is_over=True)
        if stop == at + _VALUE_CHARS_MAX and (rest := _BARE_REST.match(text, stop, unit_end(text, stop, end))):
            stop = rest.end()
        return Step(stop, is_over=True, cut=Span(at, stop, _kind(self._family)))

    def _without_followers(self, text: str, at: int, stop: int) -> int:
        """The end of the value without what only follows it: a full stop, a bracket, the next pair."""
        if cut := _NEXT_PAIR.search(text, at, stop):
            stop = cut.start()
        while trailing := _TRAILING.search(text, at, stop):
            if text[trailing.start()] == ")" and "(" in text[at : trailing.start()]:
                break
            stop = trailing.start()
        if self._family is not Family.PERSONAL and stop > at and text[stop - 1] == "!":
            stop -= 1
        return stop

    def _quoted(self, text: str, at: int, end: int, *, is_last: bool) -> Step | None:
        """A value in quotes, spaces and all. None: the quote does not close, read the value as it stands."""
        closing = text.find(self._quote, at, min(end, at + _QUOTED_CHARS_MAX))
        newline = text.find("\n", at, min(end, at + _QUOTED_CHARS_MAX) if closing < 0 else closing)
        if closing < 0 or newline >= 0:
            is_decided = newline >= 0 or end - at >= _QUOTED_CHARS_MAX or is_last
            return None if is_decided else Step(at, waits=True)
        value = text[at:closing]
        if placeholder := PLACEHOLDER.search(text, at, closing):
            return Step(placeholder.end(), is_over=True)
        if any(char.isspace() for char in value):
            is_cut = self._family is Family.PERSONAL and is_pass_phrase(value)
        else:
            is_cut = is_secret(value, self._family, self._bond, is_quoted=True)
        if not is_cut:
            return Step(at, is_over=True)
        return Step(closing, is_over=True, cut=Span(at, closing, _kind(self._family)))


def _kind(family: Family) -> str:
    return "named/personal" if family is Family.PERSONAL else "named"
