"""Answers that grow on the emulated platforms, with the real SDKs and a real bus: seen early, and in the end whole.

Each test runs in each kind of place: where drafts leave nothing behind, and where a message becomes the answer.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial

import pytest

from channels.core.adapter import MARK
from channels.emulators.slack import SlackEmulator
from channels.emulators.stage import EventKind, Place, StageEvent
from channels.emulators.telegram import TelegramEmulator
from channels.telegram.sending import PLACEHOLDER
from gateway.bus.bus import RedisBus, open_bus
from gateway.contracts.messages import ControlKind
from tests.parts.answering import until_delivered
from tests.parts.growing import Growing, growing, show_at_once
from tests.parts.towns import TOWNS, Town
from tests.parts.waiting import PATIENCE_S, until

WORDS = [f"word{number}" for number in range(1_500)]
LONG = " ".join(WORDS)


@dataclass(frozen=True)
class Scene:
    """A place in a town, and whether answers grow there in a message that stays."""

    town: Town
    place: Place
    leaves_messages: bool

    def growing(self, bus: RedisBus) -> AbstractAsyncContextManager[Growing]:
        """Ann asks, and the turn runs."""
        return growing(self.town, bus, self.place.id, mention_bot=self.place.person_id is None)

    def texts(self) -> list[str]:
        return self.town.texts(self.place)

    def reads(self, words: list[str]) -> bool:
        """Whether exactly that can be read there, over all messages."""
        return " ".join(self.texts()).split() == words

    def seen(self, events: list[StageEvent]) -> list[str]:
        """What could be read there, one after the other."""
        kinds = (EventKind.DRAFT, EventKind.SAID, EventKind.EDITED)
        return [
            event.said.text
            for event in events
            if event.kind in kinds and event.said and event.said.author.is_bot and event.place_id == self.place.id
        ]


SCENES: dict[str, tuple[str, Callable[[Town], Place], bool]] = {
    "telegram-private": ("telegram", lambda town: town.dm(town.ann), False),
    "telegram-group": ("telegram", lambda town: town.group, True),
    "telegram-topic": ("telegram", lambda town: town.thread, True),
    "discord-private": ("discord", lambda town: town.dm(town.ann), True),
    "discord-thread": ("discord", lambda town: town.thread, True),
    "slack-private": ("slack", lambda town: town.dm(town.ann), True),
    "slack-thread": ("slack", lambda town: town.thread, True),
}
pytestmark = pytest.mark.long_on("discord", "slack")


@pytest.fixture(params=SCENES)
async def scene(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    """Each kind of place in turn."""
    async with built(request.param, monkeypatch) as there:
        yield there


@pytest.fixture(params=["telegram-group", "discord-private", "slack-thread"])
async def staying(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    """A place of each platform where answers grow in messages that stay."""
    async with built(request.param, monkeypatch) as there:
        yield there


@contextlib.asynccontextmanager
async def built(name: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    """One of the scenes, where growing costs no time."""
    show_at_once(monkeypatch)
    platform, place, leaves_messages = SCENES[name]
    async with TOWNS[platform]() as town:
        town.stage.faults.other["unlimited"] = 1
        yield Scene(town, place(town), leaves_messages)


async def test_an_answer_grows_and_is_whole_in_the_end(scene: Scene, bus: RedisBus) -> None:
    """Half-open emphasis never shows."""
    town = scene.town
    async with town.watched() as events, town.line(bus), scene.growing(bus) as turn:
        await turn.says("This is the **begin")
        await until(lambda: bool(scene.seen(events)))
        await turn.says("This is the **beginning** of it, which is longer")
        await until(lambda: len(scene.seen(events)) > 1)
        turn.answers("This is the **beginning** of it, which is longer, and the end.")
        await until(lambda: any("the end" in text for text in scene.texts()))
        await until_delivered(bus, town.platform)
    assert len(scene.texts()) == 1
    assert all("begin" in text and "****" not in text for text in scene.seen(events) if text != PLACEHOLDER)
    (answer,) = town.answers(scene.place)
    assert answer.edited == scene.leaves_messages


@pytest.mark.parametrize(
    "scene", ["telegram-group", "telegram-topic", "discord-private", "discord-thread", "slack-private"], indirect=True
)
async def test_a_growing_answer_is_stopped_by_its_button(scene: Scene, bus: RedisBus) -> None:
    """As by the word, in the place where it grows; with the whole answer the button is gone."""
    town = scene.town
    async with town.line(bus), scene.growing(bus) as turn:
        await turn.says("This is the beginning")
        await until(lambda: any(answer.buttons for answer in town.answers(scene.place)))
        (shown,) = town.answers(scene.place)
        assert [button.label for button in shown.buttons] == ["Stop"]
        await town.stage.press_button(town.ann.id, scene.place.id, shown.id, shown.buttons[0].id)
        _, request = await asyncio.wait_for(anext(bus.control.requests("c1")), PATIENCE_S)
        assert (request.kind, request.message.key) == (ControlKind.STOP, turn.message.key)
        turn.answers("This is the beginning and the end.")
        await until(lambda: scene.texts() == ["This is the beginning and the end."])
        await until(lambda: not any(answer.buttons for answer in town.answers(scene.place)))


@pytest.mark.parametrize("scene", ["slack-thread"], indirect=True)
async def test_the_stop_that_slack_itself_shows_stops_the_turn(scene: Scene, bus: RedisBus) -> None:
    """The next words are refused, and that is all we are told."""
    stage = scene.town.stage
    assert isinstance(stage, SlackEmulator)
    async with scene.town.line(bus), scene.growing(bus) as turn:
        await turn.says("This is the beginning")
        await until(lambda: bool(scene.town.answers(scene.place)))
        (shown,) = scene.town.answers(scene.place)
        stage.stop_stream(shown.id, scene.place.id)
        await turn.says("This is the beginning, and there is much more to come")
        _, request = await asyncio.wait_for(anext(bus.control.requests("c1")), PATIENCE_S)
        assert (request.kind, request.message.key) == (ControlKind.STOP, turn.message.key)
        turn.answers("This is the beginning and the end.")
        await until(lambda: scene.texts() == ["This is the beginning and the end."])


async def test_what_is_quick_is_shown_when_it_is_whole(
    scene: Scene, bus: RedisBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    town = scene.town
    async with town.watched() as events, town.line(bus), scene.growing(bus) as turn:
        await turn.says("This is ")
        turn.answers("This is quick.")
        await until(lambda: scene.texts() == ["This is quick."])
    assert scene.seen(events) == ["This is quick."]


async def test_what_goes_beyond_one_message_goes_on_in_the_next(scene: Scene, bus: RedisBus) -> None:
    """Nothing is there twice and nothing is missing, at the end."""
    town = scene.town
    async with town.line(bus), scene.growing(bus) as turn:
        for count in (300, 700, 1_100):
            await turn.says(" ".join(WORDS[:count]))
            if scene.leaves_messages:
                await until(partial(scene.reads, WORDS[:count]))
        turn.answers(LONG)
        await until(lambda: scene.reads(WORDS))
        await until_delivered(bus, town.platform)
    assert scene.reads(WORDS)
    assert max(map(len, scene.texts())) <= town.letters_max


async def test_a_failure_takes_the_place_of_all_that_was_shown(scene: Scene, bus: RedisBus) -> None:
    town = scene.town
    async with town.line(bus), scene.growing(bus) as turn:
        await turn.says(LONG)
        if scene.leaves_messages:
            await until(lambda: len(scene.texts()) > 1)
        turn.answers("Something went wrong.")
        await until(lambda: scene.texts() == ["Something went wrong."])
        await until_delivered(bus, town.platform)
    assert scene.texts() == ["Something went wrong."]


async def test_a_turn_that_begins_anew_shows_the_new_text(staying: Scene, bus: RedisBus) -> None:
    """Also when the first text was longer than a message."""
    town = staying.town
    async with town.line(bus), staying.growing(bus) as turn:
        await turn.says(LONG)
        await until(lambda: len(staying.texts()) > 1)
        await turn.says("On second thought")
        await until(lambda: staying.texts() == ["On second thought"])
        turn.answers("On second thought, no.")
        await until(lambda: staying.texts() == ["On second thought, no."])


async def test_nothing_is_left_of_a_turn_without_an_answer(staying: Scene, bus: RedisBus) -> None:
    """It was stopped, or waits for others."""
    town = staying.town
    async with town.line(bus), staying.growing(bus) as turn:
        await turn.says(LONG)
        await until(lambda: len(staying.texts()) > 1)
        await turn.ends()
        await until(lambda: staying.texts() == [])


@pytest.mark.parametrize("fault", ["drop_after", "drop_before"])
async def test_a_beginning_that_got_lost_is_found_or_sent_once(staying: Scene, bus: RedisBus, fault: str) -> None:
    """The answer is there once, and no half of it beside it."""
    town = staying.town
    async with town.line(bus), staying.growing(bus) as turn:
        setattr(town.stage.faults, fault, 1)
        await turn.says("This is the beginning")
        await until(lambda: getattr(town.stage.faults, fault) == 0)
        turn.answers("This is the beginning and the end.")
        await until(
            lambda: (
                [text.removeprefix(MARK).strip() for text in staying.texts()] == ["This is the beginning and the end."]
            )
        )
        await until_delivered(bus, town.platform)
        await town.stays_silent(1)


async def test_a_message_that_somebody_deleted_is_sent_when_the_answer_is_whole(staying: Scene, bus: RedisBus) -> None:
    town = staying.town
    async with town.line(bus), staying.growing(bus) as turn:
        await turn.says("This is the beginning")
        await until(lambda: len(staying.texts()) == 1)
        (said,) = town.answers(staying.place)
        await town.stage.delete(said.id, staying.place.id)
        await turn.says("This is the beginning of it all")
        turn.answers("This is the end.")
        await until(lambda: staying.texts() == ["This is the end."])
        await until_delivered(bus, town.platform)
        await town.stays_silent(1)


async def test_a_rate_limit_slows_the_draft_and_loses_nothing(scene: Scene, bus: RedisBus) -> None:
    town = scene.town
    town.stage.faults.retry_after_s = 1.0
    async with town.line(bus), scene.growing(bus) as turn:
        town.stage.faults.rate_limit = 1
        await turn.says("This is the beginning")
        await until(lambda: town.stage.faults.rate_limit == 0)
        turn.answers("This is the end.")
        await until(lambda: scene.texts() == ["This is the end."])


async def test_another_process_goes_on_with_what_was_begun(staying: Scene, bus: RedisBus, valkey_url: str) -> None:
    """The first is gone in the middle; nothing is begun twice."""
    town, first = staying.town, await open_bus(valkey_url)
    try:
        async with contextlib.AsyncExitStack() as life:
            await life.enter_async_context(town.line(first))
            async with staying.growing(bus) as turn:
                await turn.says("This is the beginning")
                await until(lambda: len(staying.texts()) == 1)
                (said,) = town.answers(staying.place)
                await life.aclose()
                async with town.line(bus):
                    await turn.says("This is the beginning of something")
                    await until(lambda: staying.texts() == ["This is the beginning of something"])
                    turn.answers("This is the whole.")
                    await until(lambda: staying.texts() == ["This is the whole."])
        (answer,) = town.answers(staying.place)
        assert answer.id == said.id
    finally:
        await first.close()


async def test_where_drafts_are_unknown_private_chats_see_a_message_grow(
    bus: RedisBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Bot API server of one's own may be older."""
    show_at_once(monkeypatch)
    async with TOWNS["telegram"]() as town:
        town.stage.faults.other |= {"no_drafts": 1, "unlimited": 1}
        dm = town.dm(town.ann)
        async with town.line(bus), growing(town, bus, dm.id) as turn:
            await turn.says("This is the beginning")
            await until(lambda: town.texts(dm) == ["This is the beginning"])
            turn.answers("This is the end.")
            await until(lambda: town.texts(dm) == ["This is the end."])


async def test_a_draft_is_gone_when_the_answer_is_there(bus: RedisBus, monkeypatch: pytest.MonkeyPatch) -> None:
    show_at_once(monkeypatch)
    async with TOWNS["telegram"]() as town:
        assert isinstance(town.stage, TelegramEmulator)
        stage, dm = town.stage, town.dm(town.ann)
        async with town.line(bus), growing(town, bus, dm.id) as turn:
            await turn.says("This is the beginning")
            await until(lambda: stage.server.draft(dm.id) is not None)
            assert town.texts(dm) == []
            turn.answers("This is the end.")
            await until(lambda: town.texts(dm) == ["This is the end."])
        assert stage.server.draft(dm.id) is None
