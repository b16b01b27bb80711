"""Slack's side of listening: which requests are messages, which of them are ours."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from channels.listening import Heard, Listener
from channels.normalized import Ignored, Incoming, Retraction
from channels.raw import Raw, mapping, text
from channels.slack.address import parse_target
from channels.slack.history import History, place_of
from channels.slack.links import Links
from channels.slack.normalize import SlackIdentity, normalize
from channels.slack.slash import is_slash, normalize_slash, response_url_of
from channels.slack.socket import Hear
from channels.threads import Threads

log = logging.getLogger(__name__)

_MESSAGES: Final = frozenset({"message", "app_mention"})
_CHANGES: Final = frozenset({"message_changed", "message_deleted"})


class SlackSource:
    """`channels.listening.Source` for one workspace. What it hears are payloads as Slack sends them."""

    def __init__(self, me: SlackIdentity, history: History, threads: Threads, links: Links) -> None:
        self._me = me
        self._history = history
        self._threads = threads
        self._links = links

    def hearing(self, listener: Listener[Raw]) -> Hear:
        """What the socket does with a request: done when the bus has it, `NotTaken` when it has not."""

        async def hear(body: Mapping[str, Any]) -> None:
            heard = _heard(body)
            if heard is not None:
                await listener.hear(heard)

        return hear

    async def rooms(self) -> Sequence[str]:
        return await self._history.rooms()

    async def missed(self, room: str) -> AsyncIterator[Heard[Raw]]:
        for heard in await self._history.missed(room):
            yield heard

    async def understand(self, heard: Heard[Raw]) -> Incoming | Retraction | None:
        understood = await self._normalized(heard.raw)
        if isinstance(understood, Ignored):
            log.debug("slack: message %s ignored: %s", heard.message_id, understood.reason)
            return None
        return understood

    async def taken(self, incoming: Incoming) -> None:
        """From here on the thread in which we answer is one we take part in."""
        target = parse_target(incoming.address.target)
        if target.thread_ts and not incoming.is_private:
            await self._threads.join(target.channel, target.thread_ts)

    async def _slash(self, payload: Raw) -> Incoming | Ignored:
        """Its link is on the bus before the message is."""
        understood = normalize_slash(payload, self._me)
        if isinstance(understood, Incoming):
            name = parse_target(understood.address.target).link or ""
            await self._links.keep(name, response_url_of(payload))
        return understood

    async def _normalized(self, payload: Raw) -> Incoming | Retraction | Ignored:
        if is_slash(payload):
            return await self._slash(payload)
        event = mapping(payload.get("event"))
        thread_ts = text(_spoken(event).get("thread_ts"))
        takes_part = bool(thread_ts) and await self._threads.has_joined(text(event.get("channel")), thread_ts)
        return normalize(payload, self._me, takes_part=lambda channel, thread: takes_part)


def _heard(body: Mapping[str, Any]) -> Heard[Raw] | None:
    if is_slash(body):
        return Heard(text(body.get("channel_id")), "", body)
    event = mapping(body.get("event"))
    ts, channel_id = text(event.get("ts")), text(event.get("channel"))
    if event.get("type") not in _MESSAGES or not ts or not channel_id:
        return None
    if event.get("subtype") in _CHANGES:  # they have a time of their own and stand in no history
        return Heard(place_of(channel_id, _spoken(event)), "", body)
    return Heard(place_of(channel_id, event), ts, body)


def _spoken(event: Raw) -> Raw:
    """The message that an event is about."""
    return mapping(event.get("message")) or mapping(event.get("previous_message")) or event
