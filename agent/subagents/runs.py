"""The sub-agents of this process: their orders, each run from its order to its end, and their transcripts.

A run is in the registry while it works. Four things end it: its own end, its parent's end (`SubAgents`), its person's
word (`SubagentStopper`: /stop, /new, /undo, /forget), and rights that its person no longer has (`Rights`)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import count
from typing import Final

import structlog

from agent import limits
from agent.features.access import People
from agent.subagents.catalog import SubType
from agent.subagents.supervisor import ChildEnding
from agent.tools.tool import ToolContext
from gateway.contracts.access import least_of
from gateway.contracts.errors import BusError, NoSubAgent, Reason, StoreError, ToolError
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText, literal_text
from gateway.contracts.ports import Clock
from gateway.contracts.sessions import Entry, Session, Usage, UsagePurpose
from gateway.contracts.subagents import Doing, SubTask, WakeAddress
from gateway.i18n import ENGLISH, Words
from gateway.i18n.reasons import instead_of, refused
from gateway.store.subagents import TaskStore
from gateway.tasks import RetryPolicy, retry_until_available

_log = structlog.get_logger(__name__)

_NOTHING: Final = literal_text("")


@dataclass(frozen=True, slots=True)
class SubOrder:
    """One sub-agent to be started. `label`: a few words for people ("" : made of the prompt); `limit_s`: its wall
    clock, None for the configured one (which is also the most it may be); `purpose`: what its model calls are charged
    as; `form`: how its answer has to look, said after what its type is told; `model`: one that
    its caller may choose, or `CHEAP`, "" for that of its type."""

    sub_type: str
    prompt: CleanText
    label: CleanText = _NOTHING
    limit_s: float | None = None
    purpose: UsagePurpose = UsagePurpose.SUBAGENT
    form: CleanText = _NOTHING
    model: str = ""


class OrderRefused(ToolError):
    """The sub-agent cannot be started. The message tells a model why, and what it may do instead."""

    def __init__(self, refusal: NoSubAgent, **values: str | int) -> None:
        """Keep the refusal. `values` fill the placeholders of its text."""
        super().__init__(f"{refused(refusal, ENGLISH, values)}: {instead_of(refusal)}")
        self.refusal = refusal
        self._values = values

    def said(self, words: Words) -> str:
        """Say why, as a clause for people."""
        return refused(self.refusal, words, self._values)


Delegate = Callable[[ToolContext, SubOrder], Awaitable[SubTask]]
"""Carries an order out for the caller in a context, and returns the task as it ended. Waits while too many are live;
cancelling kills it. Raises `OrderRefused` for an order that cannot be carried out (unknown type, too deep, no such
task), `StoreUnavailable`; a sub-agent that fails is a value, not an error."""


class TranscriptWriter:
    """Writes what one child says, costs and does, in order; nothing waits for the database, nothing is lost.

    A database that goes away in the middle of a write has it or has it not. So entries have numbers here already, and
    each model call is written with the entry of its answer: what is written again is known by its numbers."""

    def __init__(self, book: TaskStore, task_id: str) -> None:
        self._book = book
        self._task_id = task_id
        self._numbers = count(1)
        self._entries: list[Entry] = []
        self._usage: list[Usage] = []
        self._doing: Doing | None = None
        self._shown: Doing | None = None
        self._writing: asyncio.Task[None] | None = None

    def note(self, entry: Entry, *, usage: Sequence[Usage] = (), doing: Doing) -> None:
        """Have this written after what was noted before, and with it what the child does now."""
        self._entries.append(replace(entry, seq=next(self._numbers)))
        self._usage += usage
        self._doing = doing
        self._begin()

    def show(self, doing: Doing) -> None:
        """Have only this written: where nothing is said for a while."""
        self._doing = doing
        self._begin()

    def _begin(self) -> None:
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())

    async def finish(self) -> None:
        """Return when everything is written. A caller that stops waiting stops no writing."""
        if self._writing is not None:
            await asyncio.shield(self._writing)

    async def _write(self) -> None:
        while self._entries or self._doing != self._shown:
            entries, usage, doing = tuple(self._entries), tuple(self._usage), self._doing
            self._entries.clear()
            self._usage.clear()
            self._shown = doing
            try:
                await retry_until_available(
                    lambda: self._book.record(self._task_id, entries=entries, usage=usage, doing=doing),  # noqa: B023 - called at once
                    RetryPolicy(for_s=limits.COMMIT_PATIENCE_S),
                )
            except StoreError as error:
                _log.error("subagent.not_recorded", task=self._task_id, calls=len(usage), reason=str(error))


@dataclass(frozen=True, slots=True)
class Assignment:
    """The role of a child and who pays for it: its type, its model, what its calls are charged as, the context
    in which its tools run, how long it may live, and the model that is asked `otherwise`, when its own fails."""

    sub_type: SubType
    model: str
    purpose: UsagePurpose
    context: ToolContext
    limit_s: float
    otherwise: str = ""


@dataclass(eq=False, repr=False)
class SubagentRun:
    """One sub-agent from its order to its end. `wake` says who is woken when it is over; None: nobody. `fence` is that
    of the turn's run that asked for it; 0: a sub-agent asked."""

    task: SubTask
    assignment: Assignment
    transcript: TranscriptWriter
    _: KW_ONLY
    wake: WakeAddress | None = None
    fence: int = 0
    opened: asyncio.Future[SubTask] = field(
        init=False, default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    """Its row, once it is in the database."""
    gone: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    """Set when nothing of it runs any more. What is left is to write it down."""
    written: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    """Set when that is done."""
    ended: SubTask | None = field(init=False, default=None)
    """The ending as it is written down; None before, and where nothing of it is kept any more."""
    reason: Reason | None = field(init=False, default=None)
    """Why it was told to end; None: it was not."""
    _work: asyncio.Task[ChildEnding] | None = field(init=False, default=None)

    @property
    def has_row(self) -> bool:
        """Tell whether its row was written; the row may have been erased since."""
        return self.opened.done() and self.opened.exception() is None

    @property
    def is_ended(self) -> bool:
        """Tell whether the run was told to end."""
        return self.reason is not None

    def begin(self, work: asyncio.Task[ChildEnding]) -> None:
        """Take the work that is cancelled when the run is ended."""
        self._work = work
        if self.is_ended:
            work.cancel()

    def end(self, reason: Reason) -> None:
        """End it, now. The first reason counts; too late once it is gone."""
        if not self.is_ended and not self.gone.is_set():
            self.reason = reason
            if self._work is not None:
                self._work.cancel()
            else:
                self.gone.set()


class RunRegistry:
    """All runs of this process, by the ids of their tasks."""

    def __init__(self, worker_id: str, book: TaskStore, clock: Clock) -> None:
        self.worker_id = worker_id
        self._book = book
        self._clock = clock
        self._runs: dict[str, SubagentRun] = {}
        self._any = asyncio.Event()
        self._alive_until_s = -math.inf

    def add(self, run: SubagentRun) -> None:
        """Add a run that begins."""
        self._runs[run.task.id] = run
        self._any.set()

    def remove(self, run: SubagentRun) -> None:
        """Remove a run that is over and written down."""
        self._runs.pop(run.task.id, None)
        if not self._runs:
            self._any.clear()

    async def some(self) -> None:
        """Wait until there are some."""
        await self._any.wait()

    def of(self, task_id: str) -> SubagentRun | None:
        """Return the run of this task, if it is here."""
        return self._runs.get(task_id)

    def end(self, task_id: str, reason: Reason) -> None:
        """End the run of this task, if it is here."""
        if (run := self._runs.get(task_id)) is not None:
            run.end(reason)

    def below(self, task_id: str) -> Sequence[SubagentRun]:
        """Return those that work for this task directly."""
        return [run for run in self._runs.values() if run.task.parent_task_id == task_id]

    def of_session(self, session_id: str) -> Sequence[SubagentRun]:
        """Return those that work for this session directly."""
        return [run for run in self._runs.values() if run.task.parent_session_id == session_id]

    def __iter__(self) -> Iterator[SubagentRun]:
        return iter(list(self._runs.values()))

    # --- what is said of them

    @property
    def alive_until_ms(self) -> int:
        """Return up to when a task that starts now counts as alive."""
        return self._clock.now_ms() + int(limits.SUBAGENT_ALIVE_S * 1000)

    async def keep(self) -> None:
        """Say that they live, and end those that nobody wants any more, until cancelled."""
        while True:
            await self.some()
            try:
                # Report that the runs of this process live, and end those that others declared lost. The report
                # counts only after that: a run may have been declared lost before the report arrived.
                now_s = self._clock.monotonic_s()
                is_due = now_s >= self._alive_until_s - limits.SUBAGENT_ALIVE_S + limits.SUBAGENT_ALIVE_EVERY_S
                if is_due:
                    await self._book.keep_alive(self.worker_id, alive_until_ms=self.alive_until_ms)
                known = [run for run in self if run.has_row]
                unwanted = await self._book.unwanted([run.task.id for run in known]) if known else ()
                for run in known:
                    if run.task.id in unwanted:
                        run.end(Reason.CANCELLED)
                if is_due:
                    self._alive_until_s = now_s + limits.SUBAGENT_ALIVE_S
            except StoreError as error:
                _log.warning("subagents.not_kept", reason=str(error))
            await asyncio.sleep(limits.SUBAGENT_LOOK_EVERY_S)

    async def permit(self, task_id: str) -> None:
        """Permit calls of a sub-agent that outlives its turn as long as it was not ended and no other process can have
        declared it lost. In a process that was paused for longer, this waits for the next look, which knows."""
        while (run := self._runs.get(task_id)) and not run.is_ended:
            if self._clock.monotonic_s() < self._alive_until_s:
                return
            await asyncio.sleep(limits.SUBAGENT_LOOK_EVERY_S)
        raise asyncio.CancelledError


class Rights:
    """Tells whether a sub-agent may go on: as long as its person might still ask for what it does.

    Intake takes no words of people who were blocked, have a lesser role or whose place was closed. A sub-agent
    that works for them already is ended by its process within a second, also while it waits; and each of its
    calls asks here first. As with every cancelled task, nobody is told."""

    def __init__(self, people: People) -> None:
        self._people = people

    async def hold(self, context: ToolContext) -> bool:
        """Return False once the person was blocked, may not speak there any more, or has a lesser role than then."""
        person = context.asked_by or context.owner
        if not await self._people.is_admitted(person, context.key.place or context.place_ids):
            return False
        return least_of((context.role, await self._people.role_of(person))) is context.role

    async def enforce(self, registry: RunRegistry) -> None:
        """End what may not go on in this process, until cancelled."""
        while True:
            await registry.some()
            try:
                for run in registry:
                    if not await self.hold(run.assignment.context):
                        _log.info("subagent.not_allowed", task_id=run.task.id)
                        run.end(Reason.NOT_ALLOWED)
            except (BusError, StoreError) as error:
                _log.warning("subagents.rights_unknown", reason=str(error))
            await asyncio.sleep(limits.SUBAGENT_RIGHTS_EVERY_S)


class SubagentStopper:
    """Asks for the end of sub-agents; their end wakes no session."""

    def __init__(self, book: TaskStore, clock: Clock) -> None:
        self._book = book
        self._clock = clock

    async def ask(self, key: SessionKey) -> int:
        """Ask all sub-agents that work for `key` to end, without waiting. Return how many there are. It may be repeated
        until none is left."""
        return await retry_until_available(lambda: self._book.want_cancelled(key))

    async def end(self, key: SessionKey) -> int:
        """End all sub-agents that work for `key`; return when none of them runs any more, or after a short limit."""
        live = await self.ask(key)
        await self._until_gone(live, lambda: self.ask(key))
        return live

    async def end_all(self, keys: Sequence[SessionKey]) -> None:
        """End all sub-agents that work for several lanes at once."""

        async def ask() -> int:
            return sum([await self.ask(key) for key in keys])

        await self._until_gone(await ask(), ask)

    async def ended_since(self, key: SessionKey, since_ms: int) -> int:
        """Count those that have ended since then or are about to, including those that ended with their turn before
        they could be asked."""
        return await retry_until_available(lambda: self._book.count_ended(key, since_ms=since_ms))

    async def end_since(self, session: Session, since_ms: int) -> int:
        """End those that were started in this conversation since then, because the messages they work for are taken
        back. Return how many of them and of their descendants were live."""
        tasks = await self._book.tasks_of_session(session.id)
        ids = [task.id for task in tasks if task.created_at_ms >= since_ms]
        if not ids:
            return 0
        live = await self._book.want_cancelled(session.key, task_ids=ids)
        await self._until_gone(live, lambda: self._book.want_cancelled(session.key, task_ids=ids))
        await self._book.collect(ids)
        return live

    async def _until_gone(self, live: int, ask: Callable[[], Awaitable[int]]) -> None:
        until_s = self._clock.monotonic_s() + limits.STOP_SUBAGENTS_S
        while live and self._clock.monotonic_s() < until_s:
            await asyncio.sleep(limits.STOP_LOOK_S)
            live = await ask()
