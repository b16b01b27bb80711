"""Programs: those that ask, whose answers are kept until they have them, and those that are told of events.

Every process serves the port, and hears what is made of every answer as long as somebody waits there. One of them
delivers an answer: it puts it on the bus, where any of them finds it, and calls the client's webhook if the message
named one; it also calls the operator's webhooks (`gateway.webhooks`). To do any of it again with the same id changes
nothing, so nothing is ever unknown."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Final

import aiohttp
from aiohttp import AddrInfoType

from channels.core.adapter import CONNECTED, AdapterDeps, AnyChunk, InboundHandler, SendBudget
from channels.core.message import Addressing, Incoming, RawQuote, canonical, mapping, target_fields, text
from gateway.bus.answers import FetchedAnswer, FetchedAnswers
from gateway.clients import CHANNEL, signature, token_of
from gateway.config import Settings
from gateway.config.features import Webhook
from gateway.contracts.commands import find_command
from gateway.contracts.errors import AddressDead, BusUnavailable, OutcomeUnknown, RateLimited, SendFailed
from gateway.contracts.ids import EVENTS, ReplyAddress, SessionKey, SessionScope
from gateway.contracts.messages import Choice, CleanText, Draft
from gateway.contracts.ports import Clock
from gateway.limits import API_IDS_CHARS_MAX, API_LOOK_S, WEBHOOK_CALLS_MAX, WEBHOOK_TIMEOUT_S
from gateway.public_web import is_on_public_web

_TOO_MANY: Final = 429
_RETRY_AFTER_MAX_S: Final = 300.0
_ID: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{API_IDS_CHARS_MAX}}}")


class UnfitMessage(Exception):
    """An order of a client that cannot be followed; the text says why."""


@dataclass(frozen=True, slots=True)
class ApiMessage:
    """A client's message. `thread` is "" outside of threads; `webhook` is "" unless the answer is to be sent there;
    `before` is what was said before, where the client keeps the conversation."""

    client: SessionKey
    id: str
    thread: str
    text: str
    webhook: str = ""
    before: tuple[RawQuote, ...] = ()

    @property
    def incoming_id(self) -> str:
        return message_id(self.client, self.id)


def message_id(client: SessionKey, own_id: str) -> str:
    """Return the id on the bus of what a client calls `own_id`: no client can name what is another's."""
    return f"{CHANNEL}:local:{client.user}:{own_id}"


@dataclass(frozen=True, slots=True)
class ApiChunk:
    """A reply. `is_status`: it is no answer, and nobody fetches it."""

    text: str
    choices: tuple[tuple[str, str], ...] = ()
    is_status: bool = False


class WatchedAnswer:
    """This process's view of the answer to one message, while somebody waits for it."""

    def __init__(self) -> None:
        self.draft = ""
        self._news = asyncio.Event()

    def tell(self, draft: str | None = None) -> None:
        """Wake those who wait, with the text as far as it is made, or because there is an answer."""
        self.draft = self.draft if draft is None else draft
        self._news.set()

    async def news(self) -> None:
        """Return when there is something new here, or when it is time to look on the bus."""
        try:
            async with asyncio.timeout(API_LOOK_S):
                await self._news.wait()
        except TimeoutError:
            return
        self._news.clear()


class _RepeatableSends:
    """The common part of both adapters: a message that is sent again, with the same id, says nothing twice."""

    def __init__(self) -> None:
        self.state = "not ready yet"
        self._ready = asyncio.Event()

    async def until_ready(self) -> None:
        await self._ready.wait()

    def budgets(self, address: ReplyAddress) -> Sequence[SendBudget]:
        return ()

    async def find_sent(
        self, address: ReplyAddress, chunk: AnyChunk, *, send_id: str, since_ms: int
    ) -> tuple[str, ...] | None:
        """Return None: it may be sent again."""
        return None

    def _connected(self) -> None:
        self.state = CONNECTED
        self._ready.set()


class ApiAdapter(_RepeatableSends):
    """`ChannelAdapter`, `SupportsLookup`, `SupportsChoices`, `SupportsSilence`. `drafts` yields what is made of
    answers; None: nobody is told of them before they are whole."""

    name = CHANNEL
    account = f"{CHANNEL}:local"

    def __init__(
        self,
        serve: Callable[[ApiAdapter, InboundHandler], AbstractAsyncContextManager[object]],
        answers: FetchedAnswers,
        drafts: Callable[[], AsyncIterator[Draft]] | None,
        clock: Clock,
        *,
        key: str,
        webhooks: Collection[str],
        scope: SessionScope,
    ) -> None:
        super().__init__()
        self.key = key
        self._serve = serve
        self.answers = answers
        self._drafts = drafts
        self._clock = clock
        self._webhooks = frozenset(webhooks)
        self._scope = scope
        self._watched: dict[str, list[WatchedAnswer]] = {}
        self._session: aiohttp.ClientSession | None = None

    async def run(self, handler: InboundHandler) -> None:
        """Serve the port until cancelled. Raises `ConfigError` when it is somebody else's."""
        async with aiohttp.ClientSession() as self._session, self._serve(self, handler):
            self._connected()
            if self._drafts is not None:
                async for draft in self._drafts():
                    self._tell(draft.address, draft.text)
            await asyncio.Event().wait()

    # --- what clients say

    def incoming(self, message: ApiMessage) -> Incoming:
        """Return the message as intake takes it. Raises `UnfitMessage`."""
        for name, given in (("id", message.id), ("thread", message.thread or "-")):
            if not _ID.fullmatch(given):
                raise UnfitMessage(f"{name} has 1 to {API_IDS_CHARS_MAX} letters, digits, hyphens and underscores")
        if message.webhook and message.webhook not in self._webhooks:
            raise UnfitMessage("answers may not be sent there: name the address in channels.api.webhooks")
        if not message.text.strip():
            raise UnfitMessage("text is empty")
        # Where a place is shared by all who speak there, no two clients are in the same one.
        thread = f"{message.client.user}.{message.thread}" if self._scope is SessionScope.SHARED else message.thread
        target = canonical({"id": message.id, "client": message.client.user, "webhook": message.webhook or None})
        return Incoming(
            id=message.incoming_id,
            channel=CHANNEL,
            account="local",
            user_id=message.client.user,
            author_name=message.client.user,
            place=(thread,) if message.thread else (),
            is_private=True,
            addressing=Addressing.PRIVATE,
            text=message.text,
            address=ReplyAddress(CHANNEL, message.incoming_id, target),  # of its own, so that no two share a turn
            sent_at_ms=self._clock.now_ms(),
            command=find_command(message.text),
            quotes=message.before,
        )

    def watch(self, incoming_id: str) -> WatchedAnswer:
        """Begin to hear of the answer to a message; end it by `unwatch`."""
        watched = WatchedAnswer()
        self._watched.setdefault(incoming_id, []).append(watched)
        return watched

    def unwatch(self, incoming_id: str, watched: WatchedAnswer) -> None:
        """Stop hearing of it."""
        self._watched[incoming_id].remove(watched)
        if not self._watched[incoming_id]:
            del self._watched[incoming_id]

    # --- what they are told

    def chunks(self, text: CleanText) -> Sequence[ApiChunk]:
        return (ApiChunk(text),)

    def marked(self, chunk: ApiChunk, mark: CleanText) -> ApiChunk:
        return replace(chunk, text=f"{mark}\n\n{chunk.text}")

    def offering(self, chunk: ApiChunk, choices: Sequence[Choice]) -> ApiChunk:
        return replace(chunk, choices=tuple((choice.label, choice.command) for choice in choices))

    def silent(self, chunk: ApiChunk) -> ApiChunk:
        return replace(chunk, is_status=True)

    async def send(self, address: ReplyAddress, chunk: ApiChunk, *, send_id: str, plain: bool) -> tuple[str, ...]:
        await self._put(address, chunk, send_id)
        webhook = text(target_fields(address.target).get("webhook"))
        if webhook and not chunk.is_status:
            await self._call(webhook, address, chunk, send_id)
        return (send_id,)

    async def amend(self, address: ReplyAddress, chunk: ApiChunk, *, message_id: str, plain: bool) -> bool:
        await self._put(address, chunk, message_id)
        return True

    def _tell(self, address: ReplyAddress, draft: str | None = None) -> None:
        for watched in self._watched.get(address.lane, ()):
            watched.tell(draft)

    async def _put(self, address: ReplyAddress, chunk: ApiChunk, send_id: str) -> None:
        if chunk.is_status:
            return
        try:
            await self.answers.put(
                address.lane, FetchedAnswer(send_id, chunk.text, self._clock.now_ms(), chunk.choices)
            )
        except BusUnavailable as error:
            raise SendFailed(str(error)) from error
        self._tell(address)

    async def _call(self, webhook: str, address: ReplyAddress, chunk: ApiChunk, send_id: str) -> None:
        """Call a client's webhook. Raises as `post_signed`; it is called again with the same id."""
        if self._session is None or webhook not in self._webhooks:
            raise SendFailed("answers may not be sent there any more: channels.api.webhooks does not name it")
        fields = target_fields(address.target)
        said = answer_fields(text(fields.get("id")), chunk.text, chunk.choices, send_id)
        await post_signed(
            self._session, webhook, said, token_of(self.key, SessionKey(CHANNEL, text(fields.get("client"))))
        )


def answer_fields(own_id: str, said: str, choices: Sequence[tuple[str, str]], reply_id: str) -> Mapping[str, object]:
    """Return one answer as clients read it."""
    told = [{"label": label, "say": say} for label, say in choices]
    return {"message_id": own_id, "id": reply_id, "text": said, "choices": told}


# Webhooks: programs that are called, each call signed.


async def post_signed(session: aiohttp.ClientSession, url: str, said: Mapping[str, object], secret: str) -> None:
    """Call a webhook once. Raises `SendFailed`, `RateLimited`, and `OutcomeUnknown` where it may have been taken."""
    body = json.dumps(said).encode()
    signed = {"Content-Type": "application/json", "X-Trivet-Signature": signature(secret, body, int(time.time()))}
    timeout = aiohttp.ClientTimeout(WEBHOOK_TIMEOUT_S)
    try:
        async with session.post(url, data=body, headers=signed, allow_redirects=False, timeout=timeout) as answer:
            if answer.status == _TOO_MANY:
                raise RateLimited(_wait_of(answer.headers.get("Retry-After", "")))
            if not 200 <= answer.status < 300:
                raise SendFailed(f"the webhook answers {answer.status}")
    except aiohttp.ClientConnectorError as error:
        raise SendFailed("the webhook cannot be reached") from error
    except (aiohttp.ClientError, TimeoutError) as error:
        raise OutcomeUnknown(f"the webhook gives no answer ({type(error).__name__})") from error


def _wait_of(said: str) -> float:
    return min(float(said), _RETRY_AFTER_MAX_S) if said.isdecimal() else 1.0


class EventAdapter(_RepeatableSends):
    """`ChannelAdapter`, `SupportsLookup`: tells the operator's webhooks of events and hears nothing."""

    name = EVENTS
    account = f"{EVENTS}:local"

    def __init__(self, webhooks: Sequence[Webhook]) -> None:
        super().__init__()
        self._webhooks = {webhook.called: webhook for webhook in webhooks}
        self._calls = defaultdict[str, asyncio.Semaphore](lambda: asyncio.Semaphore(WEBHOOK_CALLS_MAX))
        self._sessions: dict[bool, aiohttp.ClientSession] = {}

    async def run(self, handler: InboundHandler) -> None:
        """Keep connections until cancelled."""
        guarded = aiohttp.TCPConnector(socket_factory=_public_socket, use_dns_cache=False, ttl_dns_cache=0)
        async with (
            aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as anywhere,
            aiohttp.ClientSession(connector=guarded, cookie_jar=aiohttp.DummyCookieJar()) as public,
        ):
            self._sessions = {True: anywhere, False: public}
            self._connected()
            await asyncio.Event().wait()

    def chunks(self, text: CleanText) -> Sequence[ApiChunk]:
        return (ApiChunk(text),)

    def marked(self, chunk: ApiChunk, mark: CleanText) -> ApiChunk:
        return chunk  # its id says that it was sent before

    async def send(self, address: ReplyAddress, chunk: ApiChunk, *, send_id: str, plain: bool) -> tuple[str, ...]:
        """Call the webhook. Raises as `post_signed`, and `AddressDead` for one that is not configured any more."""
        fields = target_fields(address.target)
        webhook = self._webhooks.get(text(fields.get("webhook")))
        if webhook is None:
            raise AddressDead("the configuration names no such webhook any more")
        async with self._calls[webhook.called]:
            said = {**mapping(fields.get("event")), "text": chunk.text}
            await post_signed(self._sessions[webhook.private], webhook.url, said, webhook.secret.get_secret_value())
        return (send_id,)


def _public_socket(address: AddrInfoType) -> socket.socket:
    """Make the socket of a connection whose address was judged: nothing resolves the name again."""
    family, kind, protocol, _, place = address
    if not is_on_public_web(str(place[0]), int(place[1])):
        raise OSError("it is not on the public web: the webhook needs private = true")
    return socket.socket(family, kind, protocol)


def open_adapter(_name: str, settings: Settings, _parts: AdapterDeps) -> EventAdapter:
    """Build the adapter of the operator's webhooks."""
    return EventAdapter(settings.webhooks)
