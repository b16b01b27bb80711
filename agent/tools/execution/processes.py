"""How large a process has become, with all its descendants, as /proc tells it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final, NamedTuple

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
    """The processes that `pid` has started and that are not its orphans; none if it has ended."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in (_PROC / str(pid) / "task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found


def family(pid: int) -> list[int]:
    """`pid` and all below it, parents before their children."""
    found = [pid]
    for member in found:
        found += children(member)
    return found


def marked(mark: str) -> list[int]:
    """The processes of this machine that we may look at and that began with `mark` in their environment."""
    found, own = [], os.getpid()
    for place in _PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int(place.name) != own and mark.encode() in (place / "environ").read_bytes():
                found.append(int(place.name))
    return found


def has_memory(pid: int) -> bool:
    """False for a process that has ended, or is about to."""
    try:
        return not (_PROC / str(pid) / "statm").read_text().startswith("0 ")
    except OSError:
        return False


def has_ended(pid: int) -> bool:
    """True when nothing runs under this number any more, whether or not it was reaped."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] in _ENDED
    except OSError:
        return True
