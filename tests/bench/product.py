"""Trivet as a tree of processes, looked at from outside: ready or not, CPU spent, memory held."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import sys
import tempfile
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import psutil

from gateway.bus.embedded import embedded_url
from gateway.preflight import free_port
from tests.bench.figures import RoleMemory
from tests.bench.processes import BenchFailed, running, tail

ROOT: Final = Path(__file__).parents[2]
DATA: Final = "data"
HOST: Final = "127.0.0.1"
READY_TIMEOUT_S: Final = 60.0
READY_LINES: Final = (b"Trivet is ready", b"Trivet has started")
MB: Final = 1_000_000
_NOT_PASSED_ON: Final = ("TRIVET_", "PYTHONDONTWRITEBYTECODE")  # an installation has its bytecode


@dataclass(frozen=True, slots=True)
class Product:
    """A running and connected Trivet. `start_s` is how long it took until it said that it is ready."""

    process: Process
    port: int
    bus_url: str
    start_s: float
    authorization: Mapping[str, str]
    """The header with which its API is asked."""

    def tree(self) -> list[psutil.Process]:
        """The supervisor and everything it has started."""
        supervisor = psutil.Process(self.process.pid)
        return [supervisor, *supervisor.children(recursive=True)]

    def staff(self) -> dict[str, list[psutil.Process]]:
        """Every process by its role; agents, of which there may be several, by number, too."""
        staff: dict[str, list[psutil.Process]] = {}
        for process in self.tree():
            staff.setdefault(_role(process), []).append(process)
        if len(agents := staff.get("agent", [])) > 1:
            del staff["agent"]
            staff.update({f"agent {number}": [agent] for number, agent in enumerate(agents, 1)})
        return staff

    def cpu_s(self) -> dict[str, float]:
        """The CPU time that each role has spent so far, user and system."""
        return spent_s(self.staff())

    def memory(self) -> tuple[RoleMemory, ...]:
        """What each process holds now."""
        return tuple(memory_of(process) for process in self.tree())


def spent_s(staff: Mapping[str, Sequence[psutil.Process]]) -> dict[str, float]:
    """The CPU time that everybody has spent so far, user and system."""
    return {name: sum(_cpu_s(process) for process in processes) for name, processes in staff.items()}


def _cpu_s(process: psutil.Process) -> float:
    try:
        spent = process.cpu_times()
    except psutil.NoSuchProcess:  # a database's child, for a connection that was closed
        return 0.0
    return spent.user + spent.system


def memory_of(process: psutil.Process) -> RoleMemory:
    """What one process holds now. Without shares (elsewhere than Linux) its share is all of it."""
    found = process.memory_full_info()
    return RoleMemory(_role(process), found.rss / MB, getattr(found, "pss", found.rss) / MB, found.uss / MB)


def settings(folder: Path, access: Mapping[str, Mapping[str, str]], extra: Mapping[str, str]) -> dict[str, str]:
    """The environment of a Trivet that keeps everything in `folder` and talks to these platforms."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_PASSED_ON)}
    channels = {
        f"TRIVET_CHANNELS__{platform.upper()}__{key.upper()}": value
        for platform, keys in access.items()
        for key, value in keys.items()
    }
    own = {
        "PYTHONPATH": str(ROOT),
        "TRIVET_DATA_DIR": str(folder / DATA),
        "TRIVET_HTTP__HOST": HOST,
        "TRIVET_HTTP__ADMIN_TOKEN": secrets.token_urlsafe(24),
        "TRIVET_ACCESS__DEFAULT": "open",
        "TRIVET_LIMITS__MESSAGES_PER_MINUTE": "0",  # who measures writes more, in a minute and in a day, than people do
        "TRIVET_LIMITS__GUEST__TURNS": "0",
        "TRIVET_LIMITS__GUEST__TOKENS": "0",
        "TRIVET_AGENT__MODEL": "demo/scripted",
    }
    return {**environment, **channels, **own, **extra}


@contextlib.asynccontextmanager
async def open_product(
    access: Mapping[str, Mapping[str, str]],
    extra: Mapping[str, str],
    *,
    cores: Collection[int] = (),
    is_paced: bool = False,
    is_single: bool = False,
) -> AsyncIterator[Product]:
    """Everything that `trivet up` starts, in a new directory, on `cores`. Raises `BenchFailed`."""
    port = free_port(HOST)
    module = ("gateway" if is_paced else "tests.bench.unpaced", "up", *(("--single",) if is_single else ()))
    with tempfile.TemporaryDirectory(prefix="trivet-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        environment = settings(folder, access, {"TRIVET_HTTP__PORT": str(port), **extra})
        with (folder / "log").open("w+b") as log:
            began_s = asyncio.get_running_loop().time()
            command = (sys.executable, "-m", *module)
            async with running(command, environment, cores=cores, folder=folder, log=log) as process:
                await _until_ready(process, log)
                start_s = asyncio.get_running_loop().time() - began_s
                authorization = {"Authorization": f"Bearer {environment['TRIVET_HTTP__ADMIN_TOKEN']}"}
                yield Product(process, port, embedded_url(folder / DATA), start_s, authorization)


async def _until_ready(process: Process, log: IO[bytes]) -> None:
    """Wait for the line that says so: who asked /readyz would start the admin role."""
    assert process.stdout is not None
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(READY_TIMEOUT_S):
            async for line in process.stdout:
                if line.startswith(READY_LINES):
                    return
    raise BenchFailed(f"Trivet is not ready:\n{tail(log)}")


_ROLES: Final = {
    "channels": "channels",
    "agent": "agent",
    "gateway.ops.admin": "admin",
    "gateway.ops.supervisor": "supervisor",
    "gateway.ops.supervisor.single": "single",
}


def _role(process: psutil.Process) -> str:
    """What a process is, by its command line: by the module that it became."""
    command = process.cmdline()
    if "-m" not in command:
        return process.name()
    if "up" in command:
        return "supervisor"
    return next((name for word, name in _ROLES.items() if word in command), command[-1])
