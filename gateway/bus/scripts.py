"""The Lua scripts: one file each under `lua/`, one method each that calls it, in the classes of this package.

A script is the limits that it names, what it calls of its prelude, and its file; the scripts about lanes have a
prelude of their own in between, which names the keys and arguments that they share. It is addressed by
the SHA-1 of all that, so two versions of Trivet run side by side on one server.

A server that is full (`maxmemory`) takes in nothing new, and lets what it has be answered, which is how it gets room
again: only the scripts in `TAKES_IN` are refused then."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final, TypeAlias

from gateway import limits
from gateway.bus.keys import DEDUPE_BUCKETS

Word: TypeAlias = str | bytes | int | float
Command: TypeAlias = tuple[Word, ...]

_OWN_LIMITS: Final[Mapping[str, int]] = {
    "DEATH_DELAY_MS": int(limits.RETRY_DELAYS_S[0] * 1000),
    "DEDUPE_BUCKETS": DEDUPE_BUCKETS,
    "DEDUPE_BUCKET_MS": limits.DEDUPE_BUCKET_H * 3_600_000,
    "DUE_LANES_MAX": 128,  # that one claim makes ready: a script must stay short
    "OLDEST_AMONG": 100,  # lanes that are looked at for the message that has waited longest
    "PAUSE_MEMORY_MS": 60_000,  # a bucket that was paused must not come back full at once
    "REAP_LANES_MAX": 500,  # that one beat hands back; the next one goes on
}
"""The limits of the scripts alone. The others are those of `gateway.limits`; `X_MS` is `X_S` in milliseconds."""
_LIMIT: Final = re.compile(r"\b[A-Z]+(?:_[A-Z]+)+\b")
_FUNCTION_BEGINS: Final = "local function "
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
    body = _lua(name) if name in TAKES_IN | _LOOKS else f"{_lua(_OVER_THE_BOUND)}{_lua(name)}"
    for prelude in (_LANES_PRELUDE, _PRELUDE) if name in LANE_SCRIPTS else (_PRELUDE,):
        body = _with_called(_lua(prelude), body)
    text = "".join(f"local {limit} = {_number(limit)}\n" for limit in sorted(set(_LIMIT.findall(body)))) + body
    return Script(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def _with_called(prelude: str, body: str) -> str:
    """Put in front of `body` those functions of a prelude that it, or another of them, calls, and what is no function.
    A server makes each function anew whenever a script runs: five of them cost as much as a command."""
    head, *functions = prelude.split(_FUNCTION_BEGINS)
    for function in reversed(functions):
        if f"{function.partition('(')[0]}(" in body:
            body = f"{_FUNCTION_BEGINS}{function}{body}"
    return head + body


def _number(limit: str) -> int:
    """Return what a script means by a limit. Raises `AttributeError` for one that there is not."""
    if limit in _OWN_LIMITS:
        return _OWN_LIMITS[limit]
    if limit.endswith("_MS"):
        return int(getattr(limits, f"{limit.removesuffix('_MS')}_S") * 1000)
    return int(getattr(limits, limit))


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
