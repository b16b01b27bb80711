"""Sub-agents without processes: a test opens, ends and loses their tasks as a dispatcher would."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.clock import SystemClock
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.subagents import SubTask, TaskEnding, TaskMode, TaskState, WakeAddress
from gateway.store.store import SqlStore
from tests.parts.agents import message

WORKER = "crew"
LIVES_MS = 60_000


@dataclass
class Crew:
    """The sub-agents of one person's current conversation."""

    store: SqlStore
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
        session = await self.store.current_session(key)
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
