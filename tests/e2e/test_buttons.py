"""Buttons that say commands, on each platform: the real client libraries, a real agent behind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.models.demo import ScriptedClient
from channels.emulators.stage import EventKind, Person, Place, Said
from gateway.bus.bus import RedisBus
from gateway.store import Store
from tests.parts.agents import running_agent
from tests.parts.towns import Town, town
from tests.parts.waiting import until

__all__ = ["town"]


@pytest.fixture
async def lively(town: Town, bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> AsyncIterator[Town]:
    """The town with an agent behind it."""
    async with running_agent(bus, sqlite_store, ScriptedClient(), tmp_path, grace_s=0.1), town.line(bus):
        yield town


async def offered(town: Town, place: Place, words: str) -> Said:
    """The newest answer with these words that has buttons."""

    def found() -> list[Said]:
        return [said for said in town.answers(place) if said.buttons and words in said.text]

    await until(lambda: bool(found()), lambda: town.texts(place))
    return found()[-1]


async def press(town: Town, person: Person, said: Said, label: str) -> None:
    (button,) = (button for button in said.buttons if button.label == label)
    await town.stage.press_button(person.id, said.place_id, said.id, button.id)


def now(town: Town, said: Said) -> Said:
    return next(each for each in town.stage.said(said.place_id) if each.id == said.id)


async def test_only_the_author_tries_again_and_the_button_goes(lively: Town) -> None:
    stage, group = lively.stage, lively.group
    async with lively.watched() as events:

        def told() -> list[str]:
            toasts = [
                each.status for each in events if each.kind is EventKind.TOAST and each.person_id == lively.ben.id
            ]
            return toasts + [said.text for said in stage.said(group.id) if said.only_for == lively.ben.id]

        await stage.say(lively.ann.id, group.id, "fail", mention_bot=True)
        error = await offered(lively, group, "/retry")
        await press(lively, lively.ben, error, "Try again")
        await until(lambda: any("for somebody else" in text for text in told()), told)
        assert now(lively, error).buttons
        await press(lively, lively.ann, error, "Try again")
        await until(lambda: not now(lively, error).buttons)
        await until(lambda: sum("/retry" in text for text in lively.texts(group)) == 2, lambda: lively.texts(group))


@pytest.mark.long
async def test_a_conversation_is_picked_from_the_list(lively: Town) -> None:
    stage, place = lively.stage, lively.dm(lively.ann)
    await stage.say(lively.ann.id, place.id, "/title A long holiday in the mountains")
    await until(lambda: any("now called" in text for text in lively.texts(place)))
    await stage.say(lively.ann.id, place.id, "/new")
    await until(lambda: any("has begun" in text for text in lively.texts(place)))
    await stage.say(lively.ann.id, place.id, "/sessions")
    listed = await offered(lively, place, "Your conversations")
    await press(lively, lively.ann, listed, "1. A long holiday in the mountains")
    await until(lambda: any("Back in conversation 1" in text for text in lively.texts(place)))
    await until(lambda: not now(lively, listed).buttons)
