"""Sub-agents as everybody may see them: what each was asked, its state, its cost, who waits for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from gateway.contracts.ids import WAKE, ReplyAddress, SessionKey, first_id_of
from gateway.contracts.messages import CleanText, literal_text

_NOTHING: Final = literal_text("")


class TaskState(StrEnum):
    """queued -> running -> one of the others, which are for good. A queued one may be cancelled or lost, too."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"

    @property
    def is_over(self) -> bool:
        """Tell whether the state is final."""
        return self not in {TaskState.QUEUED, TaskState.RUNNING}


class TaskMode(StrEnum):
    INLINE = "inline"
    """Its parent waits for it, and it ends with its parent's turn."""
    BACKGROUND = "background"
    """It outlives the turn that spawned it, and wakes its session when it is over."""


class Occupation(StrEnum):
    """The present work of a sub-agent that runs."""

    MODEL = "model"
    """It asks its model."""
    TOOLS = "tools"
    """It runs tools, or waits for them."""
    APPROVAL = "approval"
    """A person is asked whether it may."""


@dataclass(frozen=True, slots=True)
class Doing:
    """The same, with the names of the tools it is about, in the order of their calls, each once: nothing else of a call
    is anybody's business."""

    occupation: Occupation
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SubTask:
    """One sub-agent at work, as a row of the task board.

    `session_id` is its own session, `parent_session_id` the one it works for (a user's conversation, or another
    sub-agent's session), `turn_id` the turn it was asked for in. `sub_type` is a row of the catalog; `label` a few
    words for the board and the chat, `prompt` the whole task. `depth` counts from 1. `reason` is the code of why it did
    not complete (`gateway.contracts.errors`), such as `killed_by_signal_9`; "" if it did. `result` is its answer, or
    what is left of it. `confinement` names what held its process. `doing`: what it does while it runs, as far as that
    is known; None before and after. Times are Unix milliseconds, 0: not yet."""

    id: str
    session_id: str
    parent_session_id: str
    key: SessionKey
    turn_id: str
    sub_type: str
    label: CleanText
    prompt: CleanText
    mode: TaskMode
    depth: int
    created_at_ms: int
    parent_task_id: str = ""
    state: TaskState = TaskState.QUEUED
    reason: CleanText = _NOTHING
    result: CleanText = _NOTHING
    confinement: str = ""
    worker_id: str = ""
    started_at_ms: int = 0
    finished_at_ms: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float = 0.0
    doing: Doing | None = None

    @property
    def tokens(self) -> int:
        """Return the input and output tokens of the task's own calls and of those of its own sub-agents."""
        return self.tokens_in + self.tokens_out

    @property
    def duration_ms(self) -> int:
        """Return the time from start to end; 0 unless the task has both."""
        return self.finished_at_ms - self.started_at_ms if self.started_at_ms and self.finished_at_ms else 0


@dataclass(frozen=True, slots=True)
class TaskEnding:
    """The ending of a task."""

    state: TaskState
    finished_at_ms: int
    reason: CleanText = _NOTHING
    result: CleanText = _NOTHING
    confinement: str = ""


@dataclass(frozen=True, slots=True)
class WakeAddress:
    """In whose name and to which place a session is woken: that of the message whose turn asked for it. `place` and
    `wakes` are as in that message."""

    key: SessionKey
    address: ReplyAddress
    author_id: str
    author_name: CleanText
    is_private: bool
    place: tuple[str, ...] = ()
    wakes: int = 0

    @property
    def spoken_in(self) -> tuple[str, ...]:
        """Return the ids of the chat and of the thread in it, none in a direct message."""
        return self.key.place or self.place


class WaitMode(StrEnum):
    ALL = "all"
    ANY = "any"
    COUNT = "count"


@dataclass(frozen=True, slots=True)
class Barrier:
    """The condition of a yielded turn: `needed` of `task_ids` have to be over. It is committed with that turn."""

    id: str
    session_id: str
    turn_id: str
    task_ids: tuple[str, ...]
    mode: WaitMode
    needed: int
    wake: WakeAddress
    created_at_ms: int


@dataclass(frozen=True, slots=True)
class Wake:
    """Something to be told to a session: `tasks` are over. `barrier_id` is "" where nobody waited for them."""

    id: str
    session_id: str
    address: WakeAddress
    tasks: tuple[SubTask, ...]
    barrier_id: str = ""

    @property
    def message_id(self) -> str:
        """Return the message id of the wake, the same for every sender and attempt."""
        return f"{WAKE}{self.id}"


def wake_id_of(message_id: str) -> str:
    """Return the id of the wake that such a message carries."""
    return first_id_of(message_id).removeprefix(WAKE)


@dataclass(frozen=True, slots=True)
class SubTypeChange:
    """An operator's change of one row of the catalog; None leaves it as it is."""

    label: CleanText | None = None
    description: CleanText | None = None
    tools: tuple[str, ...] | None = None
    rounds_max: int | None = None
    prompt: CleanText | None = None


UNCHANGED: Final = SubTypeChange()


@dataclass(frozen=True, slots=True)
class Audited:
    """One line of the audit: who changed what, and how it read before and after (JSON, scrubbed). `number` grows from
    line to line; 0 before it is written down."""

    at_ms: int
    actor: str
    action: str
    subject: str
    before: CleanText
    after: CleanText
    number: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class TypeRecord:
    """The counts of one type's tasks that are still on the board. `running` counts the queued ones, too."""

    sub_type: str
    running: int
    completed: int
    failed: int
    cancelled: int
    timed_out: int

    @property
    def success_rate(self) -> float | None:
        """Compute the share that completed among the tasks that completed, failed or timed out; None while there are
        none."""
        counted = self.completed + self.failed + self.timed_out
        return self.completed / counted if counted else None
