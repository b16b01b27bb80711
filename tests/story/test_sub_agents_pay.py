"""What sub-agents cost is taken from their user's allowance before it is spent, and the end of it is one sentence."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.limits import SUBAGENTS_LIVE_MAX
from agent.models.requests import ModelEvent, ModelFacts, ModelRequest, RequestedCall, TextDelta
from gateway.bus.bus import RedisBus
from gateway.config.limits import Allowance, GuestAllowance, LimitSettings
from gateway.contracts.budgets import Amounts, Period, nano_of
from gateway.contracts.errors import ModelUnavailable
from gateway.contracts.messages import ControlKind, ReplyKind
from gateway.contracts.sessions import UsagePurpose
from gateway.contracts.subagents import TaskState
from gateway.store import Store
from tests.parts.agents import AgentProcess, running_agent
from tests.parts.waiting import PATIENCE_S, until
from tests.story.test_limits import RESET, spent, spent_when
from tests.story.test_sub_agents import ANN, Cast, Words, children, delegated, newest, results

TOKENS_A_DAY = 12_500
"""Enough for a turn, and for the reservations of two sub-agents: each sets 4,096 tokens aside for its answer."""


@pytest.mark.parametrize("many", [3, pytest.param(SUBAGENTS_LIVE_MAX, marks=pytest.mark.long)])
async def test_many_at_once_never_take_more_than_is_left(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path, many: int
) -> None:
    """Who comes too late asks no model; what the others cost is counted once, and gives the rest back."""
    orders = [delegated(f"part {number}", number=number) for number in range(many)]
    model = Cast(orders, "Some of it is done.", child=lambda _: "done")
    model.gate = asyncio.Event()
    limits = LimitSettings(user=Allowance(tokens=TOKENS_A_DAY), guest=GuestAllowance(usd=0))

    def asked() -> int:
        return len(model.of(UsagePurpose.SUBAGENT))

    async with running_agent(bus, sqlite_store, model, tmp_path, limits=limits) as agent:
        await agent.say("split it")
        refused = 0
        async with asyncio.timeout(PATIENCE_S):
            while not refused or refused + asked() < many:
                await asyncio.sleep(0.02)
                tasks = await sqlite_store.tasks.newest(limit=20)
                refused = sum(task.reason == "budget_spent" for task in tasks)
        held = await spent(agent)
        assert 0 < asked() < many
        assert asked() * 4_096 < held.tokens <= TOKENS_A_DAY
        model.gate.set()
        (reply,) = await agent.heard(1)
        assert reply.text == "Some of it is done."
        told = results(model.of(UsagePurpose.TURN)[-1])
        assert sum("today's allowance is spent" in text for text in told) == refused
        after = await spent_when(agent, lambda found: found.tokens < 4_096)
        session = await sqlite_store.sessions.current(ANN)
        assert session is not None
        assert session.cost_usd == 0.5 * (2 + asked())
        assert after.tokens == session.tokens
        assert after.turns == 1


async def test_at_the_limit_a_child_ends_and_its_user_reads_one_sentence(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    """The first call of the turn has cost more than there was: no child asks a model any more, nor does the turn."""
    limits = LimitSettings(guest=GuestAllowance(usd=0.4))
    model = Cast([delegated("look around")], "never said", child=lambda _: "never said")
    async with running_agent(bus, sqlite_store, model, tmp_path, limits=limits) as agent:
        reply = await agent.ask("look around")
        assert RESET.search(reply)
        assert "\n" not in reply
        assert [said.kind for said in agent.replies] == [ReplyKind.NOTICE]
        task = await newest(sqlite_store)
        assert (task.state, task.reason, task.tokens) == (TaskState.FAILED, "budget_spent", 0)
        assert model.of(UsagePurpose.SUBAGENT) == []


class Talking(Cast):
    """A model with a price whose children say a few words before they wait for the gate. Where `is_dropped` their first
    call breaks after these."""

    SAID = "I have looked at the first of them"
    TOKENS = 9

    def __init__(self, *turn: Words, is_dropped: bool = False) -> None:
        super().__init__(*turn, child=lambda _: "And at the rest.")
        self.gate = self.let_go = asyncio.Event()
        self.is_dropped = is_dropped

    def facts(self, model: str) -> ModelFacts:
        """A dollar for a million tokens in, ten for a million out."""
        return ModelFacts(prices_usd={"prompt": 1e-6, "completion": 1e-5})

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Its words, then as ever."""
        if request.purpose is UsagePurpose.SUBAGENT:
            yield TextDelta(self.SAID)
            if self.is_dropped:
                self.is_dropped = False
                raise ModelUnavailable("dropped")
        async for event in super().stream(request):
            yield event


async def agreed(agent: AgentProcess) -> None:
    """What the rows of the one child say, its task, its conversation and the day: all the same."""
    task = await newest(agent.store)
    rows = await agent.store.usage.by_purpose(ANN, Period(0, 10**14))
    own = rows[UsagePurpose.SUBAGENT]
    assert (task.tokens_in, task.tokens_out) == (own.prompt_tokens, own.completion_tokens)
    assert task.cost_usd == pytest.approx(own.cost_usd)
    session = await agent.store.sessions.current(ANN)
    assert session is not None
    assert session.tokens == sum(each.tokens for each in rows.values())
    day = await spent_when(agent, lambda found: found.tokens < 4_096)
    assert day == Amounts(session.tokens, nano_of(session.cost_usd), turns=1)


async def begun(agent: AgentProcess, model: Talking) -> None:
    """The child's model has begun to speak."""
    await agent.ask("/title No call for this")
    await agent.say("look around")
    await until(lambda: model.of(UsagePurpose.SUBAGENT))
    assert (await spent(agent)).tokens > 4_096


GENEROUS = LimitSettings(user=Allowance(tokens=10**6))
UNTIL_LATE = RequestedCall("c1", "sub_agent", json.dumps({"type": "explore", "task": "look around", "limit_s": 2}))


@pytest.mark.parametrize("end", ["killed", "stopped", "timed_out", "found_lost"])
@pytest.mark.long_on("found_lost", "stopped")
async def test_a_child_that_ends_in_the_middle_of_a_call_pays_what_was_read_and_written(
    bus: RedisBus, store: Store, tmp_path: Path, end: str
) -> None:
    """The prompt and what was heard, by an estimate; what was set aside for the answer comes back. Its row on the board
    says so as the day does, and its transcript how far it came."""
    order = UNTIL_LATE if end == "timed_out" else delegated("look around")
    model = Talking([order], "It did not get to its end.")
    async with running_agent(bus, store, model, tmp_path, limits=GENEROUS) as agent:
        await begun(agent, model)
        if end == "killed":
            (pid,) = children()
            os.kill(pid, signal.SIGKILL)
        elif end == "stopped":
            await agent.control(ControlKind.STOP)
        elif end == "found_lost":  # by another process, whose clock is ahead
            assert len(await store.tasks.lose(now_ms=10**14)) == 1
        await agent.heard(2)
        task = await newest(store)
        states = {"stopped": TaskState.CANCELLED, "timed_out": TaskState.TIMED_OUT}
        assert task.state is states.get(end, TaskState.FAILED)
        assert (task.tokens_in > 100, task.tokens_out) == (True, Talking.TOKENS)
        assert task.cost_usd == pytest.approx(task.tokens_in * 1e-6 + task.tokens_out * 1e-5)
        await agreed(agent)
        assert (await store.transcript.page(task.session_id))[-1].text == "I have looked at the first of … [cut off]"


async def test_a_child_that_its_process_leaves_behind_has_paid(bus: RedisBus, store: Store, tmp_path: Path) -> None:
    """It was lost with its worker, which had the time to say what it had cost."""
    model = Talking([delegated("look around", tool="sub_agent_spawn")], "It works.")
    async with running_agent(bus, store, model, tmp_path, limits=GENEROUS, grace_s=0.1) as agent:
        await begun(agent, model)
        await agent.heard(2)
    task = await newest(store)
    assert (task.state, task.reason, task.tokens_out) == (TaskState.FAILED, "worker_lost", Talking.TOKENS)
    await agreed(agent)


async def test_a_child_that_comes_to_its_end_pays_what_its_provider_counted(
    bus: RedisBus, store: Store, tmp_path: Path
) -> None:
    model = Talking([delegated("look around")], "All is well.")
    async with running_agent(bus, store, model, tmp_path, limits=GENEROUS) as agent:
        await begun(agent, model)
        model.let_go.set()
        await agent.heard(2)
        task = await newest(store)
        assert (task.state, task.tokens, task.cost_usd) == (TaskState.COMPLETED, 110, 0.5)
        await agreed(agent)


async def test_a_try_that_broke_is_on_the_bill_beside_the_answer(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    model = Talking([delegated("look around")], "All is well.", is_dropped=True)
    async with running_agent(bus, sqlite_store, model, tmp_path, limits=GENEROUS) as agent:
        await begun(agent, model)
        model.let_go.set()
        await agent.heard(2)
        task = await newest(sqlite_store)
        assert (task.state, task.tokens_out) == (TaskState.COMPLETED, 10 + Talking.TOKENS)
        await agreed(agent)
        said = await sqlite_store.transcript.page(task.session_id)
        assert "cut off" not in "".join(entry.text for entry in said)


async def test_where_nothing_is_limited_a_call_that_was_cut_off_is_on_the_bill_all_the_same(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    model = Talking([delegated("look around")])
    async with running_agent(bus, sqlite_store, model, tmp_path, grace_s=0.1) as agent:
        await agent.say("look around")
        await until(lambda: model.of(UsagePurpose.SUBAGENT))
    task = await newest(sqlite_store)
    rows = await sqlite_store.usage.by_purpose(ANN, Period(0, 10**14))
    assert task.tokens_out == Talking.TOKENS
    assert task.tokens == rows[UsagePurpose.SUBAGENT].tokens
