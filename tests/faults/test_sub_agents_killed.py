"""kill -9 of the agent process while sub-agents work for it, where that takes long: the rest is in test_kill_roles
and, for a barrier on PostgreSQL, in test_waking_crashes."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tests.parts.descendants import sub_agents_below
from tests.parts.fleet import running_fleet
from tests.parts.product import Chat, running_product
from tests.parts.waiting import until

ANSWERED = "The sub-agents answered:"
WOKEN = "The sub-agents in the background have ended:"


async def gone(processes: list[psutil.Process]) -> None:
    """None of them runs any more."""
    await until(lambda: not any(process.is_running() for process in processes), lambda: processes)


async def answered_once(chat: Chat, heading: str) -> None:
    """And every line in the chat says how its sub-agent ended."""
    await chat.until_answered(heading)
    assert chat.heard.count(heading) == 1, chat.answers
    await until(lambda: "⏳" not in chat.heard, lambda: chat.answers)
    assert chat.heard.count(heading) == 1, chat.answers


@pytest.mark.long
async def test_a_conversation_that_waits_is_told(tmp_path: Path) -> None:
    """The turn has yielded: nothing is taken again, the barrier wakes it."""
    async with running_product(tmp_path, platforms=("telegram",)) as product:
        ada = product.chat("telegram", "Ada")
        await ada.say("spawn slow 60 alpha | slow 60 beta | slow 60 gamma")
        (agent,) = product.processes()["agent"]
        await until(lambda: len(sub_agents_below(agent.pid)) == 3)
        orphans = sub_agents_below(agent.pid)
        await product.until_figures(lambda figures: not figures.running)
        await product.kill("agent")
        await gone(orphans)
        await answered_once(ada, WOKEN)
        assert ada.heard.count("its process was lost with the worker") == 3
        tasks = await product.api("/api/v1/tasks")
        assert [(task["state"], task["reason"]) for task in tasks] == [("failed", "worker_lost")] * 3


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_another_machine_takes_over_on_postgresql(tmp_path: Path) -> None:
    hosts = {"h1": ("channels",), "h2": ("agent",), "h3": ("agent",)}
    async with running_fleet(tmp_path, hosts=hosts, settings={}, platforms=("telegram",)) as fleet:
        ada = fleet.chat("telegram", "Ada")
        await ada.say("split slow 3 alpha | slow 3 beta | slow 3 gamma")
        agents = fleet.of("agent")
        await until(lambda: any(len(sub_agents_below(agent.pid)) == 3 for agent in agents))
        victim = next(agent for agent in agents if sub_agents_below(agent.pid))
        orphans = sub_agents_below(victim.pid)
        await victim.kill()
        await gone(orphans)
        await answered_once(ada, ANSWERED)
