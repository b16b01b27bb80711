"""Text files that people edit while we run. Each is read again when it has changed, and only then."""

from __future__ import annotations

import errno
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeVar

import structlog

_log = structlog.get_logger(__name__)
_NOT_THERE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})

T = TypeVar("T")
Version = tuple[int, int, int]
"""Time of change, size, inode: an editor that keeps the time still changes one of the others."""


@dataclass(frozen=True, slots=True)
class _Read(Generic[T]):
    version: Version
    made: T | None


class EditableFiles(Generic[T]):
    """What `make` makes of the text of each file. A file that cannot be read, or of which `make` says
    `ValueError`, counts as missing; the log tells once for each of its versions."""

    def __init__(self, make: Callable[[Path, str], T], *, chars_max: int) -> None:
        """`chars_max`: nobody reads further than this."""
        self._make = make
        self._chars_max = chars_max
        self._known: dict[Path, _Read[T]] = {}

    def read(self, path: Path, *, within: Path | None = None) -> T | None:
        """What is in the file now; None for a missing one, or for one that lies outside of the folder `within`
        once its links have been followed."""
        try:
            version = _version(path)
        except OSError as error:
            self._known.pop(path, None)
            if error.errno not in _NOT_THERE:
                _log.warning("file.unreadable", file=path.name, reason=type(error).__name__)
            return None
        known = self._known.get(path)
        if known is None or known.version != version:
            known = self._known[path] = _Read(version, self._read(path, within))
        return known.made

    def _read(self, path: Path, within: Path | None) -> T | None:
        try:
            if within is not None and not path.resolve().is_relative_to(within.parent.resolve() / within.name):
                raise ValueError("it leads out of its folder")
            with path.open(encoding="utf-8-sig") as file:
                return self._make(path, file.read(self._chars_max))
        except (OSError, ValueError) as error:
            _log.warning("file.unreadable", file=path.name, reason=f"{type(error).__name__}: {error}"[:200])
            return None


def _version(path: Path) -> Version:
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a plain file")  # a pipe would be waited for
    return found.st_mtime_ns, found.st_size, found.st_ino
