"""An answer that is seen while it grows: a stream of Slack's own in a thread, elsewhere a post that is changed.

    begin ── in a thread ────────── stream ──┐ appended to, until it is old, leads away, or Slack will not have it
      └───── at the top level ───── post ────┴─ changed as a whole, as often as the workspace allows
    end ───── a stream is stopped; from then on both are messages like any other

A stream cannot be told to fetch nothing from where its links lead, as a post can, and a change fetches nothing. So a
stream ends before the first link.

At the top level of a direct message nothing is streamed into a thread: people look for the answer below their words,
and a thread of its own would be another conversation.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from slack_sdk.web.async_client import AsyncWebClient

from channels.adapter import Cadence
from channels.slack import limits
from channels.slack.address import SlackTarget
from channels.slack.errors import NEVER_STREAMS, api_word, delivery_error, is_about_streams
from channels.slack.growing import continuation, leads_away, settled
from channels.slack.posting import change, post, stop_stream, take_back, ts_of
from channels.slack.render import SlackChunk
from gateway.contracts.ports import Clock

log = logging.getLogger(__name__)

_LONG_AGO: Final = float("-inf")


@dataclass(slots=True)
class _Live:
    """One answer that grows. `appended` is what a stream shows; None: it is a post by now, changed as a whole."""

    target: SlackTarget
    ts: str
    send_id: str
    begun_s: float
    appended: str | None
    changed_s: float


class Streams:
    """Those of one app. `client` gives the connected one; what it raises goes through."""

    def __init__(self, client: Callable[[], AsyncWebClient], clock: Clock, *, life_s: float) -> None:
        """A stream is stopped `life_s` after its beginning, before Slack does it."""
        self._client = client
        self._clock = clock
        self._life_s = life_s
        self._live: OrderedDict[tuple[str, str], _Live] = OrderedDict()
        self._begun_s: deque[float] = deque(maxlen=limits.STREAMS_PER_MINUTE)
        self._is_refused = False

    def cadence(self, target: SlackTarget) -> Cadence | None:
        """None for what only one person sees, and where so much goes on that an answer would hardly move."""
        if target.link:
            return None
        live = len({live.target.lane for live in self._live.values()} | {target.lane})
        if self._may_stream(target):
            return Cadence(limits.STREAM_FIRST_S, max(limits.APPEND_EVERY_S, live * limits.APPEND_SHARE_S))
        every_s = live * limits.CHANGE_SHARE_S
        return Cadence(limits.STREAM_FIRST_S, every_s) if every_s <= limits.CHANGE_EVERY_MAX_S else None

    async def begin(self, target: SlackTarget, chunk: SlackChunk, *, send_id: str) -> str:
        """The `ts` of the message that grows from now on. Raises the `DeliveryError` tree."""
        ts = await self._started(target, chunk) if _may_grow(chunk) and self._may_stream(target) else None
        appended = None if ts is None else settled(chunk.source)
        if ts is None:
            ts = await post(self._client(), target, chunk, send_id=send_id, plain=False)
        now_s = self._clock.monotonic_s()
        self._live[(target.channel, ts)] = _Live(target, ts, send_id, now_s, appended, now_s)
        while len(self._live) > limits.LIVE_MAX:
            self._live.popitem(last=False)
        return ts

    async def go_on(self, target: SlackTarget, chunk: SlackChunk, *, ts: str, send_id: str) -> bool:
        """Show more. False: the message is gone. Raises the `DeliveryError` tree."""
        live = self._live.get((target.channel, ts)) or self._adopted(target, ts, send_id)
        more = continuation(live.appended, chunk.source) if live.appended is not None and _may_grow(chunk) else None
        if more is not None and not self._is_old(live) and (not more or await self._appended(live, more)):
            return True
        if live.appended is not None:
            await self._stop(live)
        elif self._clock.monotonic_s() - live.changed_s < self._change_every_s():
            return True  # the next words bring these along
        live.changed_s = self._clock.monotonic_s()
        return await change(self._client(), target, chunk, ts=ts, plain=False)

    async def end(self, target: SlackTarget, *, ts: str) -> None:
        """From now on it may be changed, whichever process began it. Raises the `DeliveryError` tree."""
        live = self._live.get((target.channel, ts)) or self._adopted(target, ts, "")
        if live.appended is not None:
            await self._stop(live)
        self._live.pop((target.channel, ts), None)

    async def take_back(self, target: SlackTarget, *, ts: str) -> bool:
        """Delete it. False: that may not be. Raises the `DeliveryError` tree."""
        self._live.pop((target.channel, ts), None)
        return await take_back(self._client(), target, ts=ts)

    # --- one stream

    async def _started(self, target: SlackTarget, chunk: SlackChunk) -> str | None:
        """The `ts`; None where Slack streams nothing: then it shall be a post."""
        try:
            begun = await self._client().chat_startStream(
                channel=target.channel,
                thread_ts=target.thread_ts or "",
                recipient_team_id=target.team_id,
                recipient_user_id=target.user_id,
                markdown_text=settled(chunk.source) or None,
            )
        except Exception as error:
            if not is_about_streams(error):
                raise delivery_error(error) from error
            self._is_refused |= api_word(error) in NEVER_STREAMS
            log.info("slack: no stream but a post: %s", api_word(error))
            return None
        self._begun_s.append(self._clock.monotonic_s())
        return ts_of(begun)

    async def _appended(self, live: _Live, more: str) -> bool:
        """False: it is a stream no more."""
        try:
            await self._client().chat_appendStream(channel=live.target.channel, ts=live.ts, markdown_text=more)
        except Exception as error:
            live.begun_s = _LONG_AGO  # whether these words arrived is not known: the next show all of it anew
            if not is_about_streams(error):
                raise delivery_error(error) from error
            return False
        live.appended = (live.appended or "") + more
        return True

    async def _stop(self, live: _Live) -> None:
        await stop_stream(self._client(), live.target, ts=live.ts, send_id=live.send_id)
        live.appended = None

    def _adopted(self, target: SlackTarget, ts: str, send_id: str) -> _Live:
        """One that another process began: what it shows is not known, so it is stopped, if it is a stream, and
        changed."""
        appended = "" if target.thread_ts else None
        return self._live.setdefault((target.channel, ts), _Live(target, ts, send_id, _LONG_AGO, appended, _LONG_AGO))

    # --- how much may go on

    def _may_stream(self, target: SlackTarget) -> bool:
        if not (target.thread_ts and target.user_id and target.team_id) or self._is_refused:
            return False
        is_crowded = len(self._begun_s) == self._begun_s.maxlen
        return not is_crowded or self._clock.monotonic_s() - self._begun_s[0] >= limits.STREAMS_WINDOW_S

    def _is_old(self, live: _Live) -> bool:
        return self._clock.monotonic_s() - live.begun_s >= self._life_s

    def _change_every_s(self) -> float:
        return limits.CHANGE_SHARE_S * len({live.target.lane for live in self._live.values() if live.appended is None})


def _may_grow(chunk: SlackChunk) -> bool:
    """Whether it may be shown by a stream."""
    return bool(chunk.source) and not leads_away(chunk.source)
