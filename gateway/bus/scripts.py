"""The Lua scripts: one file each under `lua/`, one typed caller each in the rooms beside this one.

A script is its prelude, the limits it needs under their own names, and its file. It is addressed by
the SHA-1 of all that, so two versions of Trivet run side by side on one server.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from gateway.bus.keys import DEDUPE_BUCKETS
from gateway.limits import (
    CONTROL_REQUESTS_MAX,
    DEAD_LETTERS_MAX,
    DEAD_PLACE_TTL_S,
    DEDUPE_BUCKET_H,
    LEDGER_TTL_S,
    RECEIPTS_MAX,
    REFUSALS_WINDOW_S,
    SENT_IDS_MAX,
    SENT_IDS_TTL_S,
    SETTLE_MAX_S,
)

_HOUR_MS: Final = 3_600_000
_CANCEL_TTL_S: Final = 60  # a living worker reads its list every second
_PAUSE_MEMORY_S: Final = 60  # a bucket that was paused must not come back full at once

_NUMBERS: Final = {
    "CANCEL_TTL_MS": _CANCEL_TTL_S * 1000,
    "CONTROL_REQUESTS_MAX": CONTROL_REQUESTS_MAX,
    "DEAD_LETTERS_MAX": DEAD_LETTERS_MAX,
    "DEAD_PLACE_TTL_MS": DEAD_PLACE_TTL_S * 1000,
    "DEDUPE_BUCKETS": DEDUPE_BUCKETS,
    "DEDUPE_BUCKET_MS": DEDUPE_BUCKET_H * _HOUR_MS,
    "LEDGER_TTL_MS": LEDGER_TTL_S * 1000,
    "PAUSE_MEMORY_MS": _PAUSE_MEMORY_S * 1000,
    "RECEIPTS_MAX": RECEIPTS_MAX,
    "REFUSALS_WINDOW_MS": REFUSALS_WINDOW_S * 1000,
    "SENT_IDS_MAX": SENT_IDS_MAX,
    "SENT_IDS_TTL_MS": SENT_IDS_TTL_S * 1000,
    "SETTLE_MAX_MS": int(SETTLE_MAX_S * 1000),
}
_PRELUDE: Final = "prelude"


@dataclass(frozen=True, slots=True)
class Script:
    """One script as the server knows it."""

    name: str
    text: str
    sha: str


@cache
def script(name: str) -> Script:
    """The script in `lua/<name>.lua`, read once."""
    text = f"{_limits()}{_lua(_PRELUDE)}{_lua(name)}"
    return Script(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


@cache
def all_scripts() -> tuple[Script, ...]:
    """Every script, for loading them when a connection is made."""
    names = sorted(entry.name.removesuffix(".lua") for entry in (files(__package__) / "lua").iterdir())
    return tuple(script(name) for name in names if name != _PRELUDE)


def digest(identity: str) -> bytes:
    """Eight bytes that stand for a message id or reply id in the dedupe sets."""
    return hashlib.blake2b(identity.encode(), digest_size=8).digest()


@cache
def _lua(name: str) -> str:
    return (files(__package__) / "lua" / f"{name}.lua").read_text("utf-8")


@cache
def _limits() -> str:
    return "".join(f"local {name} = {number}\n" for name, number in _NUMBERS.items())
