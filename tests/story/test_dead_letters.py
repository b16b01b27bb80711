"""A message that was given up and is tried again: answered once, whoever asks for it and however often."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.models.demo import ScriptedClient
from agent.models.requests import ModelEvent, ModelRequest
from agent.runtime import run
from gateway.bus.bus import RedisBus
from gateway.contracts.messages import ReplyKind
from gateway.contracts.ports import DeadLetter
from gateway.contracts.sessions import UsagePurpose
from gateway.store import Store
from tests.parts.agents import AgentProcess, running_agent

pytestmark = pytest.mark.both_databases


class Poisoned(ScriptedClient):
    """A model that breaks at one word, in a way nobody foresaw, until it is healed."""

    is_healed = False

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        is_poisoned = request.purpose is UsagePurpose.TURN and "poison" in request.messages[-1].text
        if is_poisoned and not self.is_healed:
            raise ZeroDivisionError
        async for event in super().stream(request):
            yield event


@pytest.fixture
def model() -> Poisoned:
    return Poisoned()


@pytest.fixture
async def agent(
    bus: RedisBus, store: Store, tmp_path: Path, model: Poisoned, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[AgentProcess]:
    monkeypatch.setattr(run, "RETRY_DELAYS_S", (0.01,))
    async with running_agent(bus, store, model, tmp_path) as process:
        yield process


async def letter_of(agent: AgentProcess, *, apologies: int) -> DeadLetter:
    """The one dead letter, after its author was told as often as `apologies`."""
    await agent.heard(apologies)
    (letter,) = await agent.bus.operator.dead_letters(10)
    return letter


def kinds(agent: AgentProcess) -> list[ReplyKind]:
    return [reply.kind for reply in agent.replies]


async def test_a_dead_letter_that_is_tried_again_is_answered_once(agent: AgentProcess, model: Poisoned) -> None:
    """Whoever asks for it at the same time: one of them succeeds."""
    await agent.say("poison", message_id="telegram:bot:1:7")
    letter = await letter_of(agent, apologies=1)
    model.is_healed = True
    operator = agent.bus.operator
    retried = await asyncio.gather(*[operator.retry_dead(letter.entry_id) for _ in range(3)])
    assert sorted(retried) == [False, False, True]
    await agent.heard(2)
    assert "You said: next" in await agent.ask("next")
    assert kinds(agent) == [ReplyKind.ERROR, ReplyKind.ANSWER, ReplyKind.ANSWER]
    assert "You said: poison" in agent.replies[1].text
    said = await agent.transcript()
    assert [said[0], *said[2:4]] == ["poison", "poison", agent.replies[1].text]


async def test_a_dead_letter_that_dies_again_can_be_tried_once_more(agent: AgentProcess, model: Poisoned) -> None:
    await agent.say("poison")
    first = await letter_of(agent, apologies=1)
    assert await agent.bus.operator.retry_dead(first.entry_id)
    second = await letter_of(agent, apologies=2)
    assert second.entry_id != first.entry_id
    assert not await agent.bus.operator.retry_dead(first.entry_id)
    model.is_healed = True
    assert await agent.bus.operator.retry_dead(second.entry_id)
    await agent.heard(3)
    assert kinds(agent) == [ReplyKind.ERROR, ReplyKind.ERROR, ReplyKind.ANSWER]


async def test_a_dropped_dead_letter_is_never_answered(agent: AgentProcess, model: Poisoned) -> None:
    await agent.say("poison")
    letter = await letter_of(agent, apologies=1)
    model.is_healed = True
    assert await agent.bus.operator.drop_dead(letter.entry_id)
    assert not await agent.bus.operator.retry_dead(letter.entry_id)
    await agent.ask("next")
    assert kinds(agent) == [ReplyKind.ERROR, ReplyKind.ANSWER]
