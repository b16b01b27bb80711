"""What people and the model are told of a file that could not be had. Pure."""

from __future__ import annotations

from typing import Final

NOBODY_ANSWERS: Final = "the channel it came by does not hand it over at the moment"
EMPTY: Final = "it is empty"
ONE_TOO_MANY: Final = "there are too many files with this message"
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
