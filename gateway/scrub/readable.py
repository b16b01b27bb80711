"""Which files are text, and how their bytes are read. Pure."""

from __future__ import annotations

import re
from typing import Final

_BINARY: Final = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")


def is_text(content: bytes) -> bool:
    """True for what people read: no character of control but tabs, line ends and the escapes of terminals."""
    return not _BINARY.search(content)


def decoded(content: bytes) -> tuple[str, str]:
    """A text and its encoding. What is no UTF-8 is read byte by byte: a secret and its placeholder are ASCII in every
    such encoding."""
    try:
        return content.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        return content.decode("latin-1"), "latin-1"
