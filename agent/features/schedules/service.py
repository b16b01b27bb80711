"""Takes orders for later, the same for people (/remind) and for the model (the tool `schedule`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from zoneinfo import ZoneInfo

from agent.features.schedules.recurrence import find_zone, shortest_gap_s, zone_named
from agent.features.schedules.texts import every_text
from agent.features.schedules.times import Unclear, When, read_request, read_time
from agent.limits import SCHEDULE_GAP_S, SCHEDULE_GUEST_GAP_S, SCHEDULE_TEXT_CHARS_MAX, SCHEDULES_MAX
from gateway.contracts.commands import find_command
from gateway.contracts.entries import GrantRole
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.ports import Clock, Scrubber
from gateway.contracts.schedules import Schedule, ScheduleKind
from gateway.store.schedules import ScheduleStore


@dataclass(frozen=True, slots=True)
class Requester:
    """Who orders, and where: the firing comes back there, as his or her message, and is judged by the rules of that
    place (`place` as in a message). `cause` is the turn or the message that the order belongs to; the same order of the
    same cause is one schedule."""

    key: SessionKey
    address: ReplyAddress
    author_id: str
    author_name: CleanText
    is_private: bool
    role: GrantRole
    cause: str
    place: tuple[str, ...] = ()


class ScheduleService:
    """Every method is about one owner, and shows and changes nothing of anybody else's.

    In a group only what was ordered in that very place is shown and cancelled: the others would read it.
    """

    def __init__(
        self, book: ScheduleStore, scrubber: Scrubber, clock: Clock, *, default_zone: str, ring: Callable[[], None]
    ) -> None:
        """`ring` wakes whoever waits for the next due time of this process."""
        self._book = book
        self._scrubber = scrubber
        self._clock = clock
        self._default_zone = default_zone
        self._ring = ring

    async def zone(self, owner: SessionKey) -> tuple[ZoneInfo, bool]:
        """The owner's time zone, and whether the owner ever named it."""
        known = await self._book.zone(owner)
        return zone_named(known or self._default_zone), known is not None

    async def set_zone(self, owner: SessionKey, wanted: str) -> ZoneInfo | None:
        """None for a zone that nobody knows. What is scheduled keeps the zone it was ordered in."""
        name = find_zone(wanted)
        if name is None:
            return None
        await self._book.set_zone(owner, name)
        return zone_named(name)

    async def remind(self, requester: Requester, said: str) -> Schedule:
        """A reminder, from words that hold the time and the text. Raises `Unclear`."""
        zone, _ = await self.zone(requester.key.owner)
        understood = read_request(said, now=self._now(), zone=zone)
        return await self._add(requester, ScheduleKind.REMINDER, said, understood.when, understood.text, zone)

    async def order(self, requester: Requester, kind: ScheduleKind, when: str, text: str) -> Schedule:
        """A reminder or a task, the time apart from the text. Raises `Unclear`."""
        zone, _ = await self.zone(requester.key.owner)
        understood = read_time(when, now=self._now(), zone=zone)
        return await self._add(requester, kind, f"{when}\0{text}", understood, text, zone)

    async def cancel_kind(self, owner: SessionKey, kind: ScheduleKind) -> int:
        """Take back all of one kind; how many there were."""
        found = [schedule for schedule in await self._book.active(owner) if schedule.kind is kind]
        return sum([await self._book.cancel(owner, schedule.number) is not None for schedule in found])

    async def active(self, owner: SessionKey, *, place: ReplyAddress | None) -> Sequence[Schedule]:
        """What is still to come, by number; in a group (`place`) what was ordered there."""
        return [schedule for schedule in await self._book.active(owner) if _is_shown(schedule, place)]

    async def cancel(self, owner: SessionKey, number: int, *, place: ReplyAddress | None) -> Schedule | None:
        """The one that was cancelled; None when there is none of that number to be seen here."""
        if number not in {schedule.number for schedule in await self.active(owner, place=place)}:
            return None
        return await self._book.cancel(owner, number)

    async def _add(
        self, requester: Requester, kind: ScheduleKind, words: str, when: When, text: str, zone: ZoneInfo
    ) -> Schedule:
        """`words` are those of the order: of one cause they name one schedule, whenever it is taken."""
        _check(when, text, requester.role)
        schedule = Schedule(
            id=_schedule_id(requester.cause, words),
            key=requester.key,
            address=requester.address,
            author_id=requester.author_id,
            author_name=requester.author_name,
            is_private=requester.is_private,
            kind=kind,
            text=self._scrubber.for_chat(str(requester.key)).scrub(text),
            recurrence="" if when.rule is None else str(when.rule),
            zone=zone.key,
            next_due_ms=int(when.due.timestamp() * 1000),
            created_at_ms=self._clock.now_ms(),
            place=requester.place,
        )
        added = await self._book.add(schedule, active_max=SCHEDULES_MAX)
        if added is None:
            raise Unclear(
                lambda words: words.say(
                    "{most} things are scheduled already, and that is as many as I keep", most=SCHEDULES_MAX
                )
            )
        self._ring()
        return added

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)


def _check(when: When, text: str, role: GrantRole) -> None:
    """Raises `Unclear` for what is beyond the limits."""
    if len(text) > SCHEDULE_TEXT_CHARS_MAX:
        raise Unclear(
            lambda words: words.say(
                "the text is longer than {most} characters", most=words.number(SCHEDULE_TEXT_CHARS_MAX)
            )
        )
    if find_command(text) is not None:
        raise Unclear(lambda words: words.say("a command cannot be scheduled"))
    gap_min_s = SCHEDULE_GUEST_GAP_S if role is GrantRole.GUEST else SCHEDULE_GAP_S
    if when.rule is not None and shortest_gap_s(when.rule) < gap_min_s:
        raise Unclear(
            lambda words: words.say("nothing can happen more often than {rule}", rule=every_text(gap_min_s, words))
        )


def _schedule_id(cause: str, words: str) -> str:
    """The same for every run of the same turn: "in 30 minutes" means the first one's."""
    return "s_" + blake2b(f"{cause}\0{words}".encode("utf-8", "replace"), digest_size=10).hexdigest()


def _is_shown(schedule: Schedule, place: ReplyAddress | None) -> bool:
    if place is None:
        return True
    return not schedule.is_private and (schedule.address.channel, schedule.address.lane) == (place.channel, place.lane)
