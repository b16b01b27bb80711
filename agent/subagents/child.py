"""A sub-agent's own process: `python -m agent.subagents.child`. The composition root of what runs in it.

It reads frames from standard input and writes frames to standard output. It has no key, no database and no network.
It is small, because every module that it imports is waited for at every start: nothing here may lead to the SDK of a
model or a platform, to SQL or to the logs.

Its parent can end it at any moment, by `cancel` or by closing the pipe: whatever runs then is not waited for."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any, Final, Never

from agent.limits import SUBAGENT_NOTES_MAX, TOOL_TIMEOUT_S, TOOLS_PARALLEL_MAX
from agent.subagents import protocol
from agent.subagents.confinement import confine_this_process, die_with_parent, restrain, share_one_heap
from agent.subagents.rounds import Rounds
from agent.tokens import readable
from agent.tools.files.tools import READING, WRITING, FileTool
from agent.tools.files.workspace import Workspace
from gateway.contracts.errors import Reason, ToolError

_ASKED_TO: Final = 0

_FAILED: Final = 1


class LastWords:
    """Writes short lines of our own and the class of an exception to standard error, never the exception's text.

    A child has no scrubber, and a traceback quotes what the exceptions were given. At most SUBAGENT_NOTES_MAX
    lines are written, so that a parent that reads none of them does not block the child."""

    def __init__(self) -> None:
        self._left = SUBAGENT_NOTES_MAX

    def note(self, line: str) -> None:
        """Write one line, without anything that came from outside."""
        self._left -= 1
        if self._left >= 0:
            with contextlib.suppress(OSError):
                os.write(2, f"sub-agent: {line}\n".encode(errors="replace"))

    def guard(self) -> None:
        """Prevent, from now on and in every thread, that an exception is printed with its text; only its type is noted.
        The child writes no logs here."""
        sys.excepthook = lambda kind, _error, _trace: self.note(kind.__name__)
        threading.excepthook = lambda found: self.note(found.exc_type.__name__)
        sys.unraisablehook = lambda found: self.note(found.exc_type.__name__)


class Pipes:
    """Takes standard input and output away from the process: other code that reads finds nothing, and prints go
    to standard error. Both pipes close with the process."""

    def __init__(self) -> None:
        self._source, self._sink = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        self._whole = threading.Lock()

    def frames(self) -> Iterator[protocol.Frame | protocol.Unread]:
        """Yield what the parent sends, until it closes its end. Blocks."""
        reader = protocol.FrameReader()
        while piece := os.read(self._source, protocol.PIECE_BYTES):
            yield from reader.feed(piece)
        yield from reader.end()

    def send(self, frame: protocol.ToParent) -> None:
        """Say something, whole; waits for a parent that does not listen. Raises `FrameTooLong`, and `OSError` when the
        parent is gone."""
        left = memoryview(protocol.encoded(frame))
        with self._whole:
            while left:
                left = left[os.write(self._sink, left) :]


class ToolThreads:
    """The threads of the tools. There are none until they are started, and the end of the process does not wait
    for them."""

    def __init__(self) -> None:
        self._waiting: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def stand(self, count: int) -> None:
        """Start so many, all of them now."""
        for _ in range(count):
            Thread(target=self._work, daemon=True).start()

    def do(self, work: Callable[[], None]) -> None:
        """Run the work as soon as one of the threads is free, in the order of the requests."""
        self._waiting.put(work)

    def _work(self) -> None:
        while True:
            self._waiting.get()()


class Job:
    """One call that was begun. `outcome` is its outcome so far: that it took too long."""

    def __init__(self, call: protocol.CalledTool) -> None:
        self.call = call
        self.outcome = _failure(call, ToolError(f"{call.name} did not finish within {TOOL_TIMEOUT_S:g} s"))
        self.has_ended = Event()
        self._due_s = time.monotonic() + TOOL_TIMEOUT_S

    @property
    def left_s(self) -> float:
        """Return how long the job may still take, in seconds."""
        return max(self._due_s - time.monotonic(), 0.0)


class OwnTools:
    """The `offered` tools that the child can run itself. `home` is the folder with `files/` and `journal/`, None for no
    workspace. The parent has checked their arguments."""

    def __init__(self, offered: Sequence[protocol.OfferedTool], home: Path | None, threads: ToolThreads) -> None:
        wanted = {tool.name for tool in offered if tool.runs_here}
        there = (*READING, *WRITING) if home is not None else ()
        self._tools = {tool.name: tool for tool in there if tool.name in wanted}
        self._workspace = Workspace(home) if home is not None and self._tools else None
        self._threads = threads
        self._last: dict[str, Job] = {}
        """For each thing that calls have touched, the newest of them."""

    def __contains__(self, name: str) -> bool:
        return name in self._tools

    @property
    def write(self) -> bool:
        """Tell whether one of the tools changes files."""
        return any(tool.changes_files for tool in self._tools.values())

    def begin(self, call: protocol.CalledTool, tell: Callable[[Job], None]) -> Job:
        """Run one of them on a thread, which tells when it has ended; whatever happens is an outcome. What touches
        the same file runs in the order in which it was begun."""
        tool, job = self._tools[call.name], Job(call)
        try:
            try:
                arguments = json.loads(call.arguments or "{}")
            except (ValueError, RecursionError):
                arguments = None
            if not isinstance(arguments, dict):
                raise ToolError("the arguments are no JSON object")
            before = self._queue(job, tool.locks(arguments))
        except Exception as error:  # noqa: BLE001 - the tool boundary, for a parent that has checked nothing
            job.outcome = _failure(call, error)
            tell(job)
        else:
            self._threads.do(partial(self._carry_out, tool, job, arguments, before, tell))
        return job

    def _queue(self, job: Job, touched: Iterable[str]) -> list[Job]:
        """List the jobs for which this one has to wait, because they touch the same files."""
        names = frozenset(touched)
        before = [self._last[name] for name in names if name in self._last]
        self._last.update(dict.fromkeys(names, job))
        return before

    def _carry_out(
        self, tool: FileTool, job: Job, arguments: Mapping[str, Any], before: Iterable[Job], tell: Callable[[Job], None]
    ) -> None:
        assert self._workspace is not None
        for other in before:
            other.has_ended.wait()
        try:
            text = readable(tool.work(self._workspace, arguments))
            job.outcome = protocol.ToolOutcome(job.call.id, text, is_error=False)
        except Exception as error:  # noqa: BLE001 - the tool boundary: the model gets an error result
            job.outcome = _failure(job.call, error)
        job.has_ended.set()
        tell(job)


def _failure(call: protocol.CalledTool, error: Exception) -> protocol.ToolOutcome:
    """Build the outcome of a failed call. Only the words of a `ToolError` are meant to be read."""
    said = str(error) if isinstance(error, ToolError) else f"{call.name} failed: {type(error).__name__}"
    return protocol.ToolOutcome(call.id, readable(said), is_error=True)


@dataclass(eq=False, repr=False)
class ParentLink:
    """Asks the parent through `send`, which raises `FrameTooLong`. A frame that answers no question is ignored.

    All answers, from any thread, go into one queue, and one thread takes them out. So nothing here is shared."""

    send: Callable[[protocol.ToParent], None]
    own: OwnTools
    offered: Sequence[str]
    _: KW_ONLY
    pass_over: Callable[[protocol.Frame | protocol.Unread], None]
    _heard: SimpleQueue[protocol.Frame | protocol.Unread | Job] = field(init=False, default_factory=SimpleQueue)

    def hear(self, frame: protocol.Frame | protocol.Unread) -> None:
        """Take in a frame from the parent; called on the listening thread."""
        self._heard.put(frame)

    def model(self, call: protocol.ModelCall) -> protocol.ModelResult:
        """Ask for a model's answer; a prompt that fits into no frame fails as one that is too long."""
        try:
            self.send(call)
        except protocol.FrameTooLong:
            return protocol.ModelResult(call.id, error=Reason.PROMPT_TOO_LONG, is_too_long=True)
        while True:
            match self._heard.get():
                case protocol.ModelDelta(id=call_id, delta=delta) if call_id == call.id:
                    self.send(protocol.ChunkFrame(delta))
                case protocol.ModelResult(id=call_id) as result if call_id == call.id:
                    return result
                case Job():
                    pass  # nobody waits for it any more
                case frame:
                    self.pass_over(frame)

    def tools(
        self, calls: Sequence[protocol.CalledTool], refused: Iterable[protocol.ToolOutcome]
    ) -> list[protocol.ToolOutcome]:
        """Run the calls of a round and return their outcomes in order; those that the parent has `refused`
        are not run."""
        outcomes = {outcome.id: outcome for outcome in refused}
        jobs: dict[str, Job] = {}
        for call in calls:
            if call.id in outcomes:
                continue
            if call.name in self.own:
                jobs[call.id] = self.own.begin(call, self._heard.put)
            elif (outcome := self._ask(call)) is not None:
                outcomes[call.id] = outcome
        while open_calls := [call.id for call in calls if call.id not in outcomes]:
            outcome = self._next([jobs[name] for name in open_calls if name in jobs], open_calls)
            outcomes[outcome.id] = outcome
        return [outcomes[call.id] for call in calls]

    def _ask(self, call: protocol.CalledTool) -> protocol.ToolOutcome | None:
        """Ask the parent; an outcome where that cannot be."""
        if call.name not in self.offered:
            said = f"there is no tool {call.name[:64]!r}; there are: {', '.join(self.offered)}"
            return protocol.ToolOutcome(call.id, said, is_error=True)
        try:
            self.send(protocol.ToolCallFrame(call.id, call.name, call.arguments))
        except protocol.FrameTooLong as error:
            return protocol.ToolOutcome(call.id, str(error), is_error=True)
        return None

    def _next(self, jobs: Sequence[Job], open_calls: Sequence[str]) -> protocol.ToolOutcome:
        """Return the outcome that arrives first; a job of our own that has taken too long counts as failed."""
        asked = set(open_calls) - {job.call.id for job in jobs}
        while True:
            try:
                heard = self._heard.get(timeout=min((job.left_s for job in jobs), default=None))
            except Empty:
                return min(jobs, key=lambda job: job.left_s).outcome
            match heard:
                case Job():
                    if heard in jobs:
                        return heard.outcome
                case protocol.ToolOutcome() if heard.id in asked:
                    return heard
                case _:
                    self.pass_over(heard)


class Child:
    """One sub-agent, from its `init` to its end, which is the end of the process."""

    def __init__(self, pipes: Pipes, words: LastWords) -> None:
        self._pipes = pipes
        self._words = words
        self._frames = pipes.frames()

    def live(self) -> Never:
        """Live. What cannot be helped becomes an `error` frame with the name of its class."""
        try:
            init = self._first()
            if init.protocol != protocol.PROTOCOL:
                self._end(protocol.FailedFrame(Reason.PROTOCOL.of(protocol.PROTOCOL)))
            home = Path(init.workspace) if init.workspace else None
            threads = ToolThreads()
            own = OwnTools(init.tools, home, threads)
            confinement = confine_this_process(home, own.write, init.confinement)
            asking = ParentLink(self._pipes.send, own, [tool.name for tool in init.tools], pass_over=self._pass_over)
            # The threads start after the confinement, which holds only what was started in it, and before the limits,
            # which may allow no more of them.
            threads.stand(TOOLS_PARALLEL_MAX)
            is_ready = threading.Event()
            threading.Thread(target=self._listen, args=[asking, is_ready], daemon=True).start()
            restrain(init.limits)
            self._pipes.send(protocol.ReadyFrame(os.getpid(), confinement))
            is_ready.set()
            self._work(Rounds(init), asking)
        except Exception as error:  # noqa: BLE001 - the root of the process: its parent is told, and it ends
            self._end(_raised(error))

    def _first(self) -> protocol.InitFrame:
        """Read the first frame of the parent. If the parent goes away before, there is nothing to report to."""
        for frame in self._frames:
            match frame:
                case protocol.InitFrame():
                    return frame
                case protocol.CancelFrame():
                    break
                case _:
                    self._pass_over(frame)
        os._exit(_ASKED_TO)

    def _work(self, rounds: Rounds, asking: ParentLink) -> Never:
        began_s = time.monotonic()
        while rounds.ending is None:
            result = asking.model(rounds.next_call())
            calls = rounds.answered(result)
            rounds.returned(calls, asking.tools(calls, result.outcomes))
        if isinstance(rounds.ending, protocol.DoneFrame):
            self._end(replace(rounds.ending, duration_ms=int((time.monotonic() - began_s) * 1_000)))
        self._end(rounds.ending)

    def _listen(self, asking: ParentLink, is_ready: threading.Event) -> None:
        """Listen on a thread of its own, so that nothing that runs here keeps the parent from ending it."""
        is_ready.wait()
        try:
            for frame in self._frames:
                if isinstance(frame, protocol.CancelFrame):
                    break
                asking.hear(frame)
        except Exception as error:  # noqa: BLE001 - the root of this thread: without it the child is deaf
            self._end(_raised(error))
        os._exit(_ASKED_TO)

    def _pass_over(self, frame: protocol.Frame | protocol.Unread) -> None:
        what = frame.reason if isinstance(frame, protocol.Unread) else f"a {type(frame).__name__} that answers nothing"
        self._words.note(f"passed over {what}")

    def _end(self, frame: protocol.DoneFrame | protocol.FailedFrame) -> Never:
        """Say how it went and be gone; threads that are still at work are not waited for."""
        try:
            self._pipes.send(frame)
        except protocol.FrameTooLong:
            self._end(protocol.FailedFrame(Reason.FRAME_TOO_LONG))
        finally:
            os._exit(_ASKED_TO if isinstance(frame, protocol.DoneFrame) else _FAILED)


def _raised(error: Exception) -> protocol.FailedFrame:
    """Build the frame for an exception, never with its text, which may quote anything."""
    return protocol.FailedFrame(Reason.RAISED.of(type(error).__name__))


def main() -> Never:
    """Run this process as a sub-agent."""
    words = LastWords()
    words.guard()
    die_with_parent()
    share_one_heap()
    Child(Pipes(), words).live()


if __name__ == "__main__":
    main()
