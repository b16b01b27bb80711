"""What sub-agents cost is taken from their user's allowance before it is spent, and the end of it is one sentence."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agent.limits import SUBAGENTS_LIVE_MAX
from agent.model.retrying import RetryingClient
from gateway.bus.bus import RedisBus
from gateway.config.limits import Allowance, Limits, RoleAllowance
from gateway.contracts.entries import UsagePurpose
from gateway.contracts.messages import ControlKind, ReplyKind
from gateway.contracts.subagents import TaskState
from gateway.store.store import SqlStore
from tests.parts.agents import running_agent
from tests.parts.waiting import PATIENCE_S, until
from tests.story.test_limits import RESET, spent, spent_when
from tests.story.test_sub_agents import ANN, Cast, delegated, newest, results

TOKENS_A_DAY = 12_500
"""Enough for a turn, and for the reservations of two sub-agents: each sets 4,096 tokens aside for its answer."""


@pytest.mark.parametrize("many", [3, pytest.param(SUBAGENTS_LIVE_MAX, marks=pytest.mark.long)])
async def test_many_at_once_never_take_more_than_is_left(
    bus: RedisBus, sqlite_store: SqlStore, tmp_path: Path, many: int
) -> None:
    """Who comes too late asks no model; what the others cost is counted once, and gives the rest back."""
    orders = [delegated(f"part {number}", number=number) for number in range(many)]
    model = Cast(orders, "Some of it is done.", child=lambda _: "done")
    model.gate = asyncio.Event()
    limits = Limits(user=Allowance(tokens=TOKENS_A_DAY))

    def asked() -> int:
        return len(model.of(UsagePurpose.SUBAGENT))

    async with running_agent(bus, sqlite_store, RetryingClient(model), tmp_path, limits=limits) as agent:
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
        session = await sqlite_store.current_session(ANN)
        assert session is not None
        assert session.cost_usd == 0.5 * (2 + asked())
        assert after.tokens == session.tokens
        assert after.turns == 1


async def test_at_the_limit_a_child_ends_and_its_user_reads_one_sentence(
    bus: RedisBus, sqlite_store: SqlStore, tmp_path: Path
) -> None:
    """The first call of the turn has cost more than there was: no child asks a model any more, nor does the turn."""
    limits = Limits(guest=RoleAllowance(usd=0.4))
    model = Cast([delegated("look around")], "never said", child=lambda _: "never said")
    async with running_agent(bus, sqlite_store, RetryingClient(model), tmp_path, limits=limits) as agent:
        reply = await agent.ask("look around")
        assert RESET.search(reply)
        assert "\n" not in reply
        assert [said.kind for said in agent.replies] == [ReplyKind.NOTICE]
        task = await newest(sqlite_store)
        assert (task.state, task.reason, task.tokens) == (TaskState.FAILED, "budget_spent", 0)
        assert model.of(UsagePurpose.SUBAGENT) == []


async def test_a_child_that_is_killed_in_the_middle_of_a_call_pays_what_was_read(
    bus: RedisBus, sqlite_store: SqlStore, tmp_path: Path
) -> None:
    """The prompt, by an estimate; what was set aside for the answer comes back."""
    model = Cast([delegated("look around")], child=lambda _: "never said")
    model.gate = asyncio.Event()
    limits = Limits(user=Allowance(tokens=10**6))
    async with running_agent(bus, sqlite_store, RetryingClient(model), tmp_path, limits=limits) as agent:
        await agent.ask("/title No call for this")
        await agent.say("look around")
        await until(lambda: model.of(UsagePurpose.SUBAGENT))
        assert (await spent(agent)).tokens > 4_096
        await agent.control(ControlKind.STOP)
        await agent.heard(2)
        after = await spent_when(agent, lambda found: found.tokens < 4_096)
        assert after.tokens > 110
