"""Most texts hold nothing that a machine would be needed for. This is how we know, in a few microseconds.

A text is quiet if every character stands for itself, nothing in it looks like a secret, and no announcing
word in it is followed by a value. The machine would give such a text back as it is; so it is not asked.
"""

from __future__ import annotations

from typing import Final

from gateway.scrub.ahead import Lookout
from gateway.scrub.foretold import Foretold
from gateway.scrub.openings import opened_by
from gateway.scrub.states import State
from gateway.scrub.view import is_plain

QUIET_CHARS_MAX: Final = 4096
"""A longer text goes to the machine at once: there the reading of it is what costs, not the machine."""


def is_quiet(text: str, lookout: Lookout) -> bool:
    """Would the machine certainly find nothing in `text`?"""
    if len(text) > QUIET_CHARS_MAX or not is_plain(text):
        return False
    ahead = lookout.over(text, text.lower(), 0, len(text), is_last=True)
    if ahead.spans or ahead.blocks:
        return False
    openings: list[tuple[int, State]] = [(word.end, opened_by(word)) for word in ahead.words]
    openings += [(candidate.start, Foretold(candidate)) for candidate in ahead.candidates]
    return not any(state.step(text, at, len(text), is_last=True).cut for at, state in openings)
