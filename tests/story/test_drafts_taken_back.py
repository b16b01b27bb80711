"""What people saw of an answer that does not come goes at once, on the emulated platforms with the real SDKs.

Nobody here looks for turns that fell silent: what goes, goes because somebody said so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent.models.demo import ScriptedClient
from agent.models.requests import ModelAnswer, ModelEvent, ModelRequest, TextDelta, TokenCount
from agent.runtime import run
from agent.runtime.run import showing
from channels.core import preview
from channels.core.preview import PreviewCleanup
from channels.emulators.stage import Place, Said
from gateway.bus.bus import RedisBus
from gateway.contracts.access import Projection
from gateway.contracts.messages import Reply
from gateway.contracts.ports import Claim
from gateway.contracts.sessions import Role, UsagePurpose
from gateway.store import Store
from tests.parts.agents import AgentProcess, running_agent
from tests.parts.answering import until_queued
from tests.parts.growing import show_at_once
from tests.parts.towns import TOWNS, Town
from tests.parts.waiting import until

LONG_S = 3_600.0
HALF = "About {}, this is the half of what there is to be said,"
WHOLE = HALF + " and that was the rest."


class Hesitating(ScriptedClient):
    """Says the half of its answer to the newest words, and the rest when `may_end` is set. What is said with "crash"
    in it ends there, each time once somebody has `seen` the half."""

    def __init__(self) -> None:
        self.may_end = asyncio.Event()
        self.seen = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if request.purpose is not UsagePurpose.TURN:
            async for event in super().stream(request):
                yield event
            return
        asked = next(message.text for message in reversed(request.messages) if message.role is Role.USER)
        topic = asked.rpartition("</now>")[2].strip().replace("\n\n", " and ")
        said = HALF.format(topic)
        yield TextDelta(said)
        if "crash" in topic:
            await self.seen.wait()
            raise RuntimeError("the test's crash")
        await self.may_end.wait()
        said = WHOLE.format(topic)
        yield TextDelta(said.removeprefix(HALF.format(topic)))
        yield ModelAnswer(said, (), "stop", TokenCount(1, 1), 0.0, request.model)


@dataclass
class Scene:
    """Ann's chat with the bot, in a town with our channel in front."""

    town: Town
    place: Place
    bus: RedisBus
    store: Store
    folder: Path
    model: Hesitating = field(default_factory=Hesitating)

    def agent(self) -> AbstractAsyncContextManager[AgentProcess]:
        """An agent process that hesitates."""
        return running_agent(self.bus, self.store, self.model, self.folder, grace_s=0.0)

    async def say(self, text: str) -> Said:
        """As Ann."""
        return await self.town.stage.say(self.town.ann.id, self.place.id, text)

    async def delete(self, said: Said) -> None:
        """As Ann does with her own."""
        await self.town.stage.delete(said.id, self.place.id)

    async def until_begun(self, topic: str) -> list[str]:
        """Wait until the bot's one message begins to speak of that, as far as the scrubber lets go of it; its id."""
        begins = f"About {topic}, "
        await until(
            lambda: [text[: len(begins)] for text in self.town.texts(self.place)] == [begins],
            lambda: self.town.texts(self.place),
        )
        return [said.id for said in self.town.answers(self.place)]

    async def until_reads(self, *texts: str) -> list[str]:
        """Wait until the bot's messages say just that; their ids."""
        await until(lambda: self.town.texts(self.place) == list(texts), lambda: self.town.texts(self.place))
        return [said.id for said in self.town.answers(self.place)]


@pytest.fixture(params=["discord", "slack"])
async def scene(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> AsyncIterator[Scene]:
    """Where answers grow in messages that stay, and deletions are told of."""
    show_at_once(monkeypatch)
    monkeypatch.setattr(run, "showing", partial(showing, every_s=0.005))
    monkeypatch.setattr(preview, "PreviewCleanup", partial(PreviewCleanup, silent_for_s=LONG_S))
    await bus.access.project(Projection())
    async with TOWNS[request.param]() as town, town.line(bus):
        town.stage.faults.other["unlimited"] = 1
        yield Scene(town, town.dm(town.ann), bus, sqlite_store, tmp_path)


async def test_of_a_message_that_was_deleted_while_it_was_answered(scene: Scene) -> None:
    """And the next one is answered as ever."""
    async with scene.agent():
        regretted = await scene.say("cats")
        await scene.until_begun("cats")
        await scene.delete(regretted)
        await scene.until_reads()
        scene.model.may_end.set()
        await scene.say("dogs")
        await scene.until_reads(WHOLE.format("dogs"))


async def test_of_a_message_that_was_deleted_while_nobody_answered_it(scene: Scene) -> None:
    """The agent is away: whatever began to show the answer, the channel alone is left."""
    async with scene.agent():
        regretted = await scene.say("cats")
        await scene.until_begun("cats")
    await scene.delete(regretted)
    await scene.until_reads()


async def test_of_the_first_of_several_messages(scene: Scene) -> None:
    """The others are another turn, and have an answer of their own."""
    first = await scene.say("cats")
    await scene.say("dogs")
    await until_queued(scene.bus, 2)
    async with scene.agent():
        await scene.until_begun("cats and dogs")
        await scene.delete(first)
        await scene.until_begun("dogs")
        scene.model.may_end.set()
        await scene.until_reads(WHOLE.format("dogs"))


async def test_but_of_a_later_one_the_answer_grows_on(scene: Scene) -> None:
    """In the same message, with other words."""
    await scene.say("cats")
    await until_queued(scene.bus, 1)
    later = await scene.say("dogs")
    await until_queued(scene.bus, 2)
    async with scene.agent():
        begun = await scene.until_begun("cats and dogs")
        await scene.delete(later)
        assert await scene.until_begun("cats") == begun
        scene.model.may_end.set()
        assert await scene.until_reads(WHOLE.format("cats")) == begun


async def test_of_a_message_that_is_given_up(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each try shows the half, and in the end an apology stands there alone."""
    monkeypatch.setattr(run, "RETRY_DELAYS_S", (0.0,))
    async with scene.agent():
        await scene.say("a crash")
        await scene.until_begun("a crash")
        scene.model.seen.set()
        await until(lambda: any("could not answer" in text for text in scene.town.texts(scene.place)))
        await until(lambda: len(scene.town.texts(scene.place)) == 1, lambda: scene.town.texts(scene.place))


async def test_of_a_stopped_turn_whose_worker_died_before_it_could_say_so(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is on record as stopped; whoever finds that out tells the channel."""
    commit, hangs = scene.bus.lanes.commit, asyncio.Event()

    async def hang_once(claim: Claim, *, handled: int, replies: Sequence[Reply] = (), **more: Any) -> bool:
        if hangs.is_set():
            return await commit(claim, handled=handled, replies=replies, **more)
        hangs.set()
        await asyncio.Event().wait()
        return False

    monkeypatch.setattr(scene.bus.lanes, "commit", hang_once)
    async with scene.agent():
        await scene.say("cats")
        await scene.until_begun("cats")
        await scene.say("/stop")
        await scene.until_reads("Stopped.")
