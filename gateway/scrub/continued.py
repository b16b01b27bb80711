"""A message as the continuation of what its author said just before: a secret may lie across the border.

People paste a key in two messages, platforms cut long texts in two, and some announce a password in one message
and say it in the next. Neither message alone has the looks to be told by; so both are read as one text, once put
together without anything in between (a token that was cut) and once with a space (a value that was announced).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from gateway.contracts.messages import CleanText, Finding, own_words, portion
from gateway.contracts.ports import Scrubber
from gateway.scrub.placeholder import PLACEHOLDER, WHOLE_TEXT, kind_of
from gateway.scrub.tail import open_tail
from gateway.scrub.units import is_cjk
from gateway.scrub.words import is_announcing, vocabulary

_WORD_CHARS_MAX: Final = 14
"""A longer run of small letters is no word that somebody happens to begin a message with."""

_RANDOM_CHARS_MIN: Final = 8
"""So many letters and digits in a row right behind a key are rather its end than the next thing said."""

_NAMED: Final = "named"
_ASSIGNS: Final = re.compile(r"[:=：＝][\s\"'`“«]*\Z")
_GOES_ON: Final = frozenset({_NAMED, "pem"})
"""Kinds of which `open_tail` does not tell whether they are complete."""

_REACH_CHARS: Final = 120
_CARRIED_WORDS_MAX: Final = 4
"""Words behind an announcing one that say what the value is for."""

_REVEALED_CHARS_MIN: Final = 6
"""A shorter end of a text is like the beginning of a secret by chance."""

_SIGN: Final = re.compile(r"[:=：＝→][\s\"'`“«(]*\Z|[-–—]\Z")
_WORD: Final = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_ASIDE: Final = re.compile(rf"(?:{_WORD.pattern}|\d{{1,4}})?[.,!?;:)\"'…]*")


@dataclass(frozen=True, slots=True)
class Continued:
    """A message, clean in the light of what came before it, and what was found in it.

    `reach` is how many characters right before the message, spaces at the border not counted, belong to a secret
    that ends in it; `placeholder` stands for that secret. `is_joined`: the message alone does not show what was
    found. `may_go_on`: what came before may reach through this message into the next.
    """

    text: CleanText
    found: tuple[Finding, ...]
    reach: int = 0
    placeholder: CleanText = field(default_factory=lambda: own_words(""))
    is_joined: bool = False
    may_go_on: bool = False


@dataclass(frozen=True, slots=True)
class _Reading:
    """Two texts read as one: what came before ends at `before`, the message begins at `border`."""

    raw: str
    clean: CleanText
    found: tuple[Finding, ...]
    before: int
    border: int

    @property
    def crossing(self) -> Finding | None:
        """The secret that lies across the border."""
        return next((each for each in self.found if each.start < self.before and each.end > self.border), None)

    @property
    def behind(self) -> tuple[Finding, ...]:
        """What lies in the message, whole or with its end."""
        return tuple(each for each in self.found if each.end > self.border)


def continued(scrubber: Scrubber, before: Sequence[str], text: str) -> Continued:
    """`text` as its author said it after the raw texts of `before`, oldest first. Where no secret lies across the
    border it is what `scrubber.scrub` makes of it."""
    alone = Continued(scrubber.scrub(text), tuple(scrubber.findings(text)))
    said, message = [part.strip() for part in before if part.strip()], text.lstrip()
    if not said or not message:
        return alone
    together, apart = _read(scrubber, "".join(said), "", message), _read(scrubber, " ".join(said), " ", message)
    known = tuple(scrubber.findings(message))
    is_announced = _begins_with(_news(apart, known), apart) and announces(apart.raw[: apart.before])
    crossing, is_aside = together.crossing, False
    if crossing is not None:
        is_aside = (
            _is_aside(scrubber, together, crossing)
            or _is_glue(together, crossing)
            or _is_another(together, crossing, known)
        )
        is_word = _WORD.fullmatch(together.raw[crossing.start : together.before])
        if not is_aside and not (is_word and is_announced):
            return _in_this_light(scrubber, together)
    if is_announced:
        return _in_this_light(scrubber, apart)
    if crossing is None and _begins_with(_news(together, known), together):
        return _in_this_light(scrubber, together)
    return replace(alone, may_go_on=not is_aside and len(message.split()) == 1)


def revealed(scrubber: Scrubber, said: str, changed: str) -> tuple[int, CleanText]:
    """How many characters at the end of `said`, spaces not counted, are the beginning of a secret that shows in what
    its author made of it: in the new text as a whole, or as its second half. And what stands for that secret."""
    read = continued(scrubber, [said], changed)
    if read.reach:
        return read.reach, read.placeholder
    end, found = said.rstrip(), sorted(scrubber.findings(changed), key=lambda each: each.start)
    stand_ins = list(PLACEHOLDER.finditer(clean := scrubber.scrub(changed)))
    for each, stand_in in zip(found, stand_ins, strict=False):
        secret = changed[each.start : each.end]
        reach = next((n for n in range(min(len(secret), len(end)), 0, -1) if end.endswith(secret[:n])), 0)
        if reach >= _REVEALED_CHARS_MIN:
            return reach, portion(clean, stand_in.start(), stand_in.end())
    return 0, own_words("")


def announces(text: str) -> bool:
    """Is what this ends in said to announce a value ("my password is"), and nothing else ("the password is wrong")?"""
    end = text.rstrip()
    if _SIGN.search(end) or vocabulary().says_cjk.search(end):
        return True
    words = [part for word in _WORD.findall(end[-_REACH_CHARS:]) for part in word.lower().split("-")]
    if not words or not end.lower().endswith(words[-1]):
        return False
    if is_cjk(end[-1]):
        return any(end.lower().endswith(word) for word in vocabulary().announcing if is_cjk(word[-1]))
    last = max((at for at, word in enumerate(words) if is_announcing(word)), default=None)
    if last is None:
        return False
    behind = words[last + 1 :]
    says, carries = vocabulary().says, vocabulary().carries | vocabulary().types
    is_carried = bool(behind) and behind[0] in carries and len(behind) <= _CARRIED_WORDS_MAX
    return not behind or behind[-1] in says or all(word in carries for word in behind) or is_carried


def _read(scrubber: Scrubber, before: str, by: str, message: str) -> _Reading:
    raw = f"{before}{by}{message}"
    found = tuple(sorted(scrubber.findings(raw), key=lambda each: each.start))
    return _Reading(raw, scrubber.scrub(raw), found, len(before), len(before) + len(by))


def _news(reading: _Reading, known: Sequence[Finding]) -> list[Finding]:
    """What is found in the message only because of what came before."""
    return [
        each
        for each in reading.behind
        if not any(each.start - reading.border < old.end and old.start < each.end - reading.border for old in known)
    ]


def _begins_with(news: Sequence[Finding], reading: _Reading) -> bool:
    """Does the message itself begin with what is new in it? What was announced is said first."""
    return bool(news) and news[0].start == reading.border


def _is_glue(reading: _Reading, crossing: Finding) -> bool:
    """Is this a value only because two words, or the end of one thing and the beginning of another, were put
    together without a space? Nobody says the first half of a password as a word, but behind a sign."""
    if kind_of(crossing.rule) != _NAMED or _ASSIGNS.search(reading.raw, 0, crossing.start):
        return False
    head, rest = reading.raw[crossing.start : reading.before], reading.raw[reading.border : crossing.end]
    return any(_ASIDE.fullmatch(part) for part in (head, rest))


def _is_aside(scrubber: Scrubber, reading: _Reading, crossing: Finding) -> bool:
    """Does the message only stand next to a secret that was whole before it? Who pasted a key and says "thanks" is
    not to be robbed of the word."""
    before = reading.raw[: reading.before]
    last = next((each for each in scrubber.findings(before) if each.end == len(before)), None)
    if last is None:
        return False
    reached = reading.raw[reading.border : crossing.end]
    if len(reached) <= _WORD_CHARS_MAX and _ASIDE.fullmatch(reached) and not _is_mixed(reached):
        return True
    is_known_to_be_whole = last.rule == crossing.rule and kind_of(last.rule) not in _GOES_ON and not open_tail(before)
    return is_known_to_be_whole and not _is_random(reached)


def _is_another(reading: _Reading, crossing: Finding, known: Sequence[Finding]) -> bool:
    """Does the message begin with a secret of its own, whose end would stay if its beginning were taken for the end
    of the one before?"""
    return any(each.start < crossing.end - reading.border < each.end for each in known)


def _is_random(run: str) -> bool:
    return len(run) >= _RANDOM_CHARS_MIN and (not run.isalpha() or _is_mixed(run))


def _is_mixed(word: str) -> bool:
    return any(map(str.isalpha, word)) and not (word.islower() or word.istitle())


def _in_this_light(scrubber: Scrubber, reading: _Reading) -> Continued:
    crossing = reading.crossing
    shown = _after_border(reading)
    if shown is None:  # the clean text does not say where the message begins: it may hold what it should not
        return Continued(scrubber.scrub(WHOLE_TEXT), reading.behind, is_joined=True)
    # Read alone it may show what is hidden in the light of the other.
    clean = scrubber.scrub(shown)
    found = (*reading.behind, *scrubber.findings(shown))
    may_go_on = reading.behind[-1].end == len(reading.raw)
    stand_in = PLACEHOLDER.match(shown) if crossing is not None else None
    if crossing is None or stand_in is None:
        return Continued(clean, found, is_joined=True, may_go_on=may_go_on)
    reach, placeholder = reading.before - crossing.start, portion(shown, 0, stand_in.end())
    return Continued(clean, found, reach, placeholder, is_joined=True, may_go_on=may_go_on)


def _after_border(reading: _Reading) -> CleanText | None:
    """The part of the clean text that stands for the message: what is no secret stands in it as it was said."""
    raw_at = clean_at = 0
    begins: int | None = None
    for each in (*reading.found, None):
        until = each.start if each is not None else len(reading.raw)
        length = until - raw_at
        if length < 0 or reading.raw[raw_at:until] != reading.clean[clean_at : clean_at + length]:
            return None
        if begins is None and raw_at <= reading.border <= until:
            begins = clean_at + reading.border - raw_at
        clean_at += length
        if each is None:
            break
        stand_in = PLACEHOLDER.match(reading.clean, clean_at)
        if stand_in is None:
            return None
        if begins is None and each.start < reading.border < each.end:
            begins = clean_at
        raw_at, clean_at = each.end, stand_in.end()
    return None if begins is None or clean_at != len(reading.clean) else portion(reading.clean, begins, clean_at)
