"""Who may speak, from the door to the answer: strangers, groups with guests, places with rules, floods, blocks."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

import pytest

from channels.core.adapter import IntakeOutcome
from channels.core.intake import IntakeConfig, IntakeDeps, MessageIntake
from channels.core.message import Addressing, Incoming
from gateway.bus.bus import RedisBus
from gateway.clock import SystemClock
from gateway.config.access import AccessSettings, PlaceSetting
from gateway.config.limits import GuestAllowance, LimitSettings
from gateway.contracts.access import Audience, StrangerRule
from gateway.contracts.commands import find_command
from gateway.contracts.errors import BusUnavailable
from gateway.contracts.ids import ReplyAddress, SessionKey, SessionScope
from gateway.scrub import Scrubber
from gateway.store import Store
from tests.parts.agents import AgentProcess, running_agent
from tests.parts.incoming import private_message
from tests.parts.keepers import pairing
from tests.parts.minds import Mind
from tests.parts.waiting import PATIENCE_S

BOSS, ANN, BEN = "900", "1", "2"
ADMIN = SessionKey("telegram", BOSS)
GROUP = "-100"
COMMANDS_TAKEN_MAX = 45  # a full bucket, and what it gains while the machine is slow


@dataclass
class Street:
    """A door of Telegram, the agent behind it, and people who come by."""

    door: MessageIntake
    agent: AgentProcess
    mind: Mind
    _numbers: count[int] = field(default_factory=lambda: count(1))

    def words(self, who: str, text: str, *, group: str = "", realm: str = "") -> Incoming:
        """What somebody writes, in a direct message or in a group, where he calls the bot."""
        return replace(
            private_message(text),
            id=f"telegram:bot:{group or who}:{next(self._numbers)}",
            user_id=who,
            author_name=f"Person {who}",
            place=(group,) if group else (),
            is_private=not group,
            addressing=Addressing.MENTION if group else Addressing.PRIVATE,
            address=ReplyAddress("telegram", group or who, "{}"),
            command=find_command(text),
            realm=realm,
            sent_at_ms=0,
        )

    async def say(self, who: str, text: str, *, group: str = "", realm: str = "") -> IntakeOutcome:
        return await self.door.accept(self.words(who, text, group=group, realm=realm))

    async def ask(self, who: str, text: str, *, group: str = "", realm: str = "") -> str:
        """Say something and hear what is said next, by whoever says it; not that the model is no real one."""
        before = len(self.agent.replies)
        await self.say(who, text, group=group, realm=realm)
        return (await self.agent.heard(before + 1))[-1].text.partition("\n\n_Demo")[0]


@asynccontextmanager
async def a_street(
    bus: RedisBus, store: Store, folder: Path, access: AccessSettings, limits: LimitSettings | None = None
) -> AsyncIterator[Street]:
    limits, mind = limits or LimitSettings(), Mind()
    async with running_agent(bus, store, mind, folder, access=access, limits=limits) as agent:
        rules = IntakeConfig(
            access.policy, SessionScope.PLACE, rate_of=limits.rate_of, command_rate_of=limits.command_rate_of
        )
        door = MessageIntake(IntakeDeps.of(bus, Scrubber(), SystemClock()), rules)
        yield Street(door, agent, mind)


PAIRING = AccessSettings(admins=(ADMIN,))


@pytest.fixture
async def street(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> AsyncIterator[Street]:
    async with a_street(bus, sqlite_store, tmp_path, PAIRING) as street:
        yield street


async def code_of(street: Street, who: str) -> str:
    found = re.search(r"\*\*([A-Z2-9]{8})\*\*", await street.ask(who, "hello?"))
    assert found
    return found[1]


# --- strangers


async def test_what_a_stranger_calls_himself_formats_nothing(street: Street) -> None:
    """Who decides about him shall not press what he wrote."""
    await street.door.accept(replace(street.words(ANN, "hello?"), author_name="[Boss](http://evil.example) *x*"))
    await street.agent.heard(1)
    assert ": Boss http evil.example x (telegram:1)" in await street.ask(BOSS, "/pair list")


async def test_a_stranger_is_let_in_by_chat_and_told_so(street: Street) -> None:
    code = await code_of(street, ANN)
    assert f"- **{code}**: Person 1 (telegram:1)" in await street.ask(BOSS, "/pair list")
    await street.say(BOSS, f"/pair {code.lower()}")
    told = {reply.key: reply.text for reply in (await street.agent.heard(4))[2:]}
    assert told[ADMIN] == "telegram:1 is member now and was told so."
    assert told[SessionKey("telegram", ANN)].startswith("You have been let in")
    assert await street.ask(ANN, "say thank you") == "thank you"
    [line] = await street.agent.store.sub_types.audit(limit=9)
    assert (line.actor, line.action, line.subject) == ("telegram:900", "access.grant", "user:telegram:1")


async def test_a_stranger_who_was_turned_down_is_told_once_and_gets_no_other_code(street: Street) -> None:
    code = await code_of(street, ANN)
    assert await street.ask(BOSS, f"/pair deny {code}") == "telegram:1 was turned down."
    assert await street.ask(ANN, "and now?") == "I only talk to people whom an admin has let in."


async def test_a_stranger_who_writes_again_is_told_once_more_how_long_that_waits(street: Street) -> None:
    """Not within the first minute, where the same words would come again; and after that no more."""
    await street.agent.bus.access.ask_pairing(
        pairing(SessionKey("telegram", ANN), "ABCD2345"), ttl_s=2400, pending_max=3
    )
    told = await street.ask(ANN, "hello?")
    assert "waiting for 20 minutes" in told
    assert "for 40 minutes more: **ABCD2345**" in told
    for again in ("is anybody there?", "hello!"):
        assert await street.say(ANN, again) is IntakeOutcome.REFUSED
    assert await street.ask(BEN, "hello?") != told
    assert [reply.key.user for reply in street.agent.replies] == [ANN, BEN]


async def test_start_says_in_three_lines_what_one_can_do_and_help_a_part_of_it(street: Street) -> None:
    greeting = await street.ask(BOSS, "/start")
    assert len(greeting.splitlines()) == 3
    assert "/help" in greeting
    access = await street.ask(BOSS, "/help Access")
    assert access.startswith("**Who may do what** (/help access)")
    assert "/pair" in access
    assert "/memory" not in access
    assert "/memory" in await street.ask(BOSS, "/help whatever")


async def test_five_wrong_codes_lock_their_admin_out_and_nobody_else(street: Street) -> None:
    code = await code_of(street, ANN)
    for _ in range(5):
        assert (await street.ask(BOSS, "/pair WRONGONE")).startswith("No person waits")
    assert (await street.ask(BOSS, f"/pair {code}")).startswith("Too many wrong codes")
    taken = await street.agent.bus.access.take_pairing(code, by="cli", taker="1")
    assert taken.pairing is not None


@pytest.mark.parametrize(
    "command", ["/pair list", "/block telegram:3", "/place nobody", "/limits", "/queue", "/role x y"]
)
async def test_commands_of_admins_are_refused_to_others_and_not_listed_for_them(street: Street, command: str) -> None:
    await street.ask(BOSS, "/role telegram:1 member")
    name = command.split()[0]
    assert await street.ask(ANN, command) == f"Only admins may use {name}. /help lists what I understand."
    assert f"- {name}" not in await street.ask(ANN, "/help")
    assert f"- {name}" in await street.ask(BOSS, "/help")


# --- blocks


async def test_a_block_counts_for_the_next_message_and_is_silent(street: Street) -> None:
    await street.ask(BOSS, "/role telegram:1 member")
    assert await street.ask(ANN, "say one") == "one"
    assert (await street.ask(BOSS, "/block telegram:1 sells watches")).startswith("telegram:1 is blocked")
    assert await street.say(ANN, "say two") is IntakeOutcome.REFUSED
    assert "- telegram:1: sells watches" in await street.ask(BOSS, "/block list")
    await street.ask(BOSS, "/unblock telegram:1")
    assert "code" in await street.ask(ANN, "say three"), "nothing is decided about him: he is a stranger again"
    assert not any(reply.text.startswith("two") for reply in street.agent.replies)


async def test_what_waits_is_not_answered_once_its_author_is_blocked(street: Street) -> None:
    """Nor what is under way: it makes no other call, and what its last one said is not sent."""
    for who in (ANN, BEN):
        await street.ask(BOSS, f"/role telegram:{who} member")
    gate = street.mind.hold()
    for who in (ANN, BEN):
        await street.say(who, "say begun")
    await street.mind.until_asked(2)
    for who in (ANN, BEN):
        await street.say(who, "say waiting")
    before = len(street.agent.replies)
    await street.say(BOSS, "/block telegram:1")
    await street.agent.heard(before + 1)
    gate.set()
    told = (await street.agent.heard(before + 3))[before + 1 :]
    assert {(reply.key.user, reply.text.partition("\n")[0]) for reply in told} == {(BEN, "begun"), (BEN, "waiting")}
    await street.ask(BOSS, "/unblock telegram:1")
    await street.ask(BOSS, "/role telegram:1 member")
    assert await street.ask(ANN, "say again") == "again"


async def test_an_admin_by_configuration_cannot_be_blocked(street: Street) -> None:
    assert (await street.ask(BOSS, "/block telegram:900")).startswith("Telegram:900 is an admin by configuration")
    assert await street.ask(BOSS, "say still here") == "still here"


async def test_a_bus_that_lost_its_memory_lets_nobody_in_until_it_is_told(
    street: Street, bus: RedisBus, raw_redis: object
) -> None:
    await street.ask(BOSS, "/block telegram:1")
    await asyncio.to_thread(raw_redis.delete, "{q0}:access", "{q0}:grants")  # type: ignore[attr-defined]
    with pytest.raises(BusUnavailable):
        await street.say(ANN, "say hello")
    assert await street.say(BOSS, "/queue") is IntakeOutcome.QUEUED, "an admin by configuration is let in even then"
    await bus.access.project(await street.agent.store.access.projection())
    assert await street.say(ANN, "say hello") is IntakeOutcome.REFUSED


# --- places


async def test_in_a_group_with_guests_everybody_may_ask_on_the_budget_of_guests(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    limits = LimitSettings(guest=GuestAllowance(turns=1))
    async with a_street(bus, sqlite_store, tmp_path, PAIRING, limits) as street:
        refused = await street.ask(ANN, "say hello", group=GROUP)
        assert refused.startswith("I do not know you yet")
        assert await street.ask(BOSS, "/place guests on", group=GROUP) == "telegram:/-100: guests on."
        assert await street.ask(ANN, "say hello", group=GROUP) == "hello"
        assert "left for today" in await street.ask(ANN, "say more", group=GROUP)
        assert await street.ask(BEN, "say I have my own", group=GROUP) == "I have my own"
        assert await street.ask(BOSS, "say no limit", group=GROUP) == "no limit"
        assert "code" in await street.ask(ANN, "hello?"), "a guest of a group is a stranger elsewhere"


async def test_who_has_a_role_of_the_platform_may_ask_as_a_guest_where_it_counts(street: Street) -> None:
    assert await street.ask(BOSS, "/place roles 7,8", group=GROUP) == "telegram:/-100: roles 7,8."
    said = replace(street.words(ANN, "say hello", group=GROUP), roles=("8", "9"))
    assert await street.door.accept(said) is IntakeOutcome.QUEUED
    assert await street.say(BEN, "say hello", group=GROUP) is IntakeOutcome.REFUSED


async def test_a_place_has_its_own_tools_and_its_own_agent(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> None:
    room = PlaceSetting(audience=Audience.EVERYBODY, tools=("recall", "web_search"), profile="writer")
    access = AccessSettings(default=StrangerRule.OPEN, places={"telegram:-100": room})
    async with a_street(bus, sqlite_store, tmp_path, access) as street:
        await street.ask(ANN, "say one", group=GROUP)
        await street.ask(ANN, "say two", group="-200")
        here, there = (request for request in street.mind.asked if request.tools)
        assert {tool.name for tool in here.tools} <= {"recall", "web_search"}
        assert {tool.name for tool in there.tools} > {"recall"}
        assert "writer" in here.system.lower()
        assert here.system != there.system


async def test_what_holds_in_a_server_holds_in_its_channels_also_for_what_is_said_later_by_nobody(
    street: Street,
) -> None:
    """A schedule and a sub-agent's report do not say to which server their place belongs."""
    await street.ask(BOSS, "/place server tools recall", group="77", realm="55")
    await street.ask(BOSS, "say one", group="77", realm="55")
    await street.ask(BOSS, "say two", group="77")
    first, second = (request for request in street.mind.asked if request.tools)
    assert {tool.name for tool in first.tools} == {tool.name for tool in second.tools} == {"recall"}


async def test_where_nobody_is_heard_the_bot_is_silent_but_for_admins_by_configuration(street: Street) -> None:
    await street.ask(BOSS, "/role telegram:1 admin")
    assert await street.ask(BOSS, "/place nobody", group=GROUP) == "telegram:/-100: nobody."
    assert await street.say(ANN, "say hello", group=GROUP) is IntakeOutcome.REFUSED
    assert await street.ask(ANN, "say hello") == "hello"
    assert await street.ask(BOSS, "/place reset", group=GROUP) == "telegram:/-100: as configured."
    assert await street.ask(ANN, "say here again", group=GROUP) == "here again"


async def test_whom_a_place_is_not_for_is_told_so(street: Street) -> None:
    await street.ask(BOSS, "/role telegram:1 guest")
    await street.ask(BOSS, "/place members", group=GROUP)
    assert (await street.ask(ANN, "say hello", group=GROUP)).startswith("I may not answer you here")


# --- floods


async def test_a_flood_is_cut_off_told_once_and_nobody_else_notices(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    access = AccessSettings(admins=(ADMIN,), default=StrangerRule.OPEN)
    limits = LimitSettings(messages_per_minute=6, messages_burst=2)
    async with a_street(bus, sqlite_store, tmp_path, access, limits) as street:
        outcomes = [await street.say(ANN, f"say {number}") for number in range(30)]
        assert outcomes[:8] == [IntakeOutcome.QUEUED] * 8
        assert outcomes.count(IntakeOutcome.TURNED_AWAY) >= 20
        assert await street.say(ANN, "/stop") is IntakeOutcome.CONTROL, "what stops a flood is never limited"
        assert await street.say(BEN, "say hello") is IntakeOutcome.QUEUED
        assert {await street.say(BOSS, "say hello") for _ in range(15)} == {IntakeOutcome.QUEUED}
        async with asyncio.timeout(PATIENCE_S):
            while not any(reply.text.startswith("hello") for reply in street.agent.replies):
                await street.agent.deliver("telegram")
        told = [reply.text for reply in street.agent.replies if reply.text.startswith("You write faster")]
        assert len(told) == 1, "and not once more because a minute of the clock ends meanwhile"
        assert re.search(r"in \d+ seconds?\.", told[0])


async def test_a_flood_of_commands_is_cut_off_and_everybody_can_still_stop(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    access = AccessSettings(admins=(ADMIN,), default=StrangerRule.OPEN)
    async with a_street(bus, sqlite_store, tmp_path, access) as street:
        outcomes = [await street.say(ANN, "/status") for _ in range(100)]
        assert 10 <= outcomes.count(IntakeOutcome.CONTROL) <= COMMANDS_TAKEN_MAX
        assert await street.say(BEN, "/stop") is IntakeOutcome.CONTROL
        assert await street.say(ANN, "/stop") is IntakeOutcome.CONTROL, "what she may still stop by"
        assert {await street.say(BOSS, "/status") for _ in range(60)} == {IntakeOutcome.CONTROL}
        taken = outcomes.count(IntakeOutcome.CONTROL) + 62
        said = [reply.text for reply in await street.agent.heard(taken + 1)]
        assert len([text for text in said if text.startswith("You give commands faster")]) == 1


async def test_what_is_chosen_or_pressed_too_fast_is_answered_each_time(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    """The platform shows until then that it waits."""
    access, limits = AccessSettings(default=StrangerRule.OPEN), LimitSettings(commands_per_minute=1, commands_burst=0)
    async with a_street(bus, sqlite_store, tmp_path, access, limits) as street:
        assert await street.door.invoke(street.words(ANN, "/status")) is None
        told = [await street.door.invoke(street.words(ANN, "/status")) for _ in range(2)]
        told += [await street.door.press(street.words(ANN, "/approve K7QM2PXA")) for _ in range(2)]
        assert [text is not None and text.startswith("You give commands faster") for text in told] == [True] * 4
        assert await street.door.press(street.words(BEN, "/approve K7QM2PXA")) is None


async def test_an_album_counts_once(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> None:
    access, limits = AccessSettings(default=StrangerRule.OPEN), LimitSettings(messages_per_minute=1, messages_burst=1)
    async with a_street(bus, sqlite_store, tmp_path, access, limits) as street:
        parts = [replace(street.words(ANN, f"part {number}"), album_id="a") for number in range(10)]
        assert {await street.door.accept(part) for part in parts} == {IntakeOutcome.QUEUED}
        assert await street.say(ANN, "one more") is IntakeOutcome.QUEUED
        assert await street.say(ANN, "too many") is IntakeOutcome.TURNED_AWAY


# --- what admins see


async def test_limits_and_queue_are_shown_to_admins(street: Street) -> None:
    await street.ask(BOSS, "/role telegram:1 member")
    await street.ask(ANN, "say hello")
    shown = await street.ask(BOSS, "/limits telegram:1")
    assert "telegram:1 is member here. 20 messages a minute, and 5 more that may come at once." in shown
    assert "telegram:900 is admin here. No limit of messages a minute." in await street.ask(BOSS, "/limits")
    assert "- lanes: 1 running" in await street.ask(BOSS, "/queue")


async def test_limits_are_set_by_chat_and_count_at_once_for_a_person_and_a_role(street: Street) -> None:
    for who in (ANN, BEN):
        await street.ask(BOSS, f"/role telegram:{who} member")
    assert "turns: 0 of 1\n" in f"{await street.ask(BOSS, '/limits telegram:1 turns 1')}\n"
    assert await street.ask(ANN, "say one") == "one"
    assert "left for today" in await street.ask(ANN, "say two")
    assert await street.ask(BEN, "say I have my own") == "I have my own"
    assert await street.ask(BOSS, "/limits member tokens 1") == (
        "Whoever is member here: tokens 1, usd none, turns none, rate 20."
    )
    assert "left for today" in await street.ask(BEN, "say more")
    shown = await street.ask(BOSS, "/limits list")
    assert "- member: tokens 1" in shown
    assert "- telegram:1: turns 1" in shown
    await street.ask(BOSS, "/limits member reset")
    assert await street.ask(BEN, "say once more") == "once more"


async def test_how_fast_somebody_may_write_is_set_by_chat_and_counts_for_the_next_message(street: Street) -> None:
    await street.ask(BOSS, "/role telegram:1 member")
    await street.ask(BOSS, "/limits telegram:1 rate 1")
    outcomes = [await street.say(ANN, f"say {number}") for number in range(8)]
    assert outcomes == [IntakeOutcome.QUEUED] * 6 + [IntakeOutcome.TURNED_AWAY] * 2, (
        "one, and the burst that is configured"
    )
    await street.say(BOSS, "/limits telegram:1 rate none")
    async with asyncio.timeout(PATIENCE_S):
        while await street.say(ANN, "say on") is not IntakeOutcome.QUEUED:
            await street.agent.deliver("telegram")


@pytest.mark.parametrize(
    "wrong", ["telegram:1 tokens lots", "telegram:1 speed 3", "emperor tokens 3", "telegram:900 rate 1"]
)
async def test_limits_that_cannot_be_are_refused_with_what_can(street: Street, wrong: str) -> None:
    assert "`none` lifts a limit" in await street.ask(BOSS, f"/limits {wrong}")
    assert await street.agent.store.access.limit_rules() == {}
