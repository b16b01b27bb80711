"""/retry: the same words, another answer. On a real bus and real databases."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.models.requests import ModelEvent, ModelRequest
from gateway.bus.bus import RedisBus
from gateway.contracts.errors import ModelRejected
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import ControlKind
from gateway.contracts.sessions import EntryKind, Role, TurnState, UsagePurpose
from gateway.store import Store
from tests.parts.agents import AgentProcess, running_agent
from tests.parts.minds import Mind


class Moody(Mind):
    """Fails as long as it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.is_down = False

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        async for event in super().stream(request):
            if self.is_down and request.purpose is UsagePurpose.TURN:
                raise ModelRejected("told to be down")
            yield event


@pytest.fixture
def mind() -> Moody:
    return Moody()


@pytest.fixture
async def agent(bus: RedisBus, store: Store, tmp_path: Path, mind: Moody) -> AsyncIterator[AgentProcess]:
    async with running_agent(bus, store, mind, tmp_path) as process:
        yield process


async def in_view(agent: AgentProcess, key: str = "telegram:1") -> list[str]:
    """What the model would see of the current conversation, without our notes."""
    session = await agent.store.sessions.current(SessionKey.parse(key))
    assert session is not None
    return [entry.text for entry in await agent.store.transcript.view(session.id) if entry.kind is not EntryKind.NOTE]


async def test_a_failed_turn_is_run_again_with_the_words_that_were_kept(agent: AgentProcess, mind: Moody) -> None:
    mind.is_down = True
    assert "Reference" in await agent.ask("say seven")
    mind.is_down = False
    assert (await agent.ask("/retry")).startswith("seven")
    assert mind.heard() == ["say seven"]
    shown = await in_view(agent)
    assert [shown[0], len(shown)] == ["say seven", 2]


async def test_a_good_answer_is_replaced_and_kept_on_record(agent: AgentProcess, mind: Moody) -> None:
    """The model does not see its first answer; the transcript still has it."""
    await agent.ask("say one")
    await agent.ask("say two")
    await agent.ask("/retry")
    assert mind.heard() == ["say one", "say two"]
    assert [message.role for message in mind.asked[-1].messages] == [Role.USER, Role.ASSISTANT, Role.USER]
    assert len(await in_view(agent)) == 4
    assert sum("two" in said for said in await agent.transcript()) == 3


async def test_a_stopped_turn_is_run_again(agent: AgentProcess, mind: Moody) -> None:
    gate = mind.hold()
    await agent.say("say three")
    await mind.until_asked(1)
    await agent.control(ControlKind.STOP)
    await agent.heard(1)
    gate.set()
    assert (await agent.ask("/retry")).startswith("three")
    assert len(await in_view(agent)) == 2


async def test_a_retry_can_be_tried_again_whatever_became_of_it(agent: AgentProcess, mind: Moody) -> None:
    """Well answered, failed, stopped: it is always about the user's own words."""
    await agent.ask("say four")
    await agent.ask("/retry")
    mind.is_down = True
    assert "Reference" in await agent.ask("/retry")
    mind.is_down = False
    gate = mind.hold()
    asked = len(mind.asked)
    await agent.say("/retry")
    await mind.until_asked(asked + 1)
    await agent.control(ControlKind.STOP)
    await agent.heard(4)
    assert (await in_view(agent))[1] == "(Stopped by the user before an answer was given.)"
    gate.set()
    assert (await agent.ask("/retry")).startswith("four")
    assert mind.heard() == ["say four"]
    assert len(await in_view(agent)) == 2


async def test_messages_that_were_one_turn_are_tried_again_together(agent: AgentProcess, mind: Moody) -> None:
    gate = mind.hold()
    await agent.say("say zero")
    await mind.until_asked(1)
    await agent.say("first of two")
    await agent.say("second of two")
    gate.set()
    await agent.heard(2)
    await agent.ask("/retry")
    assert mind.heard() == ["say zero", "first of two\n\nsecond of two"]


async def test_the_tools_of_the_old_answer_are_out_of_view(agent: AgentProcess, mind: Moody) -> None:
    """Calls, results and notes belong to the answer that is replaced."""
    await agent.ask("todo water the plants")
    assert len(await in_view(agent)) == 4
    await agent.ask("/retry")
    first_prompt = mind.asked[2].messages
    assert [message.role for message in first_prompt] == [Role.USER]
    assert len(await in_view(agent)) == 4


async def test_with_nothing_said_there_is_nothing_to_try_again(agent: AgentProcess) -> None:
    assert (await agent.ask("/retry")).startswith("There is nothing to try again")
    await agent.ask("say five")
    await agent.ask("/new")
    assert (await agent.ask("/retry")).startswith("There is nothing to try again")


async def test_nobody_tries_again_what_another_said(agent: AgentProcess, mind: Moody) -> None:
    await agent.ask("say my secret plan", key="telegram:1")
    assert (await agent.ask("/retry", key="telegram:2")).startswith("There is nothing to try again")
    assert len(mind.asked) == 1


async def test_a_condensed_request_comes_back_into_view(agent: AgentProcess, mind: Moody) -> None:
    """A summary that was made after the words is taken back together with their answer."""
    await agent.ask("long 9000")
    assert (await agent.ask("/compact")).startswith("Compacted")
    await agent.ask("/retry")
    assert mind.heard() == ["long 9000"]
    assert len(await in_view(agent)) == 2


async def test_a_retry_is_a_turn_with_its_own_costs_and_state(agent: AgentProcess, mind: Moody) -> None:
    """What failed was counted; what succeeded is counted on top."""
    await agent.ask("say six")
    session = await agent.store.sessions.current(SessionKey.parse("telegram:1"))
    assert session is not None
    await agent.ask("/retry")
    after = await agent.store.sessions.by_id(session.id)
    assert after is not None
    assert after.tokens > session.tokens
    (trace,) = await agent.store.turns.trace(agent.replies[-1].turn_id)
    assert trace.state == TurnState.DONE
