"""Sub-agents without processes: a test opens, ends and loses their tasks as a dispatcher would."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from gateway.clock import SystemClock
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.subagents import SubTask, TaskEnding, TaskMode, TaskState, WakeAddress
from gateway.store import Store
from tests.parts.agents import AgentProcess, message
from tests.parts.minds import Mind
from tests.parts.waiting import PATIENCE_S, POLL_S

ANN = SessionKey.parse("telegram:1")
WAIT = "tool sub_agent_wait {}"
WORKER = "subtasks"
LIVES_MS = 60_000


@dataclass
class Subtasks:
    """The sub-agents of one person's current conversation."""

    store: Store
    key: str = "telegram:1"

    async def spawn(
        self,
        *ids: str,
        turn_id: str = "t_earlier",
        mode: TaskMode = TaskMode.BACKGROUND,
        lives_ms: int = LIVES_MS,
        wakes: int = 0,
    ) -> None:
        """Have them run. So many `wakes` have led to the turn that asked for them."""
        key = SessionKey.parse(self.key)
        session = await self.store.sessions.current(key)
        assert session is not None
        for id_ in ids:
            now_ms = SystemClock().now_ms()
            task = SubTask(
                id=id_,
                session_id=f"session-of-{id_}",
                parent_session_id=session.id,
                key=key,
                turn_id=turn_id,
                sub_type="explore",
                label=CleanText(f"label of {id_}"),
                prompt=CleanText(f"prompt of {id_}"),
                mode=mode,
                depth=1,
                created_at_ms=now_ms,
                worker_id=WORKER,
            )
            said = message("", self.key)
            wake = WakeAddress(key, said.address, said.author_id, said.author_name, said.is_private, wakes=wakes)
            await self.store.tasks.open(task, wake=wake if mode is TaskMode.BACKGROUND else None)
            assert await self.store.tasks.start(
                id_, worker_id=WORKER, alive_until_ms=now_ms + lives_ms, now_ms=now_ms, live_max=100
            )

    async def end(self, *ids: str, state: TaskState = TaskState.COMPLETED, result: str = "") -> None:
        """They are done; each says `result`, or that it found something."""
        for id_ in ids:
            said = CleanText(result or f"{id_} found something")
            await self.store.tasks.finish(id_, TaskEnding(state, SystemClock().now_ms(), result=said))

    async def live(self) -> list[str]:
        """Those that are not over."""
        return [task.id for task in await self.store.tasks.newest(limit=100) if not task.state.is_over]

    async def unwanted(self) -> set[str]:
        """Those that somebody wants ended."""
        return set(await self.store.tasks.unwanted(await self.live()))


def look_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes look for what ended elsewhere all the time."""
    monkeypatch.setattr("agent.limits.WAKE_POLL_S", 0.05)
    monkeypatch.setattr("agent.limits.WAKE_SETTLE_S", 0.1)
    monkeypatch.setattr("agent.limits.STOP_SUBAGENTS_S", 0.5)


async def yielded(agent: AgentProcess, mind: Mind, said: str = WAIT) -> None:
    """A turn has ended with a barrier; nobody was answered."""
    calls = len(mind.asked)
    await agent.say(said)
    await mind.until_asked(calls + 1)
    await idle(agent)


async def becomes(look: Callable[[], Awaitable[object]], wanted: object) -> None:
    """Wait until `look` finds that."""
    async with asyncio.timeout(PATIENCE_S):
        while await look() != wanted:  # noqa: ASYNC110 - neither a bus nor a database tells
            await asyncio.sleep(POLL_S)


async def idle(agent: AgentProcess) -> None:
    """Nothing waits and nothing runs in Ann's lane."""
    await becomes(lambda: agent.bus.lanes.depth(ANN), (0, False))


async def lined_up(agent: AgentProcess, count: int) -> None:
    """So many messages lie behind the turn that runs."""
    await becomes(lambda: agent.bus.lanes.depth(ANN), (count, True))
