"""Estimates of prompt sizes, for the moments before a provider has counted."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # sub-agents estimate texts, and are not to wait for the vocabulary of a conversation
    from gateway.contracts.entries import Entry

_CHARS_PER_TOKEN: Final = 4.0
_WIDE_CHARS_PER_TOKEN: Final = 1.5
_NARROW: Final = re.compile("[\x00-\u2e7f]+")  # before the CJK radicals: from there on a character is most of a token
_ENTRY_OVERHEAD_TOKENS: Final = 4  # role and separators


def estimate_tokens(text: str) -> int:
    """Characters / 4, and / 1.5 for CJK text. Never zero for a text that is not empty."""
    wide = 0 if text.isascii() else len(_NARROW.sub("", text))
    tokens = (len(text) - wide) / _CHARS_PER_TOKEN + wide / _WIDE_CHARS_PER_TOKEN
    return int(tokens) + (1 if text else 0)


def entry_tokens(entry: Entry) -> int:
    """One entry in a prompt, tool calls included."""
    calls = sum(estimate_tokens(call.arguments) + estimate_tokens(call.name) for call in entry.tool_calls)
    return estimate_tokens(entry.text) + calls + _ENTRY_OVERHEAD_TOKENS


def entries_tokens(entries: Iterable[Entry]) -> int:
    """The sum over `entry_tokens`."""
    return sum(map(entry_tokens, entries))
