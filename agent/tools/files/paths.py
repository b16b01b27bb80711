"""Checks of a file's text and path, and the files that a call touches. Pure."""

from __future__ import annotations

import errno
import os
import posixpath
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from agent.limits import FILE_PATH_CHARS_MAX, LINKS_MAX, PATH_PARTS_MAX
from gateway.contracts.errors import ToolError

# From a path in a workspace to an open folder and a name in it, with no gap between check and use.
#
# Every folder on the way is opened by its name in the folder before it (`openat`), never by a whole path, and never
# through a symbolic link: a link is read and its target walked in the same way, so nothing that changes meanwhile can
# lead outside. `..` goes back to the folder we came from; above the workspace there is nothing.


MOUNT: Final = "/workspace"
"""The workspace as a sandbox sees it: a path that begins so means the same to the file tools."""

SKILLS_MOUNT: Final = "/skills"
"""The folders of skills as a sandbox sees them, by their names."""

FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_FOLDER: Final = frozenset({errno.ENOTDIR, errno.ELOOP})


class NotThere(ToolError):
    """There is nothing at this path."""


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """A name in an open folder; `name` is "." for the folder itself. `path` is the same without links and dots,
    "" for the workspace. The folder is open as long as the `spot` block lasts."""

    folder: int
    name: str
    path: str

    @property
    def is_workspace(self) -> bool:
        """Tell whether this is the workspace itself, which is neither written, moved nor deleted."""
        return not self.path


@contextmanager
def open_entry(workspace: int, path: str, *, makes_folders: bool, follows_last: bool) -> Iterator[FolderEntry]:
    """Walk to `path` from the open folder `workspace`. The last name need not exist; the folders before it must, unless
    they are made. A symbolic link as the last name is followed or left as it is. Raises `ToolError`."""
    walk = _Walk(os.dup(workspace), makes_folders, follows_last)
    try:
        yield walk.to(path)
    finally:
        walk.close()


class _Walk:
    """One way through the folders; the open ones from the workspace to where we are."""

    def __init__(self, workspace: int, makes_folders: bool, follows_last: bool) -> None:
        self._open = [workspace]
        self._names: list[str] = []
        self._makes_folders = makes_folders
        self._follows_last = follows_last
        self._links = 0
        self._parts = 0

    def to(self, path: str) -> FolderEntry:
        ahead = deque(_split(path))
        while ahead:
            part = ahead.popleft()
            if part == "..":
                if len(self._open) == 1:
                    raise _outside(path)
                os.close(self._open.pop())
                self._names.pop()
                continue
            target = self._link(part) if ahead or self._follows_last else None
            if target is not None:
                self._links += 1
                if self._links > LINKS_MAX:
                    raise ToolError(f"{path}: too many symbolic links")
                if target.startswith("/"):
                    while len(self._open) > 1:
                        os.close(self._open.pop())
                    self._names.clear()
                ahead.extendleft(reversed(_split(target)))
            elif ahead:
                self._parts += 1
                if self._parts > PATH_PARTS_MAX:
                    raise ToolError(f"{path}: too many folders")
                try:
                    if self._makes_folders:
                        folder = self._open[-1]
                        with suppress(FileExistsError):
                            os.mkdir(part, 0o755, dir_fd=folder)
                    self._open.append(os.open(part, FOLDER_FLAGS, dir_fd=self._open[-1]))
                except OSError as error:
                    place = "/".join((*self._names, part))
                    if error.errno in _NO_FOLDER:
                        raise ToolError(f"{place} is no folder") from error
                    raise in_plain_words(error, place) from error
                self._names.append(part)
            else:
                return FolderEntry(self._open[-1], part, "/".join((*self._names, part)))
        return FolderEntry(self._open[-1], ".", "/".join(self._names))

    def close(self) -> None:
        for folder in self._open:
            os.close(folder)

    def _link(self, name: str) -> str | None:
        """Read where a symbolic link points, None for anything else. Its target is only walked, never trusted."""
        try:
            return os.readlink(name, dir_fd=self._open[-1])
        except OSError:
            return None


def _split(path: str) -> list[str]:
    """Split a path as somebody wrote it into its parts, without the meaningless ones. Raises `ToolError`."""
    if len(path) > FILE_PATH_CHARS_MAX:
        raise ToolError(f"a path has at most {FILE_PATH_CHARS_MAX} characters")
    if "\0" in path:
        raise ToolError("a path has no NUL character")
    if path.startswith("/"):
        if path != MOUNT and not path.startswith(MOUNT + "/"):
            raise _outside(path)
        path = path.removeprefix(MOUNT)
    return [part for part in path.split("/") if part not in ("", ".")]


def _outside(path: str) -> ToolError:
    return ToolError(f"{path} is outside of the workspace: use a path relative to it")


def in_plain_words(error: OSError, path: str) -> ToolError:
    """Turn an error of the system into a `ToolError` that does not name the place on the operator's disk."""
    match error.errno:
        case errno.ENOENT:
            return NotThere(f"{path} does not exist")
        case errno.EISDIR:
            return ToolError(f"{path} is a folder")
        case errno.ENOTDIR:
            return ToolError(f"{path} is no folder")
        case errno.ENOTEMPTY | errno.EEXIST:
            return ToolError(f"{path} is a folder that is not empty")
        case errno.ENAMETOOLONG:
            return ToolError(f"{path}: the name is too long")
        case errno.ENOSPC | errno.EDQUOT:
            return ToolError("the disk is full")
        case _:
            return ToolError(f"{path}: {(error.strerror or type(error).__name__).lower()}")


def text_of(path: str, content: bytes) -> str:
    """Decode the content as text, with its line ends unchanged. Raises `ToolError` for anything but UTF-8."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ToolError(f"{path} is no text ({len(content)} bytes)") from error


def path_locks(*names: str) -> Callable[[Mapping[str, Any]], tuple[str, ...]]:
    """Build the function for `Tool.locks` that returns the files named by these arguments, each in one spelling."""

    def locks(arguments: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(_one_spelling(arguments[name]) for name in names if name in arguments)

    return locks


def _one_spelling(path: str) -> str:
    return posixpath.normpath(path.removeprefix(MOUNT).lstrip("/") or ".")
