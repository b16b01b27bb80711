"""A sub-agent's real process, with the test in the place of its parent."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeVar

from agent.subagents.protocol import (
    CalledTool,
    ChildMessage,
    Frame,
    FrameReader,
    InitFrame,
    ModelCall,
    ModelResult,
    OfferedTool,
    ProcessLimits,
    ReadyFrame,
    ToChild,
    Unread,
    encoded,
)
from agent.tools.files.tools import READING, WRITING
from agent.tools.files.workspace import Workspace
from tests.parts.waiting import PATIENCE_S

_F = TypeVar("_F", bound=Frame)
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})

HERE: Final = tuple(
    OfferedTool(tool.name, tool.description, tool.schema, runs_here=True) for tool in (*READING, *WRITING)
)
"""All file tools, as a parent offers them to a child that may run them itself."""

THERE: Final = tuple(
    OfferedTool(name, "Somewhere else.", {"type": "object"}, runs_here=False) for name in ("web_search", "shell")
)


def an_init(said: str = "hello", *, tools: Sequence[OfferedTool] = (), home: Path | None = None) -> InitFrame:
    """An order as a parent gives it; `dataclasses.replace` changes the rest."""
    return InitFrame(
        task_id="t1",
        workspace=str(home) if home else "",
        rounds_max=6,
        limits=ProcessLimits(),
        confinement="plain",
        sub_type="explore",
        system="You look around.",
        messages=(ChildMessage("user", said),),
        tools=tuple(tools),
        wrap_up="Answer now.",
    )


def a_call(name: str, call_id: str = "c1", **arguments: object) -> CalledTool:
    """A tool call as a model makes it."""
    return CalledTool(call_id, name, json.dumps(arguments))


def with_rounds(init: InitFrame, rounds_max: int) -> InitFrame:
    """The same order with another cap."""
    return replace(init, rounds_max=rounds_max)


@contextlib.contextmanager
def changes_held_up(home: Path) -> Iterator[None]:
    """While this lasts, whoever changes a file of this workspace waits."""
    Workspace(home)
    folder = os.open(home / "journal", os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(folder)


class ChildTalk:
    """One child. What it says comes in order; a line that is no frame fails the test."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self.process = process
        self._to_child, self._from_child = process.stdin, process.stdout
        self._heard: list[Frame] = []
        self._reader = FrameReader()
        self._noting = asyncio.ensure_future(process.stderr.read())

    async def send(self, *said: ToChild | bytes) -> None:
        """Say something; bytes as they are."""
        for each in said:
            self._to_child.write(each if isinstance(each, bytes) else encoded(each))
        await self._to_child.drain()

    async def hear(self, kind: type[_F]) -> _F:
        """The next frame, which has to be of this kind."""
        async with asyncio.timeout(PATIENCE_S):
            while not self._heard:
                piece = await self._from_child.read(65_536)
                assert piece, f"it ended ({await self.process.wait()}) and said {await self.notes()!r}"
                self._take(self._reader.feed(piece))
        frame = self._heard.pop(0)
        assert isinstance(frame, kind), frame
        return frame

    async def begin(self, init: InitFrame) -> ModelCall:
        """From `init` to the first question to the model."""
        await self.send(init)
        await self.hear(ReadyFrame)
        return await self.hear(ModelCall)

    async def answer(self, call: ModelCall, *calls: CalledTool, text: str = "") -> None:
        """What the model says to `call`."""
        await self.send(ModelResult(call.id, text, calls, tokens_in=10, tokens_out=2, cost_usd=0.5))

    def close(self) -> None:
        """The parent is gone."""
        self._to_child.close()

    async def end(self) -> list[Frame]:
        """Wait for the end of the process; what it said that nobody has heard yet."""
        async with asyncio.timeout(PATIENCE_S):
            while piece := await self._from_child.read(65_536):
                self._take(self._reader.feed(piece))
            self._take(self._reader.end())
            await self.process.wait()
        left, self._heard = self._heard, []
        return left

    async def notes(self) -> str:
        """All it said on standard error; for when it has ended."""
        return (await self._noting).decode()

    def _take(self, found: Sequence[Frame | Unread]) -> None:
        for each in found:
            assert not isinstance(each, Unread), each
            self._heard.append(each)


@contextlib.asynccontextmanager
async def child_talk(
    *flags: str, program: Sequence[str] = ("-m", "agent.subagents.child"), environment: Mapping[str, str] = _NOTHING
) -> AsyncIterator[ChildTalk]:
    """A child as long as the block lasts. `flags` are the interpreter's; `program` may be another one that becomes a
    child."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *flags, *program),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=dict(environment),
    )
    talk = ChildTalk(process)
    try:
        yield talk
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        talk.close()
        await talk.notes()
