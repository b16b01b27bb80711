"""What a tree of processes holds that no folder shows, as /proc tells it: files whose names are gone, memory that the
kernel counts as nobody's.

A file without a name lives as long as somebody has it open, has mapped it, or has sent it to a socket that is not read.
Of the latter two the size cannot be seen without rights: each counts as much as one file may have. Blocks.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from agent.limits import SANDBOX_FILE_BYTES_MAX
from agent.tools.execution.processes import family, has_memory

_PROC: Final = Path("/proc")
_BLOCK_BYTES: Final = 512  # the unit of `st_blocks`
_SOCKET_BYTES: Final = 2 * 212_992  # what Linux lets one keep unread, in each direction, unless told otherwise
_MAPPED: Final = re.compile(
    rb"^(?P<start>[0-9a-f]+)-(?P<end>[0-9a-f]+) \S+ (?P<offset>[0-9a-f]+) \S+ (?P<inode>\d+) +(?P<path>/.*)"
    rb" \(deleted\)$",
    re.MULTILINE,
)
_IN_FLIGHT: Final = re.compile(rb"^scm_fds:\s*(\d+)", re.MULTILINE)
_SIZED: Final = ("/tmp/", "/dev/shm/")  # noqa: S108 - the sandbox's own, whose mounts have a size


class Unnamed(NamedTuple):
    """Bytes on the disk and in memory; true where a process is closed to us."""

    disk_bytes: int
    memory_bytes: int
    is_closed: bool


NOTHING: Final = Unnamed(0, 0, is_closed=False)

_DISK: Final = "disk"
_FLIGHT: Final = "flight"
_MEMORY: Final = "memory"
_Found = tuple[tuple[str, int], int]
"""What it takes of and its inode; how many bytes."""


def unnamed(pid: int, mount: str) -> Unnamed:
    """Look at what the processes below `pid` hold; `mount` is where they find the folder that they may write in."""
    opened: dict[tuple[str, int], int] = {}
    mapped: dict[tuple[str, int], int] = {}
    is_closed = False
    for member in family(pid)[1:]:
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
    return Unnamed(sum(held.values()) - memory, memory, is_closed)


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
    """What it takes of, "" for what is bounded anyway."""
    if path.startswith(f"{mount}/"):
        return _DISK
    return "" if path.startswith(_SIZED) else _MEMORY
