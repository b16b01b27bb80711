"""The interface of a platform connection: one Protocol that every adapter has, and optional ones for features that
only some platforms have.

An adapter owns its vendor's SDK. It gives normalized messages to an `InboundHandler`, and sends chunks that its own
`render` made. Nothing here knows a vendor; nothing outside an adapter sees a vendor's type."""

from __future__ import annotations

import asyncio
import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

from channels.core.lease import while_holding
from channels.core.message import Incoming, Retraction
from gateway.bus.access import Access
from gateway.bus.answers import FetchedAnswers
from gateway.bus.deliveries import Deliveries
from gateway.bus.inbound import Inbound
from gateway.bus.places import Places
from gateway.contracts.commands import Suggestion
from gateway.contracts.errors import BusUnavailable
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import Choice, CleanText
from gateway.contracts.ports import Clock, FetchedFile
from gateway.i18n import Language, Words, sentence
from gateway.tasks import BackgroundTasks

log = logging.getLogger(__name__)

# Requests of a platform that calls us instead of being listened to: plain values and one Protocol.

RETRY_AFTER_S: Final = 1  # Telegram would double its pauses up to a minute, and hold up the chat meanwhile


@dataclass(frozen=True, slots=True)
class WebhookCall:
    """One request. Names of headers are lower case.

    `body` is as it came, since signatures cover its bytes. It is read only on demand: a handler that sees by the
    headers that a call is not the platform's does not ask for it, so strangers cannot fill the memory."""

    headers: Mapping[str, str] = field(repr=False)
    body: Callable[[], Awaitable[bytes]] = field(repr=False)


@dataclass(frozen=True, slots=True)
class WebhookAnswer:
    """Our answer to the platform. Any 2xx means that it need not bring this again."""

    status: int = 200
    body: str = ""
    media_type: str = "text/plain"
    headers: Mapping[str, str] = field(default_factory=dict)
    sent: Callable[[], None] = lambda: None
    """Called when the answer is on its way."""


def unavailable_answer() -> WebhookAnswer:
    """Answer that we cannot take the call now. Every platform brings it again, except for Discord's interactions."""
    return WebhookAnswer(503, headers={"Retry-After": str(RETRY_AFTER_S)})


# The proof that a platform makes a call, and now: its signature over the time and the body.

REPLAY_WINDOW_S: Final = 300  # Slack's own advice; Discord names none
_SECONDS: Final = re.compile(r"[0-9]{1,12}")


@dataclass(frozen=True, slots=True)
class CallSignature:
    """The way in which a platform signs its calls: the headers that hold time and signature, the form of a signature,
    and the check, which is given the time, the signature and the body and never raises."""

    time_header: str
    header: str
    form: re.Pattern[str]
    is_genuine: Callable[[str, str, bytes], bool] = field(repr=False)

    async def body_of(self, call: WebhookCall, now_s: int) -> bytes | None:
        """Return the body of a call that was signed less than five minutes ago, by the platform's clock or ours; None
        for any other, whose body is not even read if it carries no signature. Never raises for what a call may hold."""
        timestamp, signature = call.headers.get(self.time_header, ""), call.headers.get(self.header, "")
        is_fresh = bool(_SECONDS.fullmatch(timestamp)) and abs(now_s - int(timestamp)) <= REPLAY_WINDOW_S
        if not (is_fresh and self.form.fullmatch(signature)):
            return None
        body = await call.body()
        return body if self.is_genuine(timestamp, signature, body) else None


@runtime_checkable
class SupportsWebhooks(Protocol):
    """A platform that may call us. Any process of ours may be called, even several of them."""

    @property
    def is_called(self) -> bool:
        """Tell whether the platform calls us, as the channel is configured."""

    @property
    def call_timeout_s(self) -> float:
        """Return a little less than the time the platform waits for an answer, counted from the end of its body."""

    async def called(self, call: WebhookCall) -> WebhookAnswer:
        """Handle a call; return after the bus has what the call brought, if it is genuine. Raises `BusUnavailable`: the
        platform is asked to bring it again."""


CONNECTED = "connected"
"""The one health state that means well; every other is a plain reason."""


MARK: Final = sentence("(perhaps a repetition: no acknowledgement came)")
"""The first line of a message that may be there twice, in its reader's language. Each platform's limit leaves room."""

MARKS: Final = tuple(Words(language).say(MARK) for language in Language)
"""In every language: the sign before words that are looked for."""


class QueueFull(BusUnavailable):
    """The bus holds as much as it may. As with a bus that is away, the platform gets no acknowledgement yet."""


class IntakeOutcome(StrEnum):
    """The outcome for a message that was handed in. After any of these the platform may be told "received"."""

    QUEUED = "queued"
    AMENDED = "amended"
    CONTROL = "control"
    DUPLICATE = "duplicate"
    TURNED_AWAY = "turned_away"
    REFUSED = "refused"
    IGNORED = "ignored"


class MessageHandler(Protocol):
    """The receiver of the messages that people write."""

    async def accept(self, incoming: Incoming) -> IntakeOutcome:
        """Return only after the bus has the message, or the edit of one. Raises `BusUnavailable` (then do not
        acknowledge)."""

    async def retract(self, retraction: Retraction) -> IntakeOutcome:
        """Withdraw a message that was deleted: it is not answered, unless it is too late for that. Raises
        `BusUnavailable`."""


class InboundHandler(MessageHandler, Protocol):
    """The receiver of all that an adapter hears."""

    async def press(self, press: Incoming) -> CleanText | None:
        """Take in that somebody pressed a button under a message of ours; the words of the press are those of the
        command that the button stands for. Returns after the bus has it: the text to show in private to the person who
        pressed (empty: nothing), or None if that text is not known yet. Raises `BusUnavailable`."""

    async def told(self, press: Incoming) -> CleanText:
        """Wait for the text to show to the person who pressed; empty for nothing. Returns within PRESS_ANSWER_S."""

    async def invoke(self, chosen: Incoming) -> CleanText | None:
        """Take in a command chosen from the platform's menu, which will not come again. Returns after the bus has it:
        None if the answer comes by the address; otherwise the text to show at once, in private, to the person who chose
        it (empty: nothing). Raises `BusUnavailable`."""

    async def suggest(self, typing: Incoming) -> Sequence[Suggestion]:
        """Suggest what could follow the command that somebody is typing; `typing.command` holds the part typed so far.
        Returns within SUGGESTIONS_WAIT_S; nothing when nobody knows, or when that person must not be told."""


AnyChunk: TypeAlias = Any
"""A chunk goes back only to the adapter that rendered it; nobody else looks inside."""


@dataclass(frozen=True, slots=True)
class AdapterDeps:
    """The parts that an adapter may need in addition to its own settings. `holder` names this process in leases."""

    positions: Inbound
    leases: Deliveries
    places: Places
    answers: FetchedAnswers
    access: Access
    clock: Clock
    holder: str


@dataclass(frozen=True, slots=True)
class SendBudget:
    """One token bucket that a send has to spend from: `per_s` on average, `burst` at once."""

    bucket: str
    per_s: float
    burst: int


class ChannelAdapter(Protocol):
    """One account on one platform."""

    @property
    def name(self) -> str:
        """Return the channel part of addresses and keys: `telegram`, `discord`, `slack`, `cli`."""

    @property
    def account(self) -> str:
        """Return `<channel>:<account id>`; the account's buckets and places are named after it. Known once the adapter
        is ready."""

    @property
    def state(self) -> str:
        """Return `connected`, or a plain reason why not, fit for the operator."""

    async def run(self, handler: InboundHandler) -> None:
        """Connect, reconnect and feed the handler until cancelled.

        Raises `CredentialsRejected` when only the operator can help."""

    async def until_ready(self) -> None:
        """Return when a send has a chance: connected, and the account is known."""

    def chunks(self, text: CleanText) -> Sequence[AnyChunk]:
        """Render CommonMark as this platform's messages, each under the platform's limit. Deterministic."""

    def marked(self, chunk: AnyChunk, mark: CleanText) -> AnyChunk:
        """Put above the chunk a first line that says that it may be a repetition; the result is still under
        the limit."""

    def budgets(self, address: ReplyAddress) -> Sequence[SendBudget]:
        """List the buckets that one message to `address` spends from, the narrowest first, the account's last."""

    async def send(self, address: ReplyAddress, chunk: AnyChunk, *, send_id: str, plain: bool) -> tuple[str, ...]:
        """Send one chunk, as plain text if `plain`. Returns the platform's message ids.

        `send_id` is equal for every attempt at the same chunk. Raises the `DeliveryError` tree."""


@runtime_checkable
class SupportsLookup(Protocol):
    """A platform that can be asked whether a message arrived."""

    async def find_sent(
        self, address: ReplyAddress, chunk: AnyChunk, *, send_id: str, since_ms: int
    ) -> tuple[str, ...] | None:
        """Find the ids of an earlier attempt that did arrive; None if sending once more cannot show the chunk twice.

        Raises `Untraceable` when nobody can say, and the rest of the `DeliveryError` tree when the platform cannot be
        asked now."""


@runtime_checkable
class SupportsPlaceholders(Protocol):
    """A platform that cannot be asked what arrived, but lets us edit: an edit may be repeated, a send may not."""

    def place_id(self, address: ReplyAddress) -> str:
        """Name the place within which message ids are unique."""

    async def put_placeholder(self, address: ReplyAddress) -> str:
        """Send a message that only holds a place; its id."""

    async def complete(self, address: ReplyAddress, chunk: AnyChunk, *, message_id: str, plain: bool) -> bool:
        """Make a message of ours show the chunk, however often this is asked. False: the message is gone."""

    async def find_lost(
        self, address: ReplyAddress, chunk: AnyChunk, *, after: Collection[str], known: frozenset[str]
    ) -> str | None:
        """Find the one message of ours after the message answered and after all of `after` that is not among `known`,
        and that may be `chunk` or a placeholder for it. None: there is none, there are several, or nobody can say.
        Changes nothing that `complete` would not change."""


@runtime_checkable
class SupportsChoices(Protocol):
    """A platform with buttons under messages, which can be changed afterwards."""

    def offering(self, chunk: AnyChunk, choices: Sequence[Choice]) -> AnyChunk:
        """Return the chunk with a button for each choice."""

    async def amend(self, address: ReplyAddress, chunk: AnyChunk, *, message_id: str, plain: bool) -> bool:
        """Make a message of ours show the chunk and nothing else, however often this is asked. False: it is gone."""


@runtime_checkable
class SupportsSilence(Protocol):
    """A platform that lets us choose whether a message makes itself heard."""

    def silent(self, chunk: AnyChunk) -> AnyChunk:
        """Return the chunk as a message that makes no sound."""


@dataclass(frozen=True, slots=True)
class Nameable:
    """A thread or topic that one conversation may have to itself, and that then bears the conversation's title.
    `name` tells it from all others of the account; it belongs to the conversation that speaks there while `is_first`
    holds. Naming it spends from `budgets`, the narrowest last."""

    name: str
    is_first: bool
    budgets: Sequence[SendBudget]


@runtime_checkable
class SupportsNames(Protocol):
    """A platform on which threads or topics have names, some of which are ours to give."""

    def nameable(self, address: ReplyAddress) -> Nameable | None:
        """Return the place of this address that can be named; None where places have no names."""

    async def lacks_name(self, address: ReplyAddress, title: CleanText) -> bool:
        """Tell whether the place is ours to name and may have another name. Raises the `DeliveryError` tree:
        `SendFailed` where it does not exist yet."""

    async def name_place(self, address: ReplyAddress, title: CleanText) -> None:
        """Name the place, however often this is asked. Raises the `DeliveryError` tree."""


@runtime_checkable
class SupportsDeletion(Protocol):
    """A platform on which we may, in some places, delete messages of people."""

    async def delete_inbound(self, address: ReplyAddress, *, message_id: str) -> bool:
        """Delete a message that was said at `address`, however often this is asked. False: the platform does not let
        us. Raises the `DeliveryError` tree."""


@dataclass(frozen=True, slots=True)
class OutgoingFile:
    """A file on its way out, with its bytes. `name` is fit for any platform; `caption` is plain text, "" for none."""

    name: str
    media_type: str
    content: bytes = field(repr=False)
    caption: str


@runtime_checkable
class SupportsFiles(Protocol):
    """A platform that takes files: a file becomes a chunk, and is sent, marked and looked up like any other."""

    def file_chunk(self, file: OutgoingFile) -> AnyChunk:
        """Return the file as one message of this platform. A refusal raises `FormatRefused` or `AddressDead`, whether
        or not somebody has to be told that the file is missing."""


@runtime_checkable
class SupportsUploads(Protocol):
    """A platform where a file is uploaded first, which nobody sees, and then shown by a call that names it."""

    async def upload(self, address: ReplyAddress, chunk: AnyChunk) -> str:
        """Put up the file of the chunk; the platform's name for it. May be repeated."""

    def uploaded(self, chunk: AnyChunk, upload_id: str) -> AnyChunk:
        """Return the chunk that shows the file uploaded under this name."""


@dataclass(frozen=True, slots=True)
class StreamCadence:
    """The pace at which a growing answer is shown: the first words after `first_after_s`, then at most every
    `every_s` (more after each 429), and not for fewer than `chars_min` new characters. A text that fades by itself
    is shown again `fades_after_s` after it was shown last; None: it stays. `stop_chars_max`:
    so long may the command of a button be, and there is one below it that says /stop, until the answer comes; 0:
    there is none."""

    first_after_s: float
    every_s: float
    chars_min: int = 20
    fades_after_s: float | None = None
    stop_chars_max: int = 0


@runtime_checkable
class SupportsStreaming(Protocol):
    """A platform that can show an answer while it grows.

    Where `is_draft` holds, the text shown leaves nothing behind and the answer is sent as if nothing had been shown.
    Elsewhere it is a message that becomes the first one of the answer: begun once per `send_id` (the reply's, as in
    `send`), shown anew with the whole text of this message so far, ended, and then amended into the committed text."""

    def cadence(self, address: ReplyAddress) -> StreamCadence | None:
        """Return how often a message may change at this address. None: nothing is shown there before it is whole."""

    def is_draft(self, address: ReplyAddress) -> bool: ...

    async def begin_stream(self, address: ReplyAddress, chunk: AnyChunk, *, send_id: str) -> str:
        """Show the first words; the id of the message, empty for a draft. Raises the `DeliveryError` tree."""

    async def go_on(self, address: ReplyAddress, chunk: AnyChunk, *, message_id: str, send_id: str) -> bool:
        """Show the chunk, which takes the place of what was shown. False: the message is gone. Raises the
        `DeliveryError` tree."""

    async def end_stream(self, address: ReplyAddress, *, message_id: str) -> None:
        """End the stream: from now on the message is one like any other and may be amended. This may be asked again,
        also by a process that did not begin the stream. Raises the `DeliveryError` tree."""


@runtime_checkable
class SupportsRemoval(Protocol):
    """A platform on which we may delete our own messages."""

    async def withdraw(self, address: ReplyAddress, *, message_id: str) -> bool:
        """Delete a message of ours, however often this is asked; one that is gone is deleted. False: the platform does
        not let us. Raises the `DeliveryError` tree."""


@runtime_checkable
class SupportsDeferredReplies(Protocol):
    """A platform that shows, once it has a command acknowledged, that the answer will come."""

    async def release(self, address: ReplyAddress) -> None:
        """Stop showing anything at this address, since there will be no answer, unless there is one already. Raises the
        `DeliveryError` tree."""


@runtime_checkable
class SupportsDownloads(ChannelAdapter, Protocol):
    """A platform whose files can be fetched later by the reference that `normalize` wrote."""

    async def fetch(self, reference: str, *, bytes_max: int) -> FetchedFile:
        """Fetch a file, never more than `bytes_max` of it, whatever size the platform named. Raises
        `FileRefused` with a reason that fits into a sentence of ours (gone, too large, not for us),
        `SendFailed` when it may work later."""


@runtime_checkable
class SupportsMenus(Protocol):
    """A platform with a menu of commands of its own."""

    async def publish_menu(self) -> None:
        """Make the platform's menu that of `gateway.contracts.commands`, only where it differs, in every language we
        have words in. Raises the `DeliveryError` tree."""


@runtime_checkable
class SupportsMoves(Protocol):
    """A platform whose chats may get another id."""

    def chat_of(self, address: ReplyAddress) -> str:
        """Return the chat's id, in the form that a place has."""

    def relocated(self, address: ReplyAddress, chat: str) -> ReplyAddress:
        """Return the same place under the chat's other id."""


@runtime_checkable
class SupportsTyping(ChannelAdapter, Protocol):
    """A platform that can show that an answer is being made."""

    @property
    def typing_period_s(self) -> float:
        """Return how often the indicator has to be shown again to stay."""

    async def show_typing(self, address: ReplyAddress, status: str) -> None:
        """Show the indicator once; an empty status takes it away where the platform can."""


# What the connections to all platforms have in common, and their adapters.


# Small tasks that nobody waits for, such as the answer to a press: held while they run, their failures logged.

BACKGROUND_TASKS_MAX: Final = 256  # at once; each is a press of a button, and answers within seconds


class AdapterTasks:
    """The tasks of one adapter."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks = BackgroundTasks()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run it in the background; when there are too many tasks, not at all."""
        if len(self._tasks) >= BACKGROUND_TASKS_MAX:
            work.close()
            log.warning("%s: too many background tasks, one is not begun", self._name)
            return
        self._tasks.start(self._run(work), name=f"{self._name}-background")

    async def end(self) -> None:
        """Cancel what runs."""
        await self._tasks.cancel()

    async def _run(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - named boundary, adapter callback: nobody waits for it
            log.info("%s: a background task failed: %s", self._name, type(error).__name__)


class PlatformConnection(ABC):
    """The connection of one account: it listens while `run` runs and nobody else does, or is called."""

    def __init__(
        self,
        name: str,
        parts: AdapterDeps,
        lease: str,
        *,
        lease_ttl_s: float,
        calls: Callable[[WebhookCall], Awaitable[WebhookAnswer]] | None,
    ) -> None:
        """Name the right to listen by `lease`. `calls` takes what the platform calls us with; None: it does not."""
        self._name = name
        self._positions = parts.positions
        self._leases = parts.leases
        self._places = parts.places
        self._clock = parts.clock
        self._holder = parts.holder
        self._lease = lease
        self._lease_ttl_s = lease_ttl_s
        self._calls = calls
        self._background = AdapterTasks(name)
        self._ready = asyncio.Event()
        self.state = "connecting"

    @abstractmethod
    async def run(self, handler: InboundHandler) -> None:
        """Hear until cancelled. Raises `CredentialsRejected`."""

    async def until_ready(self) -> None:
        """Return when there is a client to send with."""
        await self._ready.wait()

    @property
    def is_called(self) -> bool:
        return self._calls is not None

    async def called(self, call: WebhookCall) -> WebhookAnswer:
        """Handle a call as `SupportsWebhooks` says."""
        return unavailable_answer() if self._calls is None else await self._calls(call)

    async def _while_holding(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do what only one process does for the account, while we hold the lease."""
        await while_holding(self._leases, self._lease, self._holder, work, waiting=self._tell, ttl_s=self._lease_ttl_s)

    def _tell(self, state: str) -> None:
        self.state = state


class ConnectedAdapter:
    """The part of an adapter that its connection does, or that is the same on nearly every platform."""

    def __init__(self, name: str, connection: PlatformConnection) -> None:
        self.name = name
        self._connection = connection

    @property
    def state(self) -> str:
        return self._connection.state

    async def run(self, handler: InboundHandler) -> None:
        """Listen until cancelled. Raises `CredentialsRejected`."""
        await self._connection.run(handler)

    async def until_ready(self) -> None:
        await self._connection.until_ready()

    def offering(self, chunk: AnyChunk, choices: Sequence[Choice]) -> AnyChunk:
        return replace(chunk, choices=tuple(choices))

    def is_draft(self, address: ReplyAddress) -> bool:
        return False

    async def end_stream(self, address: ReplyAddress, *, message_id: str) -> None:
        """End the stream, for which nothing is to be done: a message that is edited is one like any other all
        the time."""

    @property
    def is_called(self) -> bool:
        return self._connection.is_called

    async def called(self, call: WebhookCall) -> WebhookAnswer:
        return await self._connection.called(call)
