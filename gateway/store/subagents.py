"""A sub-agent's task from its opening to its end, the sessions above and below it, and what operators changed about its
type."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import sqlalchemy as sa

from gateway.contracts.errors import Reason, StoreError
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText, literal_code
from gateway.contracts.sessions import Entry, EntryKind, Session, SessionStatus, Usage
from gateway.contracts.subagents import Audited, Doing, SubTask, SubTypeChange, TaskEnding, TaskState, WakeAddress
from gateway.limits import FAMILY_SESSIONS_MAX, SUBTASK_AHEAD_S
from gateway.store import board, sessions, transcript
from gateway.store.audit import add_line
from gateway.store.board import (
    CHANNEL,
    IS_LIVE,
    BoardStore,
    from_doing,
    from_task,
    in_short,
    kept_result,
    lock_lane,
    to_task,
)
from gateway.store.engine import Aggregate, Connection, Values, read, row_of, upsert, value_of, write, write_unsynced
from gateway.store.sessions import Growth, to_session, with_lane
from gateway.store.tables import audit, lanes, sub_tasks, sub_type_changes, task_workers
from gateway.store.tables import sessions as sessions_table
from gateway.store.turns import numbered_to

_PARENTS: Final = sessions_table.alias("parents")
_CHILDREN: Final = sessions_table.alias("children")


def _upwards() -> sa.CTE:
    """Walk up: a session and those it works for."""
    above = (
        sa.select(sessions_table.c.id, sessions_table.c.parent_session_id)
        .where(sessions_table.c.id == sa.bindparam("s"))
        .cte("above", recursive=True)
    )
    return above.union(
        sa.select(_PARENTS.c.id, _PARENTS.c.parent_session_id).where(_PARENTS.c.id == above.c.parent_session_id)
    )


def _downwards() -> sa.CTE:
    """Walk down: some sessions and those that work for them."""
    below = (
        sa.select(sessions_table.c.id).where(sessions_table.c.id.in_(sa.bindparam("ids"))).cte("below", recursive=True)
    )
    return below.union(sa.select(_CHILDREN.c.id).where(_CHILDREN.c.parent_session_id == below.c.id))


_ABOVE: Final = sa.select(_upwards().c.id)
BELOW: Final = _downwards()
"""Parameter `ids`: these sessions and all that work for them."""

_NEWEST_FIRST: Final = (sessions_table.c.created_at_ms.desc(), sessions_table.c.id.desc())
_FAMILY: Final = (
    with_lane()
    .where(sessions_table.c.id.in_(sa.select(BELOW.c.id)))
    .order_by(sa.case((sessions_table.c.id.in_(sa.bindparam("ids")), 0), else_=1), *_NEWEST_FIRST)
    .limit(FAMILY_SESSIONS_MAX)
)
_CHILDREN_OF: Final = (
    with_lane()
    .where(sessions_table.c.parent_session_id == sa.bindparam("s"))
    .order_by(*_NEWEST_FIRST)
    .limit(FAMILY_SESSIONS_MAX)
)
_COUNTS: Final = (
    sa.select(sessions_table.c.parent_session_id, sa.func.count().label("children"))
    .where(sessions_table.c.parent_session_id.in_(sa.bindparam("ids")))
    .group_by(sessions_table.c.parent_session_id)
)
_HEADS: Final = (
    with_lane()
    .where(
        sessions_table.c.number.is_not(None),
        sessions_table.c.id.in_(sa.select(_CHILDREN.c.parent_session_id).where(_CHILDREN.c.number.is_(None))),
    )
    .order_by(*_NEWEST_FIRST)
    .limit(sa.bindparam("page_limit"))
)
_TASKS_BELOW: Final = (
    in_short()
    .where(sub_tasks.c.session_id.in_(sa.select(BELOW.c.id)))
    .order_by(sub_tasks.c.created_at_ms, sub_tasks.c.id)
)


def in_tree_order(root_id: str, family: Sequence[Session]) -> list[Session]:
    """Sort these sessions as a tree is read: each after its parent, before the next sibling of that parent. Siblings
    keep their order; one whose parent is missing is left out."""
    by_parent: Mapping[str | None, list[Session]] = defaultdict(list)
    for session in family:
        by_parent[session.parent_session_id].append(session)
    ordered: list[Session] = []
    waiting = [session for session in family if session.id == root_id]
    while waiting:
        session = waiting.pop()
        ordered.append(session)
        waiting += reversed(by_parent.get(session.id, []))
    return ordered


def _session(row: Any) -> Session:
    return to_session(row, current_id=row.current_id, language=row.language)


_BY_ID: Final = sa.select(sub_tasks).where(sub_tasks.c.id == sa.bindparam("t"))
_BY_AGE: Final = (sub_tasks.c.created_at_ms, sub_tasks.c.id)
_OF_TURN: Final = sa.select(sub_tasks).where(sub_tasks.c.turn_id == sa.bindparam("turn")).order_by(*_BY_AGE)
_OF_PARENT: Final = sa.select(sub_tasks).where(sub_tasks.c.parent_session_id == sa.bindparam("s")).order_by(*_BY_AGE)

# --- open
_KEY_OF_PARENT: Final = sa.select(sessions_table.c.key).where(sessions_table.c.id == sa.bindparam("s"))
_HOLDS_LANE: Final = sa.select(lanes.c.key).where(lanes.c.key == sa.bindparam("k"), lanes.c.fence == sa.bindparam("f"))
_PARENT_IS_ENDING: Final = (
    sa.select(sa.func.count())
    .select_from(sub_tasks)
    .where(sub_tasks.c.session_id == sa.bindparam("s"), sub_tasks.c.is_cancel_wanted | ~IS_LIVE)
)
_ADD: Final = sub_tasks.insert().returning(sub_tasks)

# --- start
_SIBLINGS: Final = sub_tasks.alias("siblings")
_RUNNING_SIBLINGS: Final = (
    sa.select(sa.func.count())
    .where(_SIBLINGS.c.parent_session_id == sub_tasks.c.parent_session_id, _SIBLINGS.c.state == TaskState.RUNNING.value)
    .correlate(sub_tasks)
    .scalar_subquery()
)
_START: Final = (
    sa.update(sub_tasks)
    .where(
        sub_tasks.c.id == sa.bindparam("t"),
        sub_tasks.c.state == TaskState.QUEUED.value,
        ~sub_tasks.c.is_cancel_wanted,
        sa.bindparam("live_max") > _RUNNING_SIBLINGS,
    )
    .values(
        state=TaskState.RUNNING.value,
        worker_id=sa.bindparam("worker"),
        alive_until_ms=sa.bindparam("until_ms"),
        started_at_ms=sa.bindparam("now_ms"),
        updated_at_ms=sa.bindparam("now_ms"),
    )
)

# --- record
_LAST_SEQ: Final = sa.select(sessions_table.c.last_seq).where(sessions_table.c.id == sa.bindparam("s"))
_CHARGE: Final = (
    sa.update(sub_tasks)
    .where(sub_tasks.c.session_id.in_(sa.bindparam("ids")))
    .values(
        tokens_in=sub_tasks.c.tokens_in + sa.bindparam("more_in"),
        tokens_out=sub_tasks.c.tokens_out + sa.bindparam("more_out"),
        cost_usd=sub_tasks.c.cost_usd + sa.bindparam("more_usd"),
        updated_at_ms=sa.bindparam("now_ms"),
    )
)

_SET_LIVE: Final = sa.update(sub_tasks).where(sub_tasks.c.id == sa.bindparam("t"), IS_LIVE)


def _record(
    connection: Connection,
    task_id: str,
    *,
    entries: Sequence[Entry],
    usage: Sequence[Usage],
    doing: Doing | None,
    now_ms: int,
) -> None:
    """Record what a task did. A call that ends when its task is over costs money all the same."""
    task = _locked(connection, task_id)
    if task is None:
        raise StoreError(f"there is no task {task_id}")
    if entries and 0 < entries[0].seq <= connection.execute(_LAST_SEQ, {"s": task.session_id}).scalar_one():
        return
    messages = sum(entry.kind is EntryKind.MESSAGE for entry in entries)
    row = sessions.grow(connection, task.key, task.session_id, Growth(len(entries), messages), now_ms=now_ms)
    transcript.append(connection, task.session_id, numbered_to(row.last_seq, entries, task.turn_id, now_ms))
    if usage:
        _charge(connection, task, [replace(call, key=task.key) for call in usage], now_ms=now_ms)
    is_shown = _show(connection, task, doing)
    if usage or is_shown:
        board.changed(connection)


def _show(connection: Connection, task: SubTask, doing: Doing | None) -> bool:
    """Show what it does. False: that is no news."""
    if doing is None or doing == task.doing or task.state.is_over:
        return False
    connection.execute(_SET_LIVE, {"t": task.id, "doing": from_doing(doing)})
    return True


def _charge(connection: Connection, task: SubTask, calls: Sequence[Usage], *, now_ms: int) -> None:
    """Charge model calls to a task; every session and every task above has their sum."""
    above = list(connection.execute(_ABOVE, {"s": task.session_id}).scalars())
    tokens, cost_usd = sessions.spent(calls)
    for session_id in above:
        connection.execute(sessions.CHARGE, {"s": session_id, "more_tokens": tokens, "more_usd": cost_usd})
    sums: Values = {
        "ids": above,
        "more_in": sum(call.prompt_tokens for call in calls),
        "more_out": sum(call.completion_tokens for call in calls),
        "more_usd": cost_usd,
        "now_ms": now_ms,
    }
    connection.execute(_CHARGE, sums)
    sessions.write_usage(connection, calls, session_id=task.session_id, turn_id=task.turn_id, now_ms=now_ms)


# --- end
_END: Final = _SET_LIVE.values(
    confinement=sa.func.coalesce(sa.bindparam("held_by"), sub_tasks.c.confinement), doing=sa.null()
).returning(sub_tasks)
_ASK_BELOW: Final = (
    sa.update(sub_tasks)
    .where(sub_tasks.c.session_id.in_(sa.select(BELOW.c.id)), IS_LIVE)
    .values(is_cancel_wanted=sa.true())
    .returning(sub_tasks.c.id)
)


def end(connection: Connection, task_id: str, ending: TaskEnding) -> SubTask | None:
    """End a task of a locked lane, unless it is over. What works for it is to end with it: nobody waits any more."""
    ended = {
        "t": task_id,
        "state": ending.state.value,
        "reason": ending.reason,
        "result": kept_result(ending.result),
        "held_by": ending.confinement or None,
        "finished_at_ms": ending.finished_at_ms,
        "updated_at_ms": ending.finished_at_ms,
    }
    row = connection.execute(_END, ended).one_or_none()
    if row is None:
        return None
    sessions.close(connection, row.session_id, now_ms=ending.finished_at_ms)
    ask_to_end(connection, [row.session_id])
    board.prune(connection)
    board.changed(connection)
    return to_task(row)


def ask_to_end(connection: Connection, session_ids: Sequence[str]) -> int:
    """Ask for the end of the live tasks of these sessions, and of all below them; how many there are."""
    return len(connection.execute(_ASK_BELOW, {"ids": list(session_ids)}).all())


def _locked(connection: Connection, task_id: str) -> SubTask | None:
    """Lock the lane of a task; that task."""
    row: sa.Row[Any] | None = connection.execute(_BY_ID, {"t": task_id}).one_or_none()
    if row is None or not lock_lane(connection, row.key):
        return None
    return to_task(row)


# --- who lives
_keep_alive: Final = upsert(task_workers, "alive_until_ms")


def _is_ahead(until_ms: sa.Column[int]) -> sa.ColumnElement[bool]:
    """Match a time that is ahead by no more than SUBTASK_AHEAD_S: a process that writes a later one has a wrong clock,
    and would seem to live until then."""
    return until_ms.between(sa.bindparam("now_ms"), sa.bindparam("now_ms") + round(SUBTASK_AHEAD_S * 1000))


_LIVES: Final = sa.exists().where(
    task_workers.c.worker_id == sub_tasks.c.worker_id, _is_ahead(task_workers.c.alive_until_ms)
)
_LOST: Final = (
    sa.select(sub_tasks.c.id, sub_tasks.c.key)
    .where(IS_LIVE, ~_is_ahead(sub_tasks.c.alive_until_ms), ~_LIVES)
    .order_by(sub_tasks.c.depth, sub_tasks.c.id)
)
_IS_LOST: Final = _LOST.where(sub_tasks.c.id == sa.bindparam("t"))
_IS_DEAD: Final = ~_is_ahead(task_workers.c.alive_until_ms)
_A_DEAD: Final = sa.select(task_workers.c.worker_id).where(_IS_DEAD).limit(1)
_FORGET_DEAD: Final = sa.delete(task_workers).where(_IS_DEAD)


# --- who is to end
_OF_KEY: Final = sa.select(sub_tasks.c.session_id).where(sub_tasks.c.key == sa.bindparam("k"))
_NAMED: Final = _OF_KEY.where(sub_tasks.c.id.in_(sa.bindparam("ids")))
_LIVE_OF_KEY: Final = _OF_KEY.where(IS_LIVE)
_WANTED: Final = sa.select(sub_tasks.c.id).where(
    sub_tasks.c.id.in_(sa.bindparam("ids")), ~sub_tasks.c.is_cancel_wanted, IS_LIVE
)

_SINCE: Final = sub_tasks.c.finished_at_ms >= sa.bindparam("since_ms")
_ENDED: Final = (
    sa.select(sa.func.count())
    .select_from(sub_tasks)
    .where(
        sub_tasks.c.key == sa.bindparam("k"),
        sa.or_(
            sa.and_(sub_tasks.c.is_cancel_wanted, sa.or_(IS_LIVE, _SINCE)),
            sa.and_(sub_tasks.c.state == TaskState.CANCELLED.value, _SINCE),
        ),
    )
)

_CHANGES: Final = sa.select(sub_type_changes).order_by(sub_type_changes.c.name)
_AUDIT: Final = sa.select(audit).order_by(audit.c.id.desc()).limit(sa.bindparam("page_limit"))
_put: Final = upsert(sub_type_changes, "label", "description", "tools", "rounds_max", "prompt")


def from_child(task: SubTask) -> Values:
    """Make the row of `sessions` of a task that is about to begin. Its title is its label: nobody pays for another."""
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


class TaskStore(BoardStore):
    """Every sub-agent's task and session. Raises `StoreUnavailable`.

    What is over stays as it is: of several endings of a task the first counts. A task whose worker does not say that it
    lives is lost as soon as anybody notices."""

    @write_unsynced  # its worker dies with the machine
    def open(self, connection: Connection, task: SubTask, *, wake: WakeAddress | None, fence: int = 0) -> SubTask:
        """Store a queued task and open its session (channel `subagent:<type>`, of the parent's key, without a number,
        titled with the label). A known id is returned as it is. `wake` only for a background task of a
        conversation: nobody else can be woken. `task.worker_id` says who has it queued. Raises `StoreError` when the
        parent session is not there or belongs to another key. A task whose parent is over, or is to end, is to end,
        and so is one that a run asks for (`fence`; 0: no run) which does not hold its lane any more: nobody is told."""
        lock_lane(connection, str(task.key))
        known = connection.execute(_BY_ID, {"t": task.id}).one_or_none()
        if known is not None and known.key == str(task.key):
            return to_task(known)
        parent = {"s": task.parent_session_id}
        if connection.execute(_KEY_OF_PARENT, parent).scalar_one_or_none() != str(task.key):
            raise StoreError(f"session {task.parent_session_id} is not one of {task.key}")
        holds_lane = not fence or connection.execute(_HOLDS_LANE, {"k": str(task.key), "f": fence}).one_or_none()
        is_unwanted = not holds_lane or connection.execute(_PARENT_IS_ENDING, parent).scalar_one() > 0
        sessions.open_child(connection, from_child(task))
        row = connection.execute(_ADD, from_task(task, wake=wake, is_unwanted=is_unwanted)).one()
        board.changed(connection)
        return to_task(row)

    @write_unsynced  # as with `open`
    def start(
        self, connection: Connection, task_id: str, *, worker_id: str, alive_until_ms: int, now_ms: int, live_max: int
    ) -> bool:
        """Make a queued task run, unless `live_max` tasks of its parent session do. False also when it is over, is to
        end, or was never there."""
        if _locked(connection, task_id) is None:
            return False
        run = {"t": task_id, "worker": worker_id, "until_ms": alive_until_ms, "now_ms": now_ms, "live_max": live_max}
        is_started = connection.execute(_START, run).rowcount == 1
        if is_started:
            board.changed(connection)
        return is_started

    @write
    def finish(self, connection: Connection, task_id: str, ending: TaskEnding) -> bool:
        """End it, unless it is over: False. Closes its session, and asks what still works for it to end. Of the answer
        `SUBAGENT_KEPT_CHARS_MAX` characters are kept."""
        return _locked(connection, task_id) is not None and end(connection, task_id, ending) is not None

    async def record(
        self, task_id: str, *, entries: Sequence[Entry], usage: Sequence[Usage], doing: Doing | None = None
    ) -> None:
        """Append to its transcript and charge model calls: to its session, and in sum to every session above it, and
        to every task above it. Also when it is over. Until then the board shows what it is `doing` (None: no news).
        Entries that come with numbers are recorded once, with the calls beside them, however often they come. Raises
        `StoreError` for one that was erased."""
        work = partial(_record, task_id=task_id, entries=entries, usage=usage, doing=doing, now_ms=self.clock.now_ms())
        await self.database.write(work, durable=bool(usage))

    @read
    def task(self, connection: Connection, task_id: str) -> SubTask | None:
        """Return the task of that id, if the board still has it."""
        row = connection.execute(_BY_ID, {"t": task_id}).one_or_none()
        return None if row is None else to_task(row)

    @read
    def tasks_of_turn(self, connection: Connection, turn_id: str) -> Sequence[SubTask]:
        """Return those that a turn asked for, oldest first."""
        return [to_task(row) for row in connection.execute(_OF_TURN, {"turn": turn_id})]

    @read
    def tasks_of_session(self, connection: Connection, parent_session_id: str) -> Sequence[SubTask]:
        """Return those that work for this session, oldest first, as far as the board still has them."""
        return [to_task(row) for row in connection.execute(_OF_PARENT, {"s": parent_session_id})]

    @write_unsynced
    def keep_alive(self, connection: Connection, worker_id: str, *, alive_until_ms: int) -> None:
        """Keep the tasks alive that this worker runs, or has queued. What was just opened does for
        `SUBTASK_ALIVE_S`."""
        connection.execute(_keep_alive(connection), {"worker_id": worker_id, "alive_until_ms": alive_until_ms})

    async def lose(self, *, now_ms: int) -> Sequence[SubTask]:
        """End those that nobody kept alive; the ones this call ended."""
        ended = [await self._lose(task_id, key, now_ms=now_ms) for task_id, key in await self._lost(now_ms=now_ms)]
        if await self._is_anybody_dead(now_ms=now_ms):
            await self._forget_dead(now_ms=now_ms)
        return [task for task in ended if task is not None]

    @read
    def _lost(self, connection: Connection, *, now_ms: int) -> list[tuple[str, str]]:
        """Find the ids and lanes of live tasks that nobody kept alive. To ask costs no lock."""
        return [(row.id, row.key) for row in connection.execute(_LOST, {"now_ms": now_ms})]

    @write
    def _lose(self, connection: Connection, task_id: str, key: str, *, now_ms: int) -> SubTask | None:
        """End one of them, if it is still so."""
        lock_lane(connection, key)
        if connection.execute(_IS_LOST, {"t": task_id, "now_ms": now_ms}).one_or_none() is None:
            return None
        return end(connection, task_id, TaskEnding(TaskState.FAILED, now_ms, literal_code(Reason.WORKER_LOST)))

    @read
    def _is_anybody_dead(self, connection: Connection, *, now_ms: int) -> bool:
        return connection.execute(_A_DEAD, {"now_ms": now_ms}).one_or_none() is not None

    @write_unsynced
    def _forget_dead(self, connection: Connection, *, now_ms: int) -> None:
        """Forget workers: one of which nothing is known is no more alive than one that has not said so."""
        connection.execute(_FORGET_DEAD, {"now_ms": now_ms})

    @write
    def want_cancelled(self, connection: Connection, key: SessionKey, *, task_ids: Sequence[str] | None = None) -> int:
        """Ask their processes to end these tasks of `key` (None: all) and all below them. Returns how many were live.
        Where all are asked for, nothing wakes the user any more: barriers of `key` go too, and what its tasks found
        counts as told."""
        if not lock_lane(connection, str(key)):
            return 0
        if task_ids is not None:
            named = connection.execute(_NAMED, {"k": str(key), "ids": list(task_ids)}).scalars().all()
            return ask_to_end(connection, named)
        board.forget_all(connection, key)
        return ask_to_end(connection, connection.execute(_LIVE_OF_KEY, {"k": str(key)}).scalars().all())

    @read
    def count_ended(self, connection: Connection, key: SessionKey, *, since_ms: int) -> int:
        """Tell how many tasks of `key` were cancelled since then, or were asked to end and have ended since, or are
        still to."""
        return int(connection.execute(_ENDED, {"k": str(key), "since_ms": since_ms}).scalar_one())

    @read
    def unwanted(self, connection: Connection, task_ids: Sequence[str]) -> frozenset[str]:
        """Find those of these tasks that nobody is to work on any more: they are to be ended, are over, or were
        erased."""
        return frozenset(task_ids).difference(connection.execute(_WANTED, {"ids": list(task_ids)}).scalars())

    @read
    def children(self, connection: Connection, session_id: str) -> Sequence[Session]:
        """List sessions that work for this one directly, oldest first; of more than `FAMILY_SESSIONS_MAX` the
        newest."""
        return [_session(row) for row in connection.execute(_CHILDREN_OF, {"s": session_id})][::-1]

    @read
    def count_children(self, connection: Connection, session_ids: Sequence[str]) -> Mapping[str, int]:
        """Tell how many work directly for each of these sessions; those without any are left out."""
        rows = connection.execute(_COUNTS, {"ids": list(session_ids)})
        return {row.parent_session_id: row.children for row in rows}

    @read
    def tree(self, connection: Connection, session_id: str) -> Sequence[Session]:
        """List this session and all below it, parents before their children, siblings oldest first; empty if unknown.
        Of a larger family the newest `FAMILY_SESSIONS_MAX`, as far as all above them are among these."""
        found = [_session(row) for row in connection.execute(_FAMILY, {"ids": [session_id]})][::-1]
        return in_tree_order(session_id, found)

    @read
    def tasks_below(self, connection: Connection, session_id: str) -> Sequence[SubTask]:
        """Return the tasks of this session and of all below it, oldest first, as far as the board still has them; in
        short, as in `newest`."""
        return [to_task(row) for row in connection.execute(_TASKS_BELOW, {"ids": [session_id]})]

    @read
    def heads(self, connection: Connection, *, key: SessionKey | None = None, limit: int) -> Sequence[Session]:
        """List conversations that sub-agents have worked for, newest first; of one key or of all."""
        statement, parameters = _HEADS, dict[str, Any](page_limit=max(limit, 0))
        if key is not None:
            statement, parameters = (
                statement.where(sessions_table.c.key == sa.bindparam("k")),
                parameters | {"k": str(key)},
            )
        return [_session(row) for row in connection.execute(statement, parameters)]


class SubTypeStore(Aggregate):
    """Operators' changes of the catalog, and their authors. Raises `StoreUnavailable`."""

    @read
    def changes(self, connection: Connection) -> Mapping[str, SubTypeChange]:
        """Return what is not as the catalog has it, by the name of the type."""
        return {row.name: value_of(SubTypeChange, row) for row in connection.execute(_CHANGES)}

    @write
    def put(self, connection: Connection, name: str, change: SubTypeChange, *, audited: Audited) -> None:
        """Store the change and its line of the audit, both or neither. It replaces what was changed before: what is
        None is as in the catalog again."""
        connection.execute(_put(connection), row_of(sub_type_changes, change, name=name))
        add_line(connection, row_of(audit, audited))

    @read
    def audit(
        self, connection: Connection, *, subject: CleanText | None = None, below: int | None = None, limit: int
    ) -> Sequence[Audited]:
        """List the audit, newest first; `below` a number, those that were written down before that line."""
        statement, page = _AUDIT, dict[str, Any](page_limit=max(limit, 0))
        if subject is not None:
            statement, page = statement.where(audit.c.subject == sa.bindparam("about")), page | {"about": subject}
        if below is not None:
            statement, page = statement.where(audit.c.id < sa.bindparam("below")), page | {"below": below}
        return [value_of(Audited, row, number=row.id) for row in connection.execute(statement, page)]
