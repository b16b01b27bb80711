"""Trees of processes: started in bubblewrap, measured, ended whole. Light: standard library only."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import re
import secrets
import signal
import stat
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from agent.limits import REAP_S, SANDBOX_FILE_BYTES_MAX, SANDBOX_PROCESSES_MAX

PROGRAM_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
"""The path on which programs of the machine are found, inside of sandboxes, too."""

_PROC: Final = Path("/proc")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_RESIDENT: Final = 1  # second column of /proc/<pid>/statm, in pages
_SHARED: Final = 2
_OWN_LINKS: Final = 2  # of /proc/<pid>/task, which has one more for each thread
_ENDED: Final = frozenset("ZX")  # third word of /proc/<pid>/stat


class Footprint(NamedTuple):
    """Processes of a tree, their threads, and the memory that is theirs alone."""

    processes: int
    threads: int
    memory_bytes: int


def footprint(pid: int, *, processes_max: int, threads_max: int) -> Footprint:
    """Count the tree below and with `pid`, until there are more processes or threads than there may be. Processes that
    end meanwhile are left out."""
    waiting, seen, threads, pages = [pid], 0, 0, 0
    while waiting and seen <= processes_max and threads <= threads_max:
        current = waiting.pop()
        try:
            columns = (_PROC / str(current) / "statm").read_text().split()
            threads += (_PROC / str(current) / "task").stat().st_nlink - _OWN_LINKS
        except OSError:
            continue
        seen += 1
        pages += max(int(columns[_RESIDENT]) - int(columns[_SHARED]), 0)
        if threads <= threads_max:
            waiting += children(current)
    return Footprint(seen, threads, pages * _PAGE_BYTES)


def children(pid: int) -> list[int]:
    """List the processes that `pid` has started and that are still its children; none if it has ended."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in (_PROC / str(pid) / "task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found


def descendants(pid: int, *, processes_max: float = math.inf) -> list[int]:
    """List `pid` and all its descendants, parents before their children. Once there are more than `processes_max`, no
    more are looked for: a tree may grow faster than it is read."""
    found = [pid]
    for member in found:
        if len(found) > processes_max:
            break
        found += children(member)
    return found


def marked(mark: str) -> list[int]:
    """List the processes of this machine that we may inspect and that started with `mark` in their environment."""
    found, own = [], os.getpid()
    for place in _PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int(place.name) != own and mark.encode() in (place / "environ").read_bytes():
                found.append(int(place.name))
    return found


def has_memory(pid: int) -> bool:
    """Tell whether a process still has memory: False if it has ended or is about to."""
    try:
        return not (_PROC / str(pid) / "statm").read_text().startswith("0 ")
    except OSError:
        return False


def has_ended(pid: int) -> bool:
    """Tell whether nothing runs under this number any more, whether or not the process was reaped."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] in _ENDED
    except OSError:
        return True


# The end of processes that we started: killed with everything they began, and reaped.


_ATTEMPTS: Final = 3
_LOOK_S: Final = 0.01


async def run_to_end(work: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Do it to its end, even if it is cancelled meanwhile; the cancellation is raised afterwards. Work that is itself
    cancelled, as everything is at the end of a loop, is begun anew."""
    doing, attempts = asyncio.ensure_future(work()), 1
    while not doing.done():
        try:
            await asyncio.shield(doing)
        except asyncio.CancelledError:
            if doing.cancelled() and attempts < _ATTEMPTS:
                doing, attempts = asyncio.ensure_future(work()), attempts + 1
    doing.result()
    if (task := asyncio.current_task()) is not None and task.cancelling():
        raise asyncio.CancelledError


async def reaped(process: Process, *, within_s: float = REAP_S) -> bool:
    """Wait until it has ended, but not for ever: a killed process ends at once, unless a disk holds it.

    `Process.wait` alone would also wait for its pipes, which others may hold open."""
    waiting = asyncio.ensure_future(process.wait())
    ends_s = asyncio.get_running_loop().time() + within_s
    while process.returncode is None and asyncio.get_running_loop().time() < ends_s:
        await asyncio.wait([waiting], timeout=_LOOK_S)
    waiting.cancel()
    return process.returncode is not None


async def feed(pipe: asyncio.StreamWriter, content: bytes) -> None:
    """Write all of the content and close the pipe, unless the program stops reading."""
    with suppress(ConnectionError, OSError):
        pipe.write(content)
        await pipe.drain()
        pipe.close()


def kill_group(process: Process) -> None:
    """Kill the group that this process leads."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def signal_each(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to each of these processes; one that has ended meanwhile is ignored."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


# Processes that we start together with all that will come of them, so that all of it can be ended.


_MARK: Final = "FAMILY"
"""A variable by which the processes of one family are known, wherever they went."""
_ROUNDS: Final = 100
_ROUND_S: Final = 0.01
_ORDERLY_S: Final = 1.0  # bubblewrap takes a millisecond


class ProcessTree:
    """A process that leads its group, and all its descendants. `mark` is in their environment and in no other:
    it finds those that have left the group and whose parents have ended."""

    def __init__(self, process: Process, mark: str) -> None:
        self.process = process
        self._mark = mark

    @classmethod
    async def start(
        cls,
        program: Sequence[str],
        *,
        stderr: int,
        environment: Mapping[str, str],
        folder: Path | None = None,
        pass_fds: Sequence[int] = (),
    ) -> Self:
        """Start a program with pipes, in a group of its own. Raises `OSError`. Cancelled, it leaves nobody behind."""
        mark = secrets.token_hex(16)
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *program,
                stdin=PIPE,
                stdout=PIPE,
                stderr=stderr,
                cwd=folder,
                pass_fds=pass_fds,
                start_new_session=True,
                env={**environment, _MARK: mark},
            )
        )
        try:
            return cls(await asyncio.shield(starting), f"{_MARK}={mark}")
        except asyncio.CancelledError:
            await run_to_end(lambda: cls._abandon(starting, f"{_MARK}={mark}"))
            raise

    @classmethod
    async def _abandon(cls, starting: asyncio.Future[Process], mark: str) -> None:
        """End what was just being started. asyncio does not always come back from a start that it was made to give up,
        as at the end of a loop: it is told twice."""
        await asyncio.wait([starting], timeout=_ORDERLY_S)
        starting.cancel()
        await asyncio.wait([starting])
        if starting.cancelled():
            await _kill_marked(mark)
        else:
            with suppress(OSError):
                await cls(starting.result(), mark).kill()

    async def kill(self) -> bool:
        """Kill them all; true when the first was reaped. They are stopped before any is killed, so that nobody is born
        meanwhile. To be let run to its end."""
        if self.process.returncode is None:
            stopped: set[int] = set()
            while new := set(descendants(self.process.pid)) - stopped:
                signal_each(new, signal.SIGSTOP)
                stopped |= new
            signal_each(stopped, signal.SIGKILL)
        return await self._finish()

    async def _finish(self) -> bool:
        """Group and stragglers."""
        kill_group(self.process)
        await _kill_marked(self._mark)
        return await reaped(self.process)


class NamespaceTree(ProcessTree):
    """A bubblewrap process and everything in its namespace."""

    async def kill(self) -> bool:
        """Kill it all; true when it was reaped.

        First of all the namespace's first process: the kernel ends everything in it, bubblewrap reaps it and ends by
        itself, and nobody is left to the machine's process 1. Then what is left of a bubblewrap that has
        not come so far, or that somebody else has killed before it could tell that process to die with it."""
        inside = children(self.process.pid) if self.process.returncode is None else []
        if inside:
            signal_each(inside, signal.SIGKILL)
            signal_each([self.process.pid], signal.SIGCONT)  # should somebody have stopped it
            if await reaped(self.process, within_s=_ORDERLY_S):
                return True
        return await self._finish()


async def _kill_marked(mark: str) -> None:
    """Kill them until there are none, and wait until the kernel has ended them."""
    doomed: set[int] = set()
    for _ in range(_ROUNDS):
        signal_each(found := marked(mark), signal.SIGKILL)
        doomed.update(found)
        if all(map(has_ended, doomed)):
            return
        await asyncio.sleep(_ROUND_S)


# What a tree of processes holds that no folder shows, as /proc tells it: files whose names are gone, memory that
# the kernel counts as nobody's.
#
# A file without a name lives as long as somebody has it open, has mapped it, or has sent it to a socket that is not
# read. Of the latter two the size cannot be seen without rights: each counts as much as one file may have. Blocks.


_BLOCK_BYTES: Final = 512  # the unit of `st_blocks`
_SOCKET_BYTES: Final = 2 * 212_992  # what Linux lets one keep unread, in each direction, unless told otherwise
_MAPPED: Final = re.compile(
    rb"^(?P<start>[0-9a-f]+)-(?P<end>[0-9a-f]+) \S+ (?P<offset>[0-9a-f]+) \S+ (?P<inode>\d+) +(?P<path>/.*)"
    rb" \(deleted\)$",
    re.MULTILINE,
)
_IN_FLIGHT: Final = re.compile(rb"^scm_fds:\s*(\d+)", re.MULTILINE)
_SIZED: Final = ("/tmp/", "/dev/shm/")  # noqa: S108 - the sandbox's own, whose mounts have a size


class HiddenUsage(NamedTuple):
    """Bytes on the disk and in memory; true where a process is closed to us."""

    disk_bytes: int
    memory_bytes: int
    is_closed: bool


NOTHING: Final = HiddenUsage(0, 0, is_closed=False)

_DISK: Final = "disk"
_FLIGHT: Final = "flight"
_MEMORY: Final = "memory"
_Found = tuple[tuple[str, int], int]
"""Device and inode of a file; its bytes."""


def unnamed(pid: int, mount: str) -> HiddenUsage:
    """Look at what the processes below `pid` hold, as many as there may be; `mount` is where they find the folder that
    they may write in."""
    opened: dict[tuple[str, int], int] = {}
    mapped: dict[tuple[str, int], int] = {}
    is_closed = False
    for member in descendants(pid, processes_max=SANDBOX_PROCESSES_MAX)[1:]:
        try:
            opened.update(_opened(member, mount))
            for key, size in _mapped(member, mount):
                mapped[key] = max(mapped.get(key, 0), size)
        except PermissionError:
            is_closed = is_closed or has_memory(member)
        except OSError:  # it has ended
            continue
    held = mapped | opened
    memory = sum(size for (kind, _), size in held.items() if kind == _MEMORY)
    return HiddenUsage(sum(held.values()) - memory, memory, is_closed)


def _opened(pid: int, mount: str) -> Iterator[_Found]:
    for place in (_PROC / str(pid) / "fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            seen = place.stat()
            if stat.S_ISSOCK(seen.st_mode):
                yield ((_MEMORY, seen.st_ino), _SOCKET_BYTES)
                found = _IN_FLIGHT.search((_PROC / str(pid) / "fdinfo" / place.name).read_bytes())
                yield ((_FLIGHT, seen.st_ino), int(found[1]) * SANDBOX_FILE_BYTES_MAX if found else 0)
            elif stat.S_ISREG(seen.st_mode) and not seen.st_nlink and (kind := _kind(str(place.readlink()), mount)):
                yield ((kind, seen.st_ino), seen.st_blocks * _BLOCK_BYTES)


def _mapped(pid: int, mount: str) -> Iterator[_Found]:
    for found in _MAPPED.finditer((_PROC / str(pid) / "maps").read_bytes()):
        kind = _kind(os.fsdecode(found["path"]), mount)
        end = int(found["end"], 16) - int(found["start"], 16) + int(found["offset"], 16)
        if kind:
            yield ((kind, int(found["inode"])), SANDBOX_FILE_BYTES_MAX if kind == _DISK else end)


def _kind(path: str, mount: str) -> str:
    """Tell whether a file takes disk or memory; "" for a file whose size is bounded anyway."""
    if path.startswith(f"{mount}/"):
        return _DISK
    return "" if path.startswith(_SIZED) else _MEMORY


# bubblewrap, as everybody here calls it: namespaces of its own for everything, nobody's rights, a read-only system.


WITHOUT_RIGHTS: Final = (
    *("--unshare-user", "--unshare-all", "--die-with-parent", "--new-session"),
    *("--uid", "1000", "--gid", "1000", "--hostname", "sandbox", "--cap-drop", "ALL"),
)
"""No network, no process of others, nobody's rights, and an end with us."""

APART: Final = (*WITHOUT_RIGHTS, "--clearenv")
"""Neither an environment."""

SEALED: Final = ("--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/")
"""Last of all. /proc too: where Trivet runs as root, the kernel takes the sandbox's user for root there. /dev, because
it is memory without a limit."""

OPTIONS: Final = (("--disable-userns",), ())
"""Sets of options that are tried in turn: older bubblewraps do not know the first."""

_SYSTEM: Final = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")


def system_folders() -> list[str]:
    """Return the bubblewrap arguments for the system folders next to /usr, which are links into it on most systems."""
    arguments: list[str] = []
    for name in _SYSTEM:
        place = Path(name)
        if place.is_symlink():
            arguments += ["--symlink", str(place.readlink()), name]
        elif place.is_dir():
            arguments += ["--ro-bind", name, name]
    return arguments


def variables(environment: Mapping[str, str]) -> list[str]:
    """Return the bubblewrap arguments that set these variables."""
    return [word for name, value in environment.items() for word in ("--setenv", name, value)]


async def start(
    bwrap: str,
    arguments: Sequence[str],
    program: Sequence[str],
    *,
    stderr: int,
    seccomp: bytes = b"",
    restrain: Callable[[int], None] | None = None,
) -> NamespaceTree:
    """Start a program inside, with pipes, and under a filter if one is given. Raises `OSError`. Cancelled, it leaves
    nobody behind.

    bubblewrap reads its arguments from a pipe: a command line can be read, inside and outside. Until it has read them
    to their end it starts nothing, so a limit that `restrain` sets for its process holds for everything inside."""
    with ExitStack() as stack:
        filters = _readable(seccomp, stack) if seccomp else None
        filtered = ("--seccomp", str(filters)) if filters is not None else ()
        words, writer = os.pipe()
        stack.callback(os.close, words)
        with os.fdopen(writer, "wb") as pipe:
            command = (bwrap, "--args", str(words), "--", *program)
            pass_fds = tuple(each for each in (words, filters) if each is not None)
            tree = await NamespaceTree.start(command, stderr=stderr, environment={}, pass_fds=pass_fds)
            if restrain is not None:
                restrain(tree.process.pid)
            pipe.write(b"".join(os.fsencode(argument) + b"\0" for argument in (*arguments, *filtered)))
        return tree


def _readable(content: bytes, stack: ExitStack) -> int:
    """Return a descriptor from which `content` can be read until the stack is closed. The content must fit
    into a pipe."""
    reader, writer = os.pipe()
    stack.callback(os.close, reader)
    with os.fdopen(writer, "wb") as pipe:
        pipe.write(content)
    return reader
