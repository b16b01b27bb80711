"""The session of the gateway that an earlier client left behind, and what it never heard there.

A bot cannot list its direct chats, so the history alone never finds the first words that a stranger wrote
while nobody was connected. The gateway remembers them for some minutes, for whoever takes the session up
again; the SDK cannot do that for another process. So the session is on record, and before a new client
begins its own, the old one is resumed once, only to learn in which direct chats something was said. Their
messages are then read from the history like all others.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

import aiohttp
import yarl

from channels.discord import limits
from channels.raw import Raw, canonical, integer, mapping, text

log = logging.getLogger(__name__)

_API_VERSION = 10


class _Op(IntEnum):
    DISPATCH = 0
    HEARTBEAT = 1
    RESUME = 6
    RECONNECT = 7
    INVALID_SESSION = 9
    HELLO = 10


@dataclass(frozen=True, slots=True)
class LeftSession:
    """What RESUME needs. A `seq` that is a little old only makes the gateway repeat more."""

    session_id: str
    seq: int
    url: str

    def as_text(self) -> str:
        return canonical({"id": self.session_id, "seq": self.seq, "url": self.url})


def left_session(record: str | None) -> LeftSession | None:
    """The inverse of `LeftSession.as_text`; None for a record that is none."""
    try:
        fields = mapping(json.loads(record or "null"))
    except ValueError:
        return None
    session_id, seq, url = text(fields.get("id")), integer(fields.get("seq")), text(fields.get("url"))
    return LeftSession(session_id, seq, url) if session_id and url and seq is not None else None


@dataclass(frozen=True, slots=True)
class DirectWord:
    """A message in a direct chat, as far as it has to be known to find it again."""

    channel_id: int
    message_id: str


async def unheard_direct_words(left: LeftSession, token: str, *, proxy: str = "") -> Sequence[DirectWord]:
    """The direct messages that this session has not heard. None if the gateway has forgotten it. Never raises."""
    words: list[DirectWord] = []
    try:
        async with asyncio.timeout(limits.LEFT_SESSION_TIMEOUT_S), aiohttp.ClientSession() as http:
            async for event in _missed_events(http, left, token, proxy):
                word = _direct_word(event)
                if word is not None:
                    words.append(word)
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
        log.info("discord: the last session could not be taken up again: %s", type(error).__name__)
    return words


async def _missed_events(http: aiohttp.ClientSession, left: LeftSession, token: str, proxy: str) -> AsyncIterator[Raw]:
    """The dispatches that RESUME repeats. The session is ended afterwards."""
    url = yarl.URL(left.url).update_query(v=str(_API_VERSION), encoding="json")
    async with http.ws_connect(url, max_msg_size=0, proxy=proxy or None) as socket:
        async for message in socket:
            if message.type is not aiohttp.WSMsgType.TEXT:
                continue
            event = mapping(json.loads(message.data))
            match event.get("op"):
                case _Op.HELLO:
                    resume = {"token": token, "session_id": left.session_id, "seq": left.seq}
                    await socket.send_json({"op": _Op.RESUME, "d": resume})
                case _Op.HEARTBEAT:
                    await socket.send_json({"op": _Op.HEARTBEAT, "d": left.seq})
                case _Op.DISPATCH if event.get("t") == "RESUMED":
                    return
                case _Op.DISPATCH:
                    yield event
                case _Op.INVALID_SESSION | _Op.RECONNECT:
                    log.info("discord: the gateway has forgotten the last session")
                    return


def _direct_word(event: Raw) -> DirectWord | None:
    """A guild's messages name it; the history finds them by itself."""
    data = mapping(event.get("d"))
    if event.get("t") != "MESSAGE_CREATE" or data.get("guild_id") is not None:
        return None
    channel_id, message_id = text(data.get("channel_id")), text(data.get("id"))
    return DirectWord(int(channel_id), message_id) if channel_id.isdecimal() and message_id.isdecimal() else None
