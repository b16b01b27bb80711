"""The board of sub-agents' tasks: what it shows, what it forgets, and what is to be told to sessions.

Told are barriers that are met, and tasks that are over and that nobody waited for.

A task is told once. What a barrier's wake tells is settled when the barrier is met, before anybody sends it: two
workers that send it say the same, and a task that ends a moment later has a wake of its own.

Every change of a task is made under the lock of its lane, so that two workers never both end it. Of several lanes the
lock is taken in the order of their keys."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, Final

import sqlalchemy as sa

from gateway.contracts import subagents
from gateway.contracts.envelope import address_from_text, address_to_text
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.sessions import TurnState
from gateway.limits import SUBAGENT_KEPT_CHARS_MAX, SUBTASK_ALIVE_S, SUBTASK_SHOWN_CHARS_MAX, SUBTASKS_KEPT
from gateway.store.engine import Aggregate, Connection, Values, read, row_of, upsert, value_of, write, writing
from gateway.store.tables import barriers, board, lanes, sub_tasks, turns, waits

_LIVE_STATES: Final = [state.value for state in subagents.TaskState if not state.is_over]
IS_LIVE: Final = sub_tasks.c.state.in_(_LIVE_STATES)
IS_OVER: Final = sub_tasks.c.state.not_in(_LIVE_STATES)
IS_UNTOLD: Final = sa.and_(~sub_tasks.c.is_told, sub_tasks.c.wake_id == "")
IS_WAITED_FOR: Final = sa.exists().where(waits.c.task_id == sub_tasks.c.id)

# --- showing
_CUT: Final = (sub_tasks.c.prompt, sub_tasks.c.result)


def in_short() -> sa.Select[Any]:
    """Return tasks for a list: long texts are cut, where they lie."""
    columns = [column for column in sub_tasks.columns if column not in _CUT]
    return sa.select(*columns, *(sa.func.substr(long, 1, SUBTASK_SHOWN_CHARS_MAX).label(long.name) for long in _CUT))


_NEWEST: Final = (
    in_short()
    .order_by(
        sa.case((IS_LIVE, 0), else_=1),
        sub_tasks.c.finished_at_ms.desc(),
        sub_tasks.c.created_at_ms.desc(),
        sub_tasks.c.id.desc(),
    )
    .limit(sa.bindparam("page_limit"))
)
_RECORDS: Final = (
    sa.select(sub_tasks.c.sub_type, sub_tasks.c.state, sa.func.count().label("tasks"))
    .group_by(sub_tasks.c.sub_type, sub_tasks.c.state)
    .order_by(sub_tasks.c.sub_type)
)


def _record(sub_type: str, by_state: dict[str, int]) -> subagents.TypeRecord:
    return subagents.TypeRecord(
        sub_type=sub_type,
        running=sum(by_state.get(state, 0) for state in _LIVE_STATES),
        completed=by_state.get(subagents.TaskState.COMPLETED.value, 0),
        failed=by_state.get(subagents.TaskState.FAILED.value, 0),
        cancelled=by_state.get(subagents.TaskState.CANCELLED.value, 0),
        timed_out=by_state.get(subagents.TaskState.TIMED_OUT.value, 0),
    )


# --- changing
_count_up: Final = upsert(board, revision=board.c.revision + 1)
_REVISION: Final = sa.select(board.c.revision)
_IS_NEEDED: Final = sa.or_(sa.and_(sub_tasks.c.wake.is_not(None), IS_UNTOLD), IS_WAITED_FOR)
_LAST_OVER: Final = (
    sa.select(sub_tasks.c.id)
    .where(IS_OVER)
    .order_by(sub_tasks.c.finished_at_ms.desc(), sub_tasks.c.created_at_ms.desc(), sub_tasks.c.id.desc())
    .limit(SUBTASKS_KEPT)
)
_PRUNE: Final = sa.delete(sub_tasks).where(
    sub_tasks.c.id.in_(
        sa.select(sub_tasks.c.id)
        .where(IS_OVER, ~_IS_NEEDED, sub_tasks.c.id.not_in(_LAST_OVER))
        .with_for_update(skip_locked=True)  # the transaction that holds one prunes it with the next
    )
)


def prune(connection: Connection) -> None:
    """Keep the last that are over, and those that somebody still has to be told of."""
    connection.execute(_PRUNE)


def changed(connection: Connection) -> None:
    """Count a change of the board: what this transaction did can be seen. It is said last: everybody waits for this
    row."""
    connection.execute(_count_up(connection), {"id": 1, "revision": 1})


_LOCK: Final = sa.update(lanes).where(lanes.c.key == sa.bindparam("k")).values(fence=lanes.c.fence)
_KEYS: Final = (
    sa.select(sub_tasks.c.key).where(sub_tasks.c.id.in_(sa.bindparam("ids"))).distinct().order_by(sub_tasks.c.key)
)


def lock_lane(connection: Connection, key: str) -> bool:
    """Lock a lane: until this transaction ends nobody else writes in it. False: there is no such lane."""
    return connection.execute(_LOCK, {"k": key}).rowcount == 1


def lock_lanes_of(connection: Connection, task_ids: Sequence[str]) -> None:
    """Lock every lane that one of these tasks belongs to."""
    for key in connection.execute(_KEYS, {"ids": list(task_ids)}).scalars().all():
        lock_lane(connection, key)


# --- waiting
_BEHIND: Final = sa.select(sub_tasks.c.id, IS_UNTOLD.label("is_untold")).where(
    sub_tasks.c.key == sa.bindparam("k"), sub_tasks.c.id.in_(sa.bindparam("ids"))
)
_PUT: Final = barriers.insert()
_PUT_WAIT: Final = waits.insert()


def put(connection: Connection, key: SessionKey, barrier: subagents.Barrier) -> None:
    """Have a session of a locked lane wait. Where all was told meanwhile there is nothing to wait for."""
    behind = connection.execute(_BEHIND, {"k": str(key), "ids": list(barrier.task_ids)}).all()
    if not any(task.is_untold for task in behind):
        return
    connection.execute(_PUT, from_barrier(barrier, key, needed=min(barrier.needed, len(behind))))
    connection.execute(_PUT_WAIT, [{"barrier_id": barrier.id, "task_id": task.id, "key": str(key)} for task in behind])


# --- telling
_NAMED: Final = sub_tasks.c.id.in_(sa.bindparam("ids"))
_TELL: Final = sa.update(sub_tasks).where(_NAMED).values(is_told=sa.true())
_SEND: Final = sa.update(sub_tasks).where(_NAMED, IS_UNTOLD).values(wake_id=sa.bindparam("w"))
_UNTOLD_BEHIND: Final = sa.exists().where(
    waits.c.barrier_id == barriers.c.id, waits.c.task_id == sub_tasks.c.id, IS_UNTOLD
)
_IDLE: Final = (
    sa.select(barriers.c.id)
    .where(barriers.c.id.in_(sa.select(waits.c.barrier_id).where(waits.c.task_id.in_(sa.bindparam("ids")))))
    .where(~_UNTOLD_BEHIND)
)
_DROP_WAITS: Final = sa.delete(waits).where(waits.c.barrier_id.in_(sa.bindparam("ids")))
_DROP: Final = sa.delete(barriers).where(barriers.c.id.in_(sa.bindparam("ids")))
_BARRIERS_OF_KEY: Final = sa.select(barriers.c.id).where(barriers.c.key == sa.bindparam("k"))
_OVERTAKEN: Final = (
    sa.select(sub_tasks.c.wake_id)
    .where(sub_tasks.c.wake_id.in_(sa.bindparam("ids")))
    .group_by(sub_tasks.c.wake_id)
    .having(sa.func.sum(sa.case((sub_tasks.c.is_told, 0), else_=1)) == 0)
)
_FORGET_TURN: Final = (
    sa.update(sub_tasks)
    .where(sub_tasks.c.turn_id == sa.bindparam("turn"))
    .values(is_told=sa.true(), is_cancel_wanted=sa.true())
)
_TELL_ALL: Final = sa.update(sub_tasks).where(sub_tasks.c.key == sa.bindparam("k")).values(is_told=sa.true())


def collect_tasks(connection: Connection, task_ids: Sequence[str]) -> None:
    """Note that these were told to their session, or need not be: they wake it no more. A barrier after which
    nothing is left to be told falls."""
    lock_lanes_of(connection, task_ids)
    connection.execute(_TELL, {"ids": list(task_ids)})
    _drop_idle(connection, task_ids)


def forget_all(connection: Connection, key: SessionKey) -> None:
    """Forget what of a locked lane's tasks is to be told, and who waits for them."""
    _drop(connection, connection.execute(_BARRIERS_OF_KEY, {"k": str(key)}).scalars().all())
    connection.execute(_TELL_ALL, {"k": str(key)})


def forget_turn(connection: Connection, turn_id: str) -> None:
    """Stop what a stopped turn asked for, and tell nothing of it: the turn may have asked a moment after the user said
    stop."""
    connection.execute(_FORGET_TURN, {"turn": turn_id})


def _drop_idle(connection: Connection, task_ids: Sequence[str]) -> None:
    _drop(connection, connection.execute(_IDLE, {"ids": list(task_ids)}).scalars().all())


def _drop(connection: Connection, barrier_ids: Sequence[str]) -> None:
    connection.execute(_DROP_WAITS, {"ids": list(barrier_ids)})
    connection.execute(_DROP, {"ids": list(barrier_ids)})


# --- what is due
_OVER_BEHIND: Final = (
    sa.select(sa.func.count())
    .select_from(waits.outerjoin(sub_tasks, sub_tasks.c.id == waits.c.task_id))
    .where(waits.c.barrier_id == barriers.c.id, sa.or_(sub_tasks.c.id.is_(None), IS_OVER))
    .correlate(barriers)
    .scalar_subquery()
)
_UNTOLD_OVER_BEHIND: Final = sa.exists().where(
    waits.c.barrier_id == barriers.c.id, waits.c.task_id == sub_tasks.c.id, IS_OVER, IS_UNTOLD
)
_IS_TO_SETTLE: Final = sa.and_(~barriers.c.is_met, barriers.c.needed <= _OVER_BEHIND, _UNTOLD_OVER_BEHIND)
_MET: Final = sa.select(barriers.c.id, barriers.c.key).where(_IS_TO_SETTLE)
_SETTLE: Final = sa.update(barriers).where(barriers.c.id == sa.bindparam("b"), _IS_TO_SETTLE).values(is_met=sa.true())
_LET_GO: Final = sa.delete(waits).where(
    waits.c.barrier_id == sa.bindparam("b"), waits.c.task_id.not_in(sa.select(sub_tasks.c.id).where(IS_OVER, IS_UNTOLD))
)
_WITHOUT: Final = sa.bindparam("without", type_=sa.Text)
_OF_BARRIERS: Final = (
    sa.select(
        barriers.c.id.label("barrier_id"),
        barriers.c.session_id.label("woken_id"),
        barriers.c.wake.label("barrier_wake"),
        sub_tasks,
    )
    .join(waits, waits.c.barrier_id == barriers.c.id)
    .join(sub_tasks, sub_tasks.c.id == waits.c.task_id)
    .where(barriers.c.is_met, IS_UNTOLD, barriers.c.key.not_in(_WITHOUT))
    .order_by(barriers.c.created_at_ms, barriers.c.id, sub_tasks.c.created_at_ms, sub_tasks.c.id)
)
_TURN_RUNS: Final = sa.exists().where(turns.c.id == sub_tasks.c.turn_id, turns.c.state == TurnState.RUNNING.value)
_SINGLE: Final = (
    sa.select(sub_tasks)
    .where(
        IS_OVER,
        IS_UNTOLD,
        sub_tasks.c.mode == subagents.TaskMode.BACKGROUND.value,
        sub_tasks.c.wake.is_not(None),
        ~IS_WAITED_FOR,
        ~_TURN_RUNS,
        sub_tasks.c.key.not_in(_WITHOUT),
    )
    .order_by(sub_tasks.c.finished_at_ms, sub_tasks.c.id)
    .limit(sa.bindparam("page_limit"))
)


def met(connection: Connection) -> list[tuple[str, str]]:
    """Return ids and lanes of barriers that are met and not settled. To ask costs no lock."""
    return [(row.id, row.key) for row in connection.execute(_MET)]


def settle(connection: Connection, barrier_id: str, key: str) -> None:
    """Say once and for all what the wake of a barrier that is met tells: what is over by now. The rest is let go."""
    lock_lane(connection, key)
    if connection.execute(_SETTLE, {"b": barrier_id}).rowcount == 1:
        connection.execute(_LET_GO, {"b": barrier_id})


def due(connection: Connection, *, limit: int, without: Collection[SessionKey]) -> list[subagents.Wake]:
    """Return every wake that is settled, oldest first, but for these lanes."""
    left_out = [str(key) for key in without]
    by_barrier: dict[str, list[sa.Row[Any]]] = {}
    for row in connection.execute(_OF_BARRIERS, {"without": left_out}):
        by_barrier.setdefault(row.barrier_id, []).append(row)
    found = [*[_of_barrier(rows) for rows in by_barrier.values()], *_of_single(connection, left_out, limit=limit)]
    return sorted(found, key=lambda wake: (max(task.finished_at_ms for task in wake.tasks), wake.id))[: max(limit, 0)]


def _of_barrier(rows: Sequence[sa.Row[Any]]) -> subagents.Wake:
    first = rows[0]
    tasks = tuple(to_task(row) for row in rows)
    return subagents.Wake(first.barrier_id, first.woken_id, to_wake(first.barrier_wake), tasks, first.barrier_id)


def _of_single(connection: Connection, without: Sequence[str], *, limit: int) -> list[subagents.Wake]:
    rows = connection.execute(_SINGLE, {"page_limit": max(limit, 0), "without": without}).all()
    return [subagents.Wake(row.id, row.parent_session_id, to_wake(row.wake), (to_task(row),)) for row in rows]


CHANNEL: Final = "subagent:"
"""In front of the type, in `sessions.channel`."""


def from_task(task: subagents.SubTask, *, wake: subagents.WakeAddress | None, is_unwanted: bool) -> Values:
    """Make a new row of `sub_tasks`; of one that `is_unwanted` from the start nobody is told."""
    return row_of(
        sub_tasks,
        task,
        result=kept_result(task.result),
        alive_until_ms=task.created_at_ms + round(SUBTASK_ALIVE_S * 1000),
        is_cancel_wanted=is_unwanted,
        wake=None if wake is None else from_wake(wake),
        wake_id="",
        is_told=is_unwanted,
        updated_at_ms=task.created_at_ms,
        doing=None if task.doing is None else from_doing(task.doing),
    )


def to_task(row: sa.Row[Any]) -> subagents.SubTask:
    """Read back, as the inverse of `from_task`, as far as a task goes."""
    return value_of(subagents.SubTask, row, doing=None if row.doing is None else _to_doing(row.doing))


def from_doing(doing: subagents.Doing) -> str:
    """Write it as the column `doing` has it."""
    return json.dumps([doing.occupation.value, *doing.tools], separators=(",", ":"))


def _to_doing(text: str) -> subagents.Doing:
    occupation, *tools = json.loads(text)
    return subagents.Doing(subagents.Occupation(occupation), tuple(tools))


def kept_result(result: CleanText) -> str:
    """Return what is kept of an answer."""
    return result[:SUBAGENT_KEPT_CHARS_MAX]


def from_wake(wake: subagents.WakeAddress) -> str:
    """Write it as the column `wake` has it."""
    who = (wake.author_id, wake.author_name, wake.is_private)
    parts = [str(wake.key), address_to_text(wake.address), *who, wake.place, wake.wakes]
    return json.dumps(parts, ensure_ascii=False, separators=(",", ":"))


def to_wake(text: str) -> subagents.WakeAddress:
    """Read back, as the inverse of `from_wake`."""
    key, address, author_id, author_name, is_private, place, wakes = json.loads(text)
    name = CleanText(author_name)
    return subagents.WakeAddress(
        SessionKey.parse(key), address_from_text(address), author_id, name, bool(is_private), tuple(place), wakes
    )


def from_barrier(barrier: subagents.Barrier, key: SessionKey, *, needed: int) -> Values:
    """Make a row of `barriers`."""
    return row_of(barriers, barrier, key=str(key), needed=needed, is_met=False, wake=from_wake(barrier.wake))


class BoardStore(Aggregate):
    """Show what sub-agents do, and say what is to be told of it. Raises `StoreUnavailable`."""

    @write
    def cancel_silently(self, connection: Connection, key: SessionKey, turn_id: str) -> None:
        """End what this turn of `key` has asked for, and tell nobody: the turn begins anew, or was taken back."""
        lock_lane(connection, str(key))
        forget_turn(connection, turn_id)

    collect = writing(collect_tasks)

    async def due_wakes(self, *, limit: int, without: Collection[SessionKey] = ()) -> Sequence[subagents.Wake]:
        """Return what is to be told to sessions, oldest first."""
        for barrier_id, key in await self.database.read(met):
            await self.database.write(partial(settle, barrier_id=barrier_id, key=key))
        return await self.database.read(partial(due, limit=limit, without=without))

    @write
    def wake_sent(self, connection: Connection, wake: subagents.Wake) -> None:
        """Note that the bus has a wake: its tasks wake nobody again."""
        task_ids = [task.id for task in wake.tasks]
        lock_lanes_of(connection, task_ids)
        if wake.barrier_id:
            _drop(connection, [wake.barrier_id])
        connection.execute(_SEND, {"ids": task_ids, "w": wake.id})
        _drop_idle(connection, task_ids)

    @read
    def overtaken(self, connection: Connection, message_ids: Sequence[str]) -> frozenset[str]:
        """Find those of these messages of wakes that were sent with nothing left to tell: all their tasks were
        collected since, or nothing of them is to be told any more."""
        by_id = {subagents.wake_id_of(message_id): message_id for message_id in message_ids}
        return frozenset(by_id[id_] for id_ in connection.execute(_OVERTAKEN, {"ids": list(by_id)}).scalars())

    @read
    def newest(self, connection: Connection, *, limit: int) -> Sequence[subagents.SubTask]:
        """Live ones first, then those that were over last. In short: of prompt and result only the first
        `SUBTASK_SHOWN_CHARS_MAX` characters; `task` has the whole."""
        return [to_task(row) for row in connection.execute(_NEWEST, {"page_limit": max(limit, 0)})]

    @read
    def records(self, connection: Connection) -> Sequence[subagents.TypeRecord]:
        """Tell how each type does, by name."""
        counts: dict[str, dict[str, int]] = {}
        for row in connection.execute(_RECORDS):
            counts.setdefault(row.sub_type, {})[row.state] = row.tasks
        return [_record(sub_type, by_state) for sub_type, by_state in counts.items()]

    @read
    def revision(self, connection: Connection) -> int:
        """Return a number that grows with every change of the board."""
        return connection.execute(_REVISION).scalar_one_or_none() or 0
