"""Most announcing words are only talked about: `the token limit is the problem.`

Such a place is told by one bounded pattern, so that neither the word nor what follows it is looked at more
closely. This decides nothing: the walk of announced.py would come to the same end, a few dozen steps later.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final

from gateway.scrub.announced import REACH_CHARS
from gateway.scrub.openings import BETWEEN_WORDS, SECOND_WORD
from gateway.scrub.words import ENDING_CHARS_MAX, Family, vocabulary

Place = tuple[int, int]
"""Where an announcing word may stand."""

_VALUED: Final = frozenset({Family.PERSONAL, Family.KEY, Family.VAGUE, Family.SCHEME})
"""These announce one value, by announced.py; the others open something of their own (openings.py)."""

_PLAIN_WORD: Final = r"(?:[A-ZÀ-ÞА-ЯЁ]?[a-zß-ÿа-яё]{1,12}(?:'[a-z]{1,2})?|[A-ZА-ЯЁ]{1,8})(?=[,.;?!]?(?:\s|\Z))"
_WORD: Final = re.compile(_PLAIN_WORD)
_TALK: Final = re.compile(rf"(?P<ending>[a-zß-ÿа-яё]{{0,12}}+)(?:,? {_PLAIN_WORD}){{0,24}}+")
"""Words as in any sentence, in the case that sentences have: none of them is a value, whatever announces it."""

_CJK: Final = "[\u3040-\ud7ff]"
_STOP: Final = re.compile(rf"[.;?!](?=\s|\Z)|{_CJK}{{0,12}}[。，；！？、]|{_CJK}{{13}}")
"""Behind these no value is looked for: the end of a sentence, a clause in a script without spaces, a long one."""


def without_talk(text: str, lowered: str, places: list[Place], end: int, *, is_last: bool) -> list[Place]:
    """Those places of announcing words in `text[:end]` whose word may be followed by a value.

    A word that is only talked about is dropped if no word that stays begins within its talk: the walk from the
    first would have passed over that one.
    """
    valued, phrases = _valued(), _phrases()
    decided = end if is_last else end - 1
    limit = decided
    halt = end
    kept: list[Place] = []
    for at, stop in reversed(places):
        word = lowered[at:stop]
        is_valued = word in valued
        if is_valued:
            over = _end_of_talk(text, stop, end, halt)
            is_talk = over is not None and over <= limit
        else:
            is_talk = word in phrases and _is_no_phrase(text, stop, decided, phrases[word])
        if not is_talk:
            kept.append((at, stop))
            limit = min(limit, at)
        if is_valued and _stands_alone(text, at, stop, end):
            halt = at
    kept.reverse()
    return kept


def _stands_alone(text: str, at: int, stop: int, end: int) -> bool:
    """Is this a whole word, at which every walk ends?"""
    word = _WORD.match(text, at, end)
    endings = 0 if text[at].isascii() else ENDING_CHARS_MAX
    return word is not None and 0 <= word.end() - stop <= endings and text[at - 1 : at] == " "


def _is_no_phrase(text: str, at: int, decided: int, seconds: Mapping[str, Family]) -> bool:
    """Does another word follow than those that make a phrase of this one?"""
    between = BETWEEN_WORDS.match(text, at)
    second_at = between.end() if between else at
    second = SECOND_WORD.match(text, second_at)
    return (second.end() if second else second_at) <= decided and not (second and second.group().lower() in seconds)


def _end_of_talk(text: str, at: int, end: int, halt: int) -> int | None:
    """Up to where the sentence goes on as sentences do, until it is over, no value is in reach or another announcing
    word stands at `halt`; None if it does not."""
    talk = _TALK.match(text, at, end)
    assert talk is not None, "it may be empty"
    over = talk.end()
    if over > halt:
        return halt
    if over - talk.end("ending") > REACH_CHARS:
        return over
    stop = _STOP.match(text, over, end)
    return stop.end() if stop else None


@cache
def _phrases() -> Mapping[str, Mapping[str, Family]]:
    """The words that announce nothing by themselves, and which must follow them."""
    words = vocabulary()
    return {word: seconds for word, seconds in words.together.items() if words.announcing[word][0] is Family.PHRASE}


@cache
def _valued() -> frozenset[str]:
    """The announcing words from which announced.py walks, and nothing else does."""
    words = vocabulary()
    return frozenset(word for word, (family, _) in words.announcing.items() if family in _VALUED) - set(words.together)
