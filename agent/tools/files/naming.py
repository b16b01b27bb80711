"""What a file is called and what it is, for people on any platform. Pure.

The name is what a workspace calls it, without whatever could deceive a reader or a file system: folders,
control characters, marks that turn the direction of writing (`exe.gpj` for `jpg.exe`), invisible ones.
"""

from __future__ import annotations

import mimetypes
import posixpath
import re
import unicodedata
from typing import Final

import puremagic

from agent.limits import FILE_NAME_BYTES_MAX, FILE_NAME_CHARS_MAX
from gateway.scrub.readable import is_text

OCTETS: Final = "application/octet-stream"
_PLAIN: Final = "text/plain"
_NAMELESS: Final = "file"
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Categories of characters that nobody sees, the marks of direction among them."""

_RESERVED: Final = re.compile(r'[<>:"/\\|?*]')
_ENDING_CHARS_MAX: Final = 16
_TEXTUAL: Final = re.compile(r"text/.+|image/svg\+xml|application/(?:.+\+)?(?:json|xml|yaml|toml|sql|javascript)")
_BY_NAME: Final = {".md": "text/markdown", ".csv": "text/csv", ".yaml": "application/yaml", ".yml": "application/yaml"}
"""What the system's table may lack."""


def safe_name(path: str) -> str:
    """The last part of a path as a name that may stand anywhere, at most FILE_NAME_CHARS_MAX characters and
    FILE_NAME_BYTES_MAX bytes long."""
    name = unicodedata.normalize("NFC", posixpath.basename(path.replace("\\", "/")))
    seen = "".join(char for char in name if unicodedata.category(char) not in _HIDDEN)
    tidy = _RESERVED.sub("_", seen).strip(" .")
    stem, ending = posixpath.splitext(tidy)
    if len(ending) > _ENDING_CHARS_MAX:
        stem, ending = tidy, ""
    short = stem[: FILE_NAME_CHARS_MAX - len(ending)].encode()[: FILE_NAME_BYTES_MAX - len(ending.encode())]
    return (short.decode(errors="ignore").rstrip(" .") + ending) or _NAMELESS


def media_type(name: str, content: bytes) -> str:
    """What the content is. A name only chooses among the kinds of text, and among packed formats that look alike."""
    if is_text(content):
        named = _BY_NAME.get(posixpath.splitext(name)[1].lower()) or mimetypes.guess_type(name)[0] or _PLAIN
        return named if _TEXTUAL.fullmatch(named) else _PLAIN
    try:
        return puremagic.from_string(content, mime=True, filename=name) or OCTETS
    except (puremagic.PureError, ValueError):
        return OCTETS
