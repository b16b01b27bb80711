"""What came along with a message, free of secrets: also of one that begins in a quote and ends in what the same person
said next, in another quote or in the message itself. Who answers his own first half has said both halves. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from channels.inbound.halves import HALF_CHARS_MAX, bare_end
from channels.inbound.names import clean_name
from channels.normalized import Incoming, RawQuote
from gateway.contracts.messages import CleanText, Quote, clipped, joined, portion
from gateway.contracts.ports import Scrubber
from gateway.scrub.continued import Continued, continued
from gateway.scrub.cutting import head

QUOTES_MAX: Final = 40  # what was said in a thread before we were called: enough to know what it is about
QUOTE_CHARS_MAX: Final = 4_000  # of each: context must not crowd out what is said


@dataclass(frozen=True, slots=True)
class Quoting:
    """The quotes of a message without their files, and the message as the end of what its author is quoted with last;
    None where that makes no difference to it."""

    quotes: tuple[Quote, ...]
    ending: Continued | None


def quoted(incoming: Incoming, scrubber: Scrubber) -> Quoting:
    """What the newest quotes of `incoming` say, in their order."""
    clean: list[Quote] = []
    newest: dict[str, int] = {}  # where each person is quoted last
    raw = [_bounded(found, incoming) for found in incoming.quotes[-QUOTES_MAX:]]
    for at, found in enumerate(raw):
        read = _read_on(found.author_name, found.text, raw, clean, newest, scrubber)
        text = scrubber.scrub(found.text) if read is None else read.text
        clean.append(Quote(found.kind, clean_name(found.author_name, scrubber), text))
        newest[found.author_name] = at
    ending = None
    if incoming.command is None:  # a command is nobody's second half
        ending = _read_on(incoming.author_name, incoming.text, raw, clean, newest, scrubber)
    bounded = tuple(replace(each, text=clipped(each.text, QUOTE_CHARS_MAX)) for each in clean)
    return Quoting(bounded, None if ending is None else replace(ending, reach=0))


def _bounded(found: RawQuote, incoming: Incoming) -> RawQuote:
    """As much of it as is shown. Whose name nobody could look up is called by his id."""
    author = incoming.author_name if found.author_name == incoming.user_id else found.author_name
    return replace(found, author_name=author, text=head(found.text, QUOTE_CHARS_MAX))


def _read_on(
    author_name: str,
    text: str,
    raw: Sequence[RawQuote],
    clean: list[Quote],
    newest: dict[str, int],
    scrubber: Scrubber,
) -> Continued | None:
    """`text` as what its author says after he is quoted last, of which the end that belongs to it is taken away."""
    at = newest.get(author_name)
    if at is None:
        return None
    before = raw[at].text
    read = continued(scrubber, [before[-HALF_CHARS_MAX:]], text)
    if read.reach:
        clean[at] = replace(clean[at], text=_torn(clean[at].text, before, read))
    return read if read.is_joined else None


def _torn(clean: CleanText, said: str, read: Continued) -> CleanText:
    """`clean`, which is what is left of `said`, without the first part of the secret that ends in `read`."""
    chars = min(read.reach + len(said) - len(said.rstrip()), bare_end(clean, said))
    return joined(portion(clean, 0, len(clean) - chars), read.placeholder) if chars > 0 else clean
