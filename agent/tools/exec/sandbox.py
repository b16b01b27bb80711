"""The sandbox: bubblewrap with no network, a read-only system, one writable workspace, and an end.

Nothing of the operator's is inside: no home, no data directory, no environment, no other process. Root has no rights
there, a seccomp filter refuses system calls that commands do not need, and the namespaces end with the first process.
Where bubblewrap is missing or the kernel grants no user namespaces, there is no sandbox and nothing is run."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self

import structlog

from agent import limits
from agent.tools.exec import processes
from agent.tools.exec.restrictions import filter_for_commands, is_machine_known
from agent.tools.files.paths import MOUNT, SKILLS_MOUNT
from agent.tools.files.quota import QUOTA, DiskUsage, Share, at_least, complaint, usage
from gateway.scrub.raw_text import without_broken_end, without_broken_start
from gateway.tasks import alongside

# What a program prints, kept from both ends while it runs: memory stays bounded however much comes. Pure.


class Output:
    """The first and the last bytes of a stream, and how many there were in all."""

    def __init__(self, bytes_max: int = limits.TOOL_OUTPUT_BYTES_MAX) -> None:
        self._half = bytes_max // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._bytes = 0

    def add(self, chunk: bytes) -> None:
        """Take the next piece."""
        self._bytes += len(chunk)
        room = self._half - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        if len(self._tail) > 2 * self._half:
            del self._tail[: -self._half]

    def text(self) -> str:
        """Return the whole output, or its head and tail with a note on what is missing between them; a secret is never
        cut in two."""
        if self._bytes <= 2 * self._half:
            return (self._head + self._tail).decode(errors="replace")
        head = without_broken_end(self._head.decode(errors="replace"))
        tail = without_broken_start(self._tail[-self._half :].decode(errors="replace"))
        return f"{head}\n[… of {self._bytes} bytes only the beginning and the end were kept …]\n{tail}"


# What a folder may come to hold while somebody else's program writes in it: no mount of bubblewrap's is limited.


class FolderAllowance:
    """The room of one run, measured now and then. `share` is that of the folder in its owner's total."""

    def __init__(self, folder: Path, allowed: DiskUsage, taken: DiskUsage, share: Share | None) -> None:
        self._folder = folder
        self._allowed = allowed
        self._before = self._taken = taken
        self._share = share
        self._loop = asyncio.get_running_loop()
        self._due_s = self._loop.time() + limits.SANDBOX_QUOTA_EVERY_S
        self.memory_bytes = 0
        """Bytes that were held in memory and counted for no process, at the last look."""

    @classmethod
    async def measured(cls, folder: Path, quota: DiskUsage, share: Share | None = None) -> Self:
        """Measure the folder and allow `quota`, or as much as it holds already if that is more: a program that makes
        room in a full folder must be able to run."""
        taken = await asyncio.to_thread(usage, folder)
        return cls(folder, at_least(quota, taken), taken, share)

    async def complaint(self, pid: int | None = None) -> str:
        """Say why the run has to be stopped, "" if it may go on. Files that processes below `pid` hold open without a
        name count as well."""
        if self._loop.time() < self._due_s:
            return ""
        said = await asyncio.to_thread(self._look, pid)
        self._due_s = self._loop.time() + limits.SANDBOX_QUOTA_EVERY_S
        return said

    async def leave(self) -> None:
        """Count what came since the last look: the run is over."""
        await asyncio.to_thread(self._look, None)

    def _look(self, pid: int | None) -> str:
        taken, held = usage(self._folder), processes.NOTHING if pid is None else processes.unnamed(pid, MOUNT)
        self.memory_bytes = held.memory_bytes
        growth, self._taken = taken.size_bytes - self._taken.size_bytes, taken
        if self._share is not None:
            self._share.grown(growth)
        if held.is_closed:
            return "a program of it cannot be looked at: it may be run, but not read"
        said = complaint(DiskUsage(taken.size_bytes + held.disk_bytes, taken.files), self._allowed)
        has_grown = taken.size_bytes + held.disk_bytes > self._before.size_bytes
        return said or (self._share.complaint(held.disk_bytes) if self._share is not None and has_grown else "")


_log = structlog.get_logger(__name__)

ENVIRONMENT: Final[Mapping[str, str]] = MappingProxyType(
    {"PATH": processes.PROGRAM_PATH, "HOME": MOUNT, "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", "TERM": "dumb"}
)
"""The environment of every program."""

_NICE: Final = 19
"""Behind the answers of others: who starts more than there may be starts them slower than we look."""

_LIMITS: Final = (
    f"ulimit -c 0 -t {limits.SANDBOX_CPU_S} -f {limits.SANDBOX_FILE_BYTES_MAX // 1024}"
    f" -v {limits.SANDBOX_ADDRESS_BYTES // 1024}"
    f' -n {limits.SANDBOX_DESCRIPTORS_MAX} -u {limits.SANDBOX_THREADS_MAX} || exit 126; exec nice -n {_NICE} "$@"'
)
"""Bash sets the limits inside and becomes the program; nothing of ours runs between fork and exec."""

_FILES: Final = ("/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime", "/etc/ssl/certs", "/etc/mime.types")
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_NO_FOLDERS: Final[Mapping[str, Path]] = MappingProxyType({})
_DRAIN_S: Final = 5.0  # after a kill the pipe is closed at once


@dataclass(frozen=True, slots=True)
class ProgramOutcome:
    """The end of a run. `stopped` says why it was killed, "" if it ended by itself with `exit_code`."""

    exit_code: int
    output: str
    stopped: str


@dataclass(frozen=True, slots=True)
class NoSandbox:
    """The reason why nothing can be run here, as a short clause."""

    reason: str


class Sandbox:
    """Runs programs over a workspace. Made by `find_sandbox`, which has seen it work."""

    def __init__(self, bwrap: str, arguments: Sequence[str]) -> None:
        self._bwrap = bwrap
        self._arguments = tuple(arguments)
        self._filter = filter_for_commands() if is_machine_known() else b""
        self._slots = asyncio.Semaphore(limits.SANDBOX_RUNS_MAX)

    async def execute(
        self,
        program: Sequence[str],
        *,
        workspace: Path,
        timeout_s: float,
        stdin: str = "",
        environment: Mapping[str, str] = _NOTHING,
        share: Share | None = None,
        skills: Mapping[str, Path] = _NO_FOLDERS,
    ) -> ProgramOutcome:
        """Run a program in the workspace until it ends, takes too long or takes too much. Cancelling kills it.
        `environment` is added to what every program has, and is seen by nobody outside; `share` is the workspace's
        among what its owner has. The folders of `skills` can be read below SKILLS_MOUNT, by name.

        When this returns or raises, every process of the run is dead and reaped."""
        async with self._slots:
            room = await FolderAllowance.measured(workspace, QUOTA, share)
            place = ("--bind", str(workspace), MOUNT, "--chdir", MOUNT)
            shown = [("--ro-bind-try", str(folder), f"{SKILLS_MOUNT}/{name}") for name, folder in skills.items()]
            arguments = (
                *self._arguments,
                *processes.variables(environment),
                *place,
                *chain.from_iterable(shown),
                *processes.SEALED,
            )
            limited = ("/bin/bash", "-c", _LIMITS, "bash", *program)
            namespace = await processes.start(
                self._bwrap, arguments, limited, stderr=asyncio.subprocess.STDOUT, seccomp=self._filter
            )
            process, output = namespace.process, Output()
            talking = asyncio.ensure_future(_talk(process, stdin, output))
            try:
                stopped = await _until_end(process, talking, room, timeout_s)
            finally:
                await _kill(namespace, talking)
                await room.leave()
            return ProgramOutcome(process.returncode or 0, output.text(), stopped)


async def find_sandbox(*, hidden: Sequence[Path]) -> Sandbox | NoSandbox:
    """Find a sandbox that has passed its probe, or return the reason why there is none. `hidden` must not be visible
    from inside."""
    path = shutil.which("bwrap")
    if path is None:
        return NoSandbox("bubblewrap is not installed")
    for options in processes.OPTIONS:
        sandbox = Sandbox(path, (*_arguments(hidden), *options))
        complaint = await _probe_failure(sandbox)
        if complaint is None:
            if not is_machine_known():
                _log.warning("sandbox.unfiltered", reason="no seccomp filter for this architecture")
            return sandbox
        _log.info("sandbox.refused", options=options, complaint=complaint)
    return NoSandbox("bubblewrap does not work here (are user namespaces allowed?)")


async def _probe_failure(sandbox: Sandbox) -> str | None:
    """Probe the sandbox: None if a program runs inside and finds what it needs, else what went wrong."""
    with tempfile.TemporaryDirectory(prefix="trivet-probe-") as folder:
        try:
            ran = await sandbox.execute(
                ["bash", "-c", "echo works"], workspace=Path(folder), timeout_s=limits.SANDBOX_PROBE_S
            )
        except OSError as error:
            return type(error).__name__
    return None if ran.output == "works\n" else ran.output[-300:] or ran.stopped


def _arguments(hidden: Sequence[Path]) -> list[str]:
    """Return all arguments of bubblewrap except those for the workspace."""
    arguments = [*processes.APART, "--ro-bind", "/usr", "/usr", *processes.system_folders()]
    for name in _FILES:
        arguments += ["--ro-bind-try", name, name]
    arguments += ["--proc", "/proc", "--dev", "/dev"]
    for memory in ("/tmp", "/dev/shm"):  # noqa: S108 - the sandbox's own
        arguments += ["--size", str(limits.SANDBOX_TMP_BYTES), "--tmpfs", memory]
    for place in hidden:
        if place.resolve().is_relative_to("/usr"):
            arguments += ["--tmpfs", str(place.resolve())]
    return arguments + processes.variables(ENVIRONMENT)


async def _talk(process: asyncio.subprocess.Process, stdin: str, output: Output) -> None:
    """Feed and hear the program until it closes its output; what is too long is forgotten on the way."""
    assert process.stdin is not None
    assert process.stdout is not None
    async with alongside(processes.feed(process.stdin, stdin.encode(errors="replace"))):
        while chunk := await process.stdout.read(65_536):
            output.add(chunk)


async def _until_end(
    process: asyncio.subprocess.Process, talking: asyncio.Future[None], room: FolderAllowance, timeout_s: float
) -> str:
    """Wait for the end; returns why the run has to be stopped, "" if it ended by itself."""
    try:
        async with asyncio.timeout(timeout_s):
            while not talking.done() or process.returncode is None:
                await asyncio.wait([talking], timeout=limits.SANDBOX_WATCH_EVERY_S)
                if talking.done():  # at the end, as a rule; a program may also close its output and go on
                    await asyncio.wait([asyncio.ensure_future(process.wait())], timeout=limits.SANDBOX_WATCH_EVERY_S)
                taken = processes.footprint(
                    process.pid, processes_max=limits.SANDBOX_PROCESSES_MAX, threads_max=limits.SANDBOX_THREADS_MAX
                )
                if taken.processes > limits.SANDBOX_PROCESSES_MAX:
                    return f"it started more than {limits.SANDBOX_PROCESSES_MAX} processes"
                if taken.threads > limits.SANDBOX_THREADS_MAX:
                    return f"it started more than {limits.SANDBOX_THREADS_MAX} threads"
                said = await room.complaint(process.pid)
                if taken.memory_bytes + room.memory_bytes > limits.SANDBOX_MEMORY_BYTES:
                    return f"it took more than {limits.SANDBOX_MEMORY_BYTES // 1024**2} MB of memory"
                if said:
                    return said
    except TimeoutError:
        return f"it did not finish within {timeout_s:g} s"
    return ""


async def _kill(namespace: processes.NamespaceTree, talking: asyncio.Future[None]) -> None:
    """End bubblewrap and the namespace with everything in it: the pipe's end is the proof. Nothing interrupts this,
    not even another cancellation."""

    async def end() -> None:
        is_reaped = await namespace.kill()
        await asyncio.wait([talking], timeout=_DRAIN_S)
        if not (is_reaped and talking.done()):
            _log.error("sandbox.survivor", pid=namespace.process.pid)
            talking.cancel()

    if namespace.process.returncode is None or not talking.done():
        await processes.run_to_end(end)
