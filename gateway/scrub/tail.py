"""Does a text end in the first half of a token?

People paste a key in two messages, and platforms cut long ones in two. The second half alone has no looks to
be told by; so whoever receives the first asks here what to remember until the second arrives.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.scrub.heads import open_head, token_at
from gateway.scrub.view import View

TAIL_CHARS_MAX: Final = 64
"""No longer piece is kept of a token that cannot be recognised yet."""

LONG_TAIL_CHARS_MAX: Final = 2048
"""A token that can be recognised already, but is of a kind that goes on for long, is kept up to here."""

_TAIL: Final = re.compile(r"(?<![A-Za-z0-9_+/=.:~%-])[A-Za-z0-9_+/=.:~%-]{1,2048}\Z")


def open_tail(text: str) -> str:
    """The raw end of `text` that looks like the beginning of a known token, empty if there is none.

    Always a suffix of `text`. A piece that is no token by itself has at most `TAIL_CHARS_MAX` characters; one
    that is a token already and may go on (a JWT, a project key) at most `LONG_TAIL_CHARS_MAX`.
    """
    try:
        return _open_tail(text)
    except Exception:  # noqa: BLE001 - as the scrubber itself: what could not be looked through may be a secret
        return text[-TAIL_CHARS_MAX:]


def _open_tail(text: str) -> str:
    view = View()
    view.append(text[-LONG_TAIL_CHARS_MAX:], is_last=True)
    run = _TAIL.search(view.text)
    if run is None or view.text[-1] in ".:":
        return ""
    head = open_head(run.group())
    if head is None:
        return ""
    tail = view.raw(view.raw_start(run.start() + head), view.raw_length)
    is_recognisable = token_at(run.group(), head) is not None
    return tail if is_recognisable or len(tail) <= TAIL_CHARS_MAX else ""
