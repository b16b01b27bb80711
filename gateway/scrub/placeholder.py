"""What stands in a secret's place: `[redacted:github#a1b2]`.

The four digits are an HMAC under a key that only this process (or its configuration) knows: the same secret
gets the same placeholder, so a conversation can still tell two keys apart, and nobody can test guesses.
"""

from __future__ import annotations

import hmac
import re
from typing import Final

_ID_CHARS: Final = 4
_KIND: Final = "[a-z0-9-]{1,20}"

PLACEHOLDER: Final = re.compile(rf"\[redacted:{_KIND}#[0-9a-f]{{{_ID_CHARS}}}\]")

WHOLE_TEXT: Final = "[redacted:text#0000]"
"""Stands for a text that could not be scrubbed."""


def kind_of(rule: str) -> str:
    """The kind a rule belongs to, as reports and placeholders show it."""
    return rule.partition("/")[0]


class Placeholders:
    """Makes placeholders under one key."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        self._key = key

    def stand_in(self, rule: str, secret: str) -> str:
        """The placeholder of one secret."""
        mark = hmac.digest(self._key, secret.encode(errors="surrogatepass"), "sha256")
        return f"[redacted:{kind_of(rule)}#{mark.hex()[:_ID_CHARS]}]"
