"""Take orders for later, from people (/remind, /heartbeat) and from models (tool `schedule`); fire what is due."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, Final
from zoneinfo import ZoneInfo

import structlog

from agent import limits
from agent.features.access import People
from agent.features.commands import CommandReply, CommandRequest, CommandRow
from agent.features.schedules import recurrence, texts
from agent.features.schedules.times import Unclear, When, read_request, read_time
from agent.models.requests import ToolSpec
from agent.prompts.library import PROMPTS
from agent.schema import object_schema, text_schema
from agent.tools.policy import Risk, Visibility
from agent.tools.tool import Tool, ToolContext
from gateway.bus.inbound import Inbound
from gateway.contracts.commands import find_command
from gateway.contracts.errors import BusError, FailureCause, StoreError, ToolError
from gateway.contracts.ids import ReplyAddress, SessionKey, is_firing
from gateway.contracts.messages import CleanText, InboundMessage, joined, literal_text
from gateway.contracts.ports import Clock, Verdict
from gateway.contracts.sessions import GrantRole, Schedule, ScheduleKind
from gateway.i18n import ENGLISH
from gateway.scrub import Scrubber
from gateway.store.schedules import ScheduleStore
from gateway.tasks import Wakeup


@dataclass(frozen=True, slots=True)
class Requester:
    """The author of an order, and its place: the firing arrives there as the author's message, and is judged by
    the rules of that place (`place` as in a message). `cause` is the turn or the message that the order belongs
    to; the same order of the same cause is one schedule."""

    key: SessionKey
    address: ReplyAddress
    author_id: str
    author_name: CleanText
    is_private: bool
    role: GrantRole
    cause: str
    place: tuple[str, ...] = ()


@dataclass(eq=False, repr=False)
class ScheduleService:
    """Schedules of one owner: no method shows or changes anything of another.

    In a group only what was ordered in that very place is shown and cancelled, because others would read the rest.
    `ring` wakes the task of this process that waits for the next due time."""

    book: ScheduleStore
    scrubber: Scrubber
    clock: Clock
    _: KW_ONLY
    default_zone: str
    ring: Callable[[], None]

    async def zone(self, owner: SessionKey) -> tuple[ZoneInfo, bool]:
        """Return the owner's time zone, and whether the owner ever named it."""
        known = await self.book.zone(owner)
        return recurrence.zone_named(known or self.default_zone), known is not None

    async def set_zone(self, owner: SessionKey, wanted: str) -> ZoneInfo | None:
        """Set the owner's zone; None for an unknown one. Existing schedules keep the zone they were ordered in."""
        name = recurrence.find_zone(wanted)
        if name is None:
            return None
        await self.book.set_zone(owner, name)
        return recurrence.zone_named(name)

    async def remind(self, requester: Requester, said: str) -> Schedule:
        """Schedule a reminder from words that hold the time and the text. Raises `Unclear`."""
        zone, _ = await self.zone(requester.key.owner)
        understood = read_request(said, now=self._now(), zone=zone)
        return await self._add(requester, ScheduleKind.REMINDER, said, understood.when, understood.text, zone)

    async def order(self, requester: Requester, kind: ScheduleKind, when: str, text: str) -> Schedule:
        """Schedule a reminder or a task, with the time apart from the text. Raises `Unclear`."""
        zone, _ = await self.zone(requester.key.owner)
        understood = read_time(when, now=self._now(), zone=zone)
        return await self._add(requester, kind, f"{when}\0{text}", understood, text, zone)

    async def cancel_kind(self, owner: SessionKey, kind: ScheduleKind) -> int:
        """Take back all of one kind; how many there were."""
        found = [schedule for schedule in await self.book.active(owner) if schedule.kind is kind]
        return sum([await self.book.cancel(owner, schedule.number) is not None for schedule in found])

    async def active(self, owner: SessionKey, *, place: ReplyAddress | None) -> Sequence[Schedule]:
        """List what is still to come, by number; in a group (`place`) only what was ordered there."""
        return [schedule for schedule in await self.book.active(owner) if _is_shown(schedule, place)]

    async def cancel(self, owner: SessionKey, number: int, *, place: ReplyAddress | None) -> Schedule | None:
        """Cancel a schedule and return it; None when none of that number is visible here."""
        if number not in {schedule.number for schedule in await self.active(owner, place=place)}:
            return None
        return await self.book.cancel(owner, number)

    async def _add(
        self, requester: Requester, kind: ScheduleKind, words: str, when: When, text: str, zone: ZoneInfo
    ) -> Schedule:
        """Add a schedule. `words` are those of the order: together with its cause they identify the schedule, so that a
        repeated turn does not add it twice."""
        _check(when, text, requester.role)
        cause = requester.cause
        # The id is the same in every attempt at the same turn: "in 30 minutes" counts from the first one.
        schedule = Schedule(
            id="s_" + blake2b(f"{cause}\0{words}".encode("utf-8", "replace"), digest_size=10).hexdigest(),
            key=requester.key,
            address=requester.address,
            author_id=requester.author_id,
            author_name=requester.author_name,
            is_private=requester.is_private,
            kind=kind,
            text=self.scrubber.for_chat(str(requester.key)).scrub(text),
            recurrence="" if when.rule is None else str(when.rule),
            zone=zone.key,
            next_due_ms=int(when.due.timestamp() * 1000),
            created_at_ms=self.clock.now_ms(),
            place=requester.place,
        )
        added = await self.book.add(schedule, active_max=limits.SCHEDULES_MAX)
        if added is None:
            raise Unclear(
                lambda words: words.say(
                    "{most} things are scheduled already, and that is as many as I keep", most=limits.SCHEDULES_MAX
                )
            )
        self.ring()
        return added

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.now_ms() / 1000, UTC)


def _check(when: When, text: str, role: GrantRole) -> None:
    """Check the limits. Raises `Unclear` for a schedule beyond them."""
    if len(text) > limits.SCHEDULE_TEXT_CHARS_MAX:
        raise Unclear(
            lambda words: words.say(
                "the text is longer than {most} characters", most=words.number(limits.SCHEDULE_TEXT_CHARS_MAX)
            )
        )
    if find_command(text) is not None:
        raise Unclear(lambda words: words.say("a command cannot be scheduled"))
    gap_min_s = limits.SCHEDULE_GUEST_GAP_S if role is GrantRole.GUEST else limits.SCHEDULE_GAP_S
    if when.rule is not None and recurrence.shortest_gap_s(when.rule) < gap_min_s:
        raise Unclear(
            lambda words: words.say(
                "nothing can happen more often than {rule}", rule=texts.every_text(gap_min_s, words)
            )
        )


def _is_shown(schedule: Schedule, place: ReplyAddress | None) -> bool:
    if place is None:
        return True
    return not schedule.is_private and (schedule.address.channel, schedule.address.lane) == (place.channel, place.lane)


# Reminders and scheduled tasks, for the model.
#
# It is a tool that reads, as `todo_write` and `remember` are: it changes nothing but what belongs to the person who
# asked, who sees it with /remind and can take it back.


_SCHEDULE: Final = ToolSpec(
    "schedule",
    "Reminders and tasks for later, in this user's time zone. `create` needs `when` and `text`; `when` is a time "
    "alone, in English: “in 30 minutes”, “tomorrow at 8:00”, “2026-12-24 10:00”, “every day at 9:30”, “every Monday "
    "18:00”, “every 2 hours” or “cron 30 9 * * 1-5”. A reminder's text is delivered as it is; the text of a task is "
    "a prompt that you will be given then, with nobody present to ask. Always tell the user the time that the "
    "result names.",
    object_schema(
        {
            "action": {"type": "string", "enum": ["create", "list", "cancel"]},
            "kind": {"type": "string", "enum": [ScheduleKind.REMINDER.value, ScheduleKind.TASK.value]},
            "when": text_schema(200),
            "text": text_schema(limits.SCHEDULE_TEXT_CHARS_MAX),
            "number": {"type": "integer", "minimum": 1, "maximum": 1_000_000},
        },
        "action",
    ),
)


def schedule_tools(service: ScheduleService) -> tuple[Tool, ...]:
    """Build `schedule` on the service that /remind uses."""

    async def run(context: ToolContext, arguments: Mapping[str, Any]) -> str:
        match arguments["action"]:
            case "create":
                return await _create(service, context, arguments)
            case "cancel":
                if "number" not in arguments:
                    raise ToolError("cancel needs the `number` that list shows")
                cancelled = await service.cancel(context.owner, arguments["number"], place=_seen_from(context))
                if cancelled is None:
                    raise ToolError("nothing is scheduled under that number")
                return f"Cancelled: {cancelled.text}"
            case _:
                zone, is_zone_known = await service.zone(context.owner)
                found = await service.active(context.owner, place=_seen_from(context))
                return texts.list_text(found, zone, ENGLISH, is_zone_known=is_zone_known)

    def keeps(arguments: Mapping[str, Any]) -> bool:
        return bool(arguments["action"] != "list")

    return (Tool(_SCHEDULE, "tasks", Risk.READ, run, locks=lambda _arguments: ("schedule",), keeps=keeps),)


async def _create(service: ScheduleService, context: ToolContext, arguments: Mapping[str, Any]) -> str:
    if context.address is None:
        raise ToolError("a turn with nobody present schedules nothing: tell the user what you would schedule")
    if "when" not in arguments or "text" not in arguments:
        raise ToolError("create needs `when` and `text`", FailureCause.ARGUMENTS)
    asked_by = context.asked_by or context.owner
    requester = Requester(
        key=context.key,
        address=context.address,
        author_id=asked_by.user,
        author_name=literal_text(""),
        is_private=context.place is Visibility.DM,
        role=context.role,
        cause=context.turn_id,
        place=context.place_ids,
    )
    kind = ScheduleKind(arguments.get("kind", ScheduleKind.REMINDER.value))
    try:
        schedule = await service.order(requester, kind, arguments["when"], arguments["text"])
    except Unclear as problem:
        raise ToolError(f"nothing was scheduled: {problem}", FailureCause.ARGUMENTS) from problem
    _, is_zone_known = await service.zone(context.owner)
    return texts.created_text(schedule, ENGLISH, is_zone_known=is_zone_known)


def _seen_from(context: ToolContext) -> ReplyAddress | None:
    """Return the place whose people read what this turn says; None in a direct message. Raises `ToolError` for a turn
    in a group that was started by nobody present and does not know where it is."""
    if context.place is Visibility.DM:
        return None
    if context.address is None:
        raise ToolError("a turn in a group with nobody present does not see what is scheduled")
    return context.address


# Commands about later: /remind, /heartbeat, and the one that a reminder itself arrives as.


REMINDER: Final = "reminder"
"""The command that a firing reminder is: alone in its turn, answered without a model."""

_LIST_WORDS: Final = frozenset({"", "list"})


def remind_commands(
    service: ScheduleService, scrubber: Scrubber, clock: Clock, *, heartbeat_minutes: int
) -> tuple[CommandRow, ...]:
    """Return the command rows, in the order of /help."""

    async def remind(asked: CommandRequest) -> str:
        word, _, rest = asked.argument.partition(" ")
        if asked.argument.lower() in _LIST_WORDS:
            return await _list(service, asked)
        if word.lower() == "zone":
            return await _zone(service, asked, rest.strip())
        if word.lower() == "cancel" and (not rest or rest.strip().isdecimal()):
            return await _cancel(service, asked, rest.strip())
        try:
            schedule = await service.remind(requester_of(asked), asked.argument)
        except Unclear as problem:
            return texts.unclear_text(problem.why(asked.words), asked.words)
        _, is_zone_known = await service.zone(asked.session.key.owner)
        return texts.created_text(schedule, asked.words, is_zone_known=is_zone_known)

    async def heartbeat(asked: CommandRequest) -> str:
        minutes = heartbeat_minutes
        words = asked.words
        if not minutes:
            return words.say("The heartbeat is off: the operator can allow it with `schedules.heartbeat_minutes`.")
        if asked.role is not GrantRole.ADMIN:
            return words.say("Only an admin can switch the heartbeat on or off.")
        if asked.argument.lower() not in ("on", "off"):
            return words.say("Write /heartbeat on or /heartbeat off.")
        before = await service.cancel_kind(asked.session.key.owner, ScheduleKind.HEARTBEAT)
        if asked.argument.lower() == "off":
            return words.say("The heartbeat is off.") if before else words.say("The heartbeat was not on.")
        requester = requester_of(asked)
        await service.order(requester, ScheduleKind.HEARTBEAT, f"every {minutes} minutes", PROMPTS.heartbeat)
        return words.say(
            "I shall look {rule} from now on, at your cost. /heartbeat off ends it.",
            rule=texts.every_text(minutes * 60, words),
        )

    async def reminder(asked: CommandRequest) -> CommandReply | str:
        if not is_firing(asked.message.id):
            return asked.words.say("I remind you of things with /remind.")
        zone, _ = await service.zone(asked.session.key.owner)
        due_ms = asked.message.sent_at_ms
        text = scrubber.for_chat(str(asked.session.key)).scrub(
            texts.reminder_text(
                asked.argument, asked.words, due_ms=due_ms, now_ms=clock.now_ms(), late_s=limits.LATE_S, zone=zone
            )
        )
        return CommandReply(text, noted=joined(literal_text("(Delivered by the schedule)"), text, by="\n"))

    return (
        CommandRow("remind", remind),
        CommandRow("heartbeat", heartbeat, is_listed=heartbeat_minutes > 0),
        CommandRow(REMINDER, reminder, is_listed=False),
    )


def requester_of(asked: CommandRequest) -> Requester:
    """Return the author of a command, with the place where it was given."""
    message = asked.message
    return Requester(
        key=message.key,
        address=message.address,
        author_id=message.author_id,
        author_name=message.author_name,
        is_private=message.is_private,
        role=asked.role,
        cause=message.id,
        place=message.place,
    )


async def _list(service: ScheduleService, asked: CommandRequest) -> str:
    owner = asked.session.key.owner
    zone, is_zone_known = await service.zone(owner)
    found = await service.active(owner, place=None if asked.message.is_private else asked.message.address)
    return texts.list_text(found, zone, asked.words, is_zone_known=is_zone_known)


async def _zone(service: ScheduleService, asked: CommandRequest, wanted: str) -> str:
    owner, words = asked.session.key.owner, asked.words
    if not wanted:
        zone, is_known = await service.zone(owner)
        return (
            words.say("Your time zone is {zone}.", zone=zone.key) if is_known else texts.unknown_zone_text(zone, words)
        )
    found = await service.set_zone(owner, wanted)
    if found is None:
        return words.say("I know no time zone of that name. For example: {zones}.", zones=recurrence.ZONE_EXAMPLES)
    return words.say("Your time zone is {zone} now. What is scheduled already keeps its own.", zone=found.key)


async def _cancel(service: ScheduleService, asked: CommandRequest, number: str) -> str:
    words = asked.words
    if not number:
        return words.say("Say which one: `/remind cancel NUMBER`; /remind lists them.")
    place = None if asked.message.is_private else asked.message.address
    cancelled = await service.cancel(asked.session.key.owner, int(number[:9]), place=place)
    if cancelled is None:
        return words.say("Nothing is scheduled under number {number}; /remind lists what is.", number=number[:9])
    return words.say("Cancelled: {text}", text=cancelled.text)


# Fires what is due: each firing is a message of its owner, on the same queue as the owner's other messages.
#
#     claim (SQL) ──▶ enqueue (bus, by the firing's id) ──▶ move on (SQL, guarded by the due time)
#
# Every agent process runs this. A crash after the first arrow costs a claim's time; one after the second repeats
# an id that the bus knows for a day and SQL, once it is answered, for ever. Firings missed while no process ran
# happen once. A schedule whose owner may not speak any more is passed over, and goes on if it recurs.


_log = structlog.get_logger(__name__)
_RETRY_S: Final = 1.0
_TAKEN: Final = frozenset({Verdict.ACCEPTED, Verdict.DUPLICATE})


@dataclass(eq=False, repr=False)
class Scheduler:
    """The share of one process in firing schedules."""

    book: ScheduleStore
    intake: Inbound
    people: People
    wakeup: Wakeup
    scrubber: Scrubber
    clock: Clock
    _: KW_ONLY
    has_heartbeat: bool

    async def serve(self) -> None:
        """Fire due schedules until cancelled. It sleeps until the next due time; schedules of other processes are seen
        by polling."""
        while True:
            try:
                while await self.fire_due() == limits.FIRINGS_PARALLEL_MAX:
                    pass
                wait_s = await self._until_next_s()
            except (BusError, StoreError) as error:
                _log.warning("schedules.failed", reason=str(error))
                wait_s = _RETRY_S
            await self.wakeup.wait(wait_s)

    async def fire_due(self) -> int:
        """Fire what is due now; return how many schedules were claimed."""
        now_ms = self.clock.now_ms()
        due = await self.book.claim_due(
            now_ms=now_ms, until_ms=now_ms + int(limits.FIRING_HELD_S * 1000), limit=limits.FIRINGS_PARALLEL_MAX
        )
        for schedule in due:
            await self._fire(schedule)
        return len(due)

    async def _fire(self, schedule: Schedule) -> None:
        message = InboundMessage(
            id=schedule.firing_id,
            key=schedule.key,
            address=schedule.address,
            text=self._text(schedule),
            author_id=schedule.author_id,
            author_name=schedule.author_name,
            is_private=schedule.is_private,
            sent_at_ms=schedule.next_due_ms,
            received_at_ms=self.clock.now_ms(),
            place=schedule.place,
            is_nameable=True,
        )
        if await self._may_fire(schedule, message):
            admission = await self.intake.enqueue(message)
            if admission.verdict not in _TAKEN:
                until_ms = self.clock.now_ms() + int(limits.FIRING_PUT_OFF_S * 1000)
                await self.book.put_off(schedule, until_ms=until_ms)
                _log.warning("schedule.put_off", schedule=schedule.id, verdict=admission.verdict.value)
                return
        now_ms = self.clock.now_ms()
        is_ours = await self.book.move(schedule, next_due_ms=_next_due_ms(schedule, now_ms), now_ms=now_ms)
        _log.info("schedule.fired", message_id=message.id, late_ms=now_ms - schedule.next_due_ms, moved=is_ours)

    async def _may_fire(self, schedule: Schedule, message: InboundMessage) -> bool:
        is_wanted = schedule.kind is not ScheduleKind.HEARTBEAT or self.has_heartbeat
        if is_wanted and await self.people.is_admitted(message.author, message.spoken_in):
            return True
        _log.info("schedule.passed_over", schedule=schedule.id)
        return False

    async def _until_next_s(self) -> float:
        next_ms = await self.book.next_due_ms()
        if next_ms is None:
            return limits.FIRING_POLL_S
        return min(max(0.0, (next_ms - self.clock.now_ms()) / 1000), limits.FIRING_POLL_S)

    def _text(self, schedule: Schedule) -> CleanText:
        clean = self.scrubber.for_chat(str(schedule.key)).scrub
        match schedule.kind:
            case ScheduleKind.REMINDER:
                return clean(f"/{REMINDER} {schedule.text}")
            case ScheduleKind.HEARTBEAT:
                return schedule.text
            case ScheduleKind.TASK:
                when = clean(texts.moment_text(schedule.next_due_ms, recurrence.zone_named(schedule.zone), ENGLISH))
                head = joined(literal_text("(Scheduled task, due "), when, literal_text("; nobody is present to ask.)"))
                return joined(head, schedule.text, by="\n\n")


def _next_due_ms(schedule: Schedule, now_ms: int) -> int | None:
    """Compute the next due time; None when there is none. A rule that cannot be read any more never happens again."""
    if not schedule.recurrence:
        return None
    due, now = (datetime.fromtimestamp(at_ms / 1000, UTC) for at_ms in (schedule.next_due_ms, now_ms))
    try:
        rule = recurrence.recurrence_from(schedule.recurrence)
        return int(
            recurrence.next_after(rule, recurrence.zone_named(schedule.zone), due=due, now=now).timestamp() * 1000
        )
    except recurrence.BadRecurrence as error:
        _log.error("schedule.unreadable", schedule=schedule.id, reason=str(error))
        return None
