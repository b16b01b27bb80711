"""A person is asked before a tool runs. On a real bus and real databases."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from agent.models.demo import ScriptedClient
from agent.runtime import turn
from agent.tools.approvals import ApprovalOutcome, ApprovalRequest, ChatApprovals
from gateway.bus.bus import RedisBus
from gateway.clock import SystemClock
from gateway.config.tools import ToolSettings
from gateway.contracts.ids import WORKSPACES, SessionKey, folder_name
from gateway.contracts.messages import CleanText, ControlKind, Reply
from gateway.contracts.ports import Claim
from gateway.scrub import Scrubber
from gateway.store import Store
from gateway.tasks import BackgroundTasks
from tests.parts.agents import AgentProcess, message, running_agent
from tests.parts.waiting import until

ADMIN = "telegram:1"
OTHER_ADMIN = "telegram:2"
STRANGER = "telegram:3"
WRITE = 'tool file_write {"path": "note.txt", "content": "hello"}'


def agent_with(
    bus: RedisBus, store: Store, tmp_path: Path, *, approval_ttl_s: int = 900, concurrency: int = 64
) -> AbstractAsyncContextManager[AgentProcess]:
    """An agent with two admins."""
    return running_agent(
        bus,
        store,
        ScriptedClient(),
        tmp_path,
        admins=(SessionKey.parse(ADMIN), SessionKey.parse(OTHER_ADMIN)),
        tools=ToolSettings(approval_ttl_s=approval_ttl_s),
        concurrency=concurrency,
        grace_s=0.2,
    )


@pytest.fixture
async def agent(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> AsyncIterator[AgentProcess]:
    async with agent_with(bus, sqlite_store, tmp_path) as process:
        yield process


def note_of(tmp_path: Path, key: str = ADMIN) -> Path:
    """The file that the tool was asked to write."""
    return tmp_path / WORKSPACES / folder_name(SessionKey.parse(key).owner) / "files" / "note.txt"


def commands(question: Reply) -> tuple[str, str]:
    """What its buttons say: approve, deny."""
    approve, deny, *_ = question.choices
    return approve.command, deny.command


async def after(agent: AgentProcess, question: Reply) -> list[Reply]:
    """The amendment of the question and the answer of its turn, in that order."""
    replies = await agent.heard(agent.replies.index(question) + 3)
    return replies[-2:]


async def test_an_approved_call_runs_and_the_question_says_who_approved(agent: AgentProcess, tmp_path: Path) -> None:
    await agent.say(WRITE, ADMIN)
    question = await agent.question()
    assert question.text.startswith("May I run `file_write`?")
    assert "note.txt" in question.text
    assert not note_of(tmp_path).exists()
    assert await agent.press(commands(question)[0], ADMIN) == ""
    amendment, answer = await after(agent, question)
    assert (amendment.amends, amendment.choices) == (question.id, ())
    assert amendment.text.endswith("**Approved** by Someone.")
    assert note_of(tmp_path).read_text() == "hello"
    assert "note.txt" in answer.text


async def test_a_denied_call_does_not_run_and_the_model_is_told(agent: AgentProcess, tmp_path: Path) -> None:
    await agent.say(WRITE, ADMIN)
    question = await agent.question()
    assert await agent.press(commands(question)[1], ADMIN) == ""
    amendment, answer = await after(agent, question)
    assert amendment.text.endswith("**Denied** by Someone.")
    assert not note_of(tmp_path).exists()
    assert "not approved" in answer.text


async def test_the_words_are_as_good_as_the_buttons(agent: AgentProcess, tmp_path: Path) -> None:
    """In any case, from any place of the person, with the bot's name behind the command or not."""
    await agent.say(WRITE, ADMIN)
    question = await agent.question()
    await agent.say_to_control(f"/approve {commands(question)[0].split()[1].lower()}", ADMIN)
    said = [reply.text for reply in await agent.heard(4)]
    assert "Approved." in said
    await until(note_of(tmp_path).exists)


async def test_only_the_one_who_was_asked_or_an_admin_is_heard(agent: AgentProcess, tmp_path: Path) -> None:
    await agent.say(WRITE, ADMIN)
    question = await agent.question()
    for command in commands(question):
        assert await agent.press(command, STRANGER) == "Only the person I asked, or an admin, can answer this."
    assert not note_of(tmp_path).exists()
    assert await agent.press(commands(question)[1], OTHER_ADMIN) == ""
    amendment, _ = await after(agent, question)
    assert "Denied" in amendment.text


async def test_a_second_press_changes_nothing(agent: AgentProcess, tmp_path: Path) -> None:
    """Not the same button again, not the other one; and the question is amended once."""
    await agent.say(WRITE, ADMIN)
    question = await agent.question()
    approve, deny = commands(question)
    first, second, third = await asyncio.gather(
        agent.press(approve, ADMIN), agent.press(approve, ADMIN), agent.press(deny, OTHER_ADMIN)
    )
    amendment, _ = await after(agent, question)
    if "Approved" in amendment.text:
        assert (first, second) == ("", "")
        assert third is not None
        assert "settled already" in third
        assert note_of(tmp_path).exists()
    else:  # the denial was quicker
        assert third == ""
        assert not note_of(tmp_path).exists()
    await agent.ask("say done", ADMIN)
    assert [reply.amends for reply in agent.replies].count(question.id) == 1


async def test_a_question_that_nobody_answers_is_a_no(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> None:
    async with agent_with(bus, sqlite_store, tmp_path, approval_ttl_s=1) as agent:
        await agent.say(WRITE, ADMIN)
        question = await agent.question()
        amendment, answer = await after(agent, question)
        assert "Nobody answered in time" in amendment.text
        assert "nobody approved file_write in time" in answer.text
        assert await agent.press(commands(question)[0], ADMIN) == "This question is no longer open."
        assert not note_of(tmp_path).exists()


async def test_a_stop_withdraws_the_question_at_once(agent: AgentProcess, tmp_path: Path) -> None:
    await agent.say(WRITE, ADMIN)
    question = await agent.question()
    await agent.control(ControlKind.STOP, ADMIN)
    replies = await agent.heard(agent.replies.index(question) + 3)
    texts = {reply.amends: reply.text for reply in replies[-2:]}
    assert texts[""] == "Stopped."
    assert "No longer open" in texts[question.id]
    assert await agent.press(commands(question)[0], ADMIN) == "This question is no longer open."
    assert not note_of(tmp_path).exists()


async def test_while_a_person_is_asked_the_turns_clock_stands_still(
    agent: AgentProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The person takes longer than a turn may; the turn does not fail."""
    monkeypatch.setattr(turn, "TURN_TIMEOUT_S", 2.0)
    await agent.say(WRITE, ADMIN)
    question = await agent.question()
    await asyncio.sleep(2.1)
    await agent.press(commands(question)[0], ADMIN)
    _, answer = await after(agent, question)
    assert "too long" not in answer.text
    assert note_of(tmp_path).exists()


async def test_an_answer_never_waits_for_work(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> None:
    """Every place of the worker is taken by somebody who is asked; whoever answers is heard."""
    async with agent_with(bus, sqlite_store, tmp_path, concurrency=2) as agent:
        await agent.say(WRITE, ADMIN)
        await agent.say(WRITE, OTHER_ADMIN)
        await agent.question(2)
        await agent.say("say behind it", STRANGER)
        questions = [reply for reply in agent.replies if reply.choices]
        for question in questions:
            assert await agent.press(commands(question)[0], str(question.key)) == ""
        texts = [reply.text for reply in await agent.heard(len(questions) * 3 + 1)]
        assert any("behind it" in text for text in texts)


async def test_several_calls_of_one_round_are_asked_one_by_one(agent: AgentProcess) -> None:
    """Each has a code of its own: an approval is good for one call."""
    await agent.say(WRITE, ADMIN)
    await agent.say(WRITE, OTHER_ADMIN)
    first, second = await agent.question(1), await agent.question(2)
    assert commands(first)[0] != commands(second)[0]
    await agent.press(commands(first)[0], str(first.key))
    await agent.heard(4)
    assert [reply.amends for reply in agent.replies if reply.amends] == [first.id]
    await agent.press(commands(second)[1], str(second.key))
    await agent.heard(6)


async def test_an_approval_is_not_good_for_the_run_that_comes_after(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    """The process that asked stops; its successor asks again, and the old button runs nothing."""
    async with agent_with(bus, sqlite_store, tmp_path) as agent:
        await agent.say(WRITE, ADMIN)
        old = await agent.question()
    async with agent_with(bus, sqlite_store, tmp_path) as successor:
        new = await successor.question()
        assert commands(new) != commands(old)
        assert await successor.press(commands(old)[0], ADMIN) == "This question is no longer open."
        assert not note_of(tmp_path).exists()
        assert any(reply.amends == old.id for reply in successor.replies)
        await successor.press(commands(new)[0], ADMIN)
        await until(note_of(tmp_path).exists)
        await successor.heard(len(successor.replies) + 1)


async def test_a_code_that_is_none_is_told_so(agent: AgentProcess) -> None:
    for said in ("/approve", "/approve ../../etc", "/deny \u202e", f"/approve {'A' * 5_000}"):
        assert str(await agent.press(said, ADMIN)).startswith("Say which question")
    assert await agent.press("/approve K7QM2PXA", ADMIN) == "This question is no longer open."


async def test_a_question_survives_a_loss_of_what_the_bus_knew(
    agent: AgentProcess, bus: RedisBus, raw_redis: Any
) -> None:
    await agent.say(WRITE, ADMIN)
    question = await agent.question()
    code = commands(question)[0].split()[1]
    raw_redis.delete(f"{{q0}}:ask:{code}")
    while await bus.questions.standing(code) is None:  # noqa: ASYNC110 - the bus tells nobody
        await asyncio.sleep(0.02)
    assert await agent.press(commands(question)[1], ADMIN) == ""
    await after(agent, question)


async def test_all_of_a_long_call_is_in_the_question_with_its_evil_end(agent: AgentProcess, tmp_path: Path) -> None:
    content = "harmless " * 6_900 + "\u202eand then the evil"
    await agent.say(f"tool file_write {json.dumps({'path': 'note.txt', 'content': content})}", ADMIN)
    question = await agent.question()
    assert "harmless \\u202eand then the evil" in question.text
    await agent.press(commands(question)[0], ADMIN)
    await until(note_of(tmp_path).exists)
    assert note_of(tmp_path).read_text() == content


async def test_nobody_is_asked_about_what_is_too_long_to_be_shown(agent: AgentProcess, tmp_path: Path) -> None:
    """As escapes it is six times as long."""
    content = "\u200b" * 11_500
    answer = await agent.ask(f"tool file_write {json.dumps({'path': 'note.txt', 'content': content})}", ADMIN)
    assert "too long to be shown" in answer
    assert not note_of(tmp_path).exists()


async def test_an_answer_to_another_question_runs_nothing(agent: AgentProcess, raw_redis: Any, tmp_path: Path) -> None:
    """What was asked is replaced on the bus while somebody reads it."""
    await agent.say(WRITE, ADMIN)
    question = await agent.question()
    raw_redis.hset(f"{{q0}}:ask:{commands(question)[0].split()[1]}", "digest", "another")
    await agent.press(commands(question)[0], ADMIN)
    _, answer = await after(agent, question)
    assert "not approved" in answer.text
    assert not note_of(tmp_path).exists()


async def test_where_nobody_can_be_asked_asking_is_denying(bus: RedisBus, sqlite_store: Store) -> None:
    asking = ChatApprovals(
        bus.questions, bus.deliveries, sqlite_store, Scrubber(), SystemClock(), BackgroundTasks(), ttl_s=60
    )
    key = SessionKey.parse(ADMIN)
    assert await asking.ask(ApprovalRequest(key, "t1", 1, key, None, CleanText("May I?"), "")) is ApprovalOutcome.DENIED


async def claimed(bus: RedisBus) -> Claim:
    """A lane in work, for a question that somebody waits for."""
    await bus.lanes.register("w", lease_ttl_s=60)
    await bus.intake.enqueue(message("hello", ADMIN))
    batch = await bus.lanes.claim("w", lanes_max=1, messages_max=10, attempts_max=4)
    return batch.claims[0]
