"""Intake: the way of a normalized message to the bus, by admission and sanitizing.

`MessageIntake.accept` returns only after the bus has the message, so that the adapter may then tell the platform
"received"; while the bus is away it raises, and the platform keeps the message. The bus itself knows what it has
seen. The sentences for people who are turned away come from `channels.core.admission`."""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Final, Self

from channels.core import notices
from channels.core.adapter import ChannelAdapter, IntakeOutcome, QueueFull, SupportsDeferredReplies
from channels.core.admission import AdmissionControl, Judgement, RateOf, RejectionNotifier, unlimited
from channels.core.message import Incoming, Retraction
from channels.core.sanitize import OpenEndings, Sanitizer, fit
from channels.core.secrets import SecretCapture
from gateway import limits
from gateway.bounded_dict import BoundedDict
from gateway.bus.access import Access, Questions, Suggestions
from gateway.bus.bus import RedisBus
from gateway.bus.deliveries import Deliveries
from gateway.bus.inbound import Inbound
from gateway.contracts.access import AccessPolicy, Admittance
from gateway.contracts.commands import COMMANDS, Suggestion, SuggestionRequest, Suggests
from gateway.contracts.errors import BadSessionKey, BusUnavailable, DeliveryError, TrivetError
from gateway.contracts.ids import ReplyAddress, SessionKey, SessionScope
from gateway.contracts.messages import (
    CleanText,
    ControlKind,
    ControlRequest,
    InboundMessage,
    Reply,
    clipped,
    literal_text,
)
from gateway.contracts.ports import Amendment, Clock, Verdict
from gateway.packages import HookPoint
from gateway.plugins import NO_HOOKS, HookEvent, Hooks
from gateway.scrub import Scrubber

log = logging.getLogger(__name__)

# Albums that were meant for us. Only the part that has the words names the bot, and it may be any of them: the others
# go where it goes. Pure.

ALBUMS_MAX: Final = 500  # each lasts for seconds
ALBUM_PARTS_MAX: Final = 10  # of Telegram's (Bot API, sendMediaGroup)


class Albums:
    """The albums of one channel, by author and place. In memory only: a process that starts in the middle of an
    album gets its parts again."""

    def __init__(self) -> None:
        self._known: BoundedDict[tuple[str, ...], None] = BoundedDict(ALBUMS_MAX)
        self._held: BoundedDict[tuple[str, ...], tuple[Incoming, ...]] = BoundedDict(ALBUMS_MAX)

    def hold(self, incoming: Incoming) -> None:
        """Hold a part that names nobody, for the part that may name us."""
        if incoming.album_id and not incoming.is_edit:
            part, name = replace(incoming, position=None), _name(incoming)  # taken in later, its position would go back
            self._held[name] = (*self._held.get(name, ()), part)[:ALBUM_PARTS_MAX]

    def held(self, incoming: Incoming) -> Sequence[Incoming]:
        """Return the parts that came before this one and named nobody."""
        return self._held.get(_name(incoming), ()) if incoming.album_id else ()

    def drop_held(self, incoming: Incoming) -> None:
        """Drop the held parts of its album, which the bus has now."""
        self._held.pop(_name(incoming), None)

    def note(self, incoming: Incoming) -> None:
        """Note a message that is taken in; if it is part of an album, the rest of the album is for us, too."""
        if incoming.album_id:
            self._known[_name(incoming)] = None

    def knows(self, incoming: Incoming) -> bool:
        """Tell whether a message is another part of such an album."""
        return bool(incoming.album_id) and _name(incoming) in self._known


def _name(incoming: Incoming) -> tuple[str, ...]:
    return incoming.user_id, incoming.album_id, *incoming.place


# Recently accepted messages: the lane of each, and its words. In memory, bounded. Pure.
#
# Discord does not tell who wrote a message that was deleted, and every platform repeats edits that change nothing. A
# process that started later remembers nothing: it answers a message although it was deleted.

REMEMBERED_MAX: Final = 5_000  # far more than lanes can hold for the people of one busy hour


@dataclass(frozen=True, slots=True)
class _Accepted:
    key: SessionKey
    fingerprint: int


class RecentMessages:
    """The newest REMEMBERED_MAX messages of one channel."""

    def __init__(self) -> None:
        self._accepted: BoundedDict[str, _Accepted] = BoundedDict(REMEMBERED_MAX)

    def keep(self, incoming: Incoming, key: SessionKey) -> None:
        """Keep the words of a message that is on the bus."""
        self._accepted[incoming.id] = _Accepted(key, _fingerprint(incoming))

    def key_of(self, message_id: str) -> SessionKey | None:
        """Return the key of the lane that the message went to."""
        known = self._accepted.get(message_id)
        return known.key if known else None

    def says_the_same(self, edit: Incoming) -> bool:
        """Tell whether the edit changes nothing that we would answer to."""
        known = self._accepted.get(edit.id)
        return known is not None and known.fingerprint == _fingerprint(edit)


def _fingerprint(incoming: Incoming) -> int:
    return hash((incoming.text, incoming.attachments))


# Commands from a menu for which the platform shows that an answer is coming, although a /stop has dropped them.
#
# A /stop removes all waiting messages from its lane, and ends the running turn: there will be no answer, and Discord
# would say for a quarter of an hour that we think. Answers come before the acknowledgement of the /stop, so a command
# from before the /stop that has no answer by then never gets one.

LANES_MAX: Final = 1_000  # with promises at a time; an older one ends by itself
PROMISES_MAX: Final = 50  # of one lane, kept or not: to end one that was kept changes nothing


class DeferredReplies:
    """The promised replies of one account that this process has to keep or end. On a platform without promises it
    does nothing."""

    def __init__(self, adapter: ChannelAdapter) -> None:
        self._adapter = adapter
        self._promising = adapter if isinstance(adapter, SupportsDeferredReplies) else None
        self._made: BoundedDict[SessionKey, deque[ReplyAddress]] = BoundedDict(LANES_MAX)
        self._stopped: BoundedDict[str, deque[ReplyAddress]] = BoundedDict(LANES_MAX)
        self._broken: asyncio.Queue[ReplyAddress] = asyncio.Queue()

    def made(self, lane: SessionKey, address: ReplyAddress) -> None:
        """Note that a command waits on its lane, and that its answer will come to the address."""
        if self._promising is not None:
            promised = self._made[lane] = self._made.get(lane) or deque(maxlen=PROMISES_MAX)
            promised.append(address)

    def stopped(self, stop: InboundMessage, *, is_press: bool = False) -> None:
        """Note that the bus has a /stop. The press of a button is acknowledged by no reply."""
        promised = self._made.pop(stop.key, None)
        if promised and not is_press:
            self._stopped[stop.id] = promised
            return
        for address in promised or ():
            self._broken.put_nowait(address)

    def answering(self, reply: Reply) -> None:
        """Note that a reply leaves now; perhaps it acknowledges a /stop, which ends the promised answers."""
        stop_id = next((each for each in self._stopped if reply.turn_id.endswith(each)), "")
        for address in self._stopped.pop(stop_id, ()):
            self._broken.put_nowait(address)

    async def run(self) -> None:
        """End what nobody will keep, until cancelled."""
        while self._promising is not None:
            address = await self._broken.get()
            try:
                await self._promising.release(address)
            except DeliveryError as error:
                log.info("%s: a promised answer is still waited for: %s", self._adapter.name, error)
        await asyncio.Event().wait()


# The parts of the bus that intake uses, and the rules of its channel.


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeDeps:
    """Parts of the bus that intake uses. Without `secret_capture` a secret is removed and not kept. `hooks` are those
    of plug-ins that run in this process."""

    intake: Inbound
    access: Access
    deliveries: Deliveries
    presses: Questions
    suggestions: Suggestions
    scrubber: Scrubber
    clock: Clock
    secret_capture: SecretCapture | None = None
    hooks: Hooks = NO_HOOKS

    @classmethod
    def of(
        cls,
        bus: RedisBus,
        scrubber: Scrubber,
        clock: Clock,
        secret_capture: SecretCapture | None = None,
        hooks: Hooks = NO_HOOKS,
    ) -> Self:
        return cls(
            intake=bus.intake,
            access=bus.access,
            deliveries=bus.deliveries,
            presses=bus.questions,
            suggestions=bus.suggestions,
            scrubber=scrubber,
            clock=clock,
            secret_capture=secret_capture,
            hooks=hooks,
        )


@dataclass(frozen=True, slots=True)
class IntakeConfig:
    """Rules of intake for one channel."""

    access: AccessPolicy
    scope: SessionScope
    settle_ms: int = 0
    lane_messages_max: int = limits.LANE_MESSAGES_MAX
    """The number of messages that may wait in one lane: authors whose messages are turned away are told it."""
    interrupts: bool = False
    """A message cancels the running turn of its lane."""

    language: str = ""
    """The language for everybody; empty: each person's own."""

    rate_of: RateOf = unlimited
    """People write no faster than this, by their role."""

    command_rate_of: RateOf = unlimited
    """Likewise for commands that wait for nothing, and for buttons."""

    has_disk: Callable[[], bool] = lambda: True
    """Tells whether the disk has room for what bus and database write after a new message."""


class FreeDisk:
    """A check that the disk of `folder` has its free bytes. A folder that does not exist here keeps nobody out: then
    bus and database are elsewhere."""

    def __init__(self, folder: Path, free_bytes: int) -> None:
        self._folder = folder
        self._free_bytes = free_bytes
        self._looked_at_s = float("-inf")
        self._is_enough = True

    def __call__(self) -> bool:
        """Look, or say what was seen a moment ago."""
        now_s = time.monotonic()
        if now_s - self._looked_at_s >= limits.DISK_LOOK_EVERY_S:
            self._looked_at_s = now_s
            try:
                self._is_enough = shutil.disk_usage(self._folder).free >= self._free_bytes
            except OSError:
                self._is_enough = True
        return self._is_enough


BY_BUTTON: Final = {
    kind.value: kind for kind in (ControlKind.APPROVE, ControlKind.DENY, ControlKind.PRESS, ControlKind.STOP)
}
"""The values that a button may have. They come back from the platform, where anybody may have made them up."""

_NOT_TAKEN: Final = frozenset({IntakeOutcome.REFUSED, IntakeOutcome.TURNED_AWAY, IntakeOutcome.IGNORED})

LISTENING_MAX: Final = 16  # people told at a time: each needs a connection to the bus for as long
SUGGESTING_MAX: Final = 16  # people who type at a time, likewise; who comes then is suggested nothing
FAILED_MAX: Final = 1_000  # messages at which a defect of ours showed, each remembered by its id
ALBUM_SETTLE_MS: Final = 1_000  # an album comes part by part, and no part says that it is the last
SPLIT_SETTLE_MS: Final = 700  # a client that splits a long text sends the rest at once


@dataclass(eq=False, repr=False)
class MessageIntake:
    """The intake of one channel. `accepted` is called with each message that waits for a turn now, `retracted` with the
    id of each that is not on its lane any more. A message that held a secret is given to `delete` once it is on the bus
    without the secret."""

    deps: IntakeDeps
    config: IntakeConfig
    _: KW_ONLY
    accepted: Callable[[ReplyAddress], None] = lambda address: None
    retracted: Callable[[str], None] = lambda message_id: None
    delete: Callable[[InboundMessage], Awaitable[None]] | None = None
    deferred_replies: DeferredReplies | None = None
    _recent: RecentMessages = field(init=False, default_factory=RecentMessages)
    _albums: Albums = field(init=False, default_factory=Albums)
    _endings: OpenEndings = field(init=False, default_factory=OpenEndings)
    _taking: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)
    _listening: asyncio.Semaphore = field(init=False, default_factory=lambda: asyncio.Semaphore(LISTENING_MAX))
    _suggesting: asyncio.Semaphore = field(init=False, default_factory=lambda: asyncio.Semaphore(SUGGESTING_MAX))
    _is_closed: bool = field(init=False, default=False)
    _queued: int = field(init=False, default=0)
    _failed: BoundedDict[str, int] = field(init=False, default_factory=lambda: BoundedDict(FAILED_MAX))
    """How many messages had been queued when one could not be taken in for the first time."""

    def __post_init__(self) -> None:
        scrubber, clock, language = self.deps.scrubber, self.deps.clock, self.config.language
        self._scrubber = scrubber
        self._clock = clock
        self._admission = AdmissionControl(
            self.deps.access, self.config.access, self.config.rate_of, self.config.command_rate_of
        )
        self._sanitizer = Sanitizer(scrubber, clock, self.config.scope, language=language)
        self._notifier = RejectionNotifier(self.deps.access, self.deps.deliveries, scrubber, clock, language=language)

    def close(self) -> None:
        """Take nothing from now on, because the process stops; the platform keeps new messages for the next process."""
        self._is_closed = True

    async def accept(self, incoming: Incoming) -> IntakeOutcome:
        """Bring a message, or the edit of one, to the bus. Raises `BusUnavailable` (also as `QueueFull`): do not
        acknowledge then.

        A message at which a defect of ours shows waits as if there were no room for it, so that it holds up its own
        lane alone. Once others were queued meanwhile, the defect is not in everything: that one message is given up."""
        try:
            outcome = await self._accept(incoming)
        except (TrivetError, OSError):
            raise
        except Exception as error:  # named boundary, adapter callback: one message must not hold up all others
            queued_before = self._failed.setdefault(incoming.id, self._queued)
            is_given_up = self._queued > queued_before
            log.exception("%s: a message cannot be taken in%s", incoming.channel, ": given up" if is_given_up else "")
            if not is_given_up:
                raise QueueFull("a message cannot be taken in; the log says why") from error
            return IntakeOutcome.IGNORED
        self._queued += outcome is IntakeOutcome.QUEUED
        return outcome

    async def _accept(self, incoming: Incoming) -> IntakeOutcome:
        if not incoming.is_addressed and not self._is_on_a_lane(incoming) and not self._albums.knows(incoming):
            self._albums.hold(incoming)
            return IntakeOutcome.IGNORED
        self._check_open()
        kind = incoming.command.control if incoming.command else None
        judged = await self._judge(incoming, is_for_lane=kind is None and not incoming.is_edit)
        if judged.admittance is not Admittance.BLOCKED and self._is_owner_code(incoming):
            claim = self._sanitizer.clean(replace(incoming, text=""))  # of the code itself nothing goes further
            return await self._request(ControlRequest(ControlKind.CLAIM, claim), incoming)
        if not judged.is_admitted:
            if not incoming.is_edit:
                await self._notifier.turn_away(incoming, judged.admittance)
            return IntakeOutcome.REFUSED
        if incoming.is_edit:
            return await self._amend(incoming)
        self._albums.note(incoming)
        if kind is not None:
            return await self._control(incoming, kind)
        async with self._taking:
            for part in self._albums.held(incoming):
                await self._take(part, judged)
            self._albums.drop_held(incoming)
            return await self._take(incoming, judged)

    async def _judge(self, incoming: Incoming, *, is_for_lane: bool) -> Judgement:
        """Decide whether a message may enter; alongside, learn once what other processes have found in its lane."""
        lane = incoming.key(self.config.scope)
        judging = self._admission.judge(incoming, lane=lane if is_for_lane else None)
        met = self._scrubber.met_by_chat.of(str(lane))
        if met.is_learned:
            return await judging
        judged, rows = await asyncio.gather(judging, self.deps.intake.met(lane))
        met.learn(rows)
        return judged

    async def retract(self, retraction: Retraction) -> IntakeOutcome:
        """Take a deleted message off its lane. Raises `BusUnavailable`."""
        self._check_open()
        key = retraction.key(self.config.scope) or self._recent.key_of(retraction.id)
        if key is None or await self.deps.intake.withdraw(key, retraction.id) is Amendment.TOO_LATE:
            return IntakeOutcome.IGNORED
        self.retracted(retraction.id)
        return IntakeOutcome.AMENDED

    async def press(self, press: Incoming) -> CleanText | None:
        """Bring the press of a button to the control lane; return the text to show at once to the person who
        pressed, None if the agent decides it. Raises `BusUnavailable`."""
        self._check_open()
        kind = BY_BUTTON.get(press.command.name) if press.command else None
        judged, message = await self._admission.judge(press), self._pressed(press)
        admittance, is_own = judged.admittance, message.key.user == press.user_id and bool(message.key.place)
        if admittance in (Admittance.BLOCKED, Admittance.SILENT_HERE):
            return literal_text("")
        is_of_place = kind is ControlKind.PRESS or is_own  # it may be a guest's of that place
        if admittance is not Admittance.ADMITTED and not is_of_place:
            return self._notifier.words(press).say(notices.NOT_FOR_STRANGERS)
        if kind is None:
            return self._notifier.words(press).say(notices.NOT_IN_USE)
        if kind is ControlKind.STOP and not message.key.place:
            await self._control(press, kind)  # answered as if it had been typed: that ends what menus have promised
            return literal_text("")
        if kind is ControlKind.STOP and message.key.user and not (is_own or judged.is_admin):
            return self._notifier.words(press).say(notices.NOT_YOURS_TO_STOP)
        request = ControlRequest(kind, message, is_press=True)
        admission = await self.deps.intake.request_control(request, rate=self._admission.command_rate_of(press))
        if admission.verdict is Verdict.TOO_FAST:
            return notices.too_fast(notices.COMMANDS_TOO_FAST, admission.wait_s, self._notifier.words(press))
        if admission.verdict is not Verdict.ACCEPTED:
            return literal_text("")
        if kind is ControlKind.STOP and self.deferred_replies is not None:
            self.deferred_replies.stopped(message, is_press=True)
        return None

    async def told(self, press: Incoming) -> CleanText:
        """Return the agent's text for the person who pressed; empty for nothing, and when the agent says nothing in
        time."""
        try:
            async with self._listening:
                reply = await self.deps.presses.told(self._pressed(press), wait_s=limits.PRESS_ANSWER_S)
        except BusUnavailable:
            return literal_text("")
        return literal_text("") if reply is None else reply.text

    async def invoke(self, chosen: Incoming) -> CleanText | None:
        """Bring a command from the menu to the bus as if it had been typed. Returns what is told at once where it is
        turned away. Raises `BusUnavailable`."""
        with self._notifier.at_once(chosen) as said:
            outcome = await self.accept(chosen)
            if outcome is IntakeOutcome.QUEUED and self.deferred_replies is not None:
                self.deferred_replies.made(chosen.key(self.config.scope), chosen.address)
            return said() if outcome in _NOT_TAKEN else None

    async def suggest(self, typing: Incoming) -> Sequence[Suggestion]:
        """Return the suggestions of an agent process for a person who may talk to us; nothing while none can
        be asked."""
        kind = kind_of_suggestion(typing)
        if typing.command is None or kind is Suggests.NOTHING:
            return ()
        if self._is_closed or self._suggesting.locked():
            return ()
        owner, key = SessionKey(typing.channel, typing.user_id), typing.key(self.config.scope)
        typed = clipped(
            self._scrubber.for_chat(str(key)).scrub(typing.command.arguments), limits.SUGGESTION_TYPED_CHARS_MAX
        )
        try:
            async with self._suggesting:
                if not (await self._admission.judge(typing)).is_admitted:
                    return ()
                wanted = SuggestionRequest(key, owner, kind, typed, typing.language)
                return await self.deps.suggestions.ask(wanted, wait_s=limits.SUGGESTIONS_WAIT_S)
        except BusUnavailable:
            return ()

    def _pressed(self, press: Incoming) -> InboundMessage:
        """Return the press as it goes to the control lane: the button that stops an answer in a shared place names the
        lane, another one is about the lane of the person who pressed it."""
        message, command = self._sanitizer.clean(press), press.command
        if command is None or command.control is not ControlKind.STOP or not command.arguments:
            return message
        try:
            named = SessionKey.parse(command.arguments)
        except BadSessionKey:
            return message
        return replace(message, key=named) if named.channel == press.channel else message

    def _check_open(self) -> None:
        if self._is_closed:
            raise QueueFull("Trivet is stopping")

    def _is_on_a_lane(self, incoming: Incoming) -> bool:
        """Tell whether an edit concerns a message that we have, even if the edit takes the bot's name away."""
        return incoming.is_edit and self._recent.key_of(incoming.id) is not None

    def _is_owner_code(self, incoming: Incoming) -> bool:
        """Tell whether a direct message is the code that makes its author admin, or opens Telegram's link with it."""
        if self.config.access.owner_code is None or not incoming.is_private or incoming.is_edit or incoming.is_bot:
            return False
        command = incoming.command
        said = command.arguments if command is not None and command.name == "start" else incoming.text
        return self.config.access.owner_code.is_meant_by(said, self._clock.now_ms())

    async def _amend(self, incoming: Incoming) -> IntakeOutcome:
        """Change what waits, or is being answered. Of a message that is neither, an edit makes nothing new: not
        by calling the bot belatedly, and not by being a control command."""
        is_control = incoming.command is not None and incoming.command.control is not None
        if is_control or self._recent.says_the_same(incoming):
            return IntakeOutcome.IGNORED
        async with self._taking:
            return await self._put_in_place(incoming)

    async def _put_in_place(self, incoming: Incoming) -> IntakeOutcome:
        """Bring an edit to where its message waits; it is read after what came before that message."""
        now_ms, is_newest = self._clock.now_ms(), self._endings.is_newest(incoming)
        message = self._sanitizer.clean(incoming, self._endings.before(incoming, now_ms) if is_newest else "")
        message = await self._hooked(message, incoming)
        await self._keep(message, incoming)
        met = self._scrubber.met_by_chat.of(str(message.key))
        rows = met.unshared()
        amendment = await self.deps.intake.amend(message, met=rows)
        await self._delete_if_secret(message)
        if amendment is Amendment.TOO_LATE:
            return IntakeOutcome.IGNORED
        met.shared(rows)
        self._recent.keep(incoming, message.key)
        if is_newest:
            self._endings.keep(incoming, now_ms)
        return IntakeOutcome.AMENDED

    async def _take(self, incoming: Incoming, judged: Judgement) -> IntakeOutcome:
        """Bring a message to its lane, read after what its author's last message left open."""
        now_ms, is_known = self._clock.now_ms(), self._recent.key_of(incoming.id) is not None
        is_alone = is_known or incoming.command is not None  # no command is an announced value
        message = self._sanitizer.clean(incoming, "" if is_alone else self._endings.before(incoming, now_ms))
        outcome = await self._enqueue(await self._hooked(message, incoming), incoming, judged)
        if outcome in (IntakeOutcome.QUEUED, IntakeOutcome.DUPLICATE):
            await self._delete_if_secret(message)
            if not is_known:
                self._endings.keep(incoming, now_ms)
        return outcome

    async def _hooked(self, message: InboundMessage, incoming: Incoming) -> InboundMessage:
        """Return the message as the hooks of plug-ins leave it. They see no commands."""
        if not (self.deps.hooks and message.text) or incoming.command is not None:
            return message
        event = HookEvent(HookPoint.AFTER_NORMALIZE, message.text, message.key, message.id)
        scrubber = self._scrubber.for_chat(str(message.key))
        text = await self.deps.hooks.replaced(event, scrubber.scrub)
        bounded = fit(text)
        return replace(message, text=text if bounded == text else scrubber.scrub(bounded))

    async def _delete_if_secret(self, message: InboundMessage) -> None:
        if self.delete is not None and message.removed:
            await self.delete(message)

    async def _enqueue(self, message: InboundMessage, incoming: Incoming, judged: Judgement) -> IntakeOutcome:
        if not self.config.has_disk():
            await self._tell_full(incoming, message.key)
            raise QueueFull("the disk is nearly full (limits.disk.free_mb); messages stay with their platform")
        await self._keep(message, incoming)
        settle = max(self.config.settle_ms, settle_ms(incoming))
        rate = self._admission.rate_of(incoming)
        met = self._scrubber.met_by_chat.of(str(message.key))
        rows = met.unshared()
        admission = await self.deps.intake.enqueue(
            message,
            settle_ms=settle,
            interrupts=self.config.interrupts,
            rate=rate,
            judged_by=judged.shown,
            # A message with a secret has to come again until it is to be deleted, too.
            position=None if message.removed else incoming.position,
            met=rows,
        )
        if admission.verdict in (Verdict.ACCEPTED, Verdict.DUPLICATE):
            met.shared(rows)
        match admission.verdict:
            case Verdict.STALE:
                return await self._judge_again(message, incoming)
            case Verdict.ACCEPTED:
                self._admission.taken(incoming)
                self._recent.keep(incoming, message.key)
                self.accepted(message.address)
                return IntakeOutcome.QUEUED
            case Verdict.DUPLICATE:
                self._recent.keep(incoming, message.key)
                return IntakeOutcome.DUPLICATE
            case Verdict.LANE_FULL:
                full = notices.lane_full(self.config.lane_messages_max, self._notifier.words(incoming))
                await self._notifier.tell(incoming, message.key, "lane-full", full)
                return IntakeOutcome.TURNED_AWAY
            case Verdict.TOO_FAST:
                wait = notices.too_fast(notices.WRITES_TOO_FAST, admission.wait_s, self._notifier.words(incoming))
                await self._notifier.tell(incoming, message.author, "too-fast", wait)
                return IntakeOutcome.TURNED_AWAY
            case Verdict.QUEUE_FULL:
                await self._tell_full(incoming, message.key)
                raise QueueFull("the queue is full; messages stay with their platform until there is room")

    async def _judge_again(self, message: InboundMessage, incoming: Incoming) -> IntakeOutcome:
        """Look who may speak now, and go on as that says: each time that is decided anew in between."""
        judged = await self._admission.judge(incoming)
        if judged.is_admitted:
            return await self._enqueue(message, incoming, judged)
        await self._notifier.turn_away(incoming, judged.admittance)
        return IntakeOutcome.REFUSED

    async def _tell_full(self, incoming: Incoming, key: SessionKey) -> None:
        await self._notifier.tell(incoming, key, "queue-full", self._notifier.words(incoming).say(notices.QUEUE_FULL))

    async def _keep(self, message: InboundMessage, incoming: Incoming) -> None:
        """Put a secret into the vault before its message is on its way: the message's reader may be asked to use the
        secret."""
        if self.deps.secret_capture is not None:
            await self.deps.secret_capture.keep(message, incoming.text)

    async def _control(self, incoming: Incoming, kind: ControlKind) -> IntakeOutcome:
        message = self._sanitizer.clean(incoming)
        outcome = await self._request(ControlRequest(kind, message), incoming)
        await self._delete_if_secret(message)
        return outcome

    async def _request(self, request: ControlRequest, incoming: Incoming) -> IntakeOutcome:
        message, kind = request.message, request.kind
        admission = await self.deps.intake.request_control(request, rate=self._admission.command_rate_of(incoming))
        if admission.verdict is Verdict.TOO_FAST:
            wait = notices.too_fast(notices.COMMANDS_TOO_FAST, admission.wait_s, self._notifier.words(incoming))
            await self._notifier.tell(incoming, message.author, "too-fast-commands", wait)
            return IntakeOutcome.TURNED_AWAY
        if kind is ControlKind.STOP and self.deferred_replies is not None:
            self.deferred_replies.stopped(message)
        return IntakeOutcome.CONTROL if admission.verdict is Verdict.ACCEPTED else IntakeOutcome.DUPLICATE


def kind_of_suggestion(typing: Incoming) -> Suggests:
    """Return the kind of text that may follow the command being typed."""
    name = typing.command.name if typing.command else ""
    return next((spec.suggests for spec in COMMANDS if spec.name == name), Suggests.NOTHING)


def settle_ms(incoming: Incoming) -> int:
    """Return how long a lane waits for the rest of one thought: zero unless the platform splits thoughts."""
    if incoming.album_id:
        return ALBUM_SETTLE_MS
    return SPLIT_SETTLE_MS if incoming.may_continue else 0
