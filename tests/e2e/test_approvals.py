"""An approval is pressed on each platform: the real client libraries before emulated platforms, a real agent behind."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.models.demo import ScriptedClient
from channels.emulators.discord import DiscordEmulator
from channels.emulators.slack import SlackEmulator
from channels.emulators.stage import EventKind, Person, Place, Said, StageEvent
from channels.emulators.telegram import TelegramEmulator
from gateway.bus.bus import RedisBus
from gateway.config.tools import ToolSettings
from gateway.contracts.access import Rate
from gateway.contracts.ids import WORKSPACES, SessionKey
from gateway.contracts.messages import ControlKind
from gateway.store import Store
from tests.parts.agents import running_agent
from tests.parts.bus_samples import control
from tests.parts.towns import OPEN, Town, town
from tests.parts.waiting import until

__all__ = ["town"]

BUTTONS = ["Approve", "Deny", "For this turn", "Always in this place"]
WRITE = 'tool file_write {"path": "note.txt", "content": "hello"}'


@pytest.fixture
async def lively(town: Town, bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> AsyncIterator[Town]:
    """The town with an agent behind it, of which Ann is an admin."""
    async with at_work(town, bus, sqlite_store, tmp_path), town.line(bus):
        yield town


@contextlib.asynccontextmanager
async def at_work(
    town: Town, bus: RedisBus, store: Store, tmp_path: Path, *, approval_ttl_s: int = 900
) -> AsyncIterator[None]:
    async with running_agent(
        bus,
        store,
        ScriptedClient(),
        tmp_path,
        admins=(SessionKey(town.platform, town.ann.id),),
        tools=ToolSettings(approval_ttl_s=approval_ttl_s),
        grace_s=0.1,
    ):
        yield


def notes(tmp_path: Path) -> list[Path]:
    """What the tool wrote, in whatever workspace."""
    return sorted((tmp_path / WORKSPACES).glob("*/files/note.txt"))


async def asked(town: Town, place: Place) -> Said:
    """The question, with the buttons of an admin."""
    await until(lambda: any(said.buttons for said in town.answers(place)), lambda: town.texts(place))
    (question,) = (said for said in town.answers(place) if said.buttons)
    assert [button.label for button in question.buttons] == BUTTONS
    return question


async def press(town: Town, person: Person, question: Said, label: str) -> None:
    """Press a button as that person."""
    (button,) = (button for button in question.buttons if button.label == label)
    await town.stage.press_button(person.id, question.place_id, question.id, button.id)


def now(town: Town, question: Said) -> Said:
    """The question as it is now."""
    return next(said for said in town.stage.said(question.place_id) if said.id == question.id)


def plain(said: Said) -> str:
    """Its words, whatever the platform calls a person."""
    return said.text.replace("*", "").lower()


def whispers(town: Town, person: Person, place_id: str, events: list[StageEvent]) -> list[str]:
    """What only that person saw."""
    toasts = [event.status for event in events if event.kind is EventKind.TOAST and event.person_id == person.id]
    return toasts + [said.text for said in town.stage.said(place_id) if said.only_for == person.id]


async def test_an_approval_is_pressed_and_the_tool_runs(lively: Town, tmp_path: Path) -> None:
    """The buttons vanish, the message says who approved, the answer comes."""
    place = lively.dm(lively.ann)
    await lively.stage.say(lively.ann.id, place.id, WRITE)
    question = await asked(lively, place)
    assert "file_write" in question.text
    assert notes(tmp_path) == []
    await press(lively, lively.ann, question, "Approve")
    await until(lambda: not now(lively, question).buttons)
    assert "approved by ann" in plain(now(lively, question))
    await until(lambda: any("wrote" in text.lower() for text in lively.texts(place)), lambda: lively.texts(place))
    assert [note.read_text() for note in notes(tmp_path)] == ["hello"]


@pytest.mark.long_on("discord", "slack")
async def test_what_is_always_approved_in_a_place_is_asked_about_again_once_that_is_taken_back(
    lively: Town, tmp_path: Path
) -> None:
    place = lively.dm(lively.ann)
    await lively.stage.say(lively.ann.id, place.id, WRITE)
    question = await asked(lively, place)
    await press(lively, lively.ann, question, "Always in this place")
    await until(lambda: "approved for good in that place by ann" in plain(now(lively, question)))
    await until(lambda: notes(tmp_path))
    for note in notes(tmp_path):
        note.unlink()
    await lively.stage.say(lively.ann.id, place.id, WRITE)
    await until(lambda: notes(tmp_path))
    await lively.stage.say(lively.ann.id, place.id, "/place ask file_write")
    await until(lambda: any("as configured" in text for text in lively.texts(place)), lambda: lively.texts(place))
    await lively.stage.say(lively.ann.id, place.id, WRITE)
    await asked(lively, place)


@pytest.mark.long_on("discord", "slack")
async def test_a_denial_is_pressed_in_a_group_where_others_only_look_on(lively: Town, tmp_path: Path) -> None:
    """Who pressed is known from the platform: another person is told so, in private, and changes nothing."""
    async with lively.watched() as events:
        await lively.stage.say(lively.ann.id, lively.group.id, WRITE, mention_bot=True)
        await until(lambda: any(said.buttons for said in lively.answers()), lambda: lively.texts())
        question = next(said for said in lively.answers() if said.buttons)
        await press(lively, lively.ben, question, "Approve")
        await until(lambda: whispers(lively, lively.ben, question.place_id, events))
        assert "can answer this" in whispers(lively, lively.ben, question.place_id, events)[0]
        assert now(lively, question).buttons
        await press(lively, lively.ann, question, "Deny")
        await until(lambda: "denied by ann" in plain(now(lively, question)))
        await until(lambda: any("not approved" in text for text in lively.texts()))
        assert whispers(lively, lively.ann, question.place_id, events) == []
    assert notes(tmp_path) == []


async def test_a_press_is_acknowledged_however_often_and_whatever_it_says(lively: Town, tmp_path: Path) -> None:
    """Double presses, presses that come twice, buttons of another age: nobody's client waits in vain."""
    stage, place = lively.stage, lively.dm(lively.ann)
    async with lively.watched() as events:
        await stage.say(lively.ann.id, place.id, WRITE)
        question = await asked(lively, place)
        approve, deny, *_ = (button.id for button in question.buttons)
        presses = (approve, approve, deny, "something else", "/new", "\U0001f389")
        acknowledged = [raw_press(lively, question, button) for button in presses]
        await until(lambda: all(is_acknowledged() for is_acknowledged in acknowledged))
        await until(lambda: not now(lively, question).buttons)
        await until(lambda: any("in use" in text for text in whispers(lively, lively.ann, place.id, events)))
    await until(lambda: notes(tmp_path))
    assert len(notes(tmp_path)) == 1
    assert await lively_answer(lively, place)


@pytest.mark.long_on("discord", "slack")
async def test_whoever_presses_too_fast_is_told_and_can_press_again(
    town: Town, bus: RedisBus, sqlite_store: Store, tmp_path: Path, raw_redis: Any
) -> None:
    """The question stays open meanwhile, and nobody's client waits in vain."""
    rate, ann = Rate(per_minute=1), SessionKey(town.platform, town.ann.id)
    rules = replace(OPEN, command_rate_of=lambda role: rate)
    async with at_work(town, bus, sqlite_store, tmp_path), town.line(bus, rules), town.watched() as events:
        place = town.dm(town.ann)
        await town.stage.say(town.ann.id, place.id, WRITE)
        question = await asked(town, place)
        await bus.intake.request_control(replace(control(1, ann, ControlKind.PRESS), is_press=True), rate=rate)
        is_acknowledged = raw_press(town, question, question.buttons[0].id)
        await until(lambda: any("faster than I may" in text for text in whispers(town, town.ann, place.id, events)))
        await until(is_acknowledged)
        assert now(town, question).buttons
        raw_redis.delete(*raw_redis.keys("*pace:*"))  # as when the minute is over
        await press(town, town.ann, question, "Approve")
        await until(lambda: "approved by ann" in plain(now(town, question)))
        await until(lambda: notes(tmp_path))


async def lively_answer(town: Town, place: Place) -> bool:
    """Whoever was pressed so much still answers."""
    await town.stage.say(town.ann.id, place.id, "say still here")
    await until(lambda: any("still here" in text for text in town.texts(place)))
    return True


def raw_press(town: Town, question: Said, button_id: str) -> Callable[[], bool]:
    """Press what the message may not show: a client can send anything. Whether the press was acknowledged."""
    match town.stage:
        case TelegramEmulator() as telegram:
            telegram.press(town.ann.id, question.place_id, question.id, button_id)
            return lambda: not telegram.unanswered_presses
        case DiscordEmulator() as discord:
            asked = discord.interactions.press(town.ann.id, question.id, question.place_id, button_id)
            return lambda: asked.is_answered
        case SlackEmulator() as slack:
            shown = {button.id: button for button in question.buttons}
            value = f"/{shown[button_id].label.lower()} {code_of(question)}" if button_id in shown else button_id
            return slack.press(town.ann.id, question.id, question.place_id, button_id, value).answered.is_set
        case _:
            raise AssertionError(f"nobody knows how a client of {town.stage.platform} sends what it likes")


def code_of(question: Said) -> str:
    """The code that stands under the question."""
    return question.text.partition("/approve ")[2].split()[0].strip("`.")


@pytest.mark.long_on("discord", "slack")
async def test_the_code_can_be_said_and_a_question_that_nobody_answers_loses_its_buttons(
    town: Town, bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    place = town.dm(town.ann)
    async with at_work(town, bus, sqlite_store, tmp_path, approval_ttl_s=2), town.line(bus):
        await town.stage.say(town.ann.id, place.id, WRITE)
        question = await asked(town, place)
        await town.stage.say(town.ann.id, place.id, f"/approve {code_of(question)}")
        await until(lambda: notes(tmp_path))
        await until(lambda: not now(town, question).buttons)
        await town.stage.say(town.ann.id, place.id, WRITE)
        again = await asked(town, place)
        await until(lambda: not now(town, again).buttons)
        assert "nobody answered in time" in plain(now(town, again))
        await until(lambda: any("nobody approved" in text for text in town.texts(place)))
