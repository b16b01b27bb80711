"""What people and the model are told of a file that could not be had. Pure."""

from __future__ import annotations

from typing import Final

from gateway.contracts.messages import own_words

NOBODY_ANSWERS: Final = "the channel it came by does not hand it over at the moment"
EMPTY: Final = "it is empty"
ONE_TOO_MANY: Final = "there are too many files with this message"
UNREADABLE: Final = "it is broken, or not what its name says"
LOCKED_DOCUMENT: Final = "it is locked with a password"
TAKES_TOO_LONG: Final = "reading it takes too long"
NOBODY_READS_IT: Final = "nothing is installed here that reads such files"
TOO_MANY_PIXELS: Final = "it is too large for me to look at"
NOT_IN_TIME: Final = "it did not come in time"
NO_TEXT: Final = own_words("[No text was found in it. It may be scanned, or drawn.]")
NOT_LISTENING: Final = own_words("I cannot listen yet: no model for speech is set up here. Please write to me.")
NOT_UNDERSTOOD: Final = own_words("I could not make out what is said in your recording. Please write to me.")
_MEGABYTE: Final = 1024 * 1024
_KILOBYTE: Final = 1024


def not_read(name: str, reason: str) -> str:
    """One sentence about one file."""
    return f"I could not read `{name}`: {reason}."


def too_large(bytes_max: int) -> str:
    """A reason: `bytes_max` is what may be read."""
    if bytes_max < _MEGABYTE:
        return f"it is larger than {max(1, bytes_max // _KILOBYTE)} KB"
    return f"it is larger than {bytes_max // _MEGABYTE} MB"


def no_room(complaint: str) -> str:
    """A reason: what the workspace says."""
    return f"it cannot be kept ({complaint})"


def not_shown(name: str, reason: str) -> str:
    """One sentence about one image."""
    return f"I could not look at `{name}`: {reason}."


UNSEEN: Final = own_words(
    "An image came which you cannot see. Say so, and do not guess what is on it. The file tools can copy or send it."
)


def could_be_seen_by(model: str) -> str:
    """For a model that cannot see: which other one could."""
    return f"{UNSEEN} `{model}` could see it: whoever writes may choose that model with /model {model}."
