"""Identifiers of a speaker (`SessionKey`), an answer's way (`ReplyAddress`), a turn, and a conversation's folder."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from gateway.contracts.errors import BadSessionKey

_PART: Final = re.compile(r"[^\s/:\x00-\x1f]{1,128}")
_CHANNEL: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}(\.[A-Za-z0-9_-]{1,64})?")
KEY_CHARS_MAX: Final = 512
_KEYS_KEPT: Final = 4_096  # that were parsed: each message names its lane in several texts
_TRIED_AGAIN: Final = re.compile(r"(.+)~(\d{1,9})", re.DOTALL)


class SessionScope(StrEnum):
    """The share of the place in a session key (`session.scope`)."""

    PLACE = "place"
    USER = "user"
    SHARED = "shared"


@dataclass(frozen=True, slots=True)
class SessionKey:
    """The name of a lane: messages of one key are handled one at a time and in order.

    Text form: `telegram:123` in a direct message, `telegram:123/-100456` in a place,
    `slack:U1/C1/1712.0001` in a thread, `telegram:/-100456` when a place is shared (no user part).
    `channel` may carry a workspace: `slack.T123`."""

    channel: str
    user: str
    place: tuple[str, ...] = ()
    _text: str = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        text = "/".join((f"{self.channel}:{self.user}", *self.place))
        object.__setattr__(self, "_text", text)
        parts = (self.user, *self.place) if self.user else self.place
        is_good = parts and _CHANNEL.fullmatch(self.channel) and all(map(_PART.fullmatch, parts))
        if not is_good or len(text) > KEY_CHARS_MAX:
            raise BadSessionKey(text[:KEY_CHARS_MAX])

    def __str__(self) -> str:
        return self._text

    @classmethod
    @lru_cache(maxsize=_KEYS_KEPT)
    def parse(cls, text: str) -> SessionKey:
        """Parse the text that `str(key)` made. Raises `BadSessionKey`."""
        channel, colon, rest = text.partition(":")
        if not colon:
            raise BadSessionKey(text)
        user, *place = rest.split("/")
        return cls(channel, user, tuple(place))

    @classmethod
    def scoped(cls, channel: str, user: str, place: tuple[str, ...], scope: SessionScope) -> SessionKey:
        """Build the key of `user` speaking in `place` (empty in a direct message) under `scope`."""
        if not place or scope is SessionScope.USER:
            return cls(channel, user)
        return cls(channel, "" if scope is SessionScope.SHARED else user, place)

    @property
    def is_private(self) -> bool:
        """Tell whether the key names a user and no place."""
        return not self.place

    @property
    def platform(self) -> str:
        """Return the channel without its workspace: `slack` for `slack.T123`."""
        return self.channel.partition(".")[0]

    @property
    def owner(self) -> SessionKey:
        """Return the owner of budget, memory, access and erasure: the user, or a shared place itself."""
        return SessionKey(self.channel, self.user) if self.user and self.place else self


EVENTS: Final = "webhooks"
"""The channel of events, on which nobody can be answered."""


@dataclass(frozen=True, slots=True)
class ReplyAddress:
    """The way of an answer. Written by a channel; only that channel reads `target`.

    `channel` routes to the adapter; replies with equal `(channel, lane)` keep their order
    and share one pacing budget; `target` is the channel's own canonical JSON."""

    channel: str
    lane: str
    target: str


def retry_id_of(message_id: str) -> str:
    """Name the next try of a message that was given up. A count of answered messages takes it for another one:
    `m`, `m~1`, `m~2`."""
    first, tries = _first_and_tries(message_id)
    return f"{first}~{tries + 1}"


def earlier_ids_of(message_id: str) -> tuple[str, ...]:
    """List the ids under which a message was tried before, oldest first; none for a message that never was."""
    first, tries = _first_and_tries(message_id)
    return tuple(first if number == 0 else f"{first}~{number}" for number in range(tries))


def first_id_of(message_id: str) -> str:
    """Give the id that a message came with, however often it was tried again."""
    return _first_and_tries(message_id)[0]


def _first_and_tries(message_id: str) -> tuple[str, int]:
    found = _TRIED_AGAIN.fullmatch(message_id)
    return (found[1], int(found[2])) if found else (message_id, 0)


def turn_id_of(message_id: str) -> str:
    """Return the id of the turn that a message begins, the same for every attempt. Once the message is taken back, that
    turn no longer exists: other messages begin another turn."""
    return "t_" + blake2b(message_id.encode(), digest_size=10).hexdigest()


# The ids of messages that we send to ourselves. No channel can be called so: its ids begin with a platform's name.

FIRING: Final = "schedule:"
WAKE: Final = "subagent:"


def is_firing(message_id: str) -> bool:
    """Tell whether a schedule sent the message: nobody is waiting for its turn."""
    return message_id.startswith(FIRING)


def is_wake(message_id: str) -> bool:
    """Tell whether the end of sub-agents sent the message."""
    return message_id.startswith(WAKE)


# Where the files of a conversation lie: one folder for each session key, below `data_dir`. The agent works in them,
# the operator's side erases them.


WORKSPACES: Final = "workspaces"

MODEL_AWAY: Final = "demo-model-away"
"""A file below `data_dir`: as long as it is there, the demo model cannot be reached."""
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9]+")
_READABLE_CHARS: Final = 60
_DIGEST_CHARS: Final = 20


def folder_name(key: SessionKey) -> str:
    """Return a folder name that people can read and that no two keys share, also on a disk that ignores case."""
    text = str(key)
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_CHARS]
    return f"{_UNSAFE.sub('-', text)[:_READABLE_CHARS].strip('-').lower()}-{digest}"
