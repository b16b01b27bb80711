"""One child process from its start to its end: heard, timed by its parent, killed with its group, reaped.

Nothing here depends on the child's cooperation: it is ended when it floods, grows, falls silent or takes too long."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterable, Sequence, Set
from contextlib import aclosing, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol

import structlog

from agent import limits
from agent.subagents import protocol
from agent.subagents.sandbox import ChildSandbox, SandboxedProcess
from agent.tools.exec.processes import footprint, reaped, run_to_end
from agent.tools.exec.sandbox import FolderAllowance, Output
from agent.tools.files.quota import HOME_QUOTA, Share
from agent.tools.tool import AllotmentSpent
from gateway.contracts.errors import BudgetSpent, Code, Reason
from gateway.contracts.ports import Clock
from gateway.contracts.subagents import TaskState
from gateway.i18n.reasons import own_code_of
from gateway.limits import SUBAGENT_KEPT_CHARS_MAX
from gateway.scrub import Scrubber
from gateway.scrub.raw_text import without_broken_start
from gateway.tasks import Deadline

_log = structlog.get_logger(__name__)


COMMAND: Final = (sys.executable, "-S", "-m", "agent.subagents.child")
"""Without `site`: a child has the standard library and us, and nothing that is installed runs in it at its start."""


class Host(Protocol):
    """The services of the parent for one child. Nothing that a child says is trusted: each call is checked as
    its model's would be."""

    def model(self, call: protocol.ModelCall) -> AsyncIterator[protocol.ModelDelta | protocol.ModelResult]:
        """Stream deltas, then exactly one result; a failure is a result with an error. Raises only what ends the child
        (`BudgetSpent`, `AllotmentSpent`, `StoreUnavailable`, `CancelledError`)."""

    async def tool(self, call: protocol.ToolCallFrame) -> protocol.ToolOutcome:
        """Run a tool of the parent; a failure is an outcome."""


@dataclass(frozen=True, slots=True)
class ChildOrder:
    """`home` is the folder of the conversation (`files/`, `journal/`), None where the child has no file tool, and
    `share` what it is among its owner's; `writes`: it may change the files. `limit_s` is wall-clock time from the start
    of the process. Where the child finds its home and whether it has to confine itself is for the supervisor to say:
    what `init` says is not sent."""

    init: protocol.InitFrame
    home: Path | None
    writes: bool
    limit_s: float
    share: Share | None = None


@dataclass(frozen=True, slots=True)
class ChildEnding:
    """The end of a child: `state` is one of those that are over, `reason` is None if it completed, `response` is the
    child's last message, raw. `ready_ms` is None when it never was."""

    state: TaskState
    reason: Reason | Code | None = None
    response: str = ""
    confinement: str = ""
    duration_ms: int = 0
    ready_ms: int | None = None


class Spoken:
    """The end of what was said since a model was asked last; until something is said again, of what was said before."""

    def __init__(self, chars_max: int = SUBAGENT_KEPT_CHARS_MAX) -> None:
        self._chars_max = chars_max
        self._deltas: deque[str] = deque()
        self._chars = 0
        self._is_cut = False
        self._begins_anew = False

    def begin_anew(self) -> None:
        """Reset: what is said from now on replaces what was said."""
        self._begins_anew = True

    def add(self, delta: str) -> None:
        """Take the next piece."""
        if self._begins_anew:
            self._deltas.clear()
            self._chars, self._is_cut, self._begins_anew = 0, False, False
        self._deltas.append(delta)
        self._chars += len(delta)
        while self._chars - len(self._deltas[0]) >= self._chars_max:
            dropped = self._deltas.popleft()
            self._chars -= len(dropped)
            self._is_cut = self._is_cut or bool(dropped)

    def text(self) -> str:
        """Return the text or its end, without what may be half of a secret."""
        whole = "".join(self._deltas)
        if self._is_cut or len(whole) > self._chars_max:
            return without_broken_start(whole[-self._chars_max :])
        return whole


@dataclass(eq=False, repr=False)
class Exchange:
    """One child's frames, heard and answered. `room` is that of the folder it may write in, None for one that only
    reads; `age_s` tells how long ago its process was started."""

    held: SandboxedProcess
    host: Host
    init: protocol.InitFrame
    room: FolderAllowance | None
    age_s: Callable[[], float]

    def __post_init__(self) -> None:
        self._process = self.held.process
        self._over: asyncio.Future[ChildEnding] = asyncio.get_running_loop().create_future()
        self._outgoing: asyncio.Queue[protocol.ToChild] = asyncio.Queue(limits.SUBAGENT_FRAMES_WAITING_MAX)
        self._open_calls = asyncio.Semaphore(limits.SUBAGENT_CALLS_OPEN_MAX)
        self._tasks: set[asyncio.Task[None]] = set()
        self._listening: set[asyncio.Task[None]] = set()
        self._unread = 0
        self.spoken = Spoken()
        """The last words of the child while it worked."""
        self.errors = Output(limits.SUBAGENT_ERRORS_BYTES_MAX)
        """The output on its standard error."""
        self.ready: protocol.ReadyFrame | None = None
        self.ready_ms: int | None = None

    @property
    def is_over(self) -> bool:
        """Tell whether the child's end is known."""
        return self._over.done() and not self._over.cancelled()

    @property
    def has_completed(self) -> bool:
        """Tell whether the child completed its task."""
        return self.is_over and not self._over.exception() and self._over.result().state is TaskState.COMPLETED

    async def until_over(self) -> ChildEnding:
        """Talk until the child is done, gives up, breaks the rules or is gone. Raises what the host raises."""
        self._outgoing.put_nowait(self.init)
        hearing = self._do(self._hear())
        self._listening = {hearing, self._do(self._drain())}
        for work in (self._speak(), self._watch(), self._until_gone(hearing)):
            self._do(work)
        return await self._over

    async def ask_to_end(self, reason: str, *, within_s: float) -> None:
        """Let the child end its own way, if it reads and is quick."""
        with suppress(asyncio.QueueFull):
            self._outgoing.put_nowait(protocol.CancelFrame(reason))
            await reaped(self._process, within_s=within_s)

    def hang_up(self) -> None:
        """Close the pipe to the child: a well-behaved child ends by itself then."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    async def close(self) -> None:
        """Close after the child was killed: stop all work, and read its pipes to their ends."""
        await _ended(self._tasks - self._listening)
        if self._listening:
            await asyncio.wait(self._listening, timeout=limits.SUBAGENT_LAST_WORDS_S)
        await _ended(self._listening)
        if self._over.done() and not self._over.cancelled():
            self._over.exception()

    # --- what goes on at the same time

    async def _hear(self) -> None:
        """Read the child's output to the end, also when it is no longer needed: a full pipe would never close."""
        assert self._process.stdout is not None
        reader, heard_bytes, heard_lines = protocol.FrameReader(), 0, 0
        while piece := await self._process.stdout.read(protocol.PIECE_BYTES):
            heard_bytes += len(piece)
            heard_lines += piece.count(b"\n")
            if heard_bytes > limits.SUBAGENT_HEARD_BYTES_MAX:
                self._fail(Reason.TOO_MANY_BYTES)
            if (
                heard_lines > limits.SUBAGENT_HEARD_FRAMES_MAX
            ):  # empty ones, too: they say nothing, and are work to read
                self._fail(Reason.TOO_MANY_FRAMES)
            await self._take_all(reader.feed(piece) if not self._over.done() else ())
        await self._take_all(reader.end())

    async def _take_all(self, frames: Iterable[protocol.Frame | protocol.Unread]) -> None:
        for frame in frames:
            if not self._over.done():
                await self._take(frame)

    async def _speak(self) -> None:
        """Write to the child, as the only writer. What can no longer be delivered is discarded, so that pending answers
        can finish."""
        assert self._process.stdin is not None
        reads = True
        while True:
            frame = await self._outgoing.get()
            if reads:
                try:
                    self._process.stdin.write(protocol.encoded(frame))
                    await self._process.stdin.drain()
                except (OSError, RuntimeError):  # the pipe, or our end of it, is closed
                    reads = False
                except protocol.FrameTooLong:
                    self._fail(Reason.FRAME_TOO_LONG)

    async def _drain(self) -> None:
        assert self._process.stderr is not None
        while piece := await self._process.stderr.read(protocol.PIECE_BYTES):
            self.errors.add(piece)

    async def _watch(self) -> None:
        """Watch that the child is ready in time and stays within its limits."""
        while self._process.returncode is None:
            await asyncio.sleep(limits.SUBAGENT_WATCH_EVERY_S)
            if self.ready is None and self.age_s() > limits.SUBAGENT_READY_S:
                self._fail(Reason.NOT_READY)
            if excess := await self._excess():
                self._fail(excess)

    async def _excess(self) -> Reason | Code | None:
        """Return which limit the child exceeds; None for none. A child need not have limited itself."""
        most = self.init.limits.memory_bytes
        taken = footprint(
            self._process.pid, processes_max=limits.SUBAGENT_TREE_MAX, threads_max=limits.SUBAGENT_THREADS_MAX
        )
        if taken.memory_bytes > most:
            return Reason.MEMORY.of(most // 1024**2)
        if taken.processes > limits.SUBAGENT_TREE_MAX:
            return Reason.PROCESSES.of(limits.SUBAGENT_TREE_MAX)
        if taken.threads > limits.SUBAGENT_THREADS_MAX:
            return Reason.THREADS.of(limits.SUBAGENT_THREADS_MAX)
        return Reason.WORKSPACE_FULL if self.room is not None and await self.room.complaint() else None

    async def _until_gone(self, hearing: asyncio.Task[None]) -> None:
        """Wait until the process is gone. One that has ended is read to its end; one that stays silent for good is not
        waited for."""
        while not hearing.done() and self._process.returncode is None:
            await asyncio.wait([hearing], timeout=limits.SUBAGENT_WATCH_EVERY_S)
        await asyncio.wait([hearing], timeout=limits.SUBAGENT_LAST_WORDS_S)
        await reaped(self._process, within_s=limits.SUBAGENT_LAST_WORDS_S)
        self._fail(self.held.cause() or Reason.SILENT)

    async def _serve(self, call: protocol.ModelCall | protocol.ToolCallFrame) -> None:
        """Answer a call alongside the others, as soon as there is a free place; until then no more is read."""
        await self._open_calls.acquire()
        if self._over.done():
            self._open_calls.release()
        else:
            self._do(self._answer(call))

    async def _answer(self, call: protocol.ModelCall | protocol.ToolCallFrame) -> None:
        try:
            if isinstance(call, protocol.ToolCallFrame):
                await self._outgoing.put(await self.host.tool(call))
                return
            answers = self.host.model(call)
            async with aclosing(answers) if isinstance(answers, AsyncGenerator) else nullcontext():
                async for frame in answers:
                    await self._outgoing.put(frame)
        finally:
            self._open_calls.release()

    # --- one frame

    async def _take(self, frame: protocol.Frame | protocol.Unread) -> None:
        """Handle a frame. A child that has to confine itself and has not reported that it did is ended."""
        if (
            self.held.has_to_confine_itself
            and self.ready is None
            and not isinstance(frame, protocol.ReadyFrame | protocol.FailedFrame | protocol.Unread)
        ):
            self._fail(Reason.NOT_CONFINED)
        match frame:
            case protocol.ReadyFrame():
                self._greet(frame)
            case protocol.ChunkFrame():
                self.spoken.add(frame.delta)
            case protocol.ModelCall():
                self.spoken.begin_anew()
                await self._serve(frame)
            case protocol.ToolCallFrame():
                await self._serve(frame)
            case protocol.DoneFrame():
                state = TaskState.COMPLETED if frame.success else TaskState.FAILED
                self._end(ChildEnding(state, None if frame.success else Reason.GAVE_UP, frame.response))
            case protocol.FailedFrame():
                self._end(_own_account(frame, self.spoken.text()))
            case _:
                self._pass_over(frame)

    def _greet(self, ready: protocol.ReadyFrame) -> None:
        if self.ready is not None:
            return
        self.ready = ready
        self.ready_ms = round(1000 * self.age_s())
        if ready.protocol != protocol.PROTOCOL:
            self._fail(Reason.PROTOCOL.of(ready.protocol))
        if self.held.has_to_confine_itself and ready.confinement != self.held.confinement:
            self._fail(Reason.NOT_CONFINED)

    def _pass_over(self, frame: protocol.Frame | protocol.Unread) -> None:
        """Ignore an unknown frame: a newer child may send some. A child that sends too many of them is broken."""
        self._unread += 1
        reason = frame.reason if isinstance(frame, protocol.Unread) else "a frame that only parents send"
        _log.info("subagent.unread", task_id=self.init.task_id, reason=reason)
        if self._unread > limits.SUBAGENT_UNREAD_MAX:
            self._fail(Reason.NOT_UNDERSTOOD)

    # --- the end

    def _fail(self, reason: Reason | Code) -> None:
        self._end(ChildEnding(TaskState.FAILED, reason, self.spoken.text()))

    def _end(self, ending: ChildEnding) -> None:
        if not self._over.done():
            self._over.set_result(ending)

    def _do(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._settle)
        return task

    def _settle(self, task: asyncio.Task[None]) -> None:
        """End everything with the exception of the host's task, also if that is a cancellation."""
        self._tasks.discard(task)
        if task.cancelled():
            self._over.cancel()
        elif (error := task.exception()) is not None and not self._over.done():
            self._over.set_exception(error)


def _own_account(failed: protocol.FailedFrame, said: str) -> ChildEnding:
    """Read the ending that the child reports. An unknown code is treated as the child's words, not as ours."""
    if (own := own_code_of(failed.error)) is not None:
        return ChildEnding(TaskState.FAILED, own, said)
    return ChildEnding(TaskState.FAILED, Reason.BROKE_DOWN, "\n\n".join(filter(None, (failed.error, said))))


async def _ended(tasks: Set[asyncio.Task[None]]) -> None:
    """Cancel them, and wait until they are over."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)


class Supervisor:
    """Runs children, each in a sandbox of its own."""

    def __init__(
        self, sandbox: ChildSandbox, scrubber: Scrubber, clock: Clock, *, command: Sequence[str] = COMMAND
    ) -> None:
        self._sandbox = sandbox
        self._scrubber = scrubber
        self._clock = clock
        self._command = tuple(command)

    async def supervise(self, order: ChildOrder, host: Host) -> ChildEnding:
        """Carry an order out. A child that fails, floods, dies or takes too long is an ending, and so is a spent
        budget; whatever else the host raises is raised. Cancelling kills it.

        When this returns or raises, every process of the child is dead and reaped."""
        began_s = self._clock.monotonic_s()
        confinement, task_id = self._sandbox.confinement, order.init.task_id

        def age_s() -> float:
            return self._clock.monotonic_s() - began_s

        def aged(ending: ChildEnding, ready_ms: int | None = None) -> ChildEnding:
            return replace(ending, confinement=confinement, duration_ms=round(1000 * age_s()), ready_ms=ready_ms)

        # Measured before the child is there: what it writes at once is not what the folder held already.
        home = order.home if order.writes else None
        room = None if home is None else await FolderAllowance.measured(home, HOME_QUOTA, order.share)
        # The child does not read its id: operators find the processes of a sub-agent by it.
        command = (*self._command, task_id)
        try:
            held = await self._sandbox.start(command, order.home, writes=order.writes, limits=order.init.limits)
        except OSError as error:
            _log.error("subagent.not_started", task_id=task_id, error=type(error).__name__)
            return aged(ChildEnding(TaskState.FAILED, Reason.NOT_STARTED))
        _log.info("subagent.started", task_id=task_id, pid=held.process.pid)
        init = replace(order.init, workspace=self._sandbox.home_inside(order.home), confinement=confinement)
        exchange = Exchange(held, host, init, room, age_s)
        try:
            ending = await _until_over(exchange, order.limit_s)
        finally:
            await run_to_end(lambda: self._end(held, exchange, task_id))
        return aged(ending, exchange.ready_ms)

    async def _end(self, held: SandboxedProcess, exchange: Exchange, task_id: str) -> None:
        """End the child, however it went. One that has not ended by itself may first say goodbye."""
        if not exchange.is_over:
            await exchange.ask_to_end("no longer wanted", within_s=limits.SUBAGENT_CANCEL_S)
        exchange.hang_up()
        is_reaped = await held.kill()
        await exchange.close()
        if not is_reaped:
            _log.error("subagent.survivor", task_id=task_id, pid=held.process.pid)
        if errors := exchange.errors.text():
            log = _log.debug if exchange.has_completed else _log.warning
            log("subagent.stderr", task_id=task_id, text=self._scrubber.scrub(errors))


async def _until_over(exchange: Exchange, limit_s: float) -> ChildEnding:
    """Talk, for as long as there is time and money."""
    deadline = Deadline(limit_s)
    try:
        async with deadline:
            return await exchange.until_over()
    except TimeoutError:
        if not deadline.has_passed:
            raise
        return ChildEnding(TaskState.TIMED_OUT, Reason.TOO_LONG.of(f"{limit_s:g}"), exchange.spoken.text())
    except BudgetSpent:
        return ChildEnding(TaskState.FAILED, Reason.BUDGET_SPENT, exchange.spoken.text())
    except AllotmentSpent:
        return ChildEnding(TaskState.FAILED, Reason.ALLOTMENT_SPENT, exchange.spoken.text())
