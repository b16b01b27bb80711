"""Short ways to say what the suites of sub-agents are about: conversations, tasks, endings."""

from __future__ import annotations

from dataclasses import replace

from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.sessions import Entry, Role, Session, Usage, UsagePurpose
from gateway.contracts.subagents import SubTask, TaskEnding, TaskMode, TaskState, WakeAddress
from gateway.store import Store
from tests.contract.store_samples import ANN, CHAT, talk

LIVE_MAX = 9
WORKER = "worker-1"


async def conversation(store: Store, key: SessionKey = ANN, *, number: int = 1) -> Session:
    """A session of a person in which something was said; its turn is committed."""
    return await talk(store, key, "split this up", number=number)


def turn_of(key: SessionKey = ANN, *, number: int = 1) -> str:
    """The turn of `conversation`."""
    return f"turn-{key}-{number}"


def wake_of(key: SessionKey = ANN) -> WakeAddress:
    """Where a session is woken."""
    return WakeAddress(key, CHAT, key.user or "77", CleanText("Ann"), key.is_private, () if key.place else ("-7",), 3)


def asked(
    parent: Session | SubTask,
    id_: str = "k1",
    *,
    mode: TaskMode = TaskMode.INLINE,
    sub_type: str = "explore",
    turn_id: str = "",
    at_ms: int = 10_000,
) -> SubTask:
    """A task that a conversation, or another task, asks for."""
    is_task = isinstance(parent, SubTask)
    return SubTask(
        id=id_,
        session_id=f"s-{id_}",
        parent_session_id=parent.session_id if isinstance(parent, SubTask) else parent.id,
        key=parent.key,
        turn_id=turn_id or turn_of(parent.key),
        sub_type=sub_type,
        label=CleanText(f"label of {id_}"),
        prompt=CleanText(f"prompt of {id_}"),
        mode=mode,
        depth=parent.depth + 1 if isinstance(parent, SubTask) else 1,
        created_at_ms=at_ms,
        parent_task_id=parent.id if is_task else "",
        worker_id=WORKER,
    )


async def opened(store: Store, parent: Session | SubTask, *ids: str, at_ms: int = 10_000) -> list[SubTask]:
    """Inline tasks, queued."""
    return [await store.tasks.open(asked(parent, id_, at_ms=at_ms + place), wake=None) for place, id_ in enumerate(ids)]


async def spawned(store: Store, parent: Session, *ids: str, turn_id: str = "", at_ms: int = 10_000) -> list[SubTask]:
    """BackgroundTasks tasks, running."""
    tasks = []
    for place, id_ in enumerate(ids):
        task = asked(parent, id_, mode=TaskMode.BACKGROUND, turn_id=turn_id, at_ms=at_ms + place)
        tasks.append(await store.tasks.open(task, wake=wake_of(parent.key)))
        assert await started(store, id_)
    return tasks


async def started(store: Store, id_: str, *, at_ms: int = 11_000, live_max: int = LIVE_MAX) -> bool:
    """Have a worker begin it."""
    return await store.tasks.start(
        id_, worker_id=WORKER, alive_until_ms=at_ms + 10_000, now_ms=at_ms, live_max=live_max
    )


def ending(state: TaskState = TaskState.COMPLETED, *, at_ms: int = 12_000, result: str = "found it") -> TaskEnding:
    """How a task ended."""
    reason = "" if state is TaskState.COMPLETED else "because"
    return TaskEnding(state, at_ms, CleanText(reason), CleanText(result), "bubblewrap")


async def finished(store: Store, *ids: str, at_ms: int = 12_000) -> None:
    """End tasks, one a millisecond after the other."""
    for place, id_ in enumerate(ids):
        assert await store.tasks.finish(id_, ending(at_ms=at_ms + place))


def model_call(key: SessionKey, tokens_in: int, tokens_out: int, cost_usd: float) -> Usage:
    """One paid call of a sub-agent."""
    return Usage(key, UsagePurpose.SUBAGENT, "demo/scripted", tokens_in, tokens_out, 0, cost_usd, created_at_ms=12_000)


def said(text: str) -> Entry:
    """What a sub-agent said."""
    return Entry(Role.ASSISTANT, CleanText(text))


async def current(store: Store, task: SubTask) -> SubTask:
    """The task as the board has it now."""
    found = await store.tasks.task(task.id)
    assert found is not None
    return found


def as_started(task: SubTask, *, at_ms: int = 11_000) -> SubTask:
    """What `started` makes of it."""
    return replace(task, state=TaskState.RUNNING, worker_id=WORKER, started_at_ms=at_ms)
