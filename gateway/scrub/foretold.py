"""A value that stands before its announcing word: `… is my password`, `… — это пароль`, `用…作为密码`.

What was given away cannot be taken back, so a value that looks made waits here for the few words that
decide. Nearly always the very next word does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final, NamedTuple

from gateway.scrub.judge import Bond, is_secret
from gateway.scrub.rules import Span
from gateway.scrub.states import Step
from gateway.scrub.units import is_cjk, unit_end
from gateway.scrub.words import Family, family_of, is_announcing, vocabulary

_REACH_CHARS: Final = 40
"""How far behind the value its announcing word may begin."""

_RUN_CHARS_MAX: Final = 72
_VALUE_CHARS_MIN: Final = 6
_PRINTABLE: Final = "".join(map(chr, range(33, 127)))
_MADE: Final = re.compile(r"[-0-9](?:(?<=[0-9])|[a-z]{3,12}-[a-z]{3,12}-)")
_CANDIDATE: Final = re.compile(
    r"(?<![!-~])[\"'`(\[*|<]{0,3}(?=[!-~]{0,63}[0-9]|(?:[a-z]{3,12}-){3})"
    rf"(?P<value>[\w!@#$%^&*+/=~?.-]{{{_VALUE_CHARS_MIN},64}}?)[\"'`)\]*|>,.;:]{{0,3}}(?![!-~])",
    re.ASCII,
)
_RUN: Final = re.compile(r"[!-~]+")
_LINKS: Final = re.compile(r"[—–=-]|<-{1,2}|->|[(（]")
_BESIDE: Final = re.compile(r"[\"'`*|,:)»”」』，]")
_WORD: Final = re.compile(r"[^\W\d_](?:[^\W\d_]|['-](?=[^\W\d_]))*")


class Candidate(NamedTuple):
    """A value that looks made, and where what follows it begins."""

    start: int
    end: int
    after: int


def candidates(
    text: str, lowered: str, start: int, end: int, places: Iterable[tuple[int, int]], *, is_last: bool
) -> Iterator[Candidate]:
    """Values in `text[start:end]` behind which an announcing word may stand, at one of the `places`, or may still
    come; `lowered` is the text in lower case, as long as the text."""
    done = start
    speaking = (at for at, stop in places if not _is_silent(lowered[at:stop]))
    for zone_end in (*(_run_start(text, place) for place in speaking), *(() if is_last else (end,))):
        zone = max(done, zone_end - _REACH_CHARS - _RUN_CHARS_MAX)
        done = max(done, zone_end)
        while made := _MADE.search(text, zone, zone_end):
            begin, over = _run_start(text, made.start()), _RUN.match(text, made.start(), zone_end)
            assert over is not None, "what was found is a part of it"
            if begin >= zone and over.end() - begin >= _VALUE_CHARS_MIN:
                found = _CANDIDATE.match(text, begin, zone_end)
                if found and any(map(str.isalpha, found["value"])):
                    yield Candidate(found.start("value"), found.end("value"), found.end())
            zone = over.end()


@cache
def _is_silent(word: str) -> bool:
    """Does this word announce nothing by itself, whatever stands before it, and hold none that does?"""
    return (
        word.isascii()
        and word.isalpha()
        and not any(each in word for each in vocabulary().announcing if is_announcing(each))
    )


def _run_start(text: str, place: int) -> int:
    """Where the run that `place` stands in begins: a value may hold a word by chance (`monkey`)."""
    before = text[max(0, place - _RUN_CHARS_MAX) : place]
    return place - len(before) + len(before.rstrip(_PRINTABLE))


class Foretold:
    """State: a value that looks made was read; is it announced behind?"""

    __slots__ = ("_after", "_end", "_start")

    def __init__(self, candidate: Candidate) -> None:
        self._start, self._end, self._after = candidate

    def moved(self, by: int) -> None:
        """The text lost `by` characters at its front."""
        self._start -= by
        self._end -= by
        self._after -= by

    def step(self, text: str, at: int, end: int, *, is_last: bool) -> Step:
        """See `State.step`."""
        words = vocabulary()
        bond: Bond | None = None
        is_certain = is_aside = False
        pos = self._after
        while pos <= self._end + _REACH_CHARS:
            if pos >= end:
                return Step(at, is_over=is_last, waits=not is_last)
            if text[pos] == "\n":
                break
            if text[pos].isspace() or _BESIDE.match(text, pos):
                pos += 1
                continue
            unit = unit_end(text, pos, min(end, pos + _RUN_CHARS_MAX))
            if is_cjk(text[pos]):
                said = words.announcing_cjk.search(text, pos, unit)
                link = words.links_cjk.match(text, pos, unit)
                bond = Bond.SAID if link else bond
                if said is not None or link is None or link.end() < unit:
                    return self._before_cjk(text, at, unit, said, bond)
                pos = unit
                continue
            if link := _LINKS.match(text, pos, unit):
                bond = Bond.SAID if link.group()[0] in "<(（—–" else bond or Bond.LOOSE
                is_aside = link.group() in "(（"
                pos = link.end()
                continue
            word = _WORD.match(text, pos, unit)
            if word is None:
                break
            lowered = word.group().lower()
            family = family_of(lowered)
            if family is not None:
                if is_aside and text[word.end() : word.end() + 1] not in (")", "）"):
                    break
                return self._announced(text, at, word, end, family, bond, is_certain=is_certain, is_last=is_last)
            if lowered in words.copulas:
                bond = Bond.SAID
            elif words.certain_before.fullmatch(lowered):
                is_certain = True
            elif lowered in words.possessives:
                bond = bond or Bond.LOOSE
            elif lowered not in words.links:
                break
            pos = word.end()
        return Step(at, is_over=True)

    def _announced(
        self,
        text: str,
        at: int,
        word: re.Match[str],
        end: int,
        family: Family,
        bond: Bond | None,
        *,
        is_certain: bool,
        is_last: bool,
    ) -> Step:
        """The announcing word is there; what follows it may still say that it is another thing (`password manager`)."""
        following = word.end() + 1
        if following >= end and not is_last:
            return Step(at, waits=True)
        after = _WORD.match(text, following, end) if text[word.end() : following] in (" ", "-", "_") else None
        if bond is None or (after and vocabulary().denies_after.match(after.group().lower())):
            return Step(at, is_over=True)
        if family is Family.VAGUE and (is_certain or (after and after.group().lower() in vocabulary().certain_after)):
            family = Family.KEY
        return self._verdict(text, at, family, bond)

    def _before_cjk(self, text: str, at: int, unit: int, said: re.Match[str] | None, bond: Bond | None) -> Step:
        if said is None or bond is None or vocabulary().denies_after_cjk.match(text, said.end(), unit):
            return Step(at, is_over=True)
        return self._verdict(text, at, family_of(said.group()) or Family.PERSONAL, bond)

    def _verdict(self, text: str, at: int, family: Family, bond: Bond) -> Step:
        if family is Family.COOKIE:  # announces what follows it, never what stands before
            return Step(at, is_over=True)
        if family is not Family.PERSONAL:
            bond = Bond.ADJACENT
        elif "/" in text[self._start : self._end]:
            return Step(at, is_over=True)
        if not is_secret(text[self._start : self._end], family, bond, is_quoted=False):
            return Step(at, is_over=True)
        rule = "named/personal" if family is Family.PERSONAL else "named"
        return Step(self._end, is_over=True, cut=Span(self._start, self._end, rule))
