"""/stop, /status and /where: never behind work, and true when they are answered. On a real bus and real databases."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from agent.models.demo import ScriptedClient
from agent.models.requests import ModelAnswer, ModelEvent, ModelRequest, RequestedCall, TokenCount
from agent.runtime.run import TurnRun
from gateway.bus.bus import RedisBus
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import ControlKind, Reply
from gateway.contracts.ports import Claim
from gateway.contracts.sessions import Committed, TurnCommit, UsagePurpose
from gateway.store import Store
from tests.parts.agents import AgentProcess, running_agent
from tests.parts.minds import Mind
from tests.parts.waiting import until

SEED = 20_261_122


@pytest.fixture
def mind() -> Mind:
    return Mind()


@pytest.fixture
async def agent(bus: RedisBus, store: Store, tmp_path: Path, mind: Mind) -> AsyncIterator[AgentProcess]:
    async with running_agent(bus, store, mind, tmp_path) as process:
        yield process


class Restless(ScriptedClient):
    """A model that asks for one tool after another, and then thinks for ever; answers only what begins with `say`."""

    def __init__(self) -> None:
        self.calls: dict[str, int] = {}

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Every call is counted under the first word of the newest request."""
        said = [message.text.rpartition("</now>")[2].strip() for message in request.messages if not message.tool_calls]
        word = next((text.split()[0] for text in reversed(said) if text.startswith("work-")), "")
        if request.purpose is UsagePurpose.TURN and word and not said[-1].startswith("say"):
            self.calls[word] = self.calls.get(word, 0) + 1
            if self.calls[word] > 20:  # a few more, and the conversation would be condensed: the word would be gone
                await asyncio.Event().wait()
            await asyncio.sleep(0.001)
            call = RequestedCall(f"call-{self.calls[word]}", "todo_read", "{}")
            yield ModelAnswer("", (call,), "tool_calls", TokenCount(1, 1), 0.0, request.model)
            return
        async for event in super().stream(request):
            yield event


async def test_a_stop_never_waits_for_work(bus: RedisBus, store: Store, tmp_path: Path, mind: Mind) -> None:
    """Every place of the worker is taken and many wait; whoever says /stop is answered while nothing else ends."""
    people = [f"telegram:{number}" for number in range(1, 61)]
    mind.hold()
    took_s: list[float] = []
    async with running_agent(bus, store, mind, tmp_path, concurrency=20) as agent:
        for person in people:
            await agent.say("think for ever", person)
        await mind.until_asked(20)
        for number, person in enumerate(people, 1):
            began_s = time.monotonic()
            await agent.control(ControlKind.STOP, person)
            replies = await agent.heard(number)
            took_s.append(time.monotonic() - began_s)
            assert (replies[-1].key, replies[-1].text[:7]) == (SessionKey.parse(person), "Stopped")
    print(f"{len(people)} stops, 20 of 20 places taken: slowest {max(took_s) * 1000:.0f} ms")


async def test_after_the_acknowledgement_the_turn_does_nothing_more(
    bus: RedisBus, store: Store, tmp_path: Path
) -> None:
    """Stopped at random moments, again and again, by many people at once: no model is called for a stopped turn
    after its user has read "Stopped", no answer of it comes, and the next message is always answered."""
    chance = random.Random(SEED)
    restless = Restless()
    people = [f"telegram:{number}" for number in range(1, 9)]

    async def one_life(agent: AgentProcess, person: str, number: int) -> None:
        word = f"work-{person.partition(':')[2]}-{number}"
        await agent.say(word, person)
        calls = chance.randrange(6)
        await until(lambda: restless.calls.get(word, 0) >= calls)
        await asyncio.sleep(chance.random() * 0.01)
        await agent.control(ControlKind.STOP, person)
        mine = SessionKey.parse(person)
        await until(lambda: sum(reply.key == mine for reply in agent.replies) == 2 * number + 1)
        counted[word] = restless.calls.get(word, 0)
        await agent.say(f"say after {word}", person)
        await until(lambda: any(reply.text.startswith(f"after {word}") for reply in agent.replies))

    counted: dict[str, int] = {}
    async with running_agent(bus, store, restless, tmp_path, tool_rounds_max=0) as agent:
        hearing = asyncio.create_task(agent.hear())
        for number in range(10):
            await asyncio.gather(*(one_life(agent, person, number) for person in people))
        hearing.cancel()
        await asyncio.gather(hearing, return_exceptions=True)
    assert {word: restless.calls.get(word, 0) for word in counted} == counted
    assert sum(restless.calls.values()) > len(people)
    texts = [reply.text for reply in agent.replies]
    assert len([text for text in texts if text.startswith("after work-")]) == 10 * len(people)
    assert len(texts) == 2 * 10 * len(people)


async def test_a_call_that_ignores_its_cancellation_holds_nobody_up(
    bus: RedisBus, store: Store, tmp_path: Path
) -> None:
    """The stop is acknowledged and the next message answered while the deaf call still hangs."""
    hangs, may_end = asyncio.Event(), asyncio.Event()

    class Deaf(ScriptedClient):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            if request.purpose is UsagePurpose.TURN and "deaf" in request.messages[-1].text:
                hangs.set()
                while not may_end.is_set():
                    try:
                        await may_end.wait()
                    except asyncio.CancelledError:
                        continue
            async for event in super().stream(request):
                yield event

    async with running_agent(bus, store, Deaf(), tmp_path) as agent:
        await agent.say("deaf to the world")
        await hangs.wait()
        await agent.control(ControlKind.STOP)
        assert (await agent.heard(1))[0].text == "Stopped."
        assert "You said: next" in await agent.ask("next")
        may_end.set()
        assert "You said: and then" in await agent.ask("and then")
    assert len(agent.replies) == 3


async def test_a_worker_that_does_not_react_loses_the_turn(
    agent: AgentProcess, mind: Mind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is paused, or cut off: the lane is taken from it, what it still brings is refused, and it calls nobody."""
    monkeypatch.setattr(TurnRun, "cancel", lambda _run, _kind: None)
    gate = mind.hold()
    await agent.say("tool todo_read {}")
    await mind.until_asked(1)
    await agent.control(ControlKind.STOP)
    assert (await agent.heard(1))[0].text == "Stopped."
    gate.set()
    answer = await agent.ask("history")
    assert len(agent.replies) == 2
    assert mind.heard() == ["tool todo_read {}", "history"]
    assert "I can see 2" in answer
    assert (await agent.transcript())[1] == "(Stopped by the user before an answer was given.)"
    assert len(mind.asked) == 2


async def test_an_answer_that_was_being_committed_comes_before_the_acknowledgement(
    agent: AgentProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stop that comes so late changes nothing; but nothing follows its acknowledgement either."""
    commit_turn = agent.store.turns.commit
    may_commit = asyncio.Event()
    commits = asyncio.Event()

    async def slow_commit(commit: TurnCommit) -> Committed:
        commits.set()
        await may_commit.wait()
        return await commit_turn(commit)

    monkeypatch.setattr(agent.store.turns, "commit", slow_commit)
    await agent.say("hello")
    await commits.wait()
    await agent.control(ControlKind.STOP)
    may_commit.set()
    texts = [reply.text for reply in await agent.heard(2)]
    assert [text.split()[0] for text in texts] == ["You", "Stopped."]
    monkeypatch.undo()
    assert "You said: next" in await agent.ask("next")
    assert len(agent.replies) == 3


async def test_sub_agents_are_asked_to_end_while_the_turn_does(
    agent: AgentProcess, mind: Mind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither waits for the other: here each begins only when the other has begun, too."""
    asked, looked = asyncio.Event(), asyncio.Event()
    ask, is_in_work = agent.store.tasks.want_cancelled, agent.bus.lanes.is_in_work

    async def asking(key: SessionKey, *, task_ids: Sequence[str] | None = None) -> int:
        asked.set()
        await looked.wait()
        return await ask(key, task_ids=task_ids)

    async def looking(key: SessionKey, fence: int) -> bool:
        looked.set()
        await asked.wait()
        return await is_in_work(key, fence)

    mind.hold()
    await agent.say("think for ever")
    await mind.until_asked(1)
    monkeypatch.setattr(agent.store.tasks, "want_cancelled", asking)
    monkeypatch.setattr(agent.bus.lanes, "is_in_work", looking)
    await agent.control(ControlKind.STOP)
    assert (await agent.heard(1))[0].text == "Stopped."


async def test_an_answer_whose_worker_died_in_mid_commit_comes_before_the_acknowledgement(
    agent: AgentProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was in SQL and never on the bus: whoever acknowledges the stop publishes it first, once."""
    commit = agent.bus.lanes.commit
    commits = asyncio.Event()

    async def never(claim: Claim, *, handled: int, replies: tuple[Reply, ...] = (), **more: Any) -> bool:
        if commits.is_set():
            return await commit(claim, handled=handled, replies=replies, **more)
        commits.set()
        await asyncio.Event().wait()
        return False

    monkeypatch.setattr(agent.bus.lanes, "commit", never)
    await agent.say("hello")
    await commits.wait()
    await agent.control(ControlKind.STOP)
    texts = [reply.text for reply in await agent.heard(2)]
    assert [text.split()[0] for text in texts] == ["You", "Stopped."]
    assert "You said: next" in await agent.ask("next")
    assert len(agent.replies) == 3


async def test_a_stop_takes_along_all_that_was_claimed(agent: AgentProcess, mind: Mind) -> None:
    """Also a command and what waits behind it, in the same claim as the turn that is stopped."""
    gate = mind.hold()

    def hold_the_second() -> None:
        if len(mind.asked) == 2:
            mind.hold()

    mind.think = hold_the_second
    await agent.say("first")
    await mind.until_asked(1)
    for text in ("second", "/title never", "third"):
        await agent.say(text)
    gate.set()
    await agent.heard(1)
    await mind.until_asked(2)
    await agent.control(ControlKind.STOP)
    assert (await agent.heard(2))[1].text.startswith("Stopped.")
    mind.hold().set()
    assert "I can see 3" in await agent.ask("history")
    session = await agent.store.sessions.current(SessionKey.parse("telegram:1"))
    assert session is not None
    assert session.title != "never"
    assert len(agent.replies) == 3


async def test_what_a_stopped_turn_did_stays_on_record(agent: AgentProcess, mind: Mind) -> None:
    """Its tools ran and its calls were paid for; the transcript and the sums say so."""

    def hold_the_second() -> None:
        if len(mind.asked) == 2:
            mind.hold()

    mind.think = hold_the_second
    await agent.say("todo water the plants")
    await mind.until_asked(2)
    await agent.control(ControlKind.STOP)
    await agent.heard(1)
    said = await agent.transcript()
    assert len(said) == 4
    assert "water the plants" in said[2]
    assert said[3] == "(Stopped by the user before an answer was given.)"
    session = await agent.store.sessions.current(SessionKey.parse("telegram:1"))
    assert session is not None
    assert session.tokens > 0


async def test_the_title_of_a_stopped_turn_is_not_made(bus: RedisBus, store: Store, tmp_path: Path) -> None:
    """The titler runs beside the turn, and counts as a model call of it."""
    titles: list[str] = []
    begun = asyncio.Event()

    class Slow(ScriptedClient):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            if request.purpose is UsagePurpose.TITLE:
                begun.set()
            await asyncio.sleep(60)
            titles.append(request.purpose)
            async for event in super().stream(request):
                yield event

    async with running_agent(bus, store, Slow(), tmp_path) as agent:
        await agent.say("plan a trip to Rome")
        await begun.wait()
        await agent.control(ControlKind.STOP)
        await agent.heard(1)
        assert [task for task in asyncio.all_tasks() if "Titler.title" in repr(task)] == []
    assert titles == []


async def test_where_tells_what_waits_what_is_in_work_and_what_arrived(agent: AgentProcess, mind: Mind) -> None:
    assert "You said: hello" in await agent.ask("hello")
    mind.hold()
    await agent.say("slow")
    await mind.until_asked(2)
    await agent.say("later")
    await agent.control(ControlKind.WHERE)
    where = (await agent.heard(2))[1].text
    assert where.startswith("In work for 0 s. 1 message waiting.")
    assert where.count("UTC: ") == 1
    await agent.control(ControlKind.STOP)
    await agent.heard(3)


async def test_a_restart_that_comes_with_a_stop_stops(agent: AgentProcess, mind: Mind) -> None:
    """An edit, then a /stop before the turn has begun again: it does not begin again."""
    mind.hold()
    await agent.say("buy milk", message_id="telegram:bot:1:7")
    await mind.until_asked(1)
    await asyncio.gather(agent.edit("telegram:bot:1:7", "buy bread"), agent.control(ControlKind.STOP))
    assert (await agent.heard(1))[0].text == "Stopped."
    mind.hold().set()
    assert "You said: next" in await agent.ask("next")
    assert len(agent.replies) == 2
