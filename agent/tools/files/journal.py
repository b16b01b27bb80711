"""The journal of a workspace, from which file_undo takes steps back and file_redo makes them again. Everything
here blocks.

`steps.json` names contents by their digest, `blobs/` holds them. Both are next to the workspace, where no tool
and no command can reach them; but the process of a sub-agent has them, so they are checked like any foreign
input. The oldest steps go when there are too many or their contents too large."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from agent.limits import FILE_BYTES_MAX, JOURNAL_BYTES_MAX, JOURNAL_FILE_BYTES_MAX, JOURNAL_STEPS_MAX
from agent.tools.files.paths import FOLDER_FLAGS
from agent.tools.files.workspace import Workspace
from gateway.contracts.errors import ToolError

# Changes of files as values that can be reversed: each change knows the state that it expects to find.


@dataclass(frozen=True, slots=True)
class Written:
    """A file's content before and after; None means that there is no file."""

    path: str
    before: bytes | None
    after: bytes | None


@dataclass(frozen=True, slots=True)
class Moved:
    """A file or folder got another name."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class FolderMade:
    """An empty folder was created; reversed, it was deleted. A folder that exists already counts as made, and
    one that is not empty stays, because others use it by now."""

    path: str
    is_made: bool


Change = Written | Moved | FolderMade


@dataclass(frozen=True, slots=True)
class FileStep:
    """The changes of one call, made and taken back together; `title` is shown when they are."""

    title: str
    changes: tuple[Change, ...]

    def reversed(self) -> FileStep:
        """Return the step that takes this one back."""
        return FileStep(self.title, tuple(_reversed(change) for change in reversed(self.changes)))


def with_folders(workspace: Workspace, step: FileStep) -> FileStep:
    """Add to the step, as changes of their own, the folders that it will create, so that undoing it removes them."""
    paths = [
        change.path if isinstance(change, Written) else change.target
        for change in step.changes
        if isinstance(change, Moved) or (isinstance(change, Written) and change.after is not None)
    ]
    missing = dict.fromkeys(folder for path in paths for folder in workspace.missing_folders(path))
    return FileStep(step.title, (*(FolderMade(folder, is_made=True) for folder in missing), *step.changes))


def perform(workspace: Workspace, step: FileStep) -> None:
    """Make all changes of a step or, if one is not possible, none. Raises `ToolError`."""
    done: list[Change] = []
    try:
        for change in step.changes:
            _make(workspace, change)
            done.append(change)
    except ToolError:
        _take_back(workspace, done)
        raise


def seems_made(workspace: Workspace, step: FileStep) -> bool:
    """Tell whether everything is already as this step would leave it. Raises `ToolError` if that cannot be examined."""
    return all(_is_made(workspace, change) for change in step.changes)


def settle(workspace: Workspace, step: FileStep) -> bool:
    """Settle a step that was begun and perhaps not finished, because the process was killed. Return True if all of it
    was carried out; else take back the changes that were made, except where a file was changed since."""
    with suppress(ToolError):
        if seems_made(workspace, step):
            return True
        _take_back(workspace, [change for change in step.changes if _is_made(workspace, change)])
    return False


def _is_made(workspace: Workspace, change: Change) -> bool:
    match change:
        case Written(path=path, after=after):
            return workspace.read_if_there(path) == after
        case Moved(source=source, target=target):
            return workspace.has(target) and not workspace.has(source)
        case FolderMade(path=path, is_made=is_made):
            return workspace.has(path) == is_made


def _take_back(workspace: Workspace, done: Sequence[Change]) -> None:
    for change in reversed(done):
        _make(workspace, _reversed(change))


def _make(workspace: Workspace, change: Change) -> None:
    match change:
        case Written(path=path, before=before, after=after):
            if workspace.read_if_there(path) != before:
                raise ToolError(f"{path} is no longer as it was: somebody changed it since")
            if after is None:
                workspace.delete(path)
            else:
                workspace.write(path, after)
        case Moved(source=source, target=target):
            workspace.rename(source, target)
        case FolderMade(path=path, is_made=is_made):
            if is_made:
                workspace.make_folder(path)
            else:
                workspace.delete_folder(path)


def _reversed(change: Change) -> Change:
    match change:
        case Written(path=path, before=before, after=after):
            return Written(path, before=after, after=before)
        case Moved(source=source, target=target):
            return Moved(source=target, target=source)
        case FolderMade(path=path, is_made=is_made):
            return FolderMade(path, is_made=not is_made)


# Plain files in one folder, by name. The files are not trusted, because a sub-agent may have put them there. Blocks.
#
# No symbolic link is followed, no pipe is waited for, and no file is longer than its reader has room for.


_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MAKE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_UNFINISHED: Final = ".unfinished"


class BlobFolder:
    """The files of `folder`, which is created if it is missing. The folders above it are trusted, an entry in
    its place or in it is not. A name is one part of a path. An unreadable file counts as missing; other
    failures raise `OSError`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, name: str, bytes_max: int) -> bytes | None:
        """Read a plain file; None where no such file can be read, or it is longer than `bytes_max`."""
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
        """List how long each of the plain files is, in bytes."""
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
    """Open a plain file and yield its descriptor and status. The open file is checked, not its name, so that what is
    checked is what is read."""
    file = os.open(name, _READ, dir_fd=folder)
    try:
        yield file, os.fstat(file)
    finally:
        os.close(file)


_STEPS: Final = "steps.json"
_BLOBS: Final = "blobs"
_DIGEST: Final = re.compile("[0-9a-f]{64}")
_TYPES: Final[dict[str, type]] = {"path": str, "source": str, "target": str, "folder": str, "is_made": bool}
_NO_JOURNAL: Final = (ValueError, TypeError, AttributeError, LookupError, RecursionError)
"""The errors of reading something that is no journal."""
_FORMS: Final = ({"path", "before", "after"}, {"source", "target"}, {"folder", "is_made"})

_Row = dict[str, Any]


class _Way(StrEnum):
    MAKE = "make"
    UNDO = "undo"
    REDO = "redo"


@dataclass(frozen=True, slots=True)
class _Rows:
    """The journal as it is on disk: steps that were made, steps that were taken back, newest last."""

    done: list[_Row]
    undone: list[_Row]

    def after(self, way: _Way, row: _Row) -> _Rows:
        """Return the rows as they are after this step has been made, undone or redone."""
        match way:
            case _Way.MAKE:
                return _Rows([*self.done, row], [])
            case _Way.UNDO:
                return _Rows(self.done[:-1], [*self.undone, row])
            case _Way.REDO:
                return _Rows([*self.done, row], self.undone[:-1])


class Journal:
    """Makes changes in a workspace and remembers them.

    Each change is written down before it is made. So the next process after one that was killed in the middle
    finds it, and settles it: the change and its line are both there, or neither is."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._shelf = BlobFolder(workspace.journal)
        self._blobs = BlobFolder(workspace.journal / _BLOBS)

    def make(self, step: FileStep) -> None:
        """Make a step; what was taken back before cannot be made again any more. Raises `ToolError`."""
        with self._workspace.lock, _in_plain_words():
            rows, step = self._read(), with_folders(self._workspace, step)
            self._carry_out(rows, _Way.MAKE, self._row(step), step)

    def undo(self) -> FileStep:
        """Take back the newest step; returns it. Raises `ToolError` if there is none, or a file has changed."""
        with self._workspace.lock, _in_plain_words():
            rows = self._read()
            if not rows.done:
                raise ToolError("there is nothing to take back")
            step = self._step(rows.done[-1])
            self._carry_out(rows, _Way.UNDO, rows.done[-1], step.reversed())
            return step

    def redo(self) -> FileStep:
        """Make the step again that was taken back last; returns it. Raises `ToolError`."""
        with self._workspace.lock, _in_plain_words():
            rows = self._read()
            if not rows.undone:
                raise ToolError("nothing was taken back")
            step = self._step(rows.undone[-1])
            self._carry_out(rows, _Way.REDO, rows.undone[-1], step)
            return step

    def _carry_out(self, rows: _Rows, way: _Way, row: _Row, step: FileStep) -> None:
        """Carry out the step, with a note in the journal that it was begun. A step that seems made already gets no
        note: it changes nothing, or is refused."""
        if not seems_made(self._workspace, step):
            self._put(rows, {"way": way, "row": row})
        try:
            perform(self._workspace, step)
        except ToolError:
            self._put(rows)
            raise
        self._write(rows.after(way, row))

    def _read(self) -> _Rows:
        found = self._shelf.read(_STEPS, JOURNAL_FILE_BYTES_MAX)
        try:
            rows, begun = _checked(json.loads(found or b""))
        except _NO_JOURNAL:
            return _Rows([], [])  # there is none, a power cut took it, or it is none: the files themselves are whole
        return self._settled(rows, *begun) if begun else rows

    def _settled(self, rows: _Rows, way: _Way, row: _Row) -> _Rows:
        """Settle the step that a dead process began, and return and store the resulting rows."""
        with suppress(ToolError):
            step = self._step(row)
            if settle(self._workspace, step.reversed() if way is _Way.UNDO else step):
                rows = rows.after(way, row)
        self._put(rows)
        return rows

    def _write(self, rows: _Rows) -> None:
        """Write down what is, and forget what is too old or too much."""
        while len(rows.done) > JOURNAL_STEPS_MAX or (rows.done and self._size(rows) > JOURNAL_BYTES_MAX):
            rows.done.pop(0)
        self._put(rows)
        wanted = _digests((*rows.done, *rows.undone))
        for name in self._blobs.sizes().keys() - wanted:
            self._blobs.remove(name)

    def _put(self, rows: _Rows, begun: _Row | None = None) -> None:
        written = {"done": rows.done, "undone": rows.undone} | ({"begun": begun} if begun else {})
        self._shelf.put(_STEPS, json.dumps(written).encode())

    def _size(self, rows: _Rows) -> int:
        sizes = self._blobs.sizes()
        return sum(sizes.get(digest, 0) for digest in _digests((*rows.done, *rows.undone)))

    def _row(self, step: FileStep) -> _Row:
        return {"title": step.title, "changes": [self._change_row(change) for change in step.changes]}

    def _change_row(self, change: Change) -> _Row:
        match change:
            case Written(path=path, before=before, after=after):
                return {"path": path, "before": self._kept(before), "after": self._kept(after)}
            case Moved(source=source, target=target):
                return {"source": source, "target": target}
            case FolderMade(path=path, is_made=is_made):
                return {"folder": path, "is_made": is_made}

    def _step(self, row: _Row) -> FileStep:
        return FileStep(row["title"], tuple(self._change(change) for change in row["changes"]))

    def _change(self, row: _Row) -> Change:
        if "folder" in row:
            return FolderMade(row["folder"], row["is_made"])
        if "source" in row:
            return Moved(row["source"], row["target"])
        return Written(row["path"], self._content(row["before"]), self._content(row["after"]))

    def _kept(self, content: bytes | None) -> str | None:
        if content is None:
            return None
        digest = _digest(content)
        if self._blobs.read(digest, FILE_BYTES_MAX) != content:
            self._blobs.put(digest, content)
        return digest

    def _content(self, digest: str | None) -> bytes | None:
        if digest is None:
            return None
        content = self._blobs.read(digest, FILE_BYTES_MAX)
        if content is None or _digest(content) != digest:
            raise ToolError("the journal has lost what stood there: it cannot be taken back")
        return content


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _digests(rows: Iterable[_Row]) -> frozenset[str]:
    found = (change.get(side) for row in rows for change in row["changes"] for side in ("before", "after"))
    return frozenset(digest for digest in found if digest is not None)


@contextmanager
def _in_plain_words() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ToolError(f"the journal cannot be kept: {(error.strerror or type(error).__name__).lower()}") from error


# --- the file's content, checked when it is read


def _checked(found: Any) -> tuple[_Rows, tuple[_Way, _Row] | None]:
    """Parse the journal: its rows, and the step that was begun, if any. Raises one of `_NO_JOURNAL`."""
    rows, begun = _Rows(_checked_rows(found["done"]), _checked_rows(found["undone"])), found.get("begun")
    if begun is None:
        return rows, None
    (row,) = _checked_rows([begun["row"]])
    return rows, (_Way(begun["way"]), row)


def _checked_rows(rows: Any) -> list[_Row]:
    if not (isinstance(rows, list) and all(isinstance(row, dict) and _is_step(row) for row in rows)):
        raise ValueError
    return rows


def _is_step(row: _Row) -> bool:
    title, changes = row.get("title"), row.get("changes")
    return isinstance(title, str) and isinstance(changes, list) and all(map(_is_change, changes))


def _is_change(change: Any) -> bool:
    return isinstance(change, dict) and change.keys() in _FORMS and all(_fits(*field) for field in change.items())


def _fits(name: str, value: Any) -> bool:
    if name in _TYPES:
        return isinstance(value, _TYPES[name])
    return value is None or (isinstance(value, str) and _DIGEST.fullmatch(value) is not None)
