"""The supervised connection of one app: lease, sockets or requests, read cursors, missed messages.

An event is acknowledged after the bus has it; messages that Slack does not send again are read back from its
history."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Final

import aiohttp
from slack_bolt.app.async_app import AsyncApp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from channels.core.adapter import AdapterDeps, AdapterTasks, InboundHandler, PlatformConnection
from channels.core.backfill import Listener, RawMessage, ReadCursors
from channels.core.downloads import goes_direct
from channels.core.message import Ignored, Incoming, Raw, RawQuote, Retraction, mapping, text
from channels.core.places import JoinedThreads, ThreadContextLoader
from channels.slack import limits, normalize
from channels.slack.client import EventsWebhook, Hear, SlackSockets, SocketTimeouts, bolt_app, sdk_log
from channels.slack.content import mentioned, people_in, said_in
from channels.slack.errors import asked_to_wait_s, or_rejected
from channels.slack.history import ORDER, SlackHistory, SlackThreadContext, is_ts, place_of
from channels.slack.render import Block, option, render
from channels.slack.sending import ResponseUrls, respond
from channels.slack.workspace import ChannelMoves, SlackPeople
from gateway.contracts.errors import CredentialsRejected
from gateway.tasks import Backoff, first_to_end

log = logging.getLogger(__name__)

# Slack's side of listening: which requests are messages, which of them are ours.

_MESSAGES: Final = frozenset({"message", "app_mention"})
_CHANGES: Final = frozenset({"message_changed", "message_deleted"})


@dataclass(eq=False, repr=False)
class SlackSource:
    """The `channels.core.backfill.MessageSource` of one workspace. It hears payloads as Slack sends them."""

    me: normalize.SlackIdentity
    history: SlackHistory
    threads: JoinedThreads
    response_urls: ResponseUrls
    people: SlackPeople
    context: SlackThreadContext
    context_loader: ThreadContextLoader
    moves: ChannelMoves

    def hearing(self, listener: Listener[Raw]) -> Hear:
        """Return the function that takes a request from the socket: done when the bus has it, `NotTaken` when it has
        not."""

        async def hear(body: Mapping[str, Any]) -> None:
            move = normalize.moved(body)
            if move is not None:
                await self.moves.note(move)
                return
            heard = _heard(self.moves.as_known(body))
            if heard is not None:
                self.people.ask(self._concerned(body))
                await listener.hear(heard)

        return hear

    def _concerned(self, body: Raw) -> Iterator[str]:
        """Yield the people whose names will be needed: they are looked up while earlier messages are taken."""
        message = spoken(mapping(body.get("event")))
        is_direct = text(mapping(body.get("event")).get("channel")).startswith("D")
        if is_direct or message.get("thread_ts") or self.me.user_id in mentioned(said_in(message)):
            yield from self._others_in(message)

    def _others_in(self, message: Raw) -> Iterator[str]:
        return (user_id for user_id in people_in(message) if user_id != self.me.user_id)

    async def rooms(self) -> Sequence[str]:
        return await self.history.rooms()

    async def missed(self, room: str) -> AsyncIterator[RawMessage[Raw]]:
        for heard in await self.history.missed(room):
            yield heard

    async def understand(self, heard: RawMessage[Raw]) -> Incoming | Retraction | None:
        understood = await (self._given(heard.raw) if _is_given(heard.raw) else self._spoken(heard.raw))
        if isinstance(understood, Ignored):
            log.debug("slack: message %s ignored: %s", heard.message_id, understood.reason)
            return None
        return understood

    async def taken(self, incoming: Incoming) -> None:
        """Note that the bus has the message: from here on we take part in the thread in which we answer."""
        await self.context_loader.taken(incoming)
        if len(incoming.place) == 2 and not incoming.is_private:
            await self.threads.join(*incoming.place)

    async def _given(self, payload: Raw) -> Incoming | Ignored:
        """Understand a command given by a slash command or a list. Its response URL is on the bus before the command
        is."""
        understood = (normalize.normalize_slash if normalize.is_slash(payload) else normalize.normalize_pick)(
            payload, self.me
        )
        if isinstance(understood, Ignored):
            return understood
        name = normalize.parse_target(understood.address.target).link or ""
        await self.response_urls.keep(name, normalize.response_url_of(payload))
        author = await self.people.one(understood.user_id)
        return replace(understood, author_name=author.name, language=author.language) if author else understood

    async def _spoken(self, payload: Raw) -> Incoming | Retraction | Ignored:
        """Understand a message, with the names of people and with the earlier messages of its thread, if it is for us.
        Its answer goes where the channel is now."""
        event = mapping(payload.get("event"))
        message = spoken(event)
        is_change = text(event.get("subtype")) in _CHANGES
        thread_ts = text(message.get("thread_ts")) or (text(message.get("ts")) if is_change else "")
        takes_part = bool(thread_ts) and await self.threads.has_joined(text(event.get("channel")), thread_ts)

        def read(names: Mapping[str, str]) -> Incoming | Retraction | Ignored:
            said = normalize.normalize(payload, self.me, takes_part=lambda channel, thread: takes_part, names=names)
            if not isinstance(said, Incoming):
                return said
            address = normalize.relocated(said.address, self.moves.newest(text(event.get("channel"))))
            return said if address is said.address else replace(said, address=address)

        others = tuple(self._others_in(message))
        names = self.people.names(others)
        understood = read(names)
        if not isinstance(understood, Incoming) or not (understood.is_addressed or understood.is_edit):
            return understood
        people, before = await asyncio.gather(self.people.known(others), self._said_before(understood))
        heard = {user_id: person.name for user_id, person in people.items()}
        named = understood if heard == names else read(heard)
        if not isinstance(named, Incoming):
            return named
        author = people.get(text(message.get("user")))
        return replace(named, language=author.language if author else "", quotes=(*before, *named.quotes))

    async def _said_before(self, incoming: Incoming) -> tuple[RawQuote, ...]:
        target = normalize.parse_target(incoming.address.target)
        if target.thread_ts == target.message_ts:  # it begins the thread
            self.context_loader.told(incoming)
        return await self.context_loader.of(incoming, lambda: self.context.before(incoming))


def _heard(body: Mapping[str, Any]) -> RawMessage[Raw] | None:
    if _is_given(body):
        channel_id = text(body.get("channel_id")) or text(mapping(body.get("container")).get("channel_id"))
        return RawMessage(channel_id, "", body)
    event = mapping(body.get("event"))
    ts, channel_id = text(event.get("ts")), text(event.get("channel"))
    if text(event.get("type")) not in _MESSAGES or not is_ts(ts) or not channel_id:
        return None
    if text(event.get("subtype")) in _CHANGES:  # they have a time of their own and are in no history
        return RawMessage(place_of(channel_id, spoken(event)), "", body)
    return RawMessage(place_of(channel_id, event), ts, body)


def _is_given(body: Raw) -> bool:
    return normalize.is_slash(body) or normalize.is_pick(body)


def spoken(event: Raw) -> Raw:
    """Return the message that an event is about."""
    return mapping(event.get("message")) or mapping(event.get("previous_message")) or event


# Presses of buttons: acknowledged when the bus has them, answered in private. And the content of lists to pick from.


@dataclass(eq=False, repr=False)
class SlackPresses:
    """The presses that come over one socket."""

    me: normalize.SlackIdentity
    handler: InboundHandler
    people: SlackPeople
    background: AdapterTasks
    _: KW_ONLY
    proxy: str = ""

    def before(self, hear: Hear) -> Hear:
        """Take the presses, and what Slack asks for while somebody picks; leave everything else to `hear`. Raises
        `BusUnavailable`: then nothing is acknowledged."""

        async def hear_all(body: Mapping[str, Any]) -> Sequence[Block] | None:
            if normalize.is_question(body):
                return await self._list(body)
            if normalize.is_press(body) and not normalize.is_pick(body):
                await self._take(body)
                return None
            return await hear(body)

        return hear_all

    async def _list(self, body: Mapping[str, Any]) -> Sequence[Block]:
        typing = normalize.normalize_question(body, self.me)
        suggestions = () if isinstance(typing, Ignored) else await self.handler.suggest(await self._known(typing))
        return [option(each.label, each.value) for each in suggestions]

    async def _take(self, body: Mapping[str, Any]) -> None:
        press = normalize.normalize_press(body, self.me)
        if isinstance(press, Ignored):
            return
        known = await self._known(press)
        word = await self.handler.press(known)

        async def pass_on() -> None:
            told = await self.handler.told(known) if word is None else word
            url = normalize.response_url_of(body)
            chunks = render(told)
            if chunks and url:
                await respond(url, chunks[0], plain=False, proxy=self.proxy)

        self.background.start(pass_on())

    async def _known(self, press: Incoming) -> Incoming:
        """Add the name and the language of the person who pressed; the press itself has only a handle."""
        person = await self.people.one(press.user_id)
        return replace(press, author_name=person.name, language=person.language) if person else press


@dataclass(frozen=True, slots=True)
class SlackEndpoint:
    """The address and the credentials of one app. `api_base` ends with a slash. With an `app_token` we listen over
    `connections` sockets; without one Slack calls us, and proves it by the `signing_secret`. `bots` are other bots
    that it hears; with `begins_threads` a mention in a channel is answered in its own thread."""

    bot_token: str
    app_token: str
    api_base: str
    connections: int = 1
    signing_secret: str = ""
    proxy: str = ""
    bots: frozenset[str] = frozenset()
    begins_threads: bool = False

    @property
    def lease(self) -> str:
        """Name the right to listen: one per app token, which the name does not give away."""
        return f"socket:slack:{hashlib.blake2s(self.app_token.encode(), digest_size=8).hexdigest()}"


class SlackConnection(PlatformConnection):
    """The connection of one app. `client` is there while it is connected."""

    def __init__(
        self,
        endpoint: SlackEndpoint,
        parts: AdapterDeps,
        response_urls: ResponseUrls,
        *,
        name: str,
        timeouts: SocketTimeouts,
    ) -> None:
        self._endpoint = endpoint
        self._events = None if endpoint.app_token else EventsWebhook(endpoint.signing_secret, parts.clock)
        calls = self._events.called if self._events else None
        super().__init__(name, parts, endpoint.lease, lease_ttl_s=timeouts.lease_ttl_s, calls=calls)
        self._response_urls = response_urls
        self._timeouts = timeouts
        self._handler: InboundHandler | None = None
        self.client: AsyncWebClient | None = None
        self.me: normalize.SlackIdentity | None = None

    @property
    def account(self) -> str:
        """Return the installation, empty until it is known."""
        return self.me.account if self.me else ""

    async def run(self, handler: InboundHandler) -> None:
        """Listen, whenever nobody else does, until cancelled; requests are taken by every process. Raises
        `CredentialsRejected`."""
        if self._events is not None:
            await self._stay_connected(handler)
            return
        await self._while_holding(lambda: self._stay_connected(handler))

    def tell_stopped(self, target: normalize.SlackTarget, ts: str) -> None:
        """Take it in that a person has stopped the stream `ts`. A stop that does not arrive is left to the person, who
        sees the answer go on."""
        if self.me is not None and self._handler is not None:
            self._background.start(self._stop(self._handler, normalize.stopped_stream(target, ts, self.me)))

    async def _stop(self, handler: InboundHandler, stop: Incoming) -> None:
        await handler.accept(stop)

    async def _stay_connected(self, handler: InboundHandler) -> None:
        backoff = Backoff(limits.RETRY_FIRST_S, limits.RETRY_CAP_S)
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=limits.CALL_TIMEOUT_S)) as session:
            client = self.client = self._web_client(session)
            try:
                while True:
                    wait_s = 0.0
                    try:
                        await self._listen(client, handler, backoff)
                        self.state = "not connected"
                    except CredentialsRejected:
                        raise
                    except Exception as error:  # named boundary, supervisor child: connect again, whatever it was
                        self.state = f"not connected ({type(error).__name__})"
                        log.warning("%s: %s", self._name, self.state, exc_info=log.isEnabledFor(logging.DEBUG))
                        wait_s = asked_to_wait_s(error)
                    await asyncio.sleep(max(wait_s, backoff.next_s()))
            finally:
                self._ready.clear()
                self.client = None

    async def _listen(self, client: AsyncWebClient, handler: InboundHandler, backoff: Backoff) -> None:
        """Listen, from the check of the credentials until the source of our events ends."""
        me, self._handler = await self._identify(client), handler
        self.me = me
        await self._places.introduce("slack", list(filter(None, (me.user_id, me.bot_id))))
        prefix = f"{self._name}:{me.account}"
        cursors = ReadCursors(self._positions, f"{prefix}:marks", ORDER)
        if not await cursors.load():
            await cursors.begin(f"{self._clock.now_ms() / 1000:.6f}")
        threads = JoinedThreads(self._positions, prefix)
        people = SlackPeople(client, self._clock)
        context = SlackThreadContext(client, people)
        context_loader = ThreadContextLoader(self._positions, prefix, wait_s=limits.THREAD_WAIT_S)
        moves = ChannelMoves(self._places, self._name)
        await moves.load()
        history = SlackHistory(client, cursors, self._clock, moves)
        source = SlackSource(me, history, threads, self._response_urls, people, context, context_loader, moves)
        listener: Listener[Raw] = Listener(self._name, handler, cursors, source)
        hear = SlackPresses(me, handler, people, self._background, proxy=self._endpoint.proxy).before(
            source.hearing(listener)
        )
        app = bolt_app(client, me, hear)
        log.info("%s: workspace %s knows us as %s", self._name, me.team_id, me.user_id)
        backoff.reset()
        self._ready.set()
        try:
            await self._take_in(client, app, listener)
        finally:
            await self._background.end()
            await people.close()

    async def _take_in(self, client: AsyncWebClient, app: AsyncApp, listener: Listener[Raw]) -> None:
        """Take what Slack brings, over sockets or by HTTP. Raises `CredentialsRejected`."""
        if self._events is not None:
            with self._events.open(app, listener.note_gap):
                await first_to_end(listener.run(), self._events.keep(client, self._tell))
            return
        sockets = SlackSockets(
            client,
            app,
            app_token=self._endpoint.app_token,
            connections=self._endpoint.connections,
            timeouts=self._timeouts,
            note_gap=listener.note_gap,
            share=listener.share,
            tell=self._tell,
        )

        async def listen() -> None:
            await sockets.first_is_up.wait()
            await listener.run()

        await first_to_end(sockets.run(), listen())

    async def _identify(self, client: AsyncWebClient) -> normalize.SlackIdentity:
        try:
            answer = await client.auth_test()
        except SlackApiError as error:
            raise or_rejected(error) from error
        return normalize.SlackIdentity(
            team_id=str(answer.get("team_id") or ""),
            user_id=str(answer["user_id"]),
            bot_id=str(answer.get("bot_id") or ""),
            enterprise_id=str(answer.get("enterprise_id") or ""),
            channel=self._name,
            bots=self._endpoint.bots,
            begins_threads=self._endpoint.begins_threads,
        )

    def _web_client(self, session: aiohttp.ClientSession) -> AsyncWebClient:
        endpoint = self._endpoint
        client = AsyncWebClient(
            token=endpoint.bot_token, base_url=endpoint.api_base, session=session, retry_handlers=[], logger=sdk_log
        )
        if endpoint.proxy or goes_direct(endpoint.api_base):
            client.proxy = endpoint.proxy or None  # the SDK takes HTTP_PROXY for every address and knows no NO_PROXY
        return client
