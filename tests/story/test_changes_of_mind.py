"""People say more, say it differently, or take it back while an answer is being made, on real bus and databases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.models.demo import SIGNATURE
from gateway.bus.bus import RedisBus
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.ports import Amendment
from gateway.store import Store
from tests.parts.agents import AgentProcess, message, running_agent
from tests.parts.minds import Mind


@pytest.fixture
def mind() -> Mind:
    return Mind()


@pytest.fixture
async def agent(bus: RedisBus, store: Store, tmp_path: Path, mind: Mind) -> AsyncIterator[AgentProcess]:
    """An agent that collects: what arrives during a turn is the next turn."""
    async with running_agent(bus, store, mind, tmp_path) as process:
        yield process


@pytest.fixture
async def steered(bus: RedisBus, store: Store, tmp_path: Path, mind: Mind) -> AsyncIterator[AgentProcess]:
    """An agent whose turns take newcomers along."""
    async with running_agent(bus, store, mind, tmp_path, is_steered=True) as process:
        yield process


# --- steer


async def test_steer_puts_new_words_before_the_model_between_two_rounds(steered: AgentProcess, mind: Mind) -> None:
    """One turn, one answer, and the transcript tells it in the order in which the model read it."""
    gate = mind.hold()
    await steered.say("tool todo_read {}")
    await mind.until_asked(1)
    await steered.say("history one")
    await steered.say("and two")
    gate.set()
    (reply,) = await steered.heard(1)
    assert mind.heard() == ["tool todo_read {}", "history one\n\nand two"]
    assert "I can see 2 message(s)" in reply.text
    said = await steered.transcript()
    assert (said[0], said[3:5], len(said)) == ("tool todo_read {}", ["history one", "and two"], 6)
    assert "You said: next" in await steered.ask("next")
    assert len(steered.replies) == 2


async def test_steer_takes_no_other_person_along(steered: AgentProcess, mind: Mind) -> None:
    """In a shared place: what a turn may do is what its first author may, so another's words wait for a turn that is
    judged by him."""
    place = "telegram:/-100"

    async def say(name: str, author: str, text: str) -> None:
        said = replace(message(text, place), author_id=author, author_name=CleanText(name))
        await steered.bus.intake.enqueue(said)

    gate = mind.hold()
    await say("Todo Smith", "1", "the shopping")  # whose very name has the demo model call a tool
    await mind.until_asked(1)
    await say("Guest", "2", "mine first")
    gate.set()
    await steered.heard(2)
    begun = ["Todo Smith: the shopping"]
    assert [mind.heard(call) for call in (0, 1)] == [begun, begun]
    assert mind.heard()[-1] == "Guest: mine first"


async def test_steer_leaves_commands_and_other_places_to_their_own_turns(steered: AgentProcess, mind: Mind) -> None:
    gate = mind.hold()
    await steered.say("tool todo_read {}")
    await mind.until_asked(1)
    await steered.say("say joined")
    await steered.say("/title A new name")
    await steered.say("say later")
    gate.set()
    answers = [reply.text for reply in await steered.heard(3)]
    assert answers[0] == f"joined\n\n{SIGNATURE}"
    assert "A new name" in answers[1]
    assert answers[2] == f"later\n\n{SIGNATURE}"


async def test_what_joined_a_turn_that_crashed_is_answered_by_the_next_run(steered: AgentProcess, mind: Mind) -> None:
    """Nothing is lost, nothing is said twice."""

    def crash_once() -> None:
        if len(mind.asked) == 2:
            raise RuntimeError("the test broke the second call")

    mind.think = crash_once
    gate = mind.hold()
    await steered.say("tool todo_read {}")
    await mind.until_asked(1)
    await steered.say("history of it")
    gate.set()
    await steered.heard(1)
    assert mind.heard()[0] == "tool todo_read {}\n\nhistory of it"
    assert (await steered.transcript())[:2] == ["tool todo_read {}", "history of it"]


# --- interrupt


async def test_interrupt_answers_old_and_new_words_as_one(agent: AgentProcess, mind: Mind) -> None:
    """The running turn ends without a trace; the next one has it all."""
    gate = mind.hold()
    await agent.say("plan a trip")
    await mind.until_asked(1)
    await agent.say("to Rome, not Paris", interrupts=True)
    await mind.until_asked(2)
    gate.set()
    (reply,) = await agent.heard(1)
    assert reply.text.startswith("You said: plan a trip\n\nto Rome, not Paris")
    assert (await agent.transcript())[:2] == ["plan a trip", "to Rome, not Paris"]
    assert "You said: next" in await agent.ask("next")
    assert len(agent.replies) == 2


# --- edits


async def test_an_edit_of_a_waiting_message_is_what_gets_answered(agent: AgentProcess, mind: Mind) -> None:
    gate = mind.hold()
    await agent.say("first")
    await mind.until_asked(1)
    await agent.say("buy milk", message_id="telegram:bot:1:7")
    assert await agent.edit("telegram:bot:1:7", "buy bread") is Amendment.CHANGED
    gate.set()
    answers = [reply.text for reply in await agent.heard(2)]
    assert answers[1].startswith("You said: buy bread")
    assert not any("milk" in text for text in await agent.transcript())


async def test_an_edit_during_the_run_restarts_the_turn_once(agent: AgentProcess, mind: Mind) -> None:
    gate = mind.hold()
    await agent.say("buy milk", message_id="telegram:bot:1:7")
    await mind.until_asked(1)
    assert await agent.edit("telegram:bot:1:7", "buy bread") is Amendment.RESTARTED
    await mind.until_asked(2)
    assert await agent.edit("telegram:bot:1:7", "buy beer") is Amendment.TOO_LATE
    gate.set()
    (reply,) = await agent.heard(1)
    assert reply.text.startswith("You said: buy bread")
    assert mind.heard() == ["buy bread"]
    assert (await agent.transcript())[0] == "buy bread"
    assert await agent.edit("telegram:bot:1:7", "buy wine") is Amendment.TOO_LATE
    assert len(mind.asked) == 2


# --- deletions


async def test_a_message_deleted_while_it_waits_is_never_read(agent: AgentProcess, mind: Mind) -> None:
    gate = mind.hold()
    await agent.say("first")
    await mind.until_asked(1)
    await agent.say("my secret", message_id="telegram:bot:1:7")
    await agent.say("history please")
    assert await agent.delete("telegram:bot:1:7") is Amendment.CHANGED
    gate.set()
    await agent.heard(2)
    assert mind.heard() == ["first", "history please"]


async def test_a_message_deleted_during_the_run_takes_its_turn_along(agent: AgentProcess, mind: Mind) -> None:
    """It was alone: no answer comes, and no later prompt holds its words."""
    gate = mind.hold()
    await agent.say("my secret", message_id="telegram:bot:1:7")
    await mind.until_asked(1)
    assert await agent.delete("telegram:bot:1:7") is Amendment.RESTARTED
    while (await agent.bus.lanes.depth(SessionKey.parse("telegram:1")))[1]:  # noqa: ASYNC110 - no event crosses Redis
        await asyncio.sleep(0.01)
    gate.set()
    assert "I can see 1 message(s)" in await agent.ask("history")
    assert len(agent.replies) == 1
    assert not any("secret" in text for text in await agent.transcript())


async def test_the_others_of_its_batch_are_answered_without_a_deleted_message(agent: AgentProcess, mind: Mind) -> None:
    gate = mind.hold()
    await agent.say("first")
    await mind.until_asked(1)
    await agent.say("say one")
    await agent.say("my secret", message_id="telegram:bot:1:7")
    await agent.say("two")
    held = mind.hold()  # for the calls that follow: the first one waits for the first gate
    gate.set()
    await agent.heard(1)
    await mind.until_asked(2)
    assert await agent.delete("telegram:bot:1:7") is Amendment.RESTARTED
    await mind.until_asked(3)
    held.set()
    assert (await agent.heard(2))[1].text == f"one\n\ntwo\n\n{SIGNATURE}"
    assert not any("secret" in text for text in await agent.transcript())
