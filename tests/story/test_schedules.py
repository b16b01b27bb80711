"""Reminders, scheduled tasks and the heartbeat, told on a real bus and a real database."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest
from redis import Redis

from agent.features.access import People
from agent.features.schedules.service import Scheduler
from agent.limits import FIRING_HELD_S, FIRING_PUT_OFF_S
from agent.models.demo import ScriptedClient
from gateway.bus.bus import RedisBus
from gateway.bus.inbound import Inbound
from gateway.bus.keys import ShardKeys
from gateway.clock import SystemClock
from gateway.config.features import ScheduleSettings
from gateway.contracts.access import Audience, PlaceRule, Projection
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText, InboundMessage, ReplyKind
from gateway.contracts.ports import Admission, Verdict
from gateway.contracts.sessions import EntryKind, Grant, GrantRole, Schedule, ScheduleKind
from gateway.scrub import Scrubber
from gateway.store import Store
from gateway.store.schedules import ScheduleStore
from gateway.tasks import Wakeup
from tests.doubles import ManualClock
from tests.parts.agents import AgentProcess, message, running_agent
from tests.parts.keepers import policy_of
from tests.parts.minds import Mind
from tests.parts.waiting import until

ANN, BOB = "telegram:1", "telegram:2"
HOUR_MS = 3_600_000


class Died(Exception):
    """The process is gone, right here."""


@dataclass
class Mortal:
    """A port of the firing loop that dies right behind the call it is told to."""

    inner: Any
    dies_behind: str = ""

    def __getattr__(self, name: str) -> Any:
        async def call(*arguments: Any, **named: Any) -> Any:
            answer = await getattr(self.inner, name)(*arguments, **named)
            if name == self.dies_behind:
                raise Died
            return answer

        return call


@dataclass
class Firer:
    """One process's firing loop, by hand and with a clock of its own."""

    bus: RedisBus
    store: Store
    clock: ManualClock = field(default_factory=lambda: ManualClock(SystemClock().now_ms()))
    admins: Sequence[SessionKey] = ()
    is_open: bool = True
    dies_behind: str = ""
    intake: Any = None
    has_heartbeat: bool = True

    async def fire(self) -> int:
        """Fire what is due by its clock."""
        people = People(self.bus.access, self.store.access, policy_of(self.admins, is_open=self.is_open), SystemClock())
        firing = Scheduler(
            cast(ScheduleStore, Mortal(self.store.schedules, self.dies_behind)),
            cast(Inbound, self.intake or Mortal(self.bus.intake, self.dies_behind)),
            people,
            Wakeup(),
            Scrubber(),
            self.clock,
            has_heartbeat=self.has_heartbeat,
        )
        return await firing.fire_due()

    async def order(self, text: str = "call mum", *, key: str = ANN, in_ms: int = 0, **changes: Any) -> Schedule:
        """Store a schedule that is due in a while, as the desk does."""
        said = message("", key)
        schedule = Schedule(
            id=f"s_{text}",
            key=said.key,
            address=said.address,
            author_id=said.author_id,
            author_name=said.author_name,
            is_private=said.is_private,
            kind=ScheduleKind.REMINDER,
            text=CleanText(text),
            recurrence="",
            zone="UTC",
            next_due_ms=self.clock.now_ms() + in_ms,
            created_at_ms=self.clock.now_ms(),
        )
        added = await self.store.schedules.add(replace(schedule, **changes), active_max=100)
        assert added is not None
        return added

    async def waiting(self, key: str = ANN) -> int:
        """Messages in a lane that no agent works on."""
        waiting, _ = await self.bus.lanes.depth(SessionKey.parse(key))
        return waiting


def ahead() -> ManualClock:
    """An hour before the clock of any agent, which so leaves the firing to us."""
    return ManualClock(SystemClock().now_ms() + HOUR_MS)


@pytest.fixture
def firer(bus: RedisBus, sqlite_store: Store) -> Firer:
    return Firer(bus, sqlite_store)


@pytest.fixture
async def agent(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> AsyncIterator[AgentProcess]:
    async with running_agent(bus, sqlite_store, ScriptedClient(), tmp_path) as process:
        yield process


# --- reminders


async def test_a_reminder_comes_back_where_it_was_asked_for(agent: AgentProcess) -> None:
    """In the same thread of the same channel, by itself, without a model call, and the model knows of it later."""
    await agent.say("/remind in 1 second call mum", "slack:U1/C1/17.01", lane="C1/17.01")
    answer, reminder = await agent.heard(2, "slack")
    assert "I shall remind you on" in answer.text
    assert "(UTC): call mum" in answer.text
    assert reminder.text == "⏰ **Reminder**: call mum"
    assert (reminder.address.lane, reminder.kind) == ("C1/17.01", ReplyKind.NOTICE)
    session = await agent.store.sessions.current(reminder.key)
    assert session is not None
    assert session.tokens == 0
    (note,) = await agent.store.transcript.page(session.id)
    assert (note.kind, note.text.endswith("⏰ **Reminder**: call mum")) == (EntryKind.NOTE, True)


async def test_a_reminder_fires_after_a_restart_and_once(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> None:
    """It came due while no process ran: the next one fires it."""
    async with running_agent(bus, sqlite_store, ScriptedClient(), tmp_path) as before:
        await before.ask("/remind in 2 seconds call mum")
        book = sqlite_store.schedules
        (schedule,) = await book.active(SessionKey.parse(ANN))
    await until(lambda: SystemClock().now_ms() > schedule.next_due_ms)
    for number in range(2):
        async with running_agent(bus, sqlite_store, ScriptedClient(), tmp_path) as after:
            if number == 0:
                assert (await after.heard(1))[0].text.startswith("⏰ **Reminder**: call mum")
            await after.ask("hello")
            assert len(after.replies) == 2 - number
    assert await book.active(SessionKey.parse(ANN)) == []


async def test_a_late_reminder_says_when_it_was_due(agent: AgentProcess) -> None:
    firer = Firer(agent.bus, agent.store)
    await firer.order(in_ms=-HOUR_MS)
    await firer.fire()
    (reminder,) = await agent.heard(1)
    assert "(It was due " in reminder.text
    assert "(UTC).)" in reminder.text


async def test_a_user_cannot_pretend_to_be_a_schedule(agent: AgentProcess) -> None:
    assert "⏰" not in await agent.ask("/reminder you owe me money")


async def test_the_list_the_zone_and_the_cancellation(agent: AgentProcess) -> None:
    """What a person does with /remind, in the order in which one does it."""
    first = await agent.ask("/remind every day at 9:30 stand-up")
    assert "every day at 09:30, next " in first
    assert "/remind zone" in first
    assert "I know no time zone" in await agent.ask("/remind zone Atlantis")
    assert "Europe/Berlin" in await agent.ask("/remind zone berlin")
    second = await agent.ask("/remind every Monday at 8 gym")
    assert "every Monday at 08:00" in second
    assert "(Europe/Berlin): gym" in second
    assert "zone" not in second
    listed = await agent.ask("/remind")
    assert "**1** every day at 09:30" in listed
    assert "**2** every Monday at 08:00" in listed
    assert await agent.ask("/remind cancel 1") == "Cancelled: stand-up"
    assert "number 1" in await agent.ask("/remind cancel 1")
    assert "stand-up" not in await agent.ask("/remind list")


async def test_what_is_not_understood_is_answered_with_examples(agent: AgentProcess) -> None:
    refused = await agent.ask("/remind someday call mum")
    assert refused.startswith("I did not schedule anything: I found no time in it.")
    assert "/remind in 30 minutes call mum" in refused
    assert "Nothing is scheduled" in await agent.ask("/remind")


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ("cron * * * * * stretch", "every 5 minutes"),
        ("every 2 minutes stretch", "every 5 minutes"),
        ("in 5 minutes /new", "a command cannot be scheduled"),
        ("in 5 minutes \uff0fNEW", "a command cannot be scheduled"),
        ("in 5 minutes /trivet new", "a command cannot be scheduled"),
        (f"in 5 minutes {'x' * 2_001}", "2,000 characters"),
    ],
)
async def test_limits_are_named(agent: AgentProcess, wanted: str, why: str) -> None:
    assert why in await agent.ask(f"/remind {wanted}")
    assert await agent.store.schedules.active(SessionKey.parse(ANN)) == []


async def test_nobody_sees_what_is_anothers(agent: AgentProcess) -> None:
    await agent.ask("/remind tomorrow at 8:00 Ann's canary", ANN)
    call = f"tool schedule {json.dumps({'action': 'list'})}"
    for asked in (
        "/remind",
        call,
        "/remind cancel 1",
        f"tool schedule {json.dumps({'action': 'cancel', 'number': 1})}",
    ):
        assert "canary" not in await agent.ask(asked, BOB)
    assert "canary" in await agent.ask("/remind", ANN)


async def test_what_was_asked_for_in_private_is_not_shown_to_a_group(agent: AgentProcess) -> None:
    """The same person in a group: the others would read it. What was asked for there is shown there."""
    await agent.ask("/remind tomorrow at 8:00 my private matter", ANN)
    group = f"{ANN}/-100"
    for asked in ("/remind", f"tool schedule {json.dumps({'action': 'list'})}", "/remind cancel 1"):
        assert "private matter" not in await agent.ask(asked, group)
    await agent.ask("/remind tomorrow at 9:00 the meeting", group)
    assert "the meeting" in await agent.ask("/remind", group)
    both = await agent.ask("/remind", ANN)
    assert "private matter" in both
    assert "the meeting" in both


# --- crashes, races, full lanes


@pytest.mark.parametrize("dies_behind", ["claim_due", "enqueue", "move"])
async def test_a_process_that_dies_while_it_fires_costs_a_moment(firer: Firer, dies_behind: str) -> None:
    """Between claim and enqueue, between enqueue and move, behind both: the message is there once."""
    await firer.order()
    firer.dies_behind = dies_behind
    with pytest.raises(Died):
        await firer.fire()
    firer.dies_behind = ""
    assert await firer.fire() == 0  # still claimed, or over
    firer.clock.at_ms += int(FIRING_HELD_S * 1000)
    await firer.fire()
    assert await firer.waiting() == 1
    firer.clock.at_ms += int(FIRING_HELD_S * 1000)
    assert await firer.fire() == 0


async def test_a_repeated_firing_is_known_when_the_bus_has_forgotten_it(agent: AgentProcess, raw_redis: Redis) -> None:
    """The process died behind the enqueue and nobody came for days: what was answered is on record in SQL."""
    firer = Firer(agent.bus, agent.store, ahead(), dies_behind="enqueue")
    await firer.order()
    with pytest.raises(Died):
        await firer.fire()
    await agent.heard(1)
    seen = list(raw_redis.scan_iter(ShardKeys(0).seen("*")))
    assert raw_redis.delete(*seen) > 0
    firer.dies_behind = ""
    firer.clock.at_ms += 48 * HOUR_MS
    assert await firer.fire() == 1
    await agent.ask("hello")
    assert [reply.kind for reply in agent.replies] == [ReplyKind.NOTICE, ReplyKind.ANSWER]


@dataclass
class Full:
    """A bus whose lane is full for the first message."""

    inner: RedisBus
    refusals: int = 1

    async def enqueue(self, said: InboundMessage, *, settle_ms: int = 0, interrupts: bool = False) -> Admission:
        self.refusals -= 1
        return Admission(Verdict.LANE_FULL) if self.refusals >= 0 else await self.inner.intake.enqueue(said)


async def test_a_full_lane_puts_the_firing_off(firer: Firer) -> None:
    schedule = await firer.order(recurrence="every 3600")
    firer.intake = Full(firer.bus)
    await firer.fire()
    assert await firer.fire() == 0
    firer.clock.at_ms += int(FIRING_PUT_OFF_S * 1000)
    assert await firer.fire() == 1
    assert await firer.waiting() == 1
    (after,) = await firer.store.schedules.active(SessionKey.parse(ANN))
    assert after.next_due_ms == schedule.next_due_ms + HOUR_MS


async def test_what_was_missed_fires_once_and_goes_on_in_its_rhythm(firer: Firer) -> None:
    """Two and a half intervals of downtime are one firing."""
    schedule = await firer.order(recurrence="every 3600")
    firer.clock.at_ms += 5 * HOUR_MS // 2
    assert await firer.fire() == 1
    assert await firer.fire() == 0
    assert await firer.waiting() == 1
    (after,) = await firer.store.schedules.active(SessionKey.parse(ANN))
    assert after.next_due_ms == schedule.next_due_ms + 3 * HOUR_MS


# --- whose words are not let in


async def test_a_blocked_owner_is_passed_over(firer: Firer) -> None:
    """What recurs goes on, for the day on which the block is lifted."""
    ann = SessionKey.parse(ANN)
    await firer.order("once")
    await firer.order("again", recurrence="every 3600")
    await firer.bus.access.project(Projection(grants=[Grant(ann, GrantRole.BLOCKED, "admin", 1)]))
    await firer.fire()
    assert await firer.waiting() == 0
    assert [schedule.text for schedule in await firer.store.schedules.active(ann)] == ["again"]
    await firer.bus.access.project(Projection(grants=[]))
    firer.clock.at_ms += HOUR_MS
    await firer.fire()
    assert await firer.waiting() == 1


async def test_who_would_not_be_let_in_is_not_fired_for(firer: Firer) -> None:
    """With pairing, a user whose grant was taken away is a stranger again; an admin never is."""
    firer.is_open = False
    firer.admins = (SessionKey.parse(BOB),)
    await firer.order("of a stranger")
    await firer.order("of an admin", key=BOB)
    await firer.order("of a member", key="telegram:3")
    await firer.bus.access.project(
        Projection(grants=[Grant(SessionKey.parse("telegram:3"), GrantRole.MEMBER, "admin", 1)])
    )
    await firer.fire()
    assert [await firer.waiting(key) for key in (ANN, BOB, "telegram:3")] == [0, 1, 1]


async def test_what_was_asked_for_in_a_place_is_judged_by_its_rules(firer: Firer) -> None:
    """Also where the lane is the person's own, whatever the place (scope `user`): a closed group stays closed."""
    group = SessionKey("telegram", "", ("-100",))
    await firer.order("in the group", is_private=False, place=group.place)
    await firer.bus.access.project(Projection(places={group: PlaceRule(Audience.NOBODY)}))
    await firer.fire()
    assert await firer.waiting() == 0
    await firer.order("in private")
    await firer.fire()
    assert await firer.waiting() == 1


@pytest.mark.parametrize(
    "order",
    ["/remind in an hour go home", 'tool schedule {"action": "create", "when": "in an hour", "text": "go home"}'],
)
async def test_a_schedule_knows_its_place_though_its_lane_does_not(agent: AgentProcess, order: str) -> None:
    await agent.bus.intake.enqueue(replace(message(order, ANN), is_private=False, place=("-100", "7")))
    await agent.heard(1)
    (schedule,) = await agent.store.schedules.active(SessionKey.parse(ANN))
    assert (schedule.place, schedule.is_private) == (("-100", "7"), False)


# --- tasks


async def test_a_task_runs_a_turn_with_nobody_present(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> None:
    """Its prompt is what the user said, its cost is the owner's; what would be asked is denied, also to an admin, and
    it schedules nothing."""
    ann = SessionKey.parse(ANN)
    async with running_agent(bus, sqlite_store, ScriptedClient(), tmp_path, admins=(ann,)) as agent:
        firer = Firer(bus, sqlite_store, ahead())
        write = f"tool file_write {json.dumps({'path': 'a.txt', 'content': 'x'})}"
        again = json.dumps({"action": "create", "when": "in 1 minute", "text": "again"})
        for number, prompt in enumerate((write, f"tool schedule {again}", "say done"), 1):
            await firer.order(prompt, kind=ScheduleKind.TASK)
            await firer.fire()
            await agent.heard(number)
        said = "\n".join(await agent.transcript())
        assert "nobody is present to ask.)" in said
        assert agent.replies[2].text.startswith("You said: (Scheduled task, due ")
        assert agent.replies[2].kind is ReplyKind.ANSWER
        assert await sqlite_store.schedules.active(ann) == []
        assert not any(name.name == "a.txt" for name in tmp_path.rglob("*"))  # noqa: ASYNC240


async def test_a_firing_is_no_part_of_anybodys_batch(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> None:
    """What waits before and behind it is answered with a person present, and it is answered alone."""
    mind = Mind()
    async with running_agent(bus, sqlite_store, mind, tmp_path) as agent:
        gate = mind.hold()
        await agent.say("first")
        await mind.until_asked(1)
        await agent.say("before")
        firer = Firer(bus, sqlite_store, ahead())
        await firer.order("the task", kind=ScheduleKind.TASK)
        await firer.fire()
        await agent.say("behind")
        gate.set()
        await agent.heard(4)
        heard = [mind.heard(call)[-1] for call in range(4)]
        assert [heard[0], heard[1], heard[3]] == ["first", "before", "behind"]
        assert heard[2].endswith("the task")


async def test_the_model_orders_lists_and_cancels(agent: AgentProcess) -> None:
    """The same desk as /remind; a member may, for it is his own."""
    task = {"action": "create", "kind": "task", "when": "every day at 9:30", "text": "say good morning"}
    assert "I shall do this every day at 09:30" in await agent.ask(f"tool schedule {json.dumps(task)}")
    (schedule,) = await agent.store.schedules.active(SessionKey.parse(ANN))
    assert (schedule.kind, schedule.text, schedule.author_id) == (ScheduleKind.TASK, "say good morning", "1")
    assert "**1** (task) every day at 09:30" in await agent.ask('tool schedule {"action": "list"}')
    unclear = {"action": "create", "when": "someday", "text": "x"}
    assert "nothing was scheduled" in await agent.ask(f"tool schedule {json.dumps(unclear)}")
    assert "Cancelled: say good morning" in await agent.ask('tool schedule {"action": "cancel", "number": 1}')


async def test_a_secret_in_a_reminder_is_kept_nowhere(agent: AgentProcess) -> None:
    secret = "sk-proj-" + "A1b2C3d4E5f6G7h8" * 3
    await agent.ask(f"/remind tomorrow at 8:00 use {secret}")
    (schedule,) = await agent.store.schedules.active(SessionKey.parse(ANN))
    assert secret not in schedule.text
    assert "[redacted:" in schedule.text


# --- the heartbeat


async def test_the_heartbeat_is_off_until_the_operator_allows_it(agent: AgentProcess) -> None:
    assert "schedules.heartbeat_minutes" in await agent.ask("/heartbeat on")
    assert "heartbeat" not in await agent.ask("/help")


async def test_an_admin_switches_the_heartbeat_on_and_pays_for_it(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    """One per owner, however often it is switched on; each beat is a turn of that admin's; off is off."""
    ann = SessionKey.parse(ANN)
    allowed = ScheduleSettings(heartbeat_minutes=30)
    async with running_agent(bus, sqlite_store, ScriptedClient(), tmp_path, admins=(ann,), schedules=allowed) as agent:
        assert "Only an admin" in await agent.ask("/heartbeat on", BOB)
        for _ in range(2):
            assert "every 30 minutes" in await agent.ask("/heartbeat on")
        (beat,) = await sqlite_store.schedules.active(ann)
        assert (beat.kind, beat.recurrence) == (ScheduleKind.HEARTBEAT, "every 1800")
        firer = Firer(bus, sqlite_store, ahead())
        assert await firer.fire() == 1
        answer = (await agent.heard(4))[-1]
        assert answer.key == ann
        assert "Heartbeat." in answer.text
        session = await sqlite_store.sessions.current(ann)
        assert session is not None
        assert session.tokens > 0
        assert await agent.ask("/heartbeat off") == "The heartbeat is off."
        assert await sqlite_store.schedules.active(ann) == []


async def test_a_heartbeat_that_is_not_allowed_any_more_does_not_beat(firer: Firer) -> None:
    await firer.order("beat", kind=ScheduleKind.HEARTBEAT, recurrence="every 1800")
    firer.has_heartbeat = False
    assert await firer.fire() == 1
    assert await firer.waiting() == 0
