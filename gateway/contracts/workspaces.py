"""Where the files of a conversation lie: one folder for each session key, below `data_dir`. The agent works in them,
the operator's side erases them."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from gateway.contracts.ids import SessionKey

WORKSPACES: Final = "workspaces"
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9]+")
_READABLE_CHARS: Final = 60
_DIGEST_CHARS: Final = 20


def folder_name(key: SessionKey) -> str:
    """A name that people can read and that no two keys share, on a disk that knows no capitals, too."""
    text = str(key)
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_CHARS]
    return f"{_UNSAFE.sub('-', text)[:_READABLE_CHARS].strip('-').lower()}-{digest}"
