"""Sub-agents in SQL, as the agent and the gateway role use them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from gateway.contracts.entries import Entry, Session, Usage
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.subagents import (
    Audited,
    Doing,
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

    async def open(self, task: SubTask, *, wake: WakeAddress | None, fence: int = 0) -> SubTask:
        """Store a queued task and open its session (channel `subagent:<type>`, of the parent's key, without a number,
        titled with the label). A known id is returned as it stands. `wake` only for a background task of a
        conversation: nobody else can be woken. `task.worker_id` says who has it queued. Raises `StoreError` when the
        parent session is not there or belongs to another key. A task whose parent is over, or is to end, is to end,
        and so is one that a run asks for (`fence`; 0: no run) which does not hold its lane any more: nobody is told."""
        ...

    async def start(self, task_id: str, *, worker_id: str, alive_until_ms: int, now_ms: int, live_max: int) -> bool:
        """Make a queued task run, unless `live_max` tasks of its parent session do. False also when it is over, is to
        end, or was never there."""
        ...

    async def finish(self, task_id: str, ending: TaskEnding) -> bool:
        """End it, unless it is over: False. Closes its session, and asks what still works for it to end. Of the answer
        `SUBAGENT_KEPT_CHARS_MAX` characters are kept."""
        ...

    async def record(
        self, task_id: str, *, entries: Sequence[Entry], usage: Sequence[Usage], doing: Doing | None = None
    ) -> None:
        """Append to its transcript and charge model calls: to its session, and in sum to every session above it, and
        to every task above it. Also when it is over. Until then the board shows what it is `doing` (None: no news).
        Entries that come with numbers are recorded once, with the calls
        beside them, however often they come. Raises `StoreError` for one that was erased."""
        ...

    async def task(self, task_id: str) -> SubTask | None: ...

    async def tasks_of_turn(self, turn_id: str) -> Sequence[SubTask]: ...

    async def tasks_of_session(self, parent_session_id: str) -> Sequence[SubTask]:
        """Those that work for this session, oldest first, as far as the board still has them."""
        ...

    # --- who lives

    async def keep_alive(self, worker_id: str, *, alive_until_ms: int) -> None:
        """The tasks that this worker runs, or has queued, live. What was just opened does for `SUBTASK_ALIVE_S`."""
        ...

    async def lose(self, *, now_ms: int) -> Sequence[SubTask]:
        """End those that nobody kept alive as failed (`worker_lost`); the ones this call ended."""
        ...

    async def want_cancelled(self, key: SessionKey, *, task_ids: Sequence[str] | None = None) -> int:
        """Ask whoever runs them to end these tasks of `key` (None: all) and all below them. Returns how many were live.
        Where all are asked for, nothing wakes the user any more: barriers of `key` go too, and what its tasks found
        counts as told."""
        ...

    async def count_ended(self, key: SessionKey, *, since_ms: int) -> int:
        """How many tasks of `key` were cancelled since then, or were asked to end and have ended since, or are still
        to."""
        ...

    async def disown(self, key: SessionKey, turn_id: str) -> None:
        """What this turn of `key` has asked for is to end, and nobody is told: the turn begins anew, or was taken
        back."""
        ...

    async def unwanted(self, task_ids: Sequence[str]) -> frozenset[str]:
        """Of these tasks, those that nobody is to work on any more: they are to be ended, are over, or were erased."""
        ...

    # --- waking

    async def collect(self, task_ids: Sequence[str]) -> None:
        """These were told to their session, or need not be: they wake it no more. A barrier behind which nothing is
        left to be told falls."""
        ...

    async def due_wakes(self, *, limit: int, without: Collection[SessionKey] = ()) -> Sequence[Wake]:
        """Barriers that are met, and background tasks that are over, were not collected, are behind no barrier, and
        whose turn is committed. Oldest first. What a barrier's wake tells never changes between two calls, whoever
        calls: a task that was not over when the barrier was met wakes its session by itself. `without`: not these
        lanes."""
        ...

    async def wake_sent(self, wake: Wake) -> None:
        """The bus has it: its tasks wake nobody again."""
        ...

    async def overtaken(self, message_ids: Sequence[str]) -> frozenset[str]:
        """Of these messages of wakes that were sent, those with nothing left to tell: all their tasks were collected
        since, or nothing of them is to be told any more."""
        ...

    # --- sessions

    async def children(self, session_id: str) -> Sequence[Session]:
        """Sessions that work for this one directly, oldest first; of more than
        `FAMILY_SESSIONS_MAX` the newest."""
        ...

    async def count_children(self, session_ids: Sequence[str]) -> Mapping[str, int]:
        """How many work directly for each of these sessions; those without any are left out."""
        ...

    async def tree(self, session_id: str) -> Sequence[Session]:
        """This session and all below it, parents before their children, siblings oldest first; empty if unknown. Of a
        larger family the newest `FAMILY_SESSIONS_MAX`, as far as all above them are among these."""
        ...

    async def tasks_below(self, session_id: str) -> Sequence[SubTask]:
        """The tasks of this session and of all below it, oldest first, as far as the board still has them; in short, as
        in `newest`."""
        ...

    async def heads(self, *, key: SessionKey | None = None, limit: int) -> Sequence[Session]:
        """Conversations that sub-agents have worked for, newest first; of one key or of all."""
        ...

    # --- the board

    async def newest(self, *, limit: int) -> Sequence[SubTask]:
        """Live ones first, then those that were over last. In short: of prompt and result only the first
        `SUBTASK_SHOWN_CHARS_MAX` characters; `task` has the whole."""
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
        """Store the change and its line of the audit, both or neither. It replaces what was changed before: what is
        None is as in the catalog again."""
        ...

    async def audit(
        self, *, subject: CleanText | None = None, below: int | None = None, limit: int
    ) -> Sequence[Audited]:
        """Newest first; `below` a number, those that were written down before that line."""
        ...
