"""Plain files in one folder, by name, for who does not trust what stands there: a sub-agent may have put it. Blocks.

No symbolic link is followed, no pipe is waited for, and no file is longer than its reader has room for.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from agent.tools.files.walk import FOLDER_FLAGS

_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MAKE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_UNFINISHED: Final = ".unfinished"


class Shelf:
    """The files of `folder`, which is made if it is missing. What surrounds it is trusted, what stands in its place or
    in it is not. A name is one part of a path. What cannot be read is not there; the rest raises `OSError`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, name: str, bytes_max: int) -> bytes | None:
        """The content of a plain file; None where there is none that can be read, or one that is longer."""
        with suppress(OSError), self._opened() as folder, _file(name, folder) as (file, state):
            if stat.S_ISREG(state.st_mode) and state.st_size <= bytes_max:
                with os.fdopen(file, "rb", closefd=False) as open_file:
                    content = open_file.read(bytes_max + 1)
                return content if len(content) <= bytes_max else None
        return None

    def put(self, name: str, content: bytes) -> None:
        """Put a file in place, whole or not at all."""
        with suppress(FileExistsError):
            self._folder.mkdir(mode=0o700)
        with self._opened() as folder:
            unfinished = name + _UNFINISHED
            with suppress(FileNotFoundError):
                os.unlink(unfinished, dir_fd=folder)
            with os.fdopen(os.open(unfinished, _MAKE, 0o600, dir_fd=folder), "wb") as file:
                file.write(content)
            os.rename(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder)

    def sizes(self) -> dict[str, int]:
        """How long each of the plain files is."""
        found: dict[str, int] = {}
        with suppress(FileNotFoundError), self._opened() as folder, os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False):
                    found[entry.name] = entry.stat(follow_symlinks=False).st_size
        return found

    def remove(self, name: str) -> None:
        """Remove a file, unless it is gone."""
        with suppress(FileNotFoundError), self._opened() as folder:
            os.unlink(name, dir_fd=folder)

    @contextmanager
    def _opened(self) -> Iterator[int]:
        folder = os.open(self._folder, FOLDER_FLAGS)
        try:
            yield folder
        finally:
            os.close(folder)


@contextmanager
def _file(name: str, folder: int) -> Iterator[tuple[int, os.stat_result]]:
    """What is checked is what is read: the open file, not its name."""
    file = os.open(name, _READ, dir_fd=folder)
    try:
        yield file, os.fstat(file)
    finally:
        os.close(file)
