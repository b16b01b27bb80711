"""Fires what is due: each firing is a message of its owner, on the same queue as the owner's other messages.

    claim (SQL) ──▶ enqueue (bus, by the firing's id) ──▶ move on (SQL, guarded by the due time)

Every agent process runs this. A crash after the first arrow costs a claim's time; one after the second repeats
an id that the bus knows for a day and SQL, once it is answered, for ever. Firings missed while no process ran
happen once. A schedule whose owner may not speak any more is passed over, and goes on if it recurs.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import structlog

from agent.concurrency import Wakeup
from agent.features.access import People
from agent.features.schedules.recurrence import BadRecurrence, next_after, recurrence_from, zone_named
from agent.features.schedules.service import REMINDER
from agent.features.schedules.texts import moment_text
from agent.limits import FIRING_HELD_S, FIRING_POLL_S, FIRING_PUT_OFF_S, FIRINGS_PARALLEL_MAX
from gateway.bus.inbound import Inbound
from gateway.contracts.errors import BusError, StoreError
from gateway.contracts.messages import CleanText, InboundMessage, joined, literal_text
from gateway.contracts.ports import Clock, Verdict
from gateway.contracts.sessions import Schedule, ScheduleKind
from gateway.i18n import ENGLISH
from gateway.scrub import Scrubber
from gateway.store.schedules import ScheduleStore

_log = structlog.get_logger(__name__)
_RETRY_S: Final = 1.0
_TAKEN: Final = frozenset({Verdict.ACCEPTED, Verdict.DUPLICATE})


class Scheduler:
    """The share of one process in firing schedules."""

    def __init__(
        self,
        book: ScheduleStore,
        intake: Inbound,
        people: People,
        bell: Wakeup,
        scrubber: Scrubber,
        clock: Clock,
        *,
        has_heartbeat: bool,
    ) -> None:
        self._book = book
        self._intake = intake
        self._people = people
        self._bell = bell
        self._scrubber = scrubber
        self._clock = clock
        self._has_heartbeat = has_heartbeat

    async def serve(self) -> None:
        """Fire due schedules until cancelled. It sleeps until the next due time; schedules of other processes are seen
        by polling."""
        while True:
            try:
                while await self.fire_due() == FIRINGS_PARALLEL_MAX:
                    pass
                wait_s = await self._until_next_s()
            except (BusError, StoreError) as error:
                _log.warning("schedules.failed", reason=str(error))
                wait_s = _RETRY_S
            await self._bell.wait(wait_s)

    async def fire_due(self) -> int:
        """Fire what is due now; return how many schedules were claimed."""
        now_ms = self._clock.now_ms()
        due = await self._book.claim_due(
            now_ms=now_ms, until_ms=now_ms + int(FIRING_HELD_S * 1000), limit=FIRINGS_PARALLEL_MAX
        )
        await self._fire_all(due)
        return len(due)

    async def _fire_all(self, due: Sequence[Schedule]) -> None:
        for schedule in due:
            await self._fire(schedule)

    async def _fire(self, schedule: Schedule) -> None:
        message = self._message(schedule)
        if await self._may_fire(schedule, message):
            admission = await self._intake.enqueue(message)
            if admission.verdict not in _TAKEN:
                until_ms = self._clock.now_ms() + int(FIRING_PUT_OFF_S * 1000)
                await self._book.put_off(schedule, until_ms=until_ms)
                _log.warning("schedule.put_off", schedule=schedule.id, verdict=admission.verdict.value)
                return
        now_ms = self._clock.now_ms()
        is_ours = await self._book.move(schedule, next_due_ms=_next_due_ms(schedule, now_ms), now_ms=now_ms)
        _log.info("schedule.fired", message_id=message.id, late_ms=now_ms - schedule.next_due_ms, moved=is_ours)

    async def _may_fire(self, schedule: Schedule, message: InboundMessage) -> bool:
        is_wanted = schedule.kind is not ScheduleKind.HEARTBEAT or self._has_heartbeat
        if is_wanted and await self._people.is_admitted(message.author, message.spoken_in):
            return True
        _log.info("schedule.passed_over", schedule=schedule.id)
        return False

    async def _until_next_s(self) -> float:
        next_ms = await self._book.next_due_ms()
        if next_ms is None:
            return FIRING_POLL_S
        return min(max(0.0, (next_ms - self._clock.now_ms()) / 1000), FIRING_POLL_S)

    def _message(self, schedule: Schedule) -> InboundMessage:
        return InboundMessage(
            id=schedule.firing_id,
            key=schedule.key,
            address=schedule.address,
            text=self._text(schedule),
            author_id=schedule.author_id,
            author_name=schedule.author_name,
            is_private=schedule.is_private,
            sent_at_ms=schedule.next_due_ms,
            received_at_ms=self._clock.now_ms(),
            place=schedule.place,
            is_nameable=True,
        )

    def _text(self, schedule: Schedule) -> CleanText:
        clean = self._scrubber.for_chat(str(schedule.key)).scrub
        match schedule.kind:
            case ScheduleKind.REMINDER:
                return clean(f"/{REMINDER} {schedule.text}")
            case ScheduleKind.HEARTBEAT:
                return schedule.text
            case ScheduleKind.TASK:
                when = clean(moment_text(schedule.next_due_ms, zone_named(schedule.zone), ENGLISH))
                head = joined(literal_text("(Scheduled task, due "), when, literal_text("; nobody is present to ask.)"))
                return joined(head, schedule.text, by="\n\n")


def _next_due_ms(schedule: Schedule, now_ms: int) -> int | None:
    """Compute the next due time; None when there is none. A rule that cannot be read any more never happens again."""
    if not schedule.recurrence:
        return None
    due, now = (datetime.fromtimestamp(at_ms / 1000, UTC) for at_ms in (schedule.next_due_ms, now_ms))
    try:
        rule = recurrence_from(schedule.recurrence)
        return int(next_after(rule, zone_named(schedule.zone), due=due, now=now).timestamp() * 1000)
    except BadRecurrence as error:
        _log.error("schedule.unreadable", schedule=schedule.id, reason=str(error))
        return None
