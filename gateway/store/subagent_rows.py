"""Rows of sub-agents to values and back: pure, as in `rows`."""

from __future__ import annotations

import json
from typing import Any, Final

from sqlalchemy import Row

from gateway.contracts.entries import SessionStatus
from gateway.contracts.envelope import address_from_text, address_to_text
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.subagents import (
    Audited,
    Barrier,
    Doing,
    Occupation,
    SubTask,
    SubTypeChange,
    TaskMode,
    TaskState,
    WakeAddress,
)
from gateway.limits import SUBAGENT_KEPT_CHARS_MAX, SUBTASK_ALIVE_S
from gateway.store.rows import Values

CHANNEL: Final = "subagent:"
"""In front of the type, in `sessions.channel`."""


def from_task(task: SubTask, *, wake: WakeAddress | None, is_unwanted: bool) -> Values:
    """A new row of `sub_tasks`; of one that `is_unwanted` from the start nobody is told."""
    return {
        "id": task.id,
        "session_id": task.session_id,
        "parent_session_id": task.parent_session_id,
        "parent_task_id": task.parent_task_id,
        "key": str(task.key),
        "turn_id": task.turn_id,
        "sub_type": task.sub_type,
        "label": task.label,
        "prompt": task.prompt,
        "mode": task.mode.value,
        "depth": task.depth,
        "state": task.state.value,
        "reason": task.reason,
        "result": kept_result(task.result),
        "confinement": task.confinement,
        "worker_id": task.worker_id,
        "alive_until_ms": task.created_at_ms + round(SUBTASK_ALIVE_S * 1000),
        "is_cancel_wanted": is_unwanted,
        "wake": None if wake is None else from_wake(wake),
        "wake_id": "",
        "is_told": is_unwanted,
        "created_at_ms": task.created_at_ms,
        "started_at_ms": task.started_at_ms,
        "finished_at_ms": task.finished_at_ms,
        "updated_at_ms": task.created_at_ms,
        "tokens_in": task.tokens_in,
        "tokens_out": task.tokens_out,
        "cost_usd": task.cost_usd,
        "doing": None if task.doing is None else from_doing(task.doing),
    }


def to_task(row: Row[Any]) -> SubTask:
    """The inverse of `from_task`, as far as a task goes."""
    return SubTask(
        id=row.id,
        session_id=row.session_id,
        parent_session_id=row.parent_session_id,
        parent_task_id=row.parent_task_id,
        key=SessionKey.parse(row.key),
        turn_id=row.turn_id,
        sub_type=row.sub_type,
        label=CleanText(row.label),
        prompt=CleanText(row.prompt),
        mode=TaskMode(row.mode),
        depth=row.depth,
        state=TaskState(row.state),
        reason=CleanText(row.reason),
        result=CleanText(row.result),
        confinement=row.confinement,
        worker_id=row.worker_id,
        created_at_ms=row.created_at_ms,
        started_at_ms=row.started_at_ms,
        finished_at_ms=row.finished_at_ms,
        tokens_in=row.tokens_in,
        tokens_out=row.tokens_out,
        cost_usd=float(row.cost_usd),
        doing=None if row.doing is None else _to_doing(row.doing),
    )


def from_doing(doing: Doing) -> str:
    """As the column `doing` has it."""
    return json.dumps([doing.occupation.value, *doing.tools], separators=(",", ":"))


def _to_doing(text: str) -> Doing:
    occupation, *tools = json.loads(text)
    return Doing(Occupation(occupation), tuple(tools))


def kept_result(result: CleanText) -> str:
    """What is kept of an answer."""
    return result[:SUBAGENT_KEPT_CHARS_MAX]


def from_child(task: SubTask) -> Values:
    """The row of `sessions` of a task that is about to begin. Its title is its label: nobody pays for another."""
    return {
        "id": task.session_id,
        "key": str(task.key),
        "number": None,
        "channel": f"{CHANNEL}{task.sub_type}",
        "title": task.label,
        "status": SessionStatus.ACTIVE.value,
        "parent_session_id": task.parent_session_id,
        "created_at_ms": task.created_at_ms,
        "updated_at_ms": task.created_at_ms,
    }


def from_wake(wake: WakeAddress) -> str:
    """As the column `wake` has it."""
    who = (wake.author_id, wake.author_name, wake.is_private)
    parts = [str(wake.key), address_to_text(wake.address), *who, wake.place, wake.wakes]
    return json.dumps(parts, ensure_ascii=False, separators=(",", ":"))


def to_wake(text: str) -> WakeAddress:
    """The inverse of `from_wake`."""
    key, address, author_id, author_name, is_private, place, wakes = json.loads(text)
    name = CleanText(author_name)
    return WakeAddress(
        SessionKey.parse(key), address_from_text(address), author_id, name, bool(is_private), tuple(place), wakes
    )


def from_barrier(barrier: Barrier, key: SessionKey, *, needed: int) -> Values:
    """A row of `barriers`."""
    return {
        "id": barrier.id,
        "session_id": barrier.session_id,
        "key": str(key),
        "turn_id": barrier.turn_id,
        "mode": barrier.mode.value,
        "needed": needed,
        "is_met": False,
        "wake": from_wake(barrier.wake),
        "created_at_ms": barrier.created_at_ms,
    }


def from_change(name: str, change: SubTypeChange) -> Values:
    """A row of `sub_type_changes`."""
    return {
        "name": name,
        "label": change.label,
        "description": change.description,
        "tools": None if change.tools is None else json.dumps(list(change.tools)),
        "rounds_max": change.rounds_max,
        "prompt": change.prompt,
    }


def to_change(row: Row[Any]) -> SubTypeChange:
    """The inverse of `from_change`."""
    return SubTypeChange(
        label=_clean(row.label),
        description=_clean(row.description),
        tools=None if row.tools is None else tuple(json.loads(row.tools)),
        rounds_max=row.rounds_max,
        prompt=_clean(row.prompt),
    )


def from_audited(audited: Audited) -> Values:
    """A row of `audit`."""
    return {
        "at_ms": audited.at_ms,
        "actor": audited.actor,
        "action": audited.action,
        "subject": audited.subject,
        "before": audited.before,
        "after": audited.after,
    }


def to_audited(row: Row[Any]) -> Audited:
    """The inverse of `from_audited`."""
    before, after = CleanText(row.before), CleanText(row.after)
    return Audited(row.at_ms, row.actor, row.action, row.subject, before, after, row.id)


def _clean(text: str | None) -> CleanText | None:
    return None if text is None else CleanText(text)
