"""What people experience when they talk to Trivet, told on a real bus and real databases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent.models.demo import HINT, SIGNATURE, ScriptedClient
from agent.models.requests import ModelAnswer, ModelEvent, ModelFacts, ModelRequest, TextDelta, TokenCount
from gateway.bus.bus import RedisBus
from gateway.config.subagents import SubagentSettings
from gateway.contracts.errors import BusUnavailable
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import ControlKind, Reply, ReplyKind
from gateway.contracts.ports import Claim, Verdict
from gateway.contracts.sessions import UNTITLED, EntryKind, Role, UsagePurpose
from gateway.store import Store
from tests.parts.agents import AgentProcess, running_agent
from tests.parts.garbage import garbage_of_ours
from tests.parts.waiting import PATIENCE_S

ANNA, BEN = "telegram:1", "telegram:2"


@pytest.fixture
async def agent(bus: RedisBus, store: Store, tmp_path: Path) -> AsyncIterator[AgentProcess]:
    """A running agent with the demo model, on SQLite and on PostgreSQL."""
    async with running_agent(bus, store, ScriptedClient(), tmp_path) as process:
        yield process


async def test_a_message_is_answered_where_it_came_from(agent: AgentProcess) -> None:
    """The reply carries the address of the message, and says that the demo model wrote it."""
    await agent.say("hello", "slack:U1/C1/17.01", lane="C1/17.01")
    reply = (await agent.heard(1, "slack"))[0]
    assert reply.address.lane == "C1/17.01"
    assert reply.text == f"You said: hello\n\n{HINT}\n\n{SIGNATURE}"
    assert reply.kind is ReplyKind.ANSWER


async def test_what_a_turn_held_is_gone_when_it_is_over(agent: AgentProcess) -> None:
    """Without a search for garbage, which would look at all that other turns hold just then."""
    await agent.ask("hello")
    with garbage_of_ours() as left:
        for word in ("one", "two", "three"):
            await agent.ask(word)
    assert left == set()


async def test_messages_that_wait_become_one_turn_and_keep_their_order(agent: AgentProcess) -> None:
    """While a turn runs, what arrives is collected for the next one."""
    await agent.say("slow 0.3")
    await until_running(agent, ANNA)
    for word in ("one", "two", "three"):
        await agent.say(word)
    answers = [reply.text for reply in await agent.heard(2)]
    assert "0.3 seconds" in answers[0]
    assert "one\n\ntwo\n\nthree" in answers[1]


async def test_a_redelivered_message_is_answered_once(agent: AgentProcess) -> None:
    """The platform may say it as often as it likes."""
    assert (await agent.say("hello", message_id="telegram:bot:1:7")).verdict is Verdict.ACCEPTED
    assert (await agent.say("hello", message_id="telegram:bot:1:7")).verdict is Verdict.DUPLICATE
    await agent.heard(1)
    await agent.ask("and now something else")
    assert len(agent.replies) == 2


async def test_users_never_see_each_other(agent: AgentProcess) -> None:
    """History, memory and lists are one person's own."""
    await agent.ask("Anna's secret plan", ANNA)
    await agent.ask("remember Anna likes tea", ANNA)
    assert "secret plan" not in await agent.ask("history", BEN)
    assert "tea" not in await agent.ask("recall tea", BEN)
    assert "secret plan" not in (await agent.ask("/sessions", BEN)).lower()
    assert "tea" in await agent.ask("recall tea", ANNA)
    assert "secret plan" in await agent.ask("history", ANNA)


async def test_what_is_said_in_private_does_not_surface_in_a_group(agent: AgentProcess) -> None:
    """The same person in another place is another conversation."""
    await agent.ask("my private matter", ANNA)
    assert "private matter" not in await agent.ask("history", f"{ANNA}/-100")


async def test_a_conversation_gets_its_title_by_itself(agent: AgentProcess) -> None:
    """Beside the first reply, once, from the first message; charged to the user."""
    await agent.ask("plan a trip to Rome with two children")
    session = await titled(agent, ANNA)
    assert session == "Plan a trip to Rome with"


async def test_a_users_own_title_wins(agent: AgentProcess) -> None:
    """Whatever the titler thinks."""
    answer = await agent.ask("/title   My   holiday ")
    await agent.ask("plan a trip to Rome")
    assert "My holiday" in answer
    assert await titled(agent, ANNA) == "My holiday"


async def test_new_begins_a_new_conversation(agent: AgentProcess) -> None:
    """The old one is listed; its words are gone from the model's view."""
    await agent.ask("the first thing")
    await agent.ask("/new")
    assert "the first thing" not in await agent.ask("history")
    listed = await agent.ask("/sessions")
    assert "\n- **1.** " in listed
    assert "\n- **2.** " in listed


async def test_commands_are_no_part_of_the_conversation(agent: AgentProcess) -> None:
    """The model never reads them."""
    await agent.ask("/help")
    await agent.ask("/status")
    assert "I can see 1 message(s)" in await agent.ask("history")


async def test_an_unknown_command_is_answered_plainly(agent: AgentProcess) -> None:
    assert "I do not know /dance" in await agent.ask("/dance")


async def test_a_failed_turn_says_so_and_keeps_the_question(agent: AgentProcess) -> None:
    """One plain sentence with a reference; the question stays in the history."""
    failed = await agent.ask("fail")
    assert failed.startswith("I could not answer that just now.")
    assert "Reference" in failed
    assert "1. fail" in await agent.ask("history")


async def test_stop_ends_the_running_turn_and_drops_what_waits(agent: AgentProcess) -> None:
    """No answer of the stopped turn comes; the next message is answered."""
    await agent.say("slow 60")
    await until_running(agent, ANNA)
    await agent.say("never answered")
    await agent.control(ControlKind.STOP)
    stopped = (await agent.heard(1))[0]
    assert stopped.text == "Stopped. 1 waiting message was dropped."
    assert "You said: hello again" in await agent.ask("hello again")
    assert len(agent.replies) == 2


async def test_status_answers_while_a_turn_runs(agent: AgentProcess) -> None:
    """It goes past the queue."""
    await agent.say("slow 60")
    await until_running(agent, ANNA)
    await agent.control(ControlKind.STATUS)
    assert "a turn is running" in (await agent.heard(1))[0].text
    await agent.control(ControlKind.STOP)
    await agent.heard(2)


async def test_a_turn_remembers_what_its_tools_said(agent: AgentProcess) -> None:
    """Calls and results are part of the transcript, paired by id."""
    await agent.ask("todo water the plants")
    session = await agent.store.sessions.current(SessionKey.parse(ANNA))
    assert session is not None
    whole = await agent.store.transcript.page(session.id)
    said = [entry for entry in whole if entry.kind is EntryKind.MESSAGE]
    assert [entry.role for entry in said] == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.ASSISTANT]
    assert said[1].tool_calls[0].id == said[2].tool_call_id
    assert "water the plants" in said[2].text


async def test_what_a_turn_costs_is_counted(agent: AgentProcess) -> None:
    """Tokens of turn and title are on the session that lists show."""
    await agent.ask("hello there")
    await titled(agent, ANNA)
    session = await agent.store.sessions.current(SessionKey.parse(ANNA))
    assert session is not None
    assert session.tokens > 0
    assert session.message_count == 2


async def test_a_removed_secret_is_told_to_its_author(bus: RedisBus, store: Store, tmp_path: Path) -> None:
    """What the model repeats is scrubbed on its way out, in the reply and in the transcript."""
    token = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"

    class Leaky(ScriptedClient):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            text = f"here it is: {token}."
            for char in text:
                yield TextDelta(char)
            yield ModelAnswer(text, (), "stop", TokenCount(1, 1), 0.0, request.model)

    async with running_agent(bus, store, Leaky(), tmp_path) as agent:
        answer = await agent.ask("what was my token?")
        session = await agent.store.sessions.current(SessionKey.parse(ANNA))
        assert session is not None
        transcript = await agent.store.transcript.page(session.id)
    assert token not in answer
    assert "[redacted:" in answer
    assert all(token not in entry.text for entry in transcript)


async def test_a_title_is_cut_only_after_it_was_scrubbed(bus: RedisBus, store: Store, tmp_path: Path) -> None:
    """A cut may take away what a secret is recognised by, and leave the secret."""
    secret = "VzT478" + "sDnG36"

    class Leaky(ScriptedClient):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            text = f"The account name AccountName=acme;AccountKey={secret};EndpointSuffix=x"
            yield TextDelta(text)
            yield ModelAnswer(text, (), "stop", TokenCount(1, 1), 0.0, request.model)

    async with running_agent(bus, store, Leaky(), tmp_path) as agent:
        await agent.ask("what is my account?")
        title = await titled(agent, ANNA)
    assert title.startswith("The account name")
    assert secret not in title


async def test_a_lost_acknowledgement_on_the_bus_repeats_nothing(
    bus: RedisBus, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turn is committed in SQL, then the bus goes away: the next claim publishes, the model is not asked again."""
    calls = 0
    lost = 0
    commit = bus.lanes.commit

    class Counting(ScriptedClient):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            nonlocal calls
            calls += request.purpose is UsagePurpose.TURN
            async for event in super().stream(request):
                yield event

    async def commit_lost_once(claim: Claim, *, handled: int, replies: tuple[Reply, ...] = (), **more: Any) -> bool:
        nonlocal lost
        if not lost:
            lost += 1
            await bus.lanes.retry_later(claim, delay_s=0.0, error="the test cut the line")
            raise BusUnavailable("the test cut the line")
        return await commit(claim, handled=handled, replies=replies, **more)

    monkeypatch.setattr(bus.lanes, "commit", commit_lost_once)
    async with running_agent(bus, store, Counting(), tmp_path) as agent:
        assert "You said: hello" in await agent.ask("hello")
        assert "You said: more" in await agent.ask("more")
        assert len(agent.replies) == 2
    assert (calls, lost) == (2, 1)


@pytest.mark.long
async def test_a_hundred_people_are_served_at_once(bus: RedisBus, store: Store, tmp_path: Path) -> None:
    """No turn waits for another one's model: all hundred calls are open at the same time."""
    gate = asyncio.Event()
    waiting = 0

    class Gated(ScriptedClient):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            nonlocal waiting
            if request.purpose is UsagePurpose.TURN:
                waiting += 1
                if waiting == 100:
                    gate.set()
                await gate.wait()
            async for event in super().stream(request):
                yield event

    async with running_agent(bus, store, Gated(), tmp_path, concurrency=128) as agent:
        for user in range(100):
            await agent.say(f"hello from {user}", f"telegram:{user + 1}")
        replies = await agent.heard(100)
    assert {reply.text.splitlines()[0] for reply in replies} == {f"You said: hello from {user}" for user in range(100)}


async def test_a_long_conversation_is_condensed_and_goes_on(bus: RedisBus, store: Store, tmp_path: Path) -> None:
    """When the next prompt would not fit, the older part becomes a summary; nothing is deleted."""
    prompts: list[ModelRequest] = []

    class Recording(ScriptedClient):
        def facts(self, model: str) -> ModelFacts:
            return ModelFacts(context_window=3_000, output_max=200)

        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            prompts.append(request)
            async for event in super().stream(request):
                yield event

    async with running_agent(bus, store, Recording(), tmp_path, subagents=SubagentSettings(enabled=False)) as agent:
        for number in range(12):
            await agent.ask(f"say number {number}: {'words ' * 100}")
        session = await agent.store.sessions.current(SessionKey.parse(ANNA))
        assert session is not None
        whole = await agent.store.transcript.page(session.id)
    summaries = [entry for entry in whole if entry.kind is EntryKind.COMPACTION]
    assert summaries
    assert sum(bool(entry.message_id) for entry in whole) == 12
    last = [request for request in prompts if request.purpose is UsagePurpose.TURN][-1]
    assert "<summary>" in last.messages[0].text
    assert "number 11" in last.messages[-1].text


async def titled(agent: AgentProcess, key: str) -> str:
    """The title of the current conversation, once it has one."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            session = await agent.store.sessions.current(SessionKey.parse(key))
            if session is not None and session.title != UNTITLED:
                return session.title
            await asyncio.sleep(0.01)


async def until_running(agent: AgentProcess, key: str) -> None:
    """Wait until a worker has taken the lane."""
    async with asyncio.timeout(PATIENCE_S):
        while not (await agent.bus.lanes.depth(SessionKey.parse(key)))[1]:  # noqa: ASYNC110 - no event crosses Redis
            await asyncio.sleep(0.01)
