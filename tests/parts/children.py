"""Children that are scripts of the tests, what they are asked by, and the cages they are put in."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from agent.subagents.protocol import (
    InitFrame,
    ModelCall,
    ModelDelta,
    ModelResult,
    ProcessLimits,
    ToolCallFrame,
    ToolOutcome,
)
from agent.subagents.supervisor import ChildOrder

CHILD: Final = "agent.subagents.child"

PRELUDE: Final = """
import json, os, resource, signal, socket, subprocess, sys, time
def say(kind, **fields):
    sys.stdout.write(json.dumps({"type": kind, **fields}) + "\\n"); sys.stdout.flush()
def hear():
    return json.loads(sys.stdin.readline())
def done(response, success=True):
    say("done", result={"success": success, "response": str(response)})
def tried(what):
    try:
        return repr(what())
    except BaseException as error:
        return type(error).__name__
def detached(what):
    if os.fork() == 0:
        os.setsid(); signal.signal(signal.SIGTERM, signal.SIG_IGN)
        what(); os._exit(0)
config = hear()["config"]
home, held = config["workspace"], config["confinement"]
if DOES_ITS_PART or held == "landlock":
    from pathlib import Path
    from agent.subagents.confinement import confine_this_process
    held = confine_this_process(Path(home) if home else None, WRITES, held)
say("ready", pid=os.getpid(), confinement=held, protocol=1)
"""
"""In front of every script: the words of the protocol, and the first thing every child says."""


def command(
    script: str, *, prelude: str = PRELUDE, writes: bool = True, does_its_part: bool = False
) -> tuple[str, ...]:
    """How a child is started that does this once it has said that it is ready. One that `does_its_part` has confined
    itself before, as ours do; under Landlock every child does."""
    names = f"WRITES, DOES_ITS_PART = {writes}, {does_its_part}"
    return (sys.executable, "-c", f"{names}\n{prelude}{script}")


def order(
    home: Path | None = None, *, writes: bool = True, limit_s: float = 60.0, limits: ProcessLimits | None = None
) -> ChildOrder:
    """An order for any child."""
    init = InitFrame(
        task_id="task-1",
        workspace="wherever",
        rounds_max=3,
        limits=limits or ProcessLimits(),
        confinement="",
        sub_type="explore",
        system="",
        messages=(),
        tools=(),
        wrap_up="",
    )
    return ChildOrder(init, home, writes, limit_s)


@dataclass
class RecordingHost:
    """A host that answers at once, and remembers what it was asked."""

    answers: Sequence[str] = ("Hello",)
    calls: list[ModelCall | ToolCallFrame] = field(default_factory=list)
    error: BaseException | None = None
    """What the model raises."""
    gate: asyncio.Event | None = None
    """What a tool waits for."""
    tools_running: int = 0
    most_running: int = 0

    async def model(self, call: ModelCall) -> AsyncIterator[ModelDelta | ModelResult]:
        self.calls.append(call)
        if self.error is not None:
            raise self.error
        for delta in self.answers:
            yield ModelDelta(call.id, delta)
        yield ModelResult(call.id, "".join(self.answers))

    async def tool(self, call: ToolCallFrame) -> ToolOutcome:
        self.calls.append(call)
        self.tools_running += 1
        self.most_running = max(self.most_running, self.tools_running)
        try:
            if self.gate is not None:
                await self.gate.wait()
        finally:
            self.tools_running -= 1
        return ToolOutcome(call.id, f"did {call.name}", is_error=False)


def alive(mark: str) -> list[int]:
    """Processes of this machine that carry `mark` in their command line, or in an environment that is not closed."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            with suppress(OSError):
                if mark.encode() in (process / name).read_bytes():
                    found.add(int(process.name))
    return sorted(found)


def zombies_of(pid: int) -> list[int]:
    """Children of `pid` that have ended and were not reaped."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            state, parent = (place / "stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state == "Z" and int(parent) == pid:
            found.append(int(place.name))
    return found


def own_children() -> list[int]:
    """The processes of sub-agents that this one has started, directly or inside of a sandbox."""
    found = [pid for pid in alive(CHILD) if os.getpid() in _line_of(pid)]
    return sorted(found)


def _line_of(pid: int) -> list[int]:
    """A process and those above it, up to the first."""
    line = [pid]
    while line[-1] > 1:
        try:
            status = Path(f"/proc/{line[-1]}/stat").read_text()
        except OSError:
            break
        line.append(int(status.rpartition(")")[2].split()[1]))
    return line
