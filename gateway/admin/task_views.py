"""The task board as the API shows it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

from pydantic import BaseModel, Field

from gateway.admin.views import moment
from gateway.contracts.subagents import Doing, Occupation, SubTask, TypeRecord
from gateway.contracts.toolsets import DELEGATING
from gateway.words.reasons import in_words


class DoingView(BaseModel):
    """What a sub-agent that runs does now."""

    what: str = Field(
        description="`model`: it asks its model; `tools`: it runs some; `sub_agents`: it waits for its own; "
        "`approval`: a person is asked about a tool."
    )
    tools: list[str] = Field(description="The names of the tools it is about, such as `file_read`.")
    sub_agents: int = Field(description="How many live ones work for it.")


class TaskView(BaseModel):
    """One sub-agent at work, or over."""

    id: str
    state: str = Field(description="`queued`, `running`, `completed`, `failed`, `cancelled` or `timed_out`.")
    type: str = Field(description="Its row in the catalog, such as `explore`.")
    label: str = Field(description="A few words: what it does.")
    mode: str = Field(description="`inline`: its parent waits for it; `background`: it outlives the turn.")
    depth: int = Field(description="1 for a sub-agent of a conversation, 2 for a sub-agent of such a one.")
    key: str = Field(description="Whose it is: the session key, such as `telegram:123456789`.")
    session_id: str = Field(description="Its own session.")
    parent_session_id: str = Field(description="The session it works for.")
    parent_task_id: str | None = Field(description="The sub-agent it works for, if it is one of such a one.")
    turn_id: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    duration_ms: int = Field(description="From its start to its end; so far, while it runs.")
    tokens: int = Field(description="In and out, those of its own sub-agents included.")
    cost: float = Field(description="US dollars, likewise.")
    reason: str = Field(description="The code of why it did not complete, such as `worker_lost`; empty if it did.")
    why: str = Field(description="The same in words, for people.")
    confinement: str = Field(description="What held its process.")
    worker: str = Field(description="The agent process that ran it.")
    doing: DoingView | None = Field(description="What it does now; null unless it runs.")


class WholeTaskView(TaskView):
    """One sub-agent with what it was asked and what it answered."""

    prompt: str
    result: str = Field(description="Its answer, or what is left of it.")


class TypeRecordView(BaseModel):
    """How the tasks of one type went that are still on the board."""

    type: str
    running: int = Field(description="Queued ones too.")
    completed: int
    failed: int
    cancelled: int
    timed_out: int
    success_rate: float | None = Field(
        description="Of those that completed, failed or timed out, the share that completed; null if there are none."
    )


class BoardRevision(BaseModel):
    """What an event `board` says: ask again."""

    revision: int


def task_views(tasks: Iterable[SubTask], *, beside: Sequence[SubTask], now_ms: int) -> list[TaskView]:
    """Tasks as the API shows them. `beside` are all that may work for them."""
    live = Counter(task.parent_task_id for task in beside if not task.state.is_over)
    return [_task_view(task, live_below=live[task.id], now_ms=now_ms) for task in tasks]


def _task_view(task: SubTask, *, live_below: int, now_ms: int) -> TaskView:
    runs_since_ms = task.started_at_ms if task.started_at_ms and not task.state.is_over else 0
    return TaskView(
        id=task.id,
        state=task.state.value,
        type=task.sub_type,
        label=task.label,
        mode=task.mode.value,
        depth=task.depth,
        key=str(task.key),
        session_id=task.session_id,
        parent_session_id=task.parent_session_id,
        parent_task_id=task.parent_task_id or None,
        turn_id=task.turn_id,
        created_at=moment(task.created_at_ms),
        started_at=moment(task.started_at_ms) if task.started_at_ms else None,
        finished_at=moment(task.finished_at_ms) if task.finished_at_ms else None,
        duration_ms=max(now_ms - runs_since_ms, 0) if runs_since_ms else task.duration_ms,
        tokens=task.tokens,
        cost=task.cost_usd,
        reason=task.reason,
        why=in_words(task.reason),
        confinement=task.confinement,
        worker=task.worker_id,
        doing=None if task.doing is None else _doing_view(task.doing, live_below),
    )


def _doing_view(doing: Doing, live_below: int) -> DoingView:
    """Whoever runs a tool that sends out sub-agents waits for those that live."""
    waits = live_below > 0 and doing.occupation is Occupation.TOOLS and not set(DELEGATING).isdisjoint(doing.tools)
    what = "sub_agents" if waits else doing.occupation.value
    return DoingView(what=what, tools=list(doing.tools), sub_agents=live_below)


def whole_task_view(task: SubTask, *, below: Sequence[SubTask], now_ms: int) -> WholeTaskView:
    """The same of one, and what was said. `below` are those that work for it."""
    (view,) = task_views([task], beside=below, now_ms=now_ms)
    return WholeTaskView(**dict(view), prompt=task.prompt, result=task.result)


def record_view(record: TypeRecord) -> TypeRecordView:
    """A type's record as the API shows it."""
    return TypeRecordView(
        type=record.sub_type,
        running=record.running,
        completed=record.completed,
        failed=record.failed,
        cancelled=record.cancelled,
        timed_out=record.timed_out,
        success_rate=record.success_rate,
    )
