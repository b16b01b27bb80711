"""What people are called, in one line that no name can leave: a name is written by whoever bears it, and read by others
in lists, in prompts and on terminals. Pure."""

from __future__ import annotations

import re
from typing import Final

from gateway.contracts.messages import CleanText, clipped
from gateway.contracts.ports import Scrubber
from gateway.limits import AUTHOR_NAME_CHARS_MAX

_UNFIT: Final = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]+")
"""Ends of lines, what terminals obey, and marks that turn the direction of writing; some languages need the other
invisible ones."""


def clean_name(name: str, scrubber: Scrubber) -> CleanText:
    """A name without secrets, at most AUTHOR_NAME_CHARS_MAX characters long."""
    whole = scrubber.scrub(name)  # before a secret is parted where something unfit stood in it
    return clipped(scrubber.scrub(_UNFIT.sub(" ", whole).strip()), AUTHOR_NAME_CHARS_MAX)
