"""What an agent makes of a message that completes a secret: no prompt, no record, no answer holds a half any more."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.model.retrying import RetryingClient
from gateway.bus.bus import RedisBus
from gateway.contracts.entries import Role
from gateway.contracts.messages import CleanText, InboundMessage, Mend, RemovedSecrets, mark_of
from gateway.contracts.ports import Amendment
from gateway.store.store import SqlStore
from tests.parts.agents import AgentProcess, message, running_agent
from tests.parts.minds import Mind
from tests.scrubbing import draw

HALF = draw("ghp_<base62:20>", seed=71)
STAND_IN = CleanText("[redacted:github#a1b2c3]")
FIRST = "telegram:bot:chat:first"


@pytest.fixture
def mind() -> Mind:
    return Mind()


@pytest.fixture
async def agent(bus: RedisBus, store: SqlStore, tmp_path: Path, mind: Mind) -> AsyncIterator[AgentProcess]:
    async with running_agent(bus, store, RetryingClient(mind), tmp_path) as process:
        yield process


def completing(text: str = "say and the rest") -> InboundMessage:
    """What the door makes of the second half."""
    mend = Mend(FIRST, len(HALF), mark_of(HALF, FIRST), STAND_IN)
    return replace(message(text), mends=(mend,), removed=(RemovedSecrets("github", 1, is_joined=True),))


def said_in(mind: Mind, call: int = -1) -> str:
    """All that one prompt of a turn held."""
    return "\n".join(each.text for each in mind.asked[call].messages)


async def test_the_next_prompt_and_all_later_ones_are_without_the_half(agent: AgentProcess, mind: Mind) -> None:
    await agent.say(f"my key: {HALF}", message_id=FIRST)
    await agent.heard(1)
    assert HALF in said_in(mind)
    await agent.bus.intake.enqueue(completing())
    answer = (await agent.heard(2))[1].text
    assert HALF not in said_in(mind)
    assert STAND_IN in said_in(mind)
    assert not any(HALF[:8] in text for text in await agent.transcript())
    assert "together held what looked like a secret (1 × github)" in answer
    assert HALF not in said_in(mind)


async def test_a_turn_that_is_answering_the_half_starts_again_without_it(agent: AgentProcess, mind: Mind) -> None:
    """The door rewrites what is in work, as it does for an edit."""
    gate = mind.hold()
    await agent.say(f"my key: {HALF}", message_id=FIRST)
    await mind.until_asked(1)
    await agent.bus.intake.enqueue(completing())
    assert await agent.edit(FIRST, f"my key: {STAND_IN}") is Amendment.RESTARTED
    await mind.until_asked(2)
    gate.set()
    await agent.heard(1)
    assert HALF not in said_in(mind)
    assert not any(HALF[:8] in text for text in await agent.transcript())


async def test_both_halves_of_one_batch_are_read_mended(agent: AgentProcess, mind: Mind) -> None:
    """Although nobody has rewritten the first on its lane: whoever was to do it died before he could."""
    gate = mind.hold()
    await agent.say("say wait")
    await mind.until_asked(1)
    await agent.say(f"my key: {HALF}", message_id=FIRST)
    await agent.bus.intake.enqueue(completing("and the rest"))
    gate.set()
    await agent.heard(2)
    assert mind.heard()[-1] == f"my key: {STAND_IN}\n\nand the rest"
    assert not any(HALF[:8] in text for text in await agent.transcript())


async def test_a_message_that_only_mends_is_answered_by_silence(agent: AgentProcess, mind: Mind) -> None:
    await agent.say(f"my key: {HALF}", message_id=FIRST)
    await agent.heard(1)
    await agent.bus.intake.enqueue(completing(""))
    assert "You said: next" in await agent.ask("next")
    assert len(agent.replies) == 2
    assert HALF not in said_in(mind)
    assert [each.text for each in mind.asked[-1].messages if each.role is Role.USER and not each.text] == []


async def test_whoever_sends_a_command_with_a_secret_in_it_is_told(agent: AgentProcess) -> None:
    command = replace(message("/title my [redacted:github#a1b2c3]"), removed=(RemovedSecrets("github", 1),))
    await agent.bus.intake.enqueue(command)
    assert "from your message (1 × github)" in (await agent.heard(1))[0].text
