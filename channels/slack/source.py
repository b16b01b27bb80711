"""Slack's side of listening: which events are messages, which of them are ours."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from channels.listening import Heard, Listener
from channels.normalized import Ignored, Incoming
from channels.slack.history import History, place_of
from channels.slack.normalize import Me, normalize, target_of
from channels.slack.socket import Hear
from channels.slack.threads import Threads

log = logging.getLogger(__name__)

_MESSAGES: Final = frozenset({"message", "app_mention"})


class SlackSource:
    """`channels.listening.Source` for one workspace."""

    def __init__(self, me: Me, history: History, threads: Threads) -> None:
        self._me = me
        self._history = history
        self._threads = threads

    def hearing(self, listener: Listener) -> Hear:
        """What the socket does with a request: done when the bus has it, `NotTaken` when it has not."""

        async def hear(body: Mapping[str, Any]) -> None:
            event = body.get("event")
            if isinstance(event, dict) and event.get("type") in _MESSAGES and event.get("ts"):
                channel_id = str(event.get("channel") or "")
                await listener.hear(Heard(place_of(channel_id, event), str(event["ts"]), event))

        return hear

    def missed(self) -> AsyncIterator[Heard]:
        return self._history.missed()

    async def understand(self, heard: Heard) -> Incoming | None:
        event = heard.raw
        understood = normalize(event, self._me, in_thread=await self._is_in_our_thread(event))
        if isinstance(understood, Ignored):
            log.debug("slack: message %s ignored: %s", heard.message_id, understood.reason)
            return None
        return understood

    async def taken(self, incoming: Incoming) -> None:
        """From here on the thread in which we answer is one we take part in."""
        target = target_of(incoming.address)
        if target.thread_ts and not incoming.is_private:
            await self._threads.join(target.channel_id, target.thread_ts)

    async def _is_in_our_thread(self, event: Mapping[str, Any]) -> bool:
        thread_ts = event.get("thread_ts")
        return bool(thread_ts) and await self._threads.has_joined(str(event["channel"]), str(thread_ts))
