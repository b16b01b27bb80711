"""What a patient reader gets out of a text: every coding undone that our disguises use. Pure."""

from __future__ import annotations

import base64
import re
import unicodedata
from typing import Final

INVISIBLE: Final = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u200e\u200f\u202a\u202c\u202e\u2066\u2069\u061c"
"""Zero-width and bidi marks, and the soft hyphen."""

_SEAM: Final = re.compile(r"[=\\]?\r?\n[ \t>]*")


def without_marks(text: str) -> str:
    return "".join(char for char in text if char not in INVISIBLE)


def without_colour(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def narrow(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def without_backslashes(text: str) -> str:
    return text.replace("\\", "")


def json_read(text: str) -> str:
    return re.sub(r"\\+u([0-9a-fA-F]{4})", lambda code: chr(int(code[1], 16)), text)


def joined(text: str) -> str:
    return _SEAM.sub("", text)


def base64_read(text: str) -> str:
    """All that any part of a long run could decode to."""
    runs = re.findall(r"[A-Za-z0-9+/]{16,}", text.replace("-", "+").replace("_", "/"))
    starts = [(run, lead) for run in runs for lead in range(4)]
    wholes = (run[lead : lead + (len(run) - lead) // 4 * 4] for run, lead in starts)
    return "\n".join(base64.b64decode(whole).decode("latin-1") for whole in wholes)


def hex_read(text: str) -> str:
    starts = [(run, lead) for run in re.findall(r"[0-9a-fA-F]{24,}", text) for lead in range(2)]
    return "\n".join(
        bytes.fromhex(run[lead : lead + (len(run) - lead) // 2 * 2]).decode("latin-1") for run, lead in starts
    )
