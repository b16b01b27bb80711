"""Limits what a workspace may hold, all workspaces of one owner, and all of them. Space on the disk counts;
links are not followed. Blocks."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from agent.limits import (
    ALL_MEASURED_EVERY_S,
    ALL_MEASURED_SHARE,
    ALL_REFUSED_AFTER_S,
    JOURNAL_BYTES_MAX,
    OWNER_MEASURED_EVERY_S,
    OWNER_REFUSED_AFTER_S,
    WORKSPACE_BYTES_MAX,
    WORKSPACE_FILES_MAX,
)

_OWNER_FILE: Final = "owner"
"""In each home, beside `files/` and `journal/`, where no tool reaches it: whose it is."""
_MB: Final = 1024**2

_BLOCK_BYTES: Final = 512
"""The unit of `st_blocks`, whatever the disk's own is."""

_COUNTED_MAX: Final = 10 * WORKSPACE_FILES_MAX
"""An owner with so many files is over the limit, whatever else there is."""


class DiskUsage(NamedTuple):
    """The space that a workspace takes, or may take."""

    size_bytes: int
    files: int


QUOTA: Final = DiskUsage(WORKSPACE_BYTES_MAX, WORKSPACE_FILES_MAX)
"""Of the files."""
HOME_QUOTA: Final = DiskUsage(WORKSPACE_BYTES_MAX + 2 * JOURNAL_BYTES_MAX, 2 * WORKSPACE_FILES_MAX)
"""Of the files and the journal, which may be over its own limit for a moment."""


def usage(workspace: Path) -> DiskUsage:
    """Measure what the folder takes now. Files that come or go meanwhile may be counted or not."""
    taken, files = 0, 0
    waiting = [workspace]
    while waiting and files < _COUNTED_MAX:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                files += 1
                with suppress(OSError):
                    taken += entry.stat(follow_symlinks=False).st_blocks * _BLOCK_BYTES
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(Path(entry.path))
    return DiskUsage(taken, files)


def complaint(taken: DiskUsage, allowed: DiskUsage) -> str:
    """Say in a sentence which limit is exceeded; "" if none is."""
    if taken.size_bytes > allowed.size_bytes:
        return f"the workspace is full: it may hold {allowed.size_bytes // 1024**2} MB; delete something"
    if taken.files > allowed.files:
        return f"the workspace is full: it may hold {allowed.files} files; delete some"
    return ""


def at_least(quota: DiskUsage, taken: DiskUsage) -> DiskUsage:
    """Return the larger value of each measure."""
    return DiskUsage(max(taken.size_bytes, quota.size_bytes), max(taken.files, quota.files))


@dataclass(frozen=True, slots=True)
class DiskLimits:
    """The limits of one owner in all places and of all owners, and the space that has to stay free on the disk.
    0: no limit."""

    owner_bytes: int = 0
    all_bytes: int = 0
    free_bytes: int = 0


UNBOUNDED: Final = DiskLimits()


class DiskTotals:
    """The sums of the homes below `root`, for each owner and for all, measured now and then.

    What the file tools of this process write counts at once, what its programs and sub-agents write within a second or
    two. What other processes wrote, what a sub-agent wrote at its very end, and what was deleted, is known after
    OWNER_MEASURED_EVERY_S at most where it is of the same owner, and of others after ALL_MEASURED_EVERY_S (longer where
    one look takes more than ALL_MEASURED_SHARE of that); before the first look at everybody has come to its end, those
    nobody asked about yet count as nothing. A refusal because of the owner's files rests on a look of the last
    OWNER_REFUSED_AFTER_S. Free space is asked for each time."""

    def __init__(self, root: Path, limits: DiskLimits) -> None:
        self._root = root
        self._limits = limits
        self._lock = threading.Lock()
        self._bytes: dict[str, int] = {}
        self._owners: dict[str, str] = {}
        self._owner_looked_at_s: dict[str, float] = {}
        self._listed_at_ns = -1
        self._all_look_s = 0.0
        self._all_looked_at_s = float("-inf")
        self._is_looking = False

    def share(self, home: Path, owner: str) -> Share:
        """Return the share that is `home`, and note that it belongs to `owner`."""
        file = home / _OWNER_FILE
        if _owner_in(home) != owner:
            file.write_text(owner)
        with self._lock:
            self._owners[home.name] = owner
        return Share(self, home.name, owner)

    def complaint(self, owner: str, growth: int) -> str:
        """Say why `owner` may not have `growth` bytes more, "" if that is allowed."""
        limits = self._limits
        if limits.free_bytes and shutil.disk_usage(self._root).free - growth < limits.free_bytes:
            return "the disk of this machine is nearly full: nothing can be kept now; tell the operator"
        if limits.owner_bytes and self._is_over(owner, growth):
            most = limits.owner_bytes // _MB
            return f"your files are too many: all conversations of one person together may hold {most} MB; delete some"
        if limits.all_bytes and self._is_everything_over(growth):
            return "the files of all people together are too many: nothing can be kept now; tell the operator"
        return ""

    def grown(self, name: str, growth: int) -> None:
        """Add `growth` bytes, which may be negative, to the home of that name."""
        with self._lock:
            self._bytes[name] = max(self._bytes.get(name, 0) + growth, 0)

    def _is_over(self, owner: str, growth: int) -> bool:
        for no_older_than_s in (OWNER_MEASURED_EVERY_S, OWNER_REFUSED_AFTER_S):
            self._look_at(owner, no_older_than_s)
            with self._lock:
                taken = sum(self._bytes.get(name, 0) for name, whose in self._owners.items() if whose == owner)
            if taken + growth <= self._limits.owner_bytes:
                return False
        return True

    def _look_at(self, owner: str, no_older_than_s: float) -> None:
        """Measure the homes of one owner, if the last time was longer ago."""
        self._list()
        now_s = time.monotonic()
        with self._lock:
            if now_s - self._owner_looked_at_s.get(owner, float("-inf")) < no_older_than_s:
                return
            self._owner_looked_at_s[owner] = now_s
            names = [name for name, whose in self._owners.items() if whose == owner]
        self._measure(names)

    def _is_everything_over(self, growth: int) -> bool:
        with self._lock:
            is_over = sum(self._bytes.values()) + growth > self._limits.all_bytes
            every_s = max(
                ALL_REFUSED_AFTER_S if is_over else ALL_MEASURED_EVERY_S, self._all_look_s / ALL_MEASURED_SHARE
            )
            is_due = not self._is_looking and time.monotonic() - self._all_looked_at_s >= every_s
            self._is_looking |= is_due
        if is_due:
            threading.Thread(target=self._look_at_all, name="workspaces", daemon=True).start()
        return is_over

    def _look_at_all(self) -> None:
        began_s = time.monotonic()
        try:
            self._list()
            with self._lock:
                names = list(self._owners)
            self._measure(names)
        finally:
            with self._lock:
                self._all_looked_at_s, self._is_looking = time.monotonic(), False
                self._all_look_s = self._all_looked_at_s - began_s

    def _list(self) -> None:
        """Find out which homes there are, and whose, if some came or went."""
        changed_at_ns = self._root.stat().st_mtime_ns
        if changed_at_ns == self._listed_at_ns:
            return
        with os.scandir(self._root) as entries:
            names = {entry.name for entry in entries if entry.is_dir(follow_symlinks=False)}
        with self._lock:
            known = dict(self._owners)
        found = {name: known.get(name) or _owner_in(self._root / name) for name in names}
        with self._lock:  # a home that was made meanwhile may be in no list yet
            self._owners = found | {name: whose for name, whose in self._owners.items() if name not in known}
            names |= self._owners.keys()
            self._bytes = {name: size for name, size in self._bytes.items() if name in names}
            self._listed_at_ns = changed_at_ns

    def _measure(self, names: Collection[str]) -> None:
        for name in names:
            size_bytes = usage(self._root / name).size_bytes
            with self._lock:
                self._bytes[name] = size_bytes


@dataclass(frozen=True, slots=True)
class Share:
    """One home among those of its owner."""

    holdings: DiskTotals
    name: str
    owner: str

    def complaint(self, growth: int) -> str:
        """Say why this home may not grow by `growth` bytes, given what the owner's other homes hold; "" if it may."""
        return self.holdings.complaint(self.owner, growth)

    def grown(self, growth: int) -> None:
        """Add `growth` bytes, which may be negative, to this home."""
        self.holdings.grown(self.name, growth)


def _owner_in(home: Path) -> str:
    """Read which owner is noted in the home, "" for none. A home that is older than these notes counts only in the
    total, and for its owner from the owner's next visit."""
    try:
        return (home / _OWNER_FILE).read_text()
    except OSError:
        return ""
