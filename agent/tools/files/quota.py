"""How much a workspace may hold. What counts is what the disk gives; links are not followed. Blocks."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from agent.limits import JOURNAL_BYTES_MAX, WORKSPACE_BYTES_MAX, WORKSPACE_FILES_MAX

_BLOCK_BYTES: Final = 512
"""The unit of `st_blocks`, whatever the disk's own is."""

_COUNTED_MAX: Final = 10 * WORKSPACE_FILES_MAX
"""Who has so many is over the limit, whatever else he has."""


class Usage(NamedTuple):
    """What a workspace takes, or may take."""

    size_bytes: int
    files: int


QUOTA: Final = Usage(WORKSPACE_BYTES_MAX, WORKSPACE_FILES_MAX)
"""Of the files."""
HOME_QUOTA: Final = Usage(WORKSPACE_BYTES_MAX + 2 * JOURNAL_BYTES_MAX, 2 * WORKSPACE_FILES_MAX)
"""Of the files and the journal, which may be over its own limit for a moment."""


def usage(workspace: Path) -> Usage:
    """What it takes now. What comes or goes meanwhile may be counted or not."""
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
    return Usage(taken, files)


def complaint(taken: Usage, allowed: Usage) -> str:
    """What is wrong with so much, as a sentence; "" for nothing."""
    if taken.size_bytes > allowed.size_bytes:
        return f"the workspace is full: it may hold {allowed.size_bytes // 1024**2} MB; delete something"
    if taken.files > allowed.files:
        return f"the workspace is full: it may hold {allowed.files} files; delete some"
    return ""


def at_least(quota: Usage, taken: Usage) -> Usage:
    """Whichever is more, of each."""
    return Usage(max(taken.size_bytes, quota.size_bytes), max(taken.files, quota.files))
