"""kill -9 while a turn waits for sub-agents: its message is answered, and answered once, whoever died."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import psutil
import pytest

from tests.parts.crashing import points_of
from tests.parts.descendants import sub_agents_below
from tests.parts.fleet import Fleet, RoleProcess, running_fleet
from tests.parts.product import Chat
from tests.parts.waiting import until

HOSTS = {"h1": ("channels",), "h2": ("agent",)}
TWO = {**HOSTS, "h3": ("agent",)}
WAKING = [point for point in points_of("agent.subagents.waking") if ":Waking." in point.name]
WOKEN = "The sub-agents in the background have ended"


def test_the_steps_of_a_wake_are_crash_points() -> None:
    sources = " ".join(point.source for point in WAKING)
    assert all(step in sources for step in ("due_wakes", "enqueue", "wake_sent"))


def someone(fleet: Fleet, name: str = "Ann") -> Chat:
    return fleet.chat(next(iter(fleet.stages)), name)


async def answered_once(fleet: Fleet, chat: Chat, said: str) -> None:
    """The conversation went on, and was not told twice."""
    await until(lambda: WOKEN in chat.heard, lambda: (chat.answers, fleet.log[-6000:]))
    await fleet.until_settled()
    assert chat.heard.count(WOKEN) == 1, chat.answers
    assert said in chat.heard, chat.answers


async def at_work(*processes: RoleProcess) -> RoleProcess:
    """The one that has sub-agents, once one does."""
    found: list[RoleProcess] = []

    def look() -> bool:
        found[:] = [process for process in processes if sub_agents_below(process.pid)]
        return bool(found)

    await until(look)
    return found[0]


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_a_crash_at_any_point_of_a_wake_costs_nothing(tmp_path: Path) -> None:
    """What leads only to full queues is not reached, and printed."""
    async with running_fleet(tmp_path, hosts=HOSTS, settings={}, platforms=("telegram",)) as fleet:
        victim = fleet.role("h2", "agent")
        reached = 0
        for number, point in enumerate(WAKING):
            chat = someone(fleet, f"Ann {number}")
            lives = len(victim.endings)
            await victim.arm(point.name)
            await chat.say("spawn say alpha | say beta")
            await until(lambda: WOKEN in chat.heard, lambda: f"{point}: {chat.answers}\n{fleet.log[-6000:]}")  # noqa: B023
            await fleet.until_settled()
            assert chat.heard.count(WOKEN) == 1, f"{point}: {chat.answers}"
            reached += -signal.SIGKILL in victim.endings[lives:]
            await victim.arm("nowhere")
        print(f"\n{reached} of {len(WAKING)} points lived through")
        assert reached >= 5


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_who_waits_is_told_that_the_worker_died(tmp_path: Path) -> None:
    """The barrier outlives the process, its sub-agents do not: within some seconds they are lost, and their
    conversation goes on. Killed twice, the second time while it tells."""
    async with running_fleet(tmp_path, hosts=HOSTS, settings={}, platforms=("telegram",)) as fleet:
        chat, victim = someone(fleet), fleet.role("h2", "agent")
        await chat.say("spawn slow 60 | slow 60")
        await at_work(victim)
        orphans = sub_agents_below(victim.pid)
        await asyncio.sleep(1)  # the turn has yielded, or is about to: both are to be survived
        await victim.kill()
        await until(lambda: len(victim.endings) == 1)
        await until(lambda: not any(orphan.is_running() for orphan in orphans))
        await fleet.until_connected()
        await victim.kill()
        await answered_once(fleet, chat, "its process was lost")


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_a_rolling_restart_lets_them_finish(tmp_path: Path) -> None:
    """SIGTERM: what works in the background gets the grace time; another process wakes the conversation if need be."""
    async with running_fleet(tmp_path, hosts=TWO, settings={}, platforms=("telegram",)) as fleet:
        chat = someone(fleet)
        await chat.say("spawn slow 4 | slow 4")
        worker = await at_work(*fleet.of("agent"))
        await worker.restart()
        await answered_once(fleet, chat, "completed")


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_who_outlives_the_grace_is_lost_and_told(tmp_path: Path) -> None:
    limits = {"LIMITS": "SHUTDOWN_GRACE_S=2"}
    async with running_fleet(tmp_path, hosts=TWO, settings=limits, platforms=("telegram",)) as fleet:
        chat = someone(fleet)
        await chat.say("spawn slow 60 | say quick")
        worker = await at_work(*fleet.of("agent"))
        await worker.restart()
        await answered_once(fleet, chat, "its process was lost")
        assert "quick" in chat.heard


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_a_stop_reaches_them_on_whichever_process(tmp_path: Path) -> None:
    """When it is acknowledged nothing of them runs any more, and nothing of them is told later."""
    async with running_fleet(tmp_path, hosts=TWO, settings={}, platforms=("telegram",)) as fleet:
        for number in range(4):
            chat = someone(fleet, f"Ann {number}")
            await chat.say("spawn slow 60 | slow 60")
            worker = await at_work(*fleet.of("agent"))
            await until(lambda: len(sub_agents_below(worker.pid)) >= 2)  # noqa: B023
            await fleet.until_settled()
            children = sub_agents_below(worker.pid)
            await chat.say("/stop")
            await until(lambda: "Stopped. 2 sub-agent(s) were ended." in chat.heard, lambda: chat.answers)  # noqa: B023
            assert not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children)
            await fleet.until_settled()
            assert WOKEN not in chat.heard
