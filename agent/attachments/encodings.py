"""Bytes as text, where they are text, for a reader: what is broken or cut in them costs a letter. Pure."""

from __future__ import annotations

import re
from typing import Final

from gateway.scrub.readable import is_text, wide_encoding

_MARK: Final = "\ufeff"
_LOOKED_AT: Final = 4_096  # characters at the beginning
_UNPRINTABLE: Final = re.compile("[\x00-\x08\x0e-\x1f\x7f]")


def text_in(content: bytes) -> str | None:
    """The text; None for what is none. A letter that nobody can read becomes a mark of replacement."""
    if (wide := wide_encoding(content)) is not None:
        text = content.decode(wide, errors="replace").removeprefix(_MARK)
        return None if _UNPRINTABLE.search(text[:_LOOKED_AT]) else text
    return content.decode("utf-8", errors="replace").removeprefix(_MARK) if is_text(content) else None
