"""The tools that a child runs itself: those for files, in its own workspace. Its parent has checked their arguments."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

from agent.limits import TOOL_TIMEOUT_S
from agent.subagents.inside.threads import ToolThreads
from agent.subagents.wire.frames import Call, OfferedTool, ToolOutcome
from agent.tools.files.file_tool import FileTool
from agent.tools.files.reading import READING
from agent.tools.files.workspace import Workspace
from agent.tools.files.writing import WRITING
from agent.tools.outputs import readable
from gateway.contracts.errors import ToolError


class Job:
    """One call that was begun. `outcome` is what it came to so far: that it took too long."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.outcome = _failure(call, ToolError(f"{call.name} did not finish within {TOOL_TIMEOUT_S:g} s"))
        self.has_ended = Event()
        self._due_s = time.monotonic() + TOOL_TIMEOUT_S

    @property
    def left_s(self) -> float:
        """How long it may still take."""
        return max(self._due_s - time.monotonic(), 0.0)


class OwnTools:
    """Those of the `offered` tools that are to run here, and can. `home` is the folder with `files/` and `journal/`,
    None for no workspace."""

    def __init__(self, offered: Sequence[OfferedTool], home: Path | None, threads: ToolThreads) -> None:
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
        """True if one of them changes files."""
        return any(tool.changes_files for tool in self._tools.values())

    def begin(self, call: Call, tell: Callable[[Job], None]) -> Job:
        """Run one of them on a thread, which tells when it has ended; whatever happens is an outcome. What touches
        the same file runs in the order in which it was begun."""
        tool, job = self._tools[call.name], Job(call)
        try:
            arguments = _arguments(call.arguments)
            before = self._queue(job, tool.locks(arguments))
        except Exception as error:  # noqa: BLE001 - the tool boundary, for a parent that has checked nothing
            job.outcome = _failure(call, error)
            tell(job)
        else:
            self._threads.do(partial(self._carry_out, tool, job, arguments, before, tell))
        return job

    def _queue(self, job: Job, touched: Iterable[str]) -> list[Job]:
        """Whom it has to wait for."""
        names = frozenset(touched)
        before = [self._last[name] for name in names if name in self._last]
        self._last.update(dict.fromkeys(names, job))
        return before

    def _carry_out(
        self,
        tool: FileTool,
        job: Job,
        arguments: Mapping[str, Any],
        before: Iterable[Job],
        tell: Callable[[Job], None],
    ) -> None:
        assert self._workspace is not None
        for other in before:
            other.has_ended.wait()
        try:
            text = readable(tool.work(self._workspace, arguments))
            job.outcome = ToolOutcome(job.call.id, text, is_error=False)
        except Exception as error:  # noqa: BLE001 - the tool boundary: the model gets an error result
            job.outcome = _failure(job.call, error)
        job.has_ended.set()
        tell(job)


def _arguments(text: str) -> Mapping[str, Any]:
    """Raises `ToolError` for anything but a JSON object."""
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ToolError("the arguments are no JSON object")
    return found


def _failure(call: Call, error: Exception) -> ToolOutcome:
    """Only `ToolError` has words that are meant to be read."""
    said = str(error) if isinstance(error, ToolError) else f"{call.name} failed: {type(error).__name__}"
    return ToolOutcome(call.id, readable(said), is_error=True)
