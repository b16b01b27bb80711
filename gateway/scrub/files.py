"""Text files without their secrets, a piece at a time, so that nobody else has to wait."""

from __future__ import annotations

import asyncio
from typing import Final

from gateway.contracts.ports import Scrubber
from gateway.scrub.placeholder import WHOLE_TEXT
from gateway.scrub.readable import decoded

_PIECE_CHARS: Final = 65_536  # scrubbed at a time: some ten milliseconds, then others have their turn


async def without_secrets(content: bytes, scrubber: Scrubber) -> bytes | None:
    """A text (`readable.is_text`) with a placeholder for each secret, in its own encoding; None if it could not be
    looked through in time. Of at most SCRUBBED_FILE_BYTES_MAX, which callers see to."""
    text, encoding = decoded(content)
    stream = scrubber.stream()
    clean = []
    for at in range(0, len(text), _PIECE_CHARS):
        clean.append(stream.feed(text[at : at + _PIECE_CHARS]))
        await asyncio.sleep(0)
    clean.append(stream.flush())
    whole = "".join(clean)
    return None if WHOLE_TEXT in whole and WHOLE_TEXT not in text else whole.encode(encoding)
