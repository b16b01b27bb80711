"""Text that fits the bus. Pure.

Two bounds: characters, which people can be told, and the bytes of the envelope, which the bus enforces
(a text of four-byte characters is within the first and beyond the second).
"""

from __future__ import annotations

import json
from typing import Final

from gateway.limits import ENVELOPE_BYTES_MAX, INBOUND_CHARS_MAX

ENVELOPE_REST_BYTES: Final = 16 * 1024  # ids, address, names and attachments beside the text
TEXT_BYTES_MAX: Final = ENVELOPE_BYTES_MAX - ENVELOPE_REST_BYTES
_NOTE_CHARS: Final = 160


def fit(text: str, *, chars_max: int = INBOUND_CHARS_MAX, bytes_max: int = TEXT_BYTES_MAX) -> str:
    """The text itself if it fits, else its beginning and a note that says how much is missing."""
    if len(text) <= chars_max and _wire_bytes(text) <= bytes_max:
        return text
    kept = _longest_prefix(text[: chars_max - _NOTE_CHARS], bytes_max - _NOTE_CHARS)
    return f"{kept}\n\n[The message was cut here: it had {len(text):,} characters, the first {len(kept):,} are kept.]"


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
