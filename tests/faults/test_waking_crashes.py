"""kill -9 while a turn waits for sub-agents: its message is answered, and answered once, whoever died."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import psutil
import pytest

from gateway.contracts.subagents import TaskState
from gateway.store import Store, open_store
from tests.parts.crashing import SUB_AGENTS, points_of
from tests.parts.descendants import sub_agents_below
from tests.parts.fleet import Fleet, RoleProcess, running_fleet
from tests.parts.product import Chat
from tests.parts.waiting import PATIENCE_S, POLL_S, until

HOSTS = {"h1": ("channels",), "h2": ("agent",)}
TWO = {**HOSTS, "h3": ("agent",)}
WAKING = [point for point in points_of("agent.subagents.wakes") if ":SessionWaker." in point.name]
SPAWNING = [
    point
    for module in SUB_AGENTS
    for point in points_of(module)
    if point.name.split(":")[1].split(".")[0] in {"SubAgents", "WaitTool", "RunRegistry", "SubagentRun"}
]
ANSWERING = [
    (point, passage)
    for point in points_of("agent.runtime.run")
    for passage in (1, 2)  # the turn that spawns, and the one that is woken
    if point.name.split(":")[1] in {f"Answering.{name}" for name in ("_answer", "_begin", "_take", "_commit")}
]
HASTY = "SUBTASK_ALIVE_S=2 SUBAGENT_ALIVE_S=2 SUBAGENT_ALIVE_EVERY_S=0.4 LOST_LOOK_S=0.4"
"""Who dies is found dead soon."""
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


async def all_over(store: Store) -> None:
    """Nothing works any more, and nothing is to be told."""
    async with asyncio.timeout(PATIENCE_S):
        while any(not task.state.is_over for task in await store.tasks.newest(limit=20)) or (  # noqa: ASYNC110 - a database does not tell
            await store.tasks.due_wakes(limit=1)
        ):
            await asyncio.sleep(10 * POLL_S)


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
@pytest.mark.timeout(1800)
async def test_a_crash_at_any_point_of_spawning_and_waiting_costs_nothing(tmp_path: Path) -> None:
    """Before and behind the row of a sub-agent, the barrier and the commits of both turns. A turn that is taken again
    begins anew: it is woken for its own sub-agents, and told nothing more of those of its first attempt."""
    async with running_fleet(tmp_path, hosts=HOSTS, settings={"LIMITS": HASTY}, platforms=("telegram",)) as fleet:
        victim, store = fleet.role("h2", "agent"), open_store(fleet.database_url)
        reached = 0
        walk = [*((point, 1) for point in SPAWNING), *ANSWERING]
        for number, (point, passage) in enumerate(walk):
            chat = someone(fleet, f"Ann {number}")
            lives = len(victim.endings)
            await victim.arm(point.name, passage=passage)
            await chat.say("spawn say alpha | say beta")
            await until(lambda: WOKEN in chat.heard, lambda: f"{point}: {chat.answers}\n{fleet.log[-6000:]}")  # noqa: B023
            await victim.arm("nowhere")
            await all_over(store)
            await fleet.until_settled()
            assert chat.heard.count(WOKEN) == 1, f"{point}, passage {passage}: {chat.answers}"
            assert "alpha" in chat.heard, f"{point}, passage {passage}: {chat.answers}"
            reached += -signal.SIGKILL in victim.endings[lives:]
        print(f"\n{reached} of {len(walk)} passages lived through")
        assert reached >= len(walk) // 2
        await store.close()


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_a_process_that_comes_back_after_its_sub_agents_were_found_lost_ends_them(tmp_path: Path) -> None:
    """It was paused for longer than anybody waits: another one has told of them, and it tells nothing."""
    async with running_fleet(tmp_path, hosts=TWO, settings={"LIMITS": HASTY}, platforms=("telegram",)) as fleet:
        chat = someone(fleet)
        await chat.say("spawn slow 60 | slow 60")
        paused = await at_work(*fleet.of("agent"))
        await until(lambda: len(sub_agents_below(paused.pid)) == 2)
        children = sub_agents_below(paused.pid)
        await fleet.until_figures(lambda figures: not figures.running)
        paused.send(signal.SIGSTOP)
        await until(lambda: WOKEN in chat.heard, lambda: (chat.answers, fleet.log[-6000:]))
        assert all(child.is_running() for child in children)
        paused.send(signal.SIGCONT)
        await until(lambda: not any(child.is_running() for child in children))
        await answered_once(fleet, chat, "its process was lost")
        assert paused.endings == []


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("away", ["database", "bus"])
async def test_sub_agents_outlive_a_database_or_a_bus_that_is_away(tmp_path: Path, away: str) -> None:
    """For longer than a worker may be silent: nobody could say that he lives, so nobody is found dead."""
    async with running_fleet(tmp_path, hosts=TWO, settings={"LIMITS": HASTY}, platforms=("telegram",)) as fleet:
        chat = someone(fleet)
        await chat.say("spawn slow 8 | slow 8")
        await at_work(*fleet.of("agent"))
        await fleet.until_figures(lambda figures: not figures.running)
        wires = [host.wires[away] for host in fleet.hosts.values()]
        for wire in wires:
            await wire.cut()
        await asyncio.sleep(5)
        for wire in wires:
            await wire.mend()
        await answered_once(fleet, chat, "That took 8 seconds")
        assert "its process was lost" not in chat.heard


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_who_waits_is_told_that_the_worker_died(tmp_path: Path) -> None:
    """The barrier outlives the process, its sub-agents do not: within some seconds they are lost, and their
    conversation goes on. Killed twice, the second time while it tells."""
    async with running_fleet(tmp_path, hosts=HOSTS, settings={}, platforms=("telegram",)) as fleet:
        chat, victim = someone(fleet), fleet.role("h2", "agent")
        await chat.say("spawn slow 60 | slow 60")
        await until(lambda: len(sub_agents_below(victim.pid)) == 2)
        orphans = sub_agents_below(victim.pid)
        await fleet.until_figures(lambda figures: not figures.running)  # else the turn begins anew, with new ones
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
        await answered_once(fleet, chat, "That took 4 seconds")


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_who_outlives_the_grace_is_lost_and_told(tmp_path: Path) -> None:
    limits = {"LIMITS": "SHUTDOWN_GRACE_S=2"}
    async with running_fleet(tmp_path, hosts=TWO, settings=limits, platforms=("telegram",)) as fleet:
        chat, store = someone(fleet), open_store(fleet.database_url)
        await chat.say("spawn slow 60 | say quick")
        worker = await at_work(*fleet.of("agent"))
        async with asyncio.timeout(PATIENCE_S):
            while TaskState.COMPLETED not in {task.state for task in await store.tasks.newest(limit=2)}:  # noqa: ASYNC110 - a database does not tell
                await asyncio.sleep(10 * POLL_S)
        await store.close()
        await fleet.until_figures(lambda figures: not figures.running)
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
            await until(lambda: "Stopped. 2 sub-agents were ended." in chat.heard, lambda: chat.answers)  # noqa: B023
            assert not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children)
            await fleet.until_settled()
            assert WOKEN not in chat.heard
