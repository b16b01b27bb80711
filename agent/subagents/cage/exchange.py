"""What a parent and one child say to each other, until one of them ends it. Nothing here waits for a child's mercy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Set
from contextlib import aclosing, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from agent.limits import (
    SUBAGENT_CALLS_OPEN_MAX,
    SUBAGENT_ERRORS_BYTES_MAX,
    SUBAGENT_FRAMES_WAITING_MAX,
    SUBAGENT_HEARD_BYTES_MAX,
    SUBAGENT_HEARD_FRAMES_MAX,
    SUBAGENT_LAST_WORDS_S,
    SUBAGENT_READY_S,
    SUBAGENT_UNREAD_MAX,
    SUBAGENT_WATCH_EVERY_S,
)
from agent.subagents.cage.cages import Held
from agent.subagents.cage.orders import Host
from agent.subagents.cage.quota import Quota
from agent.subagents.cage.spoken import Spoken
from agent.subagents.wire.codec import FrameReader, FrameTooLong, Unread, encoded
from agent.subagents.wire.frames import (
    PIECE_BYTES,
    PROTOCOL,
    Cancel,
    Chunk,
    Done,
    Failed,
    Frame,
    Init,
    ModelCall,
    Ready,
    ToChild,
    ToolCall,
)
from agent.tools.execution.output import Output
from agent.tools.execution.reaping import reaped
from agent.tools.execution.room import Room
from agent.tools.files.quota import HOME_QUOTA, Share
from gateway.contracts.reasons import Code, Reason
from gateway.contracts.subagents import TaskState
from gateway.words.reasons import own_code_of

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Verdict:
    """How it ended; `reason` is None if it completed, `response` is raw."""

    state: TaskState
    reason: Reason | Code | None = None
    response: str = ""


class Exchange:
    """One child's frames, heard and answered. `home` is the folder it may write in, None for one that only reads;
    `share` what that is among its owner's, `age_s` tells how long ago its process was started."""

    def __init__(
        self,
        held: Held,
        host: Host,
        init: Init,
        home: Path | None,
        age_s: Callable[[], float],
        *,
        share: Share | None = None,
    ) -> None:
        self._held = held
        self._process = held.process
        self._host = host
        self._init = init
        self._home = home
        self._share = share
        self._age_s = age_s
        self._over: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self._outgoing: asyncio.Queue[ToChild] = asyncio.Queue(SUBAGENT_FRAMES_WAITING_MAX)
        self._open_calls = asyncio.Semaphore(SUBAGENT_CALLS_OPEN_MAX)
        self._tasks: set[asyncio.Task[None]] = set()
        self._listening: set[asyncio.Task[None]] = set()
        self._unread = 0
        self._spoken = Spoken()
        self.errors = Output(SUBAGENT_ERRORS_BYTES_MAX)
        """What came on its standard error."""
        self.ready: Ready | None = None
        self.ready_ms: int | None = None

    @property
    def is_over(self) -> bool:
        """True once the child's end is known."""
        return self._over.done() and not self._over.cancelled()

    @property
    def has_completed(self) -> bool:
        """True when it ended as it should."""
        return self.is_over and not self._over.exception() and self._over.result().state is TaskState.COMPLETED

    @property
    def said(self) -> str:
        """What it said last on the way."""
        return self._spoken.text()

    async def until_over(self) -> Verdict:
        """Talk until the child is done, gives up, breaks the rules or is gone. Raises what the host raises."""
        self._outgoing.put_nowait(self._init)
        hearing = self._do(self._hear())
        self._listening = {hearing, self._do(self._drain())}
        for work in (self._speak(), self._watch(), self._until_gone(hearing)):
            self._do(work)
        return await self._over

    async def ask_to_end(self, reason: str, *, within_s: float) -> None:
        """Let the child end its own way, if it reads and is quick."""
        with suppress(asyncio.QueueFull):
            self._outgoing.put_nowait(Cancel(reason))
            await reaped(self._process, within_s=within_s)

    def hang_up(self) -> None:
        """Nothing more is said to it: a child of ours ends by itself then."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    async def close(self) -> None:
        """For a child that was killed: nothing is done any more, and its pipes are read to their ends."""
        await _ended(self._tasks - self._listening)
        if self._listening:
            await asyncio.wait(self._listening, timeout=SUBAGENT_LAST_WORDS_S)
        await _ended(self._listening)
        if self._over.done() and not self._over.cancelled():
            self._over.exception()

    # --- what goes on at the same time

    async def _hear(self) -> None:
        """To the end, also when nobody listens any more: a pipe that is full would never close."""
        assert self._process.stdout is not None
        reader, heard_bytes, heard_lines = FrameReader(), 0, 0
        while piece := await self._process.stdout.read(PIECE_BYTES):
            heard_bytes += len(piece)
            heard_lines += piece.count(b"\n")
            if heard_bytes > SUBAGENT_HEARD_BYTES_MAX:
                self._fail(Reason.TOO_MANY_BYTES)
            if heard_lines > SUBAGENT_HEARD_FRAMES_MAX:  # empty ones, too: they say nothing, and are work to read
                self._fail(Reason.TOO_MANY_FRAMES)
            await self._take_all(reader.feed(piece) if not self._over.done() else ())
        await self._take_all(reader.end())

    async def _take_all(self, frames: Iterable[Frame | Unread]) -> None:
        for frame in frames:
            if not self._over.done():
                await self._take(frame)

    async def _speak(self) -> None:
        """The one writer. What nobody reads any more is thrown away, so that whoever answers can end."""
        assert self._process.stdin is not None
        reads = True
        while True:
            frame = await self._outgoing.get()
            if reads:
                try:
                    self._process.stdin.write(encoded(frame))
                    await self._process.stdin.drain()
                except (OSError, RuntimeError):  # the pipe, or our end of it, is closed
                    reads = False
                except FrameTooLong:
                    self._fail(Reason.FRAME_TOO_LONG)

    async def _drain(self) -> None:
        assert self._process.stderr is not None
        while piece := await self._process.stderr.read(PIECE_BYTES):
            self.errors.add(piece)

    async def _watch(self) -> None:
        """Is it ready in time, and does it stay as small as it has to?"""
        room = await Room.measured(self._home, HOME_QUOTA, self._share) if self._home is not None else None
        quota = Quota(self._process.pid, self._init.limits.memory_bytes, room)
        while self._process.returncode is None:
            await asyncio.sleep(SUBAGENT_WATCH_EVERY_S)
            if self.ready is None and self._age_s() > SUBAGENT_READY_S:
                self._fail(Reason.NOT_READY)
            if excess := await quota.excess():
                self._fail(excess)

    async def _until_gone(self, hearing: asyncio.Task[None]) -> None:
        """A process that has ended is heard to its end; one that is silent for good is not waited for."""
        while not hearing.done() and self._process.returncode is None:
            await asyncio.wait([hearing], timeout=SUBAGENT_WATCH_EVERY_S)
        await asyncio.wait([hearing], timeout=SUBAGENT_LAST_WORDS_S)
        await reaped(self._process, within_s=SUBAGENT_LAST_WORDS_S)
        self._fail(self._held.cause() or Reason.SILENT)

    async def _serve(self, call: ModelCall | ToolCall) -> None:
        """Beside the others, as soon as one of them is over; until then nothing more is heard."""
        await self._open_calls.acquire()
        if self._over.done():
            self._open_calls.release()
        else:
            self._do(self._answer(call))

    async def _answer(self, call: ModelCall | ToolCall) -> None:
        try:
            if isinstance(call, ToolCall):
                await self._outgoing.put(await self._host.tool(call))
                return
            answers = self._host.model(call)
            async with aclosing(answers) if isinstance(answers, AsyncGenerator) else nullcontext():
                async for frame in answers:
                    await self._outgoing.put(frame)
        finally:
            self._open_calls.release()

    # --- one frame

    async def _take(self, frame: Frame | Unread) -> None:
        """Of a child that has to confine itself and has not said that it did, nothing is taken."""
        if self._held.has_to_confine_itself and self.ready is None and not isinstance(frame, Ready | Failed | Unread):
            self._fail(Reason.NOT_CONFINED)
        match frame:
            case Ready():
                self._greet(frame)
            case Chunk():
                self._spoken.add(frame.delta)
                self._host.heard(frame)
            case ModelCall():
                self._spoken.begin_anew()
                await self._serve(frame)
            case ToolCall():
                await self._serve(frame)
            case Done():
                state = TaskState.COMPLETED if frame.success else TaskState.FAILED
                self._end(Verdict(state, None if frame.success else Reason.GAVE_UP, frame.response))
            case Failed():
                self._end(_own_account(frame, self.said))
            case _:
                self._pass_over(frame)

    def _greet(self, ready: Ready) -> None:
        if self.ready is not None:
            return
        self.ready = ready
        self.ready_ms = round(1000 * self._age_s())
        if ready.protocol != PROTOCOL:
            self._fail(Reason.PROTOCOL.of(ready.protocol))
        if self._held.has_to_confine_itself and ready.confinement != self._held.confinement:
            self._fail(Reason.NOT_CONFINED)

    def _pass_over(self, frame: Frame | Unread) -> None:
        """Newer children may say what we do not know; who says nothing else is broken."""
        self._unread += 1
        reason = frame.reason if isinstance(frame, Unread) else "a frame that only parents send"
        _log.info("subagent.unread", task_id=self._init.task_id, reason=reason)
        if self._unread > SUBAGENT_UNREAD_MAX:
            self._fail(Reason.NOT_UNDERSTOOD)

    # --- the end

    def _fail(self, reason: Reason | Code) -> None:
        self._end(Verdict(TaskState.FAILED, reason, self.said))

    def _end(self, verdict: Verdict) -> None:
        if not self._over.done():
            self._over.set_result(verdict)

    def _do(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._settle)
        return task

    def _settle(self, task: asyncio.Task[None]) -> None:
        """What the host raises ends it all, a cancellation of its own, too."""
        self._tasks.discard(task)
        if task.cancelled():
            self._over.cancel()
        elif (error := task.exception()) is not None and not self._over.done():
            self._over.set_exception(error)


def _own_account(failed: Failed, said: str) -> Verdict:
    """How a child says that it ended. What is no code that children have is among its words, not ours."""
    if (own := own_code_of(failed.error)) is not None:
        return Verdict(TaskState.FAILED, own, said)
    return Verdict(TaskState.FAILED, Reason.BROKE_DOWN, "\n\n".join(filter(None, (failed.error, said))))


async def _ended(tasks: Set[asyncio.Task[None]]) -> None:
    """Cancel them, and wait until they are over."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
