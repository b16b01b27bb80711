"""What people and the model are told of a file that could not be had. Pure."""

from __future__ import annotations

import re
from typing import Final

from gateway.contracts.messages import own_words
from gateway.words import ENGLISH, Sentence, Words, sentence

NOBODY_ANSWERS: Final = sentence("the channel it came by does not hand it over at the moment")
EMPTY: Final = sentence("it is empty")
ONE_TOO_MANY: Final = sentence("there are too many files with this message")
UNREADABLE: Final = sentence("it is broken, or not what its name says")
LOCKED_DOCUMENT: Final = sentence("it is locked with a password")
TAKES_TOO_LONG: Final = sentence("reading it takes too long")
NOBODY_READS_IT: Final = sentence("nothing is installed here that reads such files")
TOO_MANY_PIXELS: Final = sentence("it is too large for me to look at")
NOT_IN_TIME: Final = sentence("it did not come in time")
NO_TEXT: Final = own_words("[No text was found in it. It may be scanned, or drawn.]")
NOT_LISTENING: Final = sentence("I cannot listen yet: no model for speech is set up here. Please write to me.")
NOT_UNDERSTOOD: Final = sentence("I could not make out what is said in your recording. Please write to me.")
_MEGABYTE: Final = 1024 * 1024
_KILOBYTE: Final = 1024


_MEASURED: Final = (
    (re.compile(r"it is larger than (\d+) KB"), sentence("it is larger than {number} KB")),
    (re.compile(r"it is larger than (\d+) MB"), sentence("it is larger than {number} MB")),
    (re.compile(r"it is a text of more than (\d+) MB"), sentence("it is a text of more than {number} MB")),
)


def not_read(name: str, reason: str, words: Words = ENGLISH) -> str:
    """One sentence about one file; in English for a model."""
    return words.say("I could not read `{name}`: {reason}.", name=name, reason=_reason(reason, words))


def too_large(bytes_max: int) -> str:
    """A reason: `bytes_max` is what may be read."""
    if bytes_max < _MEGABYTE:
        return f"it is larger than {max(1, bytes_max // _KILOBYTE)} KB"
    return f"it is larger than {bytes_max // _MEGABYTE} MB"


def no_room(complaint: str) -> str:
    """A reason: what the workspace says."""
    return f"it cannot be kept ({complaint})"


def not_shown(name: str, reason: str, words: Words = ENGLISH) -> str:
    """One sentence about one image; in English for a model."""
    return words.say("I could not look at `{name}`: {reason}.", name=name, reason=_reason(reason, words))


def _reason(reason: str, words: Words) -> str:
    """A clause that comes in English, out of an error and often over the bus."""
    for pattern, clause in _MEASURED:
        if found := pattern.fullmatch(reason):
            return _with_number(clause, found[1], words)
    return words.known(reason)


def _with_number(clause: Sentence, number: str, words: Words) -> str:
    return words.say(clause, number=number)


UNSEEN: Final = own_words(
    "An image came which you cannot see. Say so, and do not guess what is on it. The file tools can copy or send it."
)


def could_be_seen_by(model: str) -> str:
    """For a model that cannot see: which other one could."""
    return f"{UNSEEN} `{model}` could see it: whoever writes may choose that model with /model {model}."
