"""What the chat shows of sub-agents at work, in a user's turn with real children."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from agent.models.requests import ModelRequest
from gateway.bus.bus import RedisBus
from gateway.config.subagents import SubagentSettings
from gateway.contracts.messages import ControlKind
from gateway.ops.admin.trace import hops_of
from gateway.store import Store
from tests.parts.agents import AgentProcess, running_agent
from tests.parts.waiting import PATIENCE_S
from tests.story.test_sub_agents import Cast, delegated


def answers(request: ModelRequest) -> str:
    return f"done: {request.messages[0].text}"


async def shown(agent: AgentProcess, are_meant: Callable[[Sequence[str]], bool]) -> list[str]:
    """What stands in the lines of the one message once they are those."""
    lines: list[str] = []

    async def deliver() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await agent.hear()

    hearing = asyncio.create_task(deliver())
    try:
        while not are_meant(lines):
            await asyncio.sleep(0.02)
            assert not hearing.done()
            lines = agent.statuses[-1].text.split("\n") if agent.statuses else []
    finally:
        hearing.cancel()
        await asyncio.gather(hearing, return_exceptions=True)
    assert len({reply.amends or reply.id for reply in agent.statuses}) == 1
    return lines


def at_work(lines: Sequence[str]) -> bool:
    """Somebody is: only then a line is said for the first time."""
    return any(text.startswith("⏳") for text in lines)


def over(count: int) -> Callable[[Sequence[str]], bool]:
    """So many say how it ended, and nobody is at work."""
    return lambda lines: len(lines) >= count and not at_work(lines)


async def test_each_child_has_one_line_which_is_no_answer(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> None:
    """/where counts it not, and the trace of the message tells of it in one hop each."""
    model = Cast([delegated("look", number=1), delegated("read", number=2)], "Both are done.", child=answers)
    model.gate = asyncio.Event()
    async with running_agent(bus, sqlite_store, model, tmp_path) as agent:
        await agent.say("split it", message_id="telegram:bot:1:7")
        await shown(agent, at_work)
        model.gate.set()
        assert [reply.text for reply in await agent.heard(1)] == ["Both are done."]
        lines = await shown(agent, over(2))
        assert sorted(text.partition(" (")[0] for text in lines) == ["✓ explore: look", "✓ explore: read"]
        assert all("110 tokens" in text for text in lines)
        assert {reply.title for reply in agent.statuses} == {None}
        await agent.control(ControlKind.WHERE)
        assert (await agent.heard(2))[-1].text.count("UTC: ") == 1
        hops = [hop.name for hop in await hops_of("telegram:bot:1:7", sqlite_store, bus.operator)]
        assert hops.count("status line") == len(agent.statuses)
        assert hops.count("reply committed") == 1


async def test_a_stop_is_seen_in_the_lines(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> None:
    model = Cast([delegated("look", number=1)], child=answers)
    model.gate = asyncio.Event()
    async with running_agent(bus, sqlite_store, model, tmp_path) as agent:
        await agent.say("have a look")
        await shown(agent, at_work)
        await agent.control(ControlKind.STOP)
        assert (await agent.heard(1))[0].text.startswith("Stopped.")
        (said,) = await shown(agent, over(1))
        assert said.startswith("✗ explore: look: stopped (")


async def test_they_can_be_switched_off(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> None:
    model = Cast([delegated("look", number=1)], "Done.", child=answers)
    quiet = SubagentSettings(status_lines=False)
    async with running_agent(bus, sqlite_store, model, tmp_path, subagents=quiet) as agent:
        await agent.say("have a look")
        await agent.heard(1)
    assert agent.statuses == []
    assert await sqlite_store.tasks.newest(limit=9)
