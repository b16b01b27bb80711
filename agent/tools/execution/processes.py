"""How large a process has become, with all its descendants, as /proc tells it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, NamedTuple

_PROC: Final = Path("/proc")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_RESIDENT: Final = 1  # second column of /proc/<pid>/statm, in pages
_SHARED: Final = 2


class Footprint(NamedTuple):
    """Processes of a tree, and the memory that is theirs alone."""

    processes: int
    memory_bytes: int


def footprint(pid: int) -> Footprint:
    """The tree below and with `pid`. Processes that end meanwhile are left out."""
    waiting, seen, pages = [pid], 0, 0
    while waiting:
        current = waiting.pop()
        try:
            columns = (_PROC / str(current) / "statm").read_text().split()
            for task in (_PROC / str(current) / "task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
        except (OSError, ValueError):
            continue
        seen += 1
        pages += max(int(columns[_RESIDENT]) - int(columns[_SHARED]), 0)
    return Footprint(seen, pages * _PAGE_BYTES)
