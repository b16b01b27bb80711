"""Child processes of the bench: started in a block, ended by their own process id when it is left."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

STOP_TIMEOUT_S: Final = 45.0
FIRST_LINE_TIMEOUT_S: Final = 30.0
LOG_TAIL_CHARS: Final = 2_000


class BenchFailed(Exception):
    """Something the bench needs did not come up."""


@contextlib.asynccontextmanager
async def running(
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    cores: Collection[int] = (),
    folder: Path | None = None,
    log: IO[bytes] | None = None,
) -> AsyncIterator[Process]:
    """A process on `cores` (empty: any) for as long as the block. Its standard input is a pipe that ends with it: not
    uvloop's socket, on which a role would report that it is ready."""
    reading, writing = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            *command, env=environment, cwd=folder, stdin=reading, stdout=PIPE, stderr=log, start_new_session=True
        )
        os.close(reading)
        pin(process.pid, cores)
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await _ended(process)
    finally:
        os.close(writing)


async def said(process: Process, *, within_s: float = FIRST_LINE_TIMEOUT_S) -> Any:
    """The JSON that a process says in one line. Raises `BenchFailed`."""
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), within_s)
        return json.loads(line)
    except (TimeoutError, ValueError) as error:
        raise BenchFailed(f"process {process.pid} did not say what it was asked for") from error


def tail(log: IO[bytes]) -> str:
    """The end of what was written to a log."""
    log.seek(0)
    return log.read().decode(errors="replace")[-LOG_TAIL_CHARS:]


def pin(pid: int, cores: Collection[int]) -> None:
    """Keep a process, and what it starts from now on, on these cores, where the system can do that."""
    if cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(pid, cores)


def split_cores() -> tuple[frozenset[int], frozenset[int]]:
    """One core for the product and the rest for everybody else; the same one twice if there is only one."""
    if not hasattr(os, "sched_getaffinity"):
        return frozenset(), frozenset()
    cores = sorted(os.sched_getaffinity(0))
    return frozenset(cores[:1]), frozenset(cores[1:] or cores)


async def _ended(process: Process) -> None:
    try:
        await asyncio.wait_for(process.wait(), STOP_TIMEOUT_S)
    except TimeoutError:
        process.kill()
        await process.wait()
