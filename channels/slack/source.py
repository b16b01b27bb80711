"""Slack's side of listening: which requests are messages, which of them are ours."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from channels.inbound.briefing import Briefing
from channels.inbound.listening import Heard, Listener
from channels.inbound.threads import Threads
from channels.normalized import Ignored, Incoming, RawQuote, Retraction
from channels.raw import Raw, mapping, text
from channels.slack.address import parse_target, relocated
from channels.slack.bolt import Hear
from channels.slack.context import ThreadContext
from channels.slack.history import History, is_ts, place_of
from channels.slack.links import Links
from channels.slack.moves import Moves
from channels.slack.normalize import SlackIdentity, moved, normalize
from channels.slack.people import People
from channels.slack.picking import is_pick, normalize_pick
from channels.slack.quotes import people_in
from channels.slack.rich_text import said_in
from channels.slack.slash import is_slash, normalize_slash, response_url_of
from channels.slack.wording import mentioned

log = logging.getLogger(__name__)

_MESSAGES: Final = frozenset({"message", "app_mention"})
_CHANGES: Final = frozenset({"message_changed", "message_deleted"})


class SlackSource:
    """`channels.inbound.listening.Source` for one workspace. What it hears are payloads as Slack sends them."""

    def __init__(
        self,
        me: SlackIdentity,
        history: History,
        threads: Threads,
        links: Links,
        people: People,
        context: ThreadContext,
        briefing: Briefing,
        moves: Moves,
    ) -> None:
        self._me = me
        self._history = history
        self._threads = threads
        self._links = links
        self._people = people
        self._context = context
        self._briefing = briefing
        self._moves = moves

    def hearing(self, listener: Listener[Raw]) -> Hear:
        """What the socket does with a request: done when the bus has it, `NotTaken` when it has not."""

        async def hear(body: Mapping[str, Any]) -> None:
            move = moved(body)
            if move is not None:
                await self._moves.note(move)
                return
            heard = _heard(self._moves.as_known(body))
            if heard is not None:
                self._people.ask(self._concerned(body))
                await listener.hear(heard)

        return hear

    def _concerned(self, body: Raw) -> Iterator[str]:
        """Those whose names will be wanted: found out while what was said before is taken."""
        message = spoken(mapping(body.get("event")))
        is_direct = text(mapping(body.get("event")).get("channel")).startswith("D")
        if is_direct or message.get("thread_ts") or self._me.user_id in mentioned(said_in(message)):
            yield from self._others_in(message)

    def _others_in(self, message: Raw) -> Iterator[str]:
        return (user_id for user_id in people_in(message) if user_id != self._me.user_id)

    async def rooms(self) -> Sequence[str]:
        return await self._history.rooms()

    async def missed(self, room: str) -> AsyncIterator[Heard[Raw]]:
        for heard in await self._history.missed(room):
            yield heard

    async def understand(self, heard: Heard[Raw]) -> Incoming | Retraction | None:
        understood = await (self._given(heard.raw) if _is_given(heard.raw) else self._spoken(heard.raw))
        if isinstance(understood, Ignored):
            log.debug("slack: message %s ignored: %s", heard.message_id, understood.reason)
            return None
        return understood

    async def taken(self, incoming: Incoming) -> None:
        """From here on the thread in which we answer is one we take part in."""
        await self._briefing.taken(incoming)
        if len(incoming.place) == 2 and not incoming.is_private:
            await self._threads.join(*incoming.place)

    async def _given(self, payload: Raw) -> Incoming | Ignored:
        """A command that was given otherwise than by a message. Its link is on the bus before it is."""
        understood = (normalize_slash if is_slash(payload) else normalize_pick)(payload, self._me)
        if isinstance(understood, Ignored):
            return understood
        name = parse_target(understood.address.target).link or ""
        await self._links.keep(name, response_url_of(payload))
        author = await self._people.one(understood.user_id)
        return replace(understood, author_name=author.name, language=author.language) if author else understood

    async def _spoken(self, payload: Raw) -> Incoming | Retraction | Ignored:
        """A message with the names of people and with what was said before, if it is for us. Its answer goes where the
        channel is now."""
        event = mapping(payload.get("event"))
        message = spoken(event)
        is_change = text(event.get("subtype")) in _CHANGES
        thread_ts = text(message.get("thread_ts")) or (text(message.get("ts")) if is_change else "")
        takes_part = bool(thread_ts) and await self._threads.has_joined(text(event.get("channel")), thread_ts)

        def read(names: Mapping[str, str]) -> Incoming | Retraction | Ignored:
            said = normalize(payload, self._me, takes_part=lambda channel, thread: takes_part, names=names)
            if not isinstance(said, Incoming):
                return said
            return replace(said, address=relocated(said.address, self._moves.newest(text(event.get("channel")))))

        understood = read({})
        if not isinstance(understood, Incoming) or not (understood.is_addressed or understood.is_edit):
            return understood
        people, before = await asyncio.gather(
            self._people.known(self._others_in(message)),
            self._said_before(understood),
        )
        named = read({user_id: person.name for user_id, person in people.items()})
        if not isinstance(named, Incoming):
            return named
        author = people.get(text(message.get("user")))
        return replace(named, language=author.language if author else "", quotes=(*before, *named.quotes))

    async def _said_before(self, incoming: Incoming) -> tuple[RawQuote, ...]:
        target = parse_target(incoming.address.target)
        if target.thread_ts == target.message_ts:  # it begins the thread
            self._briefing.told(incoming)
        return await self._briefing.of(incoming, lambda: self._context.before(incoming))


def _heard(body: Mapping[str, Any]) -> Heard[Raw] | None:
    if _is_given(body):
        channel_id = text(body.get("channel_id")) or text(mapping(body.get("container")).get("channel_id"))
        return Heard(channel_id, "", body)
    event = mapping(body.get("event"))
    ts, channel_id = text(event.get("ts")), text(event.get("channel"))
    if text(event.get("type")) not in _MESSAGES or not is_ts(ts) or not channel_id:
        return None
    if text(event.get("subtype")) in _CHANGES:  # they have a time of their own and stand in no history
        return Heard(place_of(channel_id, spoken(event)), "", body)
    return Heard(place_of(channel_id, event), ts, body)


def _is_given(body: Raw) -> bool:
    return is_slash(body) or is_pick(body)


def spoken(event: Raw) -> Raw:
    """The message that an event is about."""
    return mapping(event.get("message")) or mapping(event.get("previous_message")) or event
