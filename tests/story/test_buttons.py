"""Buttons that say commands: once, for one person, whoever presses what when. On a real bus and real databases."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.models.requests import ModelEvent, ModelRequest
from gateway.bus.bus import RedisBus
from gateway.config.access import AccessSettings
from gateway.contracts.access import Audience, PlaceRule, Projection, StrangerRule
from gateway.contracts.errors import ModelError
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import Button, ControlKind, ControlRequest, Reply, ReplyKind
from gateway.contracts.ports import Verdict
from gateway.contracts.sessions import Grant, GrantRole, UsagePurpose
from gateway.store import Store
from tests.parts.agents import AgentProcess, message, running_agent
from tests.parts.keepers import pairing
from tests.parts.minds import Mind

ANN, BOB = "telegram:1", "telegram:2"
ANN_THERE = "telegram:1/-100"


class Moody(Mind):
    """Fails as long as it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.is_down = False

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        async for event in super().stream(request):
            if self.is_down and request.purpose is UsagePurpose.TURN:
                raise ModelError("told to be down")
            yield event


@pytest.fixture
def mind() -> Moody:
    return Moody()


@pytest.fixture
async def agent(bus: RedisBus, sqlite_store: Store, tmp_path: Path, mind: Moody) -> AsyncIterator[AgentProcess]:
    async with running_agent(bus, sqlite_store, mind, tmp_path) as process:
        yield process


async def failed(agent: AgentProcess, mind: Moody, key: str = ANN, text: str = "please") -> Reply:
    """The error that somebody gets."""
    mind.is_down = True
    await agent.ask(text, key)
    mind.is_down = False
    error = agent.replies[-1]
    assert error.kind is ReplyKind.ERROR
    return error


def behind(reply: Reply, number: int = 0) -> str:
    """What the platform sends back when that button is pressed."""
    return reply.choices[number].command


async def test_a_failed_turn_is_tried_again_with_a_button_that_goes(agent: AgentProcess, mind: Moody) -> None:
    error = await failed(agent, mind)
    assert [choice.label for choice in error.choices] == ["Try again"]
    assert await agent.press(behind(error), ANN) == ""
    changed, answer = (await agent.heard(3))[1:]
    assert (changed.amends, changed.choices) == (error.id, ())
    assert changed.text == f"{error.text}\n\n**Try again**, chosen by Someone."
    assert answer.kind is ReplyKind.ANSWER
    assert (await agent.transcript())[-1] == answer.text


async def test_the_platform_is_given_nothing_but_a_token(agent: AgentProcess, mind: Moody) -> None:
    """Telegram takes 64 bytes; of what is behind a button none of them tells anything."""
    error = await failed(agent, mind)
    command, token = behind(error).split()
    assert command == "/press"
    assert len(token) == 27
    assert len(behind(error).encode()) <= 64
    assert error.turn_id not in token


async def test_a_strangers_press_does_nothing_and_only_he_is_told(agent: AgentProcess, mind: Moody) -> None:
    error = await failed(agent, mind)
    assert await agent.press(behind(error), BOB) == "This button is for somebody else."
    assert agent.replies == [error]
    assert await agent.press(behind(error), ANN) == ""
    assert len(await agent.heard(3)) == 3


async def test_in_a_group_another_member_cannot_retry_what_one_asked(agent: AgentProcess, mind: Moody) -> None:
    error = await failed(agent, mind, ANN_THERE)
    assert await agent.press(behind(error), BOB) == "This button is for somebody else."
    assert await agent.press(behind(error), ANN) == "", "the press comes from the person, not from the place"
    _, answer = (await agent.heard(3))[1:]
    assert answer.key == SessionKey.parse(ANN_THERE)
    assert answer.address == error.address


@pytest.mark.parametrize(
    "closed",
    [
        Projection(1, [Grant(SessionKey.parse(ANN), GrantRole.BLOCKED, "operator", 1)]),
        Projection(1, places={SessionKey("telegram", "", ("-100",)): PlaceRule(Audience.NOBODY)}),
    ],
    ids=["person", "place"],
)
async def test_who_is_not_heard_there_any_more_presses_in_vain(
    agent: AgentProcess, mind: Moody, bus: RedisBus, closed: Projection
) -> None:
    """The button was offered before, and is not used up: who is let in again may press it."""
    error = await failed(agent, mind, ANN_THERE)
    await bus.access.project(closed)
    assert await agent.press(behind(error), ANN) == "I do not listen to you here any more."
    assert agent.replies == [error]
    await bus.access.project(Projection(2))
    assert await agent.press(behind(error), ANN) == ""
    assert (await agent.heard(3))[-1].kind is ReplyKind.ANSWER


async def test_a_double_tap_counts_once(agent: AgentProcess, mind: Moody) -> None:
    error = await failed(agent, mind)
    told = await asyncio.gather(*(agent.press(behind(error), ANN) for _ in range(4)))
    assert sorted(map(str, told)) == sorted(["", *["One of these buttons was pressed already."] * 3])
    await agent.heard(3)
    await agent.ask("and now?")
    assert len(agent.replies) == 4


async def test_taps_that_two_processes_hear_at_once_count_once(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path, mind: Moody
) -> None:
    async with (
        running_agent(bus, sqlite_store, mind, tmp_path / "one") as agent,
        running_agent(bus, sqlite_store, mind, tmp_path / "two"),
    ):
        error = await failed(agent, mind)
        told = await asyncio.gather(*(agent.press(behind(error), ANN) for _ in range(8)))
        assert sorted(map(str, told)) == sorted(["", *["One of these buttons was pressed already."] * 7])
        await agent.heard(3)
        await agent.ask("and now?")
        assert len(agent.replies) == 4


async def test_a_press_that_comes_again_counts_once(agent: AgentProcess, mind: Moody) -> None:
    error = await failed(agent, mind)
    press = message(behind(error), ANN)
    request = ControlRequest(ControlKind.PRESS, press, is_press=True)
    assert (await agent.bus.intake.request_control(request)).verdict is Verdict.ACCEPTED
    assert (await agent.bus.intake.request_control(request)).verdict is Verdict.DUPLICATE
    await agent.heard(3)
    await agent.ask("and now?")
    assert len(agent.replies) == 4


async def test_an_old_button_says_that_it_is_old_and_goes(agent: AgentProcess, sqlite_store: Store) -> None:
    error = message("", ANN)
    reply = Reply("late", "", error.key, error.address, error.text, ReplyKind.NOTICE, 1_000)
    button = Button(
        "A" * 27, "late", "late", error.text, error.text, error.key, error.key, error.address, True, (), "", 2_000
    )
    await sqlite_store.buttons.offer(reply, [button])
    assert await agent.press(f"/press {button.token}") == "This button is too old. Write the command instead."
    assert [changed.amends for changed in await agent.heard(1)] == ["late"]


async def test_a_made_up_token_opens_nothing(agent: AgentProcess) -> None:
    for data in ("/press", "/press x", f"/press {'A' * 27}", "/press ' OR 1=1"):
        assert await agent.press(data) == "This button is no longer in use."


async def test_a_retry_whose_conversation_went_on_does_nothing(agent: AgentProcess, mind: Moody) -> None:
    error = await failed(agent, mind)
    await agent.ask("never mind, what is the time?")
    before = await agent.transcript()
    assert await agent.press(behind(error)) == ""
    said = [reply.text for reply in await agent.heard(4)]
    assert "This conversation has gone on since then. /retry answers its last message." in said
    assert await agent.transcript() == before


async def test_an_old_retry_after_a_new_conversation_began_does_nothing(agent: AgentProcess, mind: Moody) -> None:
    error = await failed(agent, mind)
    await agent.ask("/new")
    assert await agent.press(behind(error)) == ""
    said = [reply.text for reply in await agent.heard(4)]
    assert "This conversation has gone on since then. /retry answers its last message." in said
    assert await agent.transcript() == []


async def chosen_and_answered(agent: AgentProcess) -> tuple[Reply, Reply]:
    """What the list becomes once somebody chose from it, and what follows. Either may arrive first: the turn that
    answers does not wait for the list."""
    one, other = (await agent.heard(len(agent.replies) + 2))[-2:]
    return (one, other) if "chosen by" in one.text else (other, one)


async def test_conversations_are_picked_from_their_list_page_by_page(agent: AgentProcess) -> None:
    for number in range(12):
        await agent.ask(f"/title number {number}")
        await agent.ask("/new")
    await agent.ask("/sessions")
    first = agent.replies[-1]
    labels = [choice.label for choice in first.choices]
    assert labels[0] == "12. number 11"
    assert labels[-1] == "Older ones"
    assert "/resume NUMBER" in first.text, "where there are no buttons the words are there"
    listed = re.findall(r"^\W*(\d+)\W+number (\d+)", first.text, re.MULTILINE)
    assert listed[:2] == [("12", "11"), ("11", "10")], "as they are numbered for /resume"
    await agent.press(behind(first, -1))
    _, older = await chosen_and_answered(agent)
    assert [choice.label for choice in older.choices] == ["3. number 2", "2. number 1", "1. number 0"]
    await agent.press(behind(older, 1))
    changed, back = await chosen_and_answered(agent)
    assert changed.text.endswith("**2. number 1**, chosen by Someone.")
    assert "number 1" in back.text
    assert await agent.press(behind(older, 0)) == "One of these buttons was pressed already."


async def test_a_press_is_taken_while_every_worker_is_busy(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> None:
    mind = Moody()
    async with running_agent(bus, sqlite_store, mind, tmp_path, concurrency=1) as agent:
        error = await failed(agent, mind)
        gate = mind.hold()
        await agent.say("something long", BOB)
        await mind.until_asked(2)
        assert await agent.press(behind(error)) == ""
        gate.set()
        assert len(await agent.heard(4)) == 4


async def test_whoever_dies_between_redeeming_and_saying_it_has_it_said_by_the_next(
    agent: AgentProcess, mind: Moody, sqlite_store: Store
) -> None:
    """The button is used up, and nothing else happened: the press is still on the control lane."""
    error = await failed(agent, mind)
    press = message(behind(error), ANN)
    await sqlite_store.buttons.redeem(behind(error).split()[1], press_id=press.id, now_ms=error.created_at_ms)
    await agent.bus.intake.request_control(ControlRequest(ControlKind.PRESS, press, is_press=True))
    changed, answer = (await agent.heard(3))[1:]
    assert (changed.amends, answer.kind) == (error.id, ReplyKind.ANSWER)


@pytest.mark.parametrize("named", [(), (ANN, BOB, "telegram:9")])
async def test_admins_are_told_of_a_stranger_and_the_first_who_presses_decides(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path, named: tuple[str, ...]
) -> None:
    """Where each wrote last; who never wrote cannot be told. The buttons of the other go, too. All admins are told
    where the configuration names none for it, those whom others made admins among them."""
    await sqlite_store.access.put_grant(Grant(SessionKey.parse(BOB), GrantRole.ADMIN, "cli", 1))
    admins = tuple(map(SessionKey.parse, (ANN, "telegram:9")))
    notify = tuple(map(SessionKey.parse, named))
    access = AccessSettings(admins=admins, notify=notify, default=StrangerRule.OPEN)
    async with running_agent(bus, sqlite_store, Moody(), tmp_path, access=access) as agent:
        await agent.ask("/help", ANN)
        await agent.ask("/help", BOB)
        stranger = SessionKey.parse("telegram:77")
        await bus.access.ask_pairing(pairing(stranger, "ABCD2345"), ttl_s=3600, pending_max=3)
        told = sorted((await agent.heard(4))[2:], key=lambda reply: str(reply.key))
        assert [str(reply.key) for reply in told] == [ANN, BOB]
        assert [choice.label for choice in told[0].choices] == ["Let in", "Refuse"]
        assert "`/pair ABCD2345`" in told[0].text
        assert await agent.press(behind(told[0]), ANN) == ""
        said = await agent.heard(8)
        assert {reply.amends for reply in said if reply.amends} == {each.id for each in told}
        assert await agent.press(behind(told[1], 1), BOB) == "One of these buttons was pressed already."
        _, decided = await sqlite_store.access.grants()
        assert (decided.key, decided.granted_by) == (stranger, ANN)
