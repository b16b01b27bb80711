"""One path for all platforms from a normalized message to the bus: admit, scrub, bound, enqueue.

`Intake.accept` returns only after the bus has the message, so that the adapter may then tell the platform
"received"; while the bus is away it raises, and the platform keeps the message. The bus itself knows what
it has seen. What people are told who are turned away stands in `channels.inbound.telling`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from channels import notices
from channels.adapter import Outcome, QueueFull
from channels.inbound.admission import Reception
from channels.inbound.albums import Albums
from channels.inbound.cleaning import Cleaner, OpenEndings
from channels.inbound.promises import Promises
from channels.inbound.recollection import Recollection
from channels.inbound.telling import Telling
from channels.inbound.terms import DoorRooms, DoorRules
from channels.normalized import Incoming, Retraction
from gateway.contracts.access import Admittance
from gateway.contracts.commands import COMMANDS, Suggests
from gateway.contracts.errors import BusUnavailable
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import (
    CleanText,
    ControlKind,
    ControlRequest,
    InboundMessage,
    clipped,
    own_words,
)
from gateway.contracts.ports import Amendment, Verdict
from gateway.contracts.suggestions import Suggestion, Wanted
from gateway.limits import (
    PRESS_ANSWER_S,
    SUGGESTION_TYPED_CHARS_MAX,
    SUGGESTIONS_WAIT_S,
)

log = logging.getLogger(__name__)

BY_BUTTON: Final = {kind.value: kind for kind in (ControlKind.APPROVE, ControlKind.DENY, ControlKind.PRESS)}
"""What a button may say. The data behind it comes back from the platform, where anybody may have made it up."""

_NOT_TAKEN: Final = frozenset({Outcome.REFUSED, Outcome.TURNED_AWAY, Outcome.IGNORED})

LISTENING_MAX: Final = 16  # people told at a time: each needs a connection to the bus for as long
SUGGESTING_MAX: Final = 16  # people who type at a time, likewise; who comes then is suggested nothing
ALBUM_SETTLE_MS: Final = 1_000  # an album comes part by part, and no part says that it is the last
SPLIT_SETTLE_MS: Final = 700  # a client that splits a long text sends the rest at once


class Intake:
    """The door of one channel."""

    def __init__(
        self,
        rooms: DoorRooms,
        rules: DoorRules,
        *,
        accepted: Callable[[ReplyAddress], None] = lambda address: None,
        retracted: Callable[[str], None] = lambda message_id: None,
        delete: Callable[[InboundMessage], Awaitable[None]] | None = None,
        promises: Promises | None = None,
    ) -> None:
        """`accepted` is told of each message that waits for a turn now, `retracted` of each that is not on its lane any
        more, by id. What held a secret is given to `delete` once it is on the bus without it."""
        scrubber, clock, language = rooms.scrubber, rooms.clock, rules.language
        self._bus = rooms.intake
        self._scrubber = scrubber
        self._clock = clock
        self._reception = Reception(rooms.access, rules.access, rules.rate_of, rules.command_rate_of)
        self._presses = rooms.presses
        self._promises = promises
        self._suggestions = rooms.suggestions
        self._scope = rules.scope
        self._cleaner = Cleaner(scrubber, clock, rules.scope, language=language)
        self._telling = Telling(rooms.access, rooms.deliveries, scrubber, clock, language=language)
        self._keeping = rooms.keeping
        self._settle_ms = rules.settle_ms
        self._interrupts = rules.interrupts
        self._lane_messages_max = rules.lane_messages_max
        self._has_disk = rules.has_disk
        self._accepted = accepted
        self._retracted = retracted
        self._delete = delete
        self._recollection = Recollection()
        self._albums = Albums()
        self._endings = OpenEndings()
        self._taking = asyncio.Lock()
        self._listening = asyncio.Semaphore(LISTENING_MAX)
        self._suggesting = asyncio.Semaphore(SUGGESTING_MAX)
        self._is_closed = False

    def close(self) -> None:
        """The process stops: from now on nothing is taken, so the platform keeps it for the next process."""
        self._is_closed = True

    async def accept(self, incoming: Incoming) -> Outcome:
        """Bring a message, or the edit of one, to the bus. Raises `BusUnavailable` (also as `QueueFull`): do not
        acknowledge then."""
        if not incoming.is_addressed and not self._is_on_a_lane(incoming) and not self._albums.knows(incoming):
            return Outcome.IGNORED
        self._check_open()
        admittance = await self._reception.admit(incoming)
        if admittance is not Admittance.ADMITTED:
            if not incoming.is_edit:
                await self._telling.turn_away(incoming, admittance)
            return Outcome.REFUSED
        if incoming.is_edit:
            return await self._amend(incoming)
        self._albums.note(incoming)
        kind = incoming.command.control if incoming.command else None
        if kind is not None:
            return await self._control(incoming, kind)
        async with self._taking:
            return await self._take(incoming)

    async def retract(self, retraction: Retraction) -> Outcome:
        """Take a deleted message off its lane. Raises `BusUnavailable`."""
        self._check_open()
        key = retraction.key(self._scope) or self._recollection.key_of(retraction.id)
        if key is None or await self._bus.withdraw(key, retraction.id) is Amendment.TOO_LATE:
            return Outcome.IGNORED
        self._retracted(retraction.id)
        return Outcome.AMENDED

    async def press(self, press: Incoming) -> CleanText | None:
        """Bring the press of a button to the control lane. What the one who pressed is told at once, None if the
        agent decides that. Raises `BusUnavailable`."""
        self._check_open()
        kind = BY_BUTTON.get(press.command.name) if press.command else None
        admittance = await self._reception.admit(press)
        if admittance in (Admittance.BLOCKED, Admittance.SILENT_HERE):
            return own_words("")
        if admittance is not Admittance.ADMITTED and kind is not ControlKind.PRESS:  # it may be a guest's of that place
            return self._telling.words(press).say(notices.NOT_FOR_STRANGERS)
        if kind is None:
            return self._telling.words(press).say(notices.NOT_IN_USE)
        request = ControlRequest(kind, self._cleaner.clean(press), is_press=True)
        admission = await self._bus.request_control(request, rate=self._reception.command_rate_of(press))
        if admission.verdict is Verdict.TOO_FAST:
            return notices.too_fast_commands(admission.wait_s, self._telling.words(press))
        return None if admission.verdict is Verdict.ACCEPTED else own_words("")

    async def told(self, press: Incoming) -> CleanText:
        """What the agent says to the one who pressed; empty for nothing, and when nobody says it in time."""
        try:
            async with self._listening:
                reply = await self._presses.told(self._cleaner.clean(press), wait_s=PRESS_ANSWER_S)
        except BusUnavailable:
            return own_words("")
        return own_words("") if reply is None else reply.text

    async def invoke(self, chosen: Incoming) -> CleanText | None:
        """Bring a command from the menu to the bus as if it had been typed. Returns what is told at once where it is
        turned away. Raises `BusUnavailable`."""
        with self._telling.at_once(chosen) as said:
            outcome = await self.accept(chosen)
            if outcome is Outcome.QUEUED and self._promises is not None:
                self._promises.made(chosen.key(self._scope), chosen.address)
            return said() if outcome in _NOT_TAKEN else None

    async def suggest(self, typing: Incoming) -> Sequence[Suggestion]:
        """What an agent process suggests to one who may talk to us; nothing while none can be asked."""
        kind = kind_of_suggestion(typing)
        if typing.command is None or kind is Suggests.NOTHING:
            return ()
        if self._is_closed or self._suggesting.locked():
            return ()
        owner, key = SessionKey(typing.channel, typing.user_id), typing.key(self._scope)
        typed = clipped(self._scrubber.for_chat(str(key)).scrub(typing.command.arguments), SUGGESTION_TYPED_CHARS_MAX)
        try:
            async with self._suggesting:
                if await self._reception.admit(typing) is not Admittance.ADMITTED:
                    return ()
                wanted = Wanted(key, owner, kind, typed, typing.language)
                return await self._suggestions.ask(wanted, wait_s=SUGGESTIONS_WAIT_S)
        except BusUnavailable:
            return ()

    def _check_open(self) -> None:
        if self._is_closed:
            raise QueueFull("Trivet is stopping")

    def _is_on_a_lane(self, incoming: Incoming) -> bool:
        """An edit that takes the bot's name away is still one of a message that we have."""
        return incoming.is_edit and self._recollection.key_of(incoming.id) is not None

    async def _amend(self, incoming: Incoming) -> Outcome:
        """Change what waits, or is being answered. Of a message that is neither, an edit makes nothing new: not
        by calling the bot belatedly, and not by being a control command."""
        is_control = incoming.command is not None and incoming.command.control is not None
        if is_control or self._recollection.says_the_same(incoming):
            return Outcome.IGNORED
        async with self._taking:
            return await self._put_in_place(incoming)

    async def _put_in_place(self, incoming: Incoming) -> Outcome:
        """Bring an edit to where its message waits; it is read after what came before that message."""
        now_ms, is_newest = self._clock.now_ms(), self._endings.is_newest(incoming)
        message = self._cleaner.clean(incoming, self._endings.before(incoming, now_ms) if is_newest else "")
        await self._keep(message, incoming)
        amendment = await self._bus.amend(message)
        await self._delete_if_secret(message)
        if amendment is Amendment.TOO_LATE:
            return Outcome.IGNORED
        self._recollection.keep(incoming, message.key)
        if is_newest:
            self._endings.keep(incoming, now_ms)
        return Outcome.AMENDED

    async def _take(self, incoming: Incoming) -> Outcome:
        """Bring a message to its lane, read after what its author's last message left open."""
        now_ms, is_known = self._clock.now_ms(), self._recollection.key_of(incoming.id) is not None
        is_alone = is_known or incoming.command is not None  # no command is an announced value
        message = self._cleaner.clean(incoming, "" if is_alone else self._endings.before(incoming, now_ms))
        outcome = await self._enqueue(message, incoming)
        if outcome in (Outcome.QUEUED, Outcome.DUPLICATE):
            await self._delete_if_secret(message)
            if not is_known:
                self._endings.keep(incoming, now_ms)
        return outcome

    async def _delete_if_secret(self, message: InboundMessage) -> None:
        if self._delete is not None and message.removed:
            await self._delete(message)

    async def _enqueue(self, message: InboundMessage, incoming: Incoming) -> Outcome:
        if not self._has_disk():
            await self._tell_full(incoming, message.key)
            raise QueueFull("the disk is nearly full (limits.disk.free_mb); messages stay with their platform")
        await self._keep(message, incoming)
        settle = max(self._settle_ms, settle_ms(incoming))
        rate = self._reception.rate_of(incoming)
        admission = await self._bus.enqueue(message, settle_ms=settle, interrupts=self._interrupts, rate=rate)
        match admission.verdict:
            case Verdict.ACCEPTED:
                self._reception.taken(incoming)
                self._recollection.keep(incoming, message.key)
                self._accepted(message.address)
                return Outcome.QUEUED
            case Verdict.DUPLICATE:
                self._recollection.keep(incoming, message.key)
                return Outcome.DUPLICATE
            case Verdict.LANE_FULL:
                full = notices.lane_full(self._lane_messages_max, self._telling.words(incoming))
                await self._telling.tell(incoming, message.key, "lane-full", full)
                return Outcome.TURNED_AWAY
            case Verdict.TOO_FAST:
                wait = notices.too_fast(admission.wait_s, self._telling.words(incoming))
                await self._telling.tell(incoming, message.author, "too-fast", wait)
                return Outcome.TURNED_AWAY
            case Verdict.QUEUE_FULL:
                await self._tell_full(incoming, message.key)
                raise QueueFull("the queue is full; messages stay with their platform until there is room")

    async def _tell_full(self, incoming: Incoming, key: SessionKey) -> None:
        await self._telling.tell(incoming, key, "queue-full", self._telling.words(incoming).say(notices.QUEUE_FULL))

    async def _keep(self, message: InboundMessage, incoming: Incoming) -> None:
        """Before the message is on its way: whoever reads it may be asked to use what it brought."""
        if self._keeping is not None:
            await self._keeping.keep(message, incoming.text)

    async def _control(self, incoming: Incoming, kind: ControlKind) -> Outcome:
        message, rate = self._cleaner.clean(incoming), self._reception.command_rate_of(incoming)
        admission = await self._bus.request_control(ControlRequest(kind, message), rate=rate)
        await self._delete_if_secret(message)
        if admission.verdict is Verdict.TOO_FAST:
            wait = notices.too_fast_commands(admission.wait_s, self._telling.words(incoming))
            await self._telling.tell(incoming, message.author, "too-fast-commands", wait)
            return Outcome.TURNED_AWAY
        if kind is ControlKind.STOP and self._promises is not None:
            self._promises.stopped(message)
        return Outcome.CONTROL if admission.verdict is Verdict.ACCEPTED else Outcome.DUPLICATE


def kind_of_suggestion(typing: Incoming) -> Suggests:
    """What may stand behind the command that is being typed."""
    name = typing.command.name if typing.command else ""
    return next((spec.suggests for spec in COMMANDS if spec.name == name), Suggests.NOTHING)


def settle_ms(incoming: Incoming) -> int:
    """How long a lane waits for the rest of one thought, where a platform splits it. Else not at all."""
    if incoming.album_id:
        return ALBUM_SETTLE_MS
    return SPLIT_SETTLE_MS if incoming.may_continue else 0
