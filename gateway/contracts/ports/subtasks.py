"""Sub-agents in SQL, as the agent and the gateway role use them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from gateway.contracts.entries import Entry, Session, Usage
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.subagents import (
    Audited,
    SubTask,
    SubTypeChange,
    TaskEnding,
    TypeRecord,
    Wake,
    WakeAddress,
)


class SubTaskBook(Protocol):
    """Every sub-agent's task and session. Raises `StoreUnavailable`.

    What is over stays as it is: of all who end a task, one is heard. A task whose worker does not say that it lives
    is lost, whoever notices first.
    """

    # --- one task

    async def open(self, task: SubTask, *, wake: WakeAddress | None) -> SubTask:
        """Store a queued task and open its session (channel `subagent:<type>`, of the parent's key, without a number).
        A known id is returned as it stands. `wake` only for a background task."""
        ...

    async def start(self, task_id: str, *, worker_id: str, alive_until_ms: int, now_ms: int, live_max: int) -> bool:
        """Make a queued task run, unless `live_max` tasks of its parent session do. False also when it is over."""
        ...

    async def finish(self, task_id: str, ending: TaskEnding) -> bool:
        """End it, unless it is over: False. Closes its session."""
        ...

    async def record(self, task_id: str, *, entries: Sequence[Entry], usage: Sequence[Usage]) -> None:
        """Append to its transcript and charge model calls: to its session, and in sum to every session above it, and
        to every task above it."""
        ...

    async def task(self, task_id: str) -> SubTask | None: ...

    async def tasks_of_turn(self, turn_id: str) -> Sequence[SubTask]: ...

    async def tasks_of_session(self, parent_session_id: str) -> Sequence[SubTask]:
        """Those that work for this session, oldest first, as far as the board still has them."""
        ...

    # --- who lives

    async def keep_alive(self, worker_id: str, *, alive_until_ms: int) -> None:
        """The tasks that this worker runs, or has queued, live."""
        ...

    async def lose(self, *, now_ms: int) -> Sequence[SubTask]:
        """End those that nobody kept alive as failed (`worker_lost`); the ones this call ended."""
        ...

    async def want_cancelled(self, key: SessionKey, *, task_ids: Sequence[str] | None = None) -> int:
        """Ask whoever runs them to end these tasks of `key` (None: all) and all below them; barriers of `key` go
        too where all are asked for. Returns how many were live."""
        ...

    async def cancels_wanted(self, worker_id: str) -> Sequence[str]:
        """The tasks of this worker that are to be ended."""
        ...

    # --- waking

    async def collect(self, task_ids: Sequence[str]) -> None:
        """These were told to their session: they wake it no more."""
        ...

    async def due_wakes(self, *, limit: int) -> Sequence[Wake]:
        """Barriers that are met, and background tasks that are over, were not collected, are behind no barrier, and
        whose turn is committed. Oldest first."""
        ...

    async def wake_sent(self, wake: Wake) -> None:
        """The bus has it."""
        ...

    async def overtaken(self, message_ids: Sequence[str]) -> frozenset[str]:
        """Of these messages of wakes that were sent, those with nothing left to tell: all their tasks were collected
        since, or nothing of them is to be told any more."""
        ...

    # --- sessions

    async def children(self, session_id: str) -> Sequence[Session]:
        """Sessions that work for this one directly, oldest first."""
        ...

    async def tree(self, session_id: str) -> Sequence[Session]:
        """This session and all below it, parents before their children, siblings oldest first; empty if unknown."""
        ...

    # --- the board

    async def newest(self, *, limit: int) -> Sequence[SubTask]:
        """Live ones first, then the newest."""
        ...

    async def records(self) -> Sequence[TypeRecord]:
        """How each type does, by name."""
        ...

    async def revision(self) -> int:
        """A number that grows with every change of the board."""
        ...


class SubTypeBook(Protocol):
    """What operators changed about the catalog, and who did. Raises `StoreUnavailable`."""

    async def changes(self) -> Mapping[str, SubTypeChange]: ...

    async def put(self, name: str, change: SubTypeChange, *, audited: Audited) -> None:
        """Store the change and its line of the audit, both or neither."""
        ...

    async def audit(self, *, subject: CleanText | None = None, limit: int) -> Sequence[Audited]:
        """Newest first."""
        ...
