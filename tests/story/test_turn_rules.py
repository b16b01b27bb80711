"""What a turn promises whatever happens in it: nothing is lost, nothing is asked twice, everything ends in time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from agent.engine import Finished
from agent.models.requests import ModelAnswer, ModelEvent, ModelRequest, RequestedCall, TextDelta, TokenCount
from agent.prompts.library import PROMPTS
from agent.runtime import turn
from gateway.bus.bus import RedisBus
from gateway.contracts.errors import ContextTooLong, ModelRejected, ModelTooSlow
from gateway.contracts.ids import SessionKey
from gateway.contracts.sessions import Entry, EntryKind, Role, TurnState, UsagePurpose
from gateway.store import Store
from tests.parts.agents import AgentProcess, running_agent
from tests.parts.minds import Mind
from tests.parts.waiting import until

pytestmark = pytest.mark.both_databases

Heard = Callable[[ModelRequest], ModelEvent | Exception | None]


class Scripted(Mind):
    """The demo model, unless `decide` says otherwise of a call of a turn: an answer, an error, or nothing special."""

    def __init__(self) -> None:
        super().__init__()
        self.decide: Heard = lambda _request: None

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        decided = self.decide(request) if request.purpose is UsagePurpose.TURN else None
        if decided is None:
            async for event in super().stream(request):
                yield event
            return
        self.asked.append(request)
        yield TextDelta(decided.text if isinstance(decided, ModelAnswer) else "half a wo")
        if isinstance(decided, Exception):
            raise decided
        yield decided


@pytest.fixture
def mind() -> Scripted:
    return Scripted()


@pytest.fixture
async def agent(bus: RedisBus, store: Store, tmp_path: Path, mind: Scripted) -> AsyncIterator[AgentProcess]:
    async with running_agent(bus, store, mind, tmp_path, tool_rounds_max=3) as process:
        yield process


async def record(agent: AgentProcess) -> list[Entry]:
    """Everything on record of the current conversation."""
    session = await agent.store.sessions.current(SessionKey.parse("telegram:1"))
    assert session is not None
    return list(await agent.store.transcript.page(session.id))


def call(request: ModelRequest, name: str = "todo_read", arguments: str = "{}", call_id: str = "c") -> ModelAnswer:
    """An answer that asks for a tool."""
    return ModelAnswer(
        "Let me see.", (RequestedCall(call_id, name, arguments),), "tool_calls", TokenCount(7, 3), 0.01, request.model
    )


async def test_the_users_words_are_stored_before_any_model_is_asked(agent: AgentProcess, mind: Scripted) -> None:
    """A crash inside the call could not lose them."""
    gate = mind.hold()
    await agent.say("hello")
    await mind.until_asked(1)
    assert [entry.text for entry in await record(agent)] == ["hello"]
    gate.set()
    await agent.heard(1)


async def test_a_failed_turn_keeps_all_that_was_seen_said_and_paid(agent: AgentProcess, mind: Scripted) -> None:
    """Call, result and cost of the round before the failure; the sentence in the place of the answer."""
    mind.decide = lambda request: call(request) if len(mind.asked) == 0 else ModelRejected("https://x/?key=1 gpt-9")
    said = await agent.ask("what is there to do?")
    assert said.startswith("The provider of the model does not take this request")
    assert "/retry" not in said
    assert not any(word in said for word in ("gpt-9", "https", "Rejected", "demo"))
    kept = [entry for entry in await record(agent) if entry.kind is EntryKind.MESSAGE]
    assert [entry.role for entry in kept] == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.ASSISTANT]
    assert (kept[1].tool_calls[0].name, kept[1].text) == ("todo_read", "Let me see.")
    session = await agent.store.sessions.current(SessionKey.parse("telegram:1"))
    assert session is not None
    assert session.cost_usd >= 0.01
    reference = said.partition("(Reference ")[2].rstrip(")")
    (trace,) = await agent.store.turns.trace(reference)
    assert (trace.state, trace.error_reference) == (TurnState.FAILED, reference)


async def test_the_final_answer_is_asked_for_once(agent: AgentProcess, mind: Scripted) -> None:
    await agent.ask("say hello")
    assert len(mind.asked) == 1


async def test_a_failed_round_is_followed_by_one_note_that_is_kept(agent: AgentProcess, mind: Scripted) -> None:
    """The model reads it with the results, and again in every later prompt, at its place."""
    failing = 'tool file_read {"path": "nowhere.txt"}'
    await agent.ask(failing)
    newest = mind.asked[-1].messages[-1]
    assert newest.role is Role.USER
    assert newest.text.startswith("<tool-failures>\n- file_read: ")
    (note,) = (entry for entry in await record(agent) if entry.text == newest.text)
    assert (note.role, note.kind) == (Role.USER, EntryKind.NOTE)
    await agent.ask("say hello")
    assert sum(newest.text in message.text for message in mind.asked[-1].messages) == 1


async def test_after_the_last_round_the_model_is_asked_to_wrap_up(agent: AgentProcess, mind: Scripted) -> None:
    """Once, without tools, and the request for it is on record."""
    mind.decide = lambda request: call(request, call_id=f"c{len(mind.asked)}") if request.tools else None
    assert "You said" in await agent.ask("work for ever")
    assert [bool(request.tools) for request in mind.asked] == [True, True, True, False]
    assert [entry.text for entry in await record(agent)].count(PROMPTS.wrap_up) == 1


async def test_without_a_cap_the_model_works_as_long_as_it_wants(
    bus: RedisBus, store: Store, tmp_path: Path, mind: Scripted
) -> None:
    mind.decide = lambda request: call(request, call_id=f"c{len(mind.asked)}") if len(mind.asked) < 40 else None
    async with running_agent(bus, store, mind, tmp_path, tool_rounds_max=0) as agent:
        assert "The tool answered" in await agent.ask("work on")
    assert all(request.tools for request in mind.asked)


async def test_what_a_turn_has_done_is_not_done_again_when_its_prompt_grew_too_long(
    agent: AgentProcess, mind: Scripted
) -> None:
    """The provider refuses the prompt of the second round: it gets a shorter one, with the result still in it."""
    for _ in range(4):
        await agent.ask("long 2000")
    before = len(mind.asked)

    def decide(request: ModelRequest) -> ModelEvent | Exception | None:
        match len(mind.asked) - before:
            case 0:
                return call(request, "todo_write", '{"todos": [{"text": "water the plants", "state": "pending"}]}')
            case 1:
                return ContextTooLong("8192")
            case _:
                return None

    mind.decide = decide
    assert "water the plants" in await agent.ask("note it")
    refused, accepted = mind.asked[-2:]
    assert any(message.role is Role.TOOL for message in accepted.messages)
    assert len(accepted.messages) < len(refused.messages)
    ran = [entry for entry in await record(agent) if entry.role is Role.TOOL]
    assert len(ran) == 1


async def test_a_prompt_that_is_refused_twice_ends_the_turn(agent: AgentProcess, mind: Scripted) -> None:
    """One attempt to make room, no loop."""
    for _ in range(4):
        await agent.ask("long 2000")
    before = len(mind.asked)
    mind.decide = lambda _request: ContextTooLong("8192")
    assert "/new" in await agent.ask("and now?")
    assert len(mind.asked) - before <= 2


async def test_a_turn_that_takes_too_long_ends_with_a_sentence(
    agent: AgentProcess, mind: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its words stay, and so does what had been done."""
    monkeypatch.setattr(turn, "TURN_TIMEOUT_S", 0.3)
    gate = mind.hold()
    said = await agent.ask("hang")
    gate.set()
    assert said.startswith("That took too long")
    assert (await record(agent))[0].text == "hang"


async def test_a_round_that_takes_too_long_ends_with_the_same_sentence(agent: AgentProcess, mind: Scripted) -> None:
    mind.decide = lambda _request: ModelTooSlow(180)
    assert (await agent.ask("hang")).startswith("That took too long")


async def test_an_answer_of_nothing_is_a_failure(agent: AgentProcess, mind: Scripted) -> None:
    """Nobody is sent an empty message."""
    mind.decide = lambda request: ModelAnswer("  ", (), "stop", TokenCount(1, 1), 0.0, request.model)
    assert "Reference" in await agent.ask("hello")


async def test_what_follows_a_turn_neither_delays_nor_spoils_it(
    agent: AgentProcess, mind: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told of every turn, however that ended, once the reply is on the bus."""
    waiting, finished = list[Finished](), list[Finished]()
    gate = asyncio.Event()

    async def note(turn: Finished) -> None:
        waiting.append(turn)
        await gate.wait()
        finished.append(turn)
        raise RuntimeError("told to fail")

    monkeypatch.setattr(agent.worker.answering, "afterwards", (note,))
    await agent.ask("say one")
    mind.decide = lambda _request: ModelRejected("no")
    await agent.ask("say two")
    await until(lambda: len(waiting) == 2, lambda: waiting)
    assert finished == []
    gate.set()
    await until(lambda: len(finished) == 2, lambda: finished)
    assert [turn.commit.state for turn in finished] == [TurnState.DONE, TurnState.FAILED]
    assert [done.turn.said for done in finished] == ["say one", "say two"]
    mind.decide = lambda _request: None
    assert (await agent.ask("say three")).startswith("three")
