"""Most texts hold no secret, though many hold a word that could announce one. This is how we know, soon.

Nothing here decides anything: it says beforehand what the machine would find out step by step, so that the
machine need not take the steps.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.scrub.ahead import Ahead
from gateway.scrub.announced import REACH_CHARS
from gateway.scrub.openings import opened_by
from gateway.scrub.words import Announcement, Family

_PLAIN_WORD: Final = r"[A-ZÀ-ÞА-ЯЁ]?[a-zß-ÿа-яё]{1,22}(?:'[a-z]{1,2})?(?![^\s,.;?!])"
_TALK: Final = re.compile(f"(?:[ ,]{{1,2}}{_PLAIN_WORD})*+")
"""Words as in any sentence: none of them is a value, whatever announces it."""

_FULL_STOP: Final = re.compile(r"[.;?!](?=\s|\Z)|[\u3040-\ud7ff]{0,12}[。，；！？、]|[\u3040-\ud7ff]{13}")
"""Behind these no value is looked for."""


def is_quiet(ahead: Ahead, text: str) -> bool:
    """Is there certainly nothing to cut out of `text`, which ends here, in what lies ahead?"""
    return not (ahead.spans or ahead.blocks) and all(leads_nowhere(word, text) for word in ahead.words)


def leads_nowhere(word: Announcement, text: str) -> bool:
    """Is what follows the word certainly no value?"""
    if word.family is Family.COOKIE:
        return False
    return is_mere_talk(word, text) or opened_by(word).step(text, word.end, len(text), is_last=True).cut is None


def is_mere_talk(word: Announcement, text: str) -> bool:
    """Does the sentence go on, or end, as sentences do? The cheap half of `leads_nowhere`."""
    talk = _TALK.match(text, word.end)
    end = talk.end() if talk else word.end
    return end - word.end > REACH_CHARS or _FULL_STOP.match(text, end) is not None
