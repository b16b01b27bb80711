"""The Lua scripts: one file each under `lua/`, one method each that calls it, in the classes of this package.

A script is the limits that it names, its prelude, and its file; the scripts about lanes have a
prelude of their own in between, which names the keys and arguments that they share. It is addressed by
the SHA-1 of all that, so two versions of Trivet run side by side on one server.

A server that is full (`maxmemory`) takes in nothing new, and lets what it has be answered, which is how it gets room
again: only the scripts in `TAKES_IN` are refused then."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final, TypeAlias

from gateway.bus.keys import DEDUPE_BUCKETS
from gateway.limits import (
    BOT_TURNS_MAX,
    BOT_TURNS_WINDOW_S,
    CONTROL_REQUESTS_MAX,
    DEAD_LETTERS_MAX,
    DEAD_PLACE_TTL_S,
    DEAD_TOLD_WITHIN_S,
    DEDUPE_BUCKET_H,
    LEDGER_TTL_S,
    PAIRING_LOCKED_S,
    PAIRING_TAKEN_S,
    PAIRING_TRIES_MAX,
    QUEUE_NOTED_EVERY_S,
    QUEUE_PAST_S,
    RECEIPTS_MAX,
    REFUSALS_WINDOW_S,
    RESTARTS_IN_FRONT_MAX,
    RETRY_DELAYS_S,
    SENT_IDS_MAX,
    SENT_IDS_TTL_S,
    SETTLE_MAX_S,
    STOPS_KEPT,
    SUGGESTIONS_ASKED_MAX,
    SUGGESTIONS_BURST,
    SUGGESTIONS_PER_S,
    SUGGESTIONS_TTL_S,
    TALLY_PAST_S,
    TALLY_SLOT_S,
    TOLD_TTL_S,
    TURN_ATTEMPTS_MAX,
    VAULT_SECRETS_MAX,
)

Word: TypeAlias = str | bytes | int | float
Command: TypeAlias = tuple[Word, ...]

_HOUR_MS: Final = 3_600_000
_DUE_LANES_MAX: Final = 128  # that one claim makes ready: a script must stay short
_REAP_LANES_MAX: Final = 500  # that one beat hands back; the next one goes on
_OLDEST_AMONG: Final = 100  # lanes that are looked at for the message that has waited longest
_PAUSE_MEMORY_S: Final = 60  # a bucket that was paused must not come back full at once

_NUMBERS: Final = {
    "BOT_TURNS_MAX": BOT_TURNS_MAX,
    "BOT_TURNS_WINDOW_MS": BOT_TURNS_WINDOW_S * 1000,
    "CONTROL_REQUESTS_MAX": CONTROL_REQUESTS_MAX,
    "DEAD_LETTERS_MAX": DEAD_LETTERS_MAX,
    "DEAD_PLACE_TTL_MS": DEAD_PLACE_TTL_S * 1000,
    "DEAD_TOLD_WITHIN_MS": int(DEAD_TOLD_WITHIN_S * 1000),
    "DEATH_DELAY_MS": int(RETRY_DELAYS_S[0] * 1000),
    "DEDUPE_BUCKETS": DEDUPE_BUCKETS,
    "DEDUPE_BUCKET_MS": DEDUPE_BUCKET_H * _HOUR_MS,
    "DUE_LANES_MAX": _DUE_LANES_MAX,
    "LEDGER_TTL_MS": LEDGER_TTL_S * 1000,
    "OLDEST_AMONG": _OLDEST_AMONG,
    "PAIRING_LOCKED_MS": PAIRING_LOCKED_S * 1000,
    "PAIRING_TAKEN_MS": PAIRING_TAKEN_S * 1000,
    "PAIRING_TRIES_MAX": PAIRING_TRIES_MAX,
    "PAUSE_MEMORY_MS": _PAUSE_MEMORY_S * 1000,
    "QUEUE_NOTED_EVERY_MS": int(QUEUE_NOTED_EVERY_S * 1000),
    "QUEUE_PAST_MS": QUEUE_PAST_S * 1000,
    "REAP_LANES_MAX": _REAP_LANES_MAX,
    "RECEIPTS_MAX": RECEIPTS_MAX,
    "REFUSALS_WINDOW_MS": REFUSALS_WINDOW_S * 1000,
    "SENT_IDS_MAX": SENT_IDS_MAX,
    "SENT_IDS_TTL_MS": SENT_IDS_TTL_S * 1000,
    "RESTARTS_IN_FRONT_MAX": RESTARTS_IN_FRONT_MAX,
    "SETTLE_MAX_MS": int(SETTLE_MAX_S * 1000),
    "STOPS_KEPT": STOPS_KEPT,
    "SUGGESTIONS_ASKED_MAX": SUGGESTIONS_ASKED_MAX,
    "SUGGESTIONS_BURST": SUGGESTIONS_BURST,
    "SUGGESTIONS_PER_S": SUGGESTIONS_PER_S,
    "SUGGESTIONS_TTL_MS": SUGGESTIONS_TTL_S * 1000,
    "TALLY_PAST_MS": TALLY_PAST_S * 1000,
    "TALLY_SLOT_MS": TALLY_SLOT_S * 1000,
    "TOLD_TTL_MS": TOLD_TTL_S * 1000,
    "TURN_ATTEMPTS_MAX": TURN_ATTEMPTS_MAX,
    "VAULT_SECRETS_MAX": VAULT_SECRETS_MAX,
}
_PRELUDE: Final = "prelude"
_LANES_PRELUDE: Final = "prelude_lanes"
LANE_SCRIPTS: Final = frozenset(
    {
        *("enqueue", "amend", "withdraw", "request_control", "retry_dead"),
        *("claim", "commit", "retry_later", "restart", "revoke", "extend", "stop"),
        *("register", "drain", "reap", "list_lanes", "find_waiting"),
    }
)
"""The scripts that begin with the keys and arguments that all of them share."""
TAKES_IN: Final = frozenset({"amend", "ask_pairing", "ask_suggestions", "enqueue", "put_secrets"})
"""The scripts that bring something new; what they refuse is brought again."""
_LOOKS: Final = frozenset({"figures", "find_waiting", "list_lanes", "view_access"})
"""The scripts that write nothing."""
_OVER_THE_BOUND: Final = "prelude_full"


@dataclass(frozen=True, slots=True)
class Script:
    """One script as the server knows it."""

    name: str
    text: str
    sha: str


@dataclass(frozen=True, slots=True)
class ScriptCall:
    """A script with everything it is called with."""

    script: Script
    keys: tuple[str, ...]
    arguments: Command

    @property
    def command(self) -> Command:
        """Return the call as one command."""
        return ("EVALSHA", self.script.sha, len(self.keys), *self.keys, *self.arguments)


@cache
def script(name: str) -> Script:
    """Return the script in `lua/<name>.lua`, read once."""
    lanes = _lua(_LANES_PRELUDE) if name in LANE_SCRIPTS else ""
    passes = "" if name in TAKES_IN | _LOOKS else _lua(_OVER_THE_BOUND)
    body = f"{_lua(_PRELUDE)}{lanes}{passes}{_lua(name)}"
    limits = "".join(f"local {limit} = {number}\n" for limit, number in _NUMBERS.items() if limit in body)
    text = limits + body
    return Script(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


@cache
def all_scripts() -> tuple[Script, ...]:
    """Return every script, for loading them when a connection is made."""
    names = sorted(entry.name.removesuffix(".lua") for entry in (files(__package__) / "lua").iterdir())
    return tuple(script(name) for name in names if not name.startswith(_PRELUDE))


def digest(identity: str) -> bytes:
    """Hash a message id or reply id to the eight bytes that represent it in the dedupe sets."""
    return hashlib.blake2b(identity.encode(), digest_size=8).digest()


@cache
def _lua(name: str) -> str:
    return (files(__package__) / "lua" / f"{name}.lua").read_text("utf-8")
