"""Gateway sessions: what a bot asked to hear, what it has heard, what it can have repeated. No sockets here."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from typing import Final

from channels.emulators.traffic import Json

REPLAY_MAX: Final = 5_000  # events kept for RESUME; whoever is further behind starts anew


class Intent(IntFlag):
    GUILDS = 1
    GUILD_MEMBERS = 1 << 1
    GUILD_PRESENCES = 1 << 8
    GUILD_MESSAGES = 1 << 9
    GUILD_MESSAGE_REACTIONS = 1 << 10
    GUILD_MESSAGE_TYPING = 1 << 11
    DIRECT_MESSAGES = 1 << 12
    DIRECT_MESSAGE_REACTIONS = 1 << 13
    DIRECT_MESSAGE_TYPING = 1 << 14
    MESSAGE_CONTENT = 1 << 15
    ALWAYS = 0


INTENTS_KNOWN: Final = (1 << 27) - 1


class Op(IntEnum):
    DISPATCH = 0
    HEARTBEAT = 1
    IDENTIFY = 2
    PRESENCE = 3
    VOICE_STATE = 4
    RESUME = 6
    RECONNECT = 7
    REQUEST_MEMBERS = 8
    INVALID_SESSION = 9
    HELLO = 10
    HEARTBEAT_ACK = 11


class CloseCode(IntEnum):
    UNKNOWN_ERROR = 4000
    UNKNOWN_OPCODE = 4001
    DECODE_ERROR = 4002
    NOT_AUTHENTICATED = 4003
    AUTHENTICATION_FAILED = 4004
    ALREADY_AUTHENTICATED = 4005
    INVALID_SEQ = 4007
    RATE_LIMITED = 4008
    SESSION_TIMED_OUT = 4009
    INVALID_SHARD = 4010
    INVALID_API_VERSION = 4012
    INVALID_INTENTS = 4013
    DISALLOWED_INTENTS = 4014


@dataclass(frozen=True, slots=True)
class Farewell:
    """The last thing put on an outlet: close with this code."""

    code: int
    reason: str = ""


Outlet = asyncio.Queue[str | Farewell]


@dataclass(frozen=True, slots=True)
class Happening:
    """One dispatch before anybody's intents are looked at.

    `shape` makes the event's data; its argument says whether the reader may see all content.
    """

    name: str
    shape: Callable[[bool], Json]
    intent: Intent = Intent.ALWAYS
    guild_id: int | None = None


@dataclass(slots=True)
class Session:
    id: str
    intents: Intent
    shard: tuple[int, int] = (0, 1)
    seq: int = 0
    outlet: Outlet | None = None
    lost_at_s: float | None = None
    reads_everything: bool = True
    sent: deque[tuple[int, str]] = field(default_factory=lambda: deque(maxlen=REPLAY_MAX))

    def hears(self, happening: Happening) -> bool:
        if happening.intent and not self.intents & happening.intent:
            return False
        index, count = self.shard
        # direct chats always live on the first shard
        return ((happening.guild_id or 0) >> 22) % count == index

    def dispatch(self, name: str, data: Json) -> None:
        """Number the event, keep it for a RESUME, and send it if somebody listens."""
        self.seq += 1
        frame = json.dumps({"op": Op.DISPATCH, "t": name, "s": self.seq, "d": data})
        self.sent.append((self.seq, frame))
        if self.outlet is not None:
            self.outlet.put_nowait(frame)

    def missed_since(self, seq: int) -> list[str] | None:
        """Frames after `seq`, or None when some of them are gone."""
        if self.sent and self.sent[0][0] > seq + 1:
            return None
        return [frame for number, frame in self.sent if number > seq]


def frame(op: Op, data: object = None) -> str:
    return json.dumps({"op": op, "d": data, "s": None, "t": None})
