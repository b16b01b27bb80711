"""Scrub and bound what came along with a message: quotes, excerpts, forwards, the thread before it. Pure."""

from __future__ import annotations

from typing import Final

from channels.inbound.names import clean_name
from channels.normalized import Incoming
from gateway.contracts.messages import Quote, clipped
from gateway.contracts.ports import Scrubber
from gateway.scrub.cutting import head

QUOTES_MAX: Final = 40  # what was said in a thread before we were called: enough to know what it is about
QUOTE_CHARS_MAX: Final = 4_000  # of each: context must not crowd out what is said


def quoted(incoming: Incoming, scrubber: Scrubber) -> list[Quote]:
    """Return the newest quotes of `incoming` without their files, in their order."""
    clean = []
    for found in incoming.quotes[-QUOTES_MAX:]:
        # Whose name nobody could look up is called by the id of the account.
        author = incoming.author_name if found.author_name == incoming.user_id else found.author_name
        text = clipped(scrubber.scrub(head(found.text, QUOTE_CHARS_MAX)), QUOTE_CHARS_MAX)
        clean.append(Quote(found.kind, clean_name(author, scrubber), text))
    return clean
