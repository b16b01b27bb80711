"""What stands in a secret's place: `[redacted:github#a1b2c3]`.

The digits are an HMAC under a key that only this installation knows, and a key of its own in each chat: the same
secret gets the same placeholder, so a conversation can still tell two keys apart; nobody can test guesses, and
nobody can tell that two chats hold the same secret.
"""

from __future__ import annotations

import hmac
import re
from functools import lru_cache
from typing import Final

_CHATS_KEPT: Final = 1_000  # keys of chats in which somebody speaks now; each message asks for that of its chat often

_ID_CHARS: Final = 6
"""A chat of a hundred secrets has two alike once in three thousand times."""

_KIND: Final = "[a-z0-9-]{1,20}"

PLACEHOLDER: Final = re.compile(rf"\[redacted:{_KIND}#[0-9a-f]{{4,{_ID_CHARS}}}\]")

LIKENESS: Final = re.compile(r"\[redacted:[^\[\]\s]{1,40}\]", re.IGNORECASE)
"""What somebody takes for a placeholder, although nobody made it: `[redacted:openai]`."""

WHOLE_TEXT_KIND: Final = "text"
WHOLE_TEXT: Final = f"[redacted:{WHOLE_TEXT_KIND}#0000]"
"""Stands for a text that could not be scrubbed."""


def kind_of(rule: str) -> str:
    """Return the kind that a rule belongs to, as reports and placeholders show it."""
    return rule.partition("/")[0]


class Placeholders:
    """Makes placeholders under one key."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        self._key = key

    def of(self, chat: str) -> Placeholders:
        """Return the placeholders of one chat: equal inside it, for ever, and not comparable with those of another."""
        return Placeholders(_key_of_chat(self._key, chat))

    def noting(self, made: dict[str, str]) -> Placeholders:
        """Return the same placeholders, which also put each secret into `made` under its placeholder."""
        return _Noting(self._key, made)

    def stand_in(self, rule: str, secret: str) -> str:
        """Return the placeholder of one secret."""
        mark = hmac.digest(self._key, secret.encode(errors="surrogatepass"), "sha256")
        return f"[redacted:{kind_of(rule)}#{mark.hex()[:_ID_CHARS]}]"


@lru_cache(maxsize=_CHATS_KEPT)
def _key_of_chat(key: bytes, chat: str) -> bytes:
    return hmac.digest(key, chat.encode(errors="surrogatepass"), "sha256")


class _Noting(Placeholders):
    __slots__ = ("_made",)

    def __init__(self, key: bytes, made: dict[str, str]) -> None:
        super().__init__(key)
        self._made = made

    def stand_in(self, rule: str, secret: str) -> str:
        placeholder = super().stand_in(rule, secret)
        self._made[placeholder] = secret
        return placeholder
