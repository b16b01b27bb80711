"""Slack's side of listening: which events are messages, which of them are ours."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from channels.listening import Heard, Listener
from channels.normalized import Ignored, Incoming
from channels.slack.history import History, place_of
from channels.slack.normalize import Me, normalize
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
