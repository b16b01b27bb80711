"""Estimates of prompt sizes, for the moments before a provider has counted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gateway.contracts.entries import Entry

_CHARS_PER_TOKEN: Final = 4.0
_WIDE_CHARS_PER_TOKEN: Final = 1.5
_FIRST_WIDE: Final = 0x2E80  # CJK radicals: from here on scripts take about a token per character or two
_ENTRY_OVERHEAD_TOKENS: Final = 4  # role and separators


def estimate_tokens(text: str) -> int:
    """Characters / 4, and / 1.5 for CJK text. Never zero for a text that is not empty."""
    wide = sum(1 for char in text if ord(char) >= _FIRST_WIDE) if not text.isascii() else 0
    tokens = (len(text) - wide) / _CHARS_PER_TOKEN + wide / _WIDE_CHARS_PER_TOKEN
    return int(tokens) + (1 if text else 0)


def entry_tokens(entry: Entry) -> int:
    """One entry in a prompt, tool calls included."""
    calls = sum(estimate_tokens(call.arguments) + estimate_tokens(call.name) for call in entry.tool_calls)
    return estimate_tokens(entry.text) + calls + _ENTRY_OVERHEAD_TOKENS


def entries_tokens(entries: Iterable[Entry]) -> int:
    """The sum over `entry_tokens`."""
    return sum(map(entry_tokens, entries))
