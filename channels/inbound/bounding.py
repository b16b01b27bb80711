"""Text that fits the bus. Pure.

Two bounds: characters, which people can be told, and the bytes of the envelope, which the bus enforces
(a text of four-byte characters is within the first and beyond the second). What came along with a text has room
of its own, so that neither can push the other out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from gateway.contracts.messages import Quote
from gateway.limits import ENVELOPE_BYTES_MAX, INBOUND_CHARS_MAX

ENVELOPE_REST_BYTES: Final = 48 * 1024  # ids, address, names and attachments beside the text
QUOTES_BYTES_MAX: Final = 64 * 1024  # sixteen quotes of the longest, or a whole thread of short ones
TEXT_BYTES_MAX: Final = ENVELOPE_BYTES_MAX - ENVELOPE_REST_BYTES - QUOTES_BYTES_MAX
_FRAME_BYTES: Final = 256  # of one quote or attachment in an envelope, beside its texts
_NOTE_CHARS: Final = 160


def fit(text: str, *, chars_max: int = INBOUND_CHARS_MAX, bytes_max: int = TEXT_BYTES_MAX) -> str:
    """The text itself if it fits, else its beginning and a note that says how much is missing."""
    if len(text) <= chars_max and _wire_bytes(text) <= bytes_max:
        return text
    kept = _longest_prefix(text[: chars_max - _NOTE_CHARS], bytes_max - _NOTE_CHARS)
    return f"{kept}\n\n[The message was cut here: it had {len(text):,} characters, the first {len(kept):,} are kept.]"


def fitting(quotes: Sequence[Quote], *, bytes_max: int = QUOTES_BYTES_MAX) -> tuple[Quote, ...]:
    """The last of them, as many as there is room for."""
    kept: list[Quote] = []
    for quote in reversed(quotes):
        bytes_max -= _quote_bytes(quote)
        if bytes_max < 0:
            break
        kept.append(quote)
    return tuple(reversed(kept))


def _quote_bytes(quote: Quote) -> int:
    of_files = [text for file in quote.attachments for text in (file.name, file.reference, file.media_type)]
    texts_bytes = sum(map(_wire_bytes, (quote.author_name, quote.text, *of_files)))
    return texts_bytes + _FRAME_BYTES * (1 + len(quote.attachments))


def _longest_prefix(text: str, bytes_max: int) -> str:
    fits, too_long = 0, len(text) + 1
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        if _wire_bytes(text[:middle]) <= bytes_max:
            fits = middle
        else:
            too_long = middle
    return text[:fits]


def _wire_bytes(text: str) -> int:
    """Its size as a JSON string, where a control character takes six bytes."""
    return len(json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogatepass"))
