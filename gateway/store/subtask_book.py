"""`gateway.contracts.ports.SubTaskBook` on SQL: each method is one transaction, `lose` one for each task."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial

from gateway.contracts.entries import Entry, Session, Usage
from gateway.contracts.ids import SessionKey
from gateway.contracts.ports import Clock
from gateway.contracts.subagents import Doing, SubTask, TaskEnding, TypeRecord, Wake, WakeAddress
from gateway.store import board, kinship, liveness, subtasks, wakes
from gateway.store.engine import Database


class SqlSubTasks:
    """Every sub-agent's task and session."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    # --- one task

    async def open(self, task: SubTask, *, wake: WakeAddress | None, fence: int = 0) -> SubTask:
        """Store a queued task and open its session. A known id is returned as it stands."""
        work = partial(subtasks.open_task, task=task, wake=wake, fence=fence)
        return await self._database.write(work, durable=False)  # its worker dies with the machine

    async def start(self, task_id: str, *, worker_id: str, alive_until_ms: int, now_ms: int, live_max: int) -> bool:
        """Make a queued task run, unless `live_max` tasks of its parent session do."""
        run = partial(
            subtasks.start,
            task_id=task_id,
            worker_id=worker_id,
            alive_until_ms=alive_until_ms,
            now_ms=now_ms,
            live_max=live_max,
        )
        return await self._database.write(run, durable=False)  # as with `open`

    async def finish(self, task_id: str, ending: TaskEnding) -> bool:
        """End it, unless it is over."""
        return await self._database.write(partial(subtasks.finish, task_id=task_id, ending=ending))

    async def record(
        self, task_id: str, *, entries: Sequence[Entry], usage: Sequence[Usage], doing: Doing | None = None
    ) -> None:
        """Append to its transcript, charge model calls, show what it does."""
        now_ms = self._clock.now_ms()
        work = partial(subtasks.record, task_id=task_id, entries=entries, usage=usage, doing=doing, now_ms=now_ms)
        await self._database.write(work, durable=bool(usage))

    async def task(self, task_id: str) -> SubTask | None:
        """The task of that id, if the board still has it."""
        return await self._database.read(partial(subtasks.by_id, task_id=task_id))

    async def tasks_of_turn(self, turn_id: str) -> Sequence[SubTask]:
        """Those that a turn asked for, oldest first."""
        return await self._database.read(partial(subtasks.of_turn, turn_id=turn_id))

    async def tasks_of_session(self, parent_session_id: str) -> Sequence[SubTask]:
        """Those that work for a session directly, oldest first."""
        return await self._database.read(partial(subtasks.of_session, parent_session_id=parent_session_id))

    # --- who lives

    async def keep_alive(self, worker_id: str, *, alive_until_ms: int) -> None:
        """The tasks of this worker live."""
        work = partial(liveness.keep_alive, worker_id=worker_id, alive_until_ms=alive_until_ms)
        await self._database.write(work, durable=False)

    async def lose(self, *, now_ms: int) -> Sequence[SubTask]:
        """End those that nobody kept alive; the ones this call ended."""
        lost = await self._database.read(partial(liveness.lost, now_ms=now_ms))
        ended = [
            await self._database.write(partial(liveness.lose, task_id=task_id, key=key, now_ms=now_ms))
            for task_id, key in lost
        ]
        if await self._database.read(partial(liveness.is_anybody_dead, now_ms=now_ms)):
            await self._database.write(partial(liveness.forget_dead, now_ms=now_ms), durable=False)
        return [task for task in ended if task is not None]

    async def want_cancelled(self, key: SessionKey, *, task_ids: Sequence[str] | None = None) -> int:
        """Ask whoever runs them to end these tasks of `key`, and all below them; how many were live."""
        return await self._database.write(partial(liveness.want_cancelled, key=key, task_ids=task_ids))

    async def count_ended(self, key: SessionKey, *, since_ms: int) -> int:
        """How many tasks of `key` were ended since then, or are about to be."""
        return await self._database.read(partial(liveness.count_ended, key=key, since_ms=since_ms))

    async def disown(self, key: SessionKey, turn_id: str) -> None:
        """What this turn has asked for is to end, and nobody is told."""
        await self._database.write(partial(wakes.disown, key=key, turn_id=turn_id))

    async def unwanted(self, task_ids: Sequence[str]) -> frozenset[str]:
        """Of these tasks, those that nobody is to work on any more."""
        return await self._database.read(partial(liveness.unwanted, task_ids=task_ids))

    # --- waking

    async def collect(self, task_ids: Sequence[str]) -> None:
        """These were told to their session."""
        await self._database.write(partial(wakes.collect, task_ids=task_ids))

    async def due_wakes(self, *, limit: int, without: Collection[SessionKey] = ()) -> Sequence[Wake]:
        """What is to be told to sessions, oldest first."""
        for barrier_id, key in await self._database.read(wakes.met):
            await self._database.write(partial(wakes.settle, barrier_id=barrier_id, key=key))
        return await self._database.read(partial(wakes.due, limit=limit, without=without))

    async def wake_sent(self, wake: Wake) -> None:
        """The bus has it."""
        await self._database.write(partial(wakes.sent, wake=wake))

    async def overtaken(self, message_ids: Sequence[str]) -> frozenset[str]:
        """Of these messages of wakes that were sent, those with nothing left to tell."""
        return await self._database.read(partial(wakes.overtaken, message_ids=message_ids))

    # --- sessions

    async def children(self, session_id: str) -> Sequence[Session]:
        """Sessions that work for this one directly, oldest first."""
        return await self._database.read(partial(kinship.children, session_id=session_id))

    async def count_children(self, session_ids: Sequence[str]) -> Mapping[str, int]:
        """How many work directly for each of these sessions."""
        return await self._database.read(partial(kinship.counts, session_ids=session_ids))

    async def tree(self, session_id: str) -> Sequence[Session]:
        """This session and all below it, as a tree is read."""
        return await self._database.read(partial(kinship.tree, session_id=session_id))

    async def tasks_below(self, session_id: str) -> Sequence[SubTask]:
        """The tasks of this session and of all below it, in short."""
        return await self._database.read(partial(kinship.tasks_below, session_id=session_id))

    async def heads(self, *, key: SessionKey | None = None, limit: int) -> Sequence[Session]:
        """Conversations that sub-agents worked for, newest first."""
        return await self._database.read(partial(kinship.heads, key=key, limit=limit))

    # --- the board

    async def newest(self, *, limit: int) -> Sequence[SubTask]:
        """Live ones first, then what was over last, in short."""
        return await self._database.read(partial(board.newest, limit=limit))

    async def records(self) -> Sequence[TypeRecord]:
        """How each type does, by name."""
        return await self._database.read(board.records)

    async def revision(self) -> int:
        """How often the board has changed."""
        return await self._database.read(board.revision)
