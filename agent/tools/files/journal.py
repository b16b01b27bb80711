"""The journal of a workspace: what file_undo takes back and file_redo makes again. Everything here blocks.

`steps.json` names contents by their digest, `blobs/` holds them. Both stand beside the workspace, where no tool and no
command can reach them; but the process of a sub-agent has them, so what they say is looked through as a stranger's
word. The oldest steps go when there are too many or their contents too large.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from agent.limits import FILE_BYTES_MAX, JOURNAL_BYTES_MAX, JOURNAL_FILE_BYTES_MAX, JOURNAL_STEPS_MAX
from agent.tools.files.changes import (
    Change,
    FolderMade,
    Moved,
    Step,
    Written,
    perform,
    seems_made,
    settle,
    with_folders,
)
from agent.tools.files.shelf import Shelf
from agent.tools.files.workspace import Workspace
from gateway.contracts.errors import ToolError

_STEPS: Final = "steps.json"
_BLOBS: Final = "blobs"
_DIGEST: Final = re.compile("[0-9a-f]{64}")
_TYPES: Final[dict[str, type]] = {"path": str, "source": str, "target": str, "folder": str, "is_made": bool}
_NO_JOURNAL: Final = (ValueError, TypeError, AttributeError, LookupError, RecursionError)
"""What comes of reading something else."""
_FORMS: Final = ({"path", "before", "after"}, {"source", "target"}, {"folder", "is_made"})

_Row = dict[str, Any]


class _Way(StrEnum):
    MAKE = "make"
    UNDO = "undo"
    REDO = "redo"


@dataclass(frozen=True, slots=True)
class _Rows:
    """The journal as it stands on disk: steps that were made, steps that were taken back, newest last."""

    done: list[_Row]
    undone: list[_Row]

    def after(self, way: _Way, row: _Row) -> _Rows:
        """The same when this step has gone this way."""
        match way:
            case _Way.MAKE:
                return _Rows([*self.done, row], [])
            case _Way.UNDO:
                return _Rows(self.done[:-1], [*self.undone, row])
            case _Way.REDO:
                return _Rows([*self.done, row], self.undone[:-1])


class Journal:
    """Makes changes in a workspace and remembers them.

    What it is about to do it writes down first. So whoever comes after a process that was killed in the middle finds
    it, and settles it: the change and its line are both there, or neither is.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._shelf = Shelf(workspace.journal)
        self._blobs = Shelf(workspace.journal / _BLOBS)

    def make(self, step: Step) -> None:
        """Make a step; what was taken back before cannot be made again any more. Raises `ToolError`."""
        with self._workspace.lock, _in_plain_words():
            rows, step = self._read(), with_folders(self._workspace, step)
            self._carry_out(rows, _Way.MAKE, self._row(step), step)

    def undo(self) -> Step:
        """Take back the newest step; returns it. Raises `ToolError` if there is none, or a file has changed."""
        with self._workspace.lock, _in_plain_words():
            rows = self._read()
            if not rows.done:
                raise ToolError("there is nothing to take back")
            step = self._step(rows.done[-1])
            self._carry_out(rows, _Way.UNDO, rows.done[-1], step.reversed())
            return step

    def redo(self) -> Step:
        """Make the step again that was taken back last; returns it. Raises `ToolError`."""
        with self._workspace.lock, _in_plain_words():
            rows = self._read()
            if not rows.undone:
                raise ToolError("nothing was taken back")
            step = self._step(rows.undone[-1])
            self._carry_out(rows, _Way.REDO, rows.undone[-1], step)
            return step

    def _carry_out(self, rows: _Rows, way: _Way, row: _Row, step: Step) -> None:
        """A step that seems made before it began is no work that could be left half done: it changes nothing, or
        will be refused."""
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
        """What the journal says of a step that was begun by a process that is no more."""
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

    def _row(self, step: Step) -> _Row:
        return {"title": step.title, "changes": [self._change_row(change) for change in step.changes]}

    def _change_row(self, change: Change) -> _Row:
        match change:
            case Written(path=path, before=before, after=after):
                return {"path": path, "before": self._kept(before), "after": self._kept(after)}
            case Moved(source=source, target=target):
                return {"source": source, "target": target}
            case FolderMade(path=path, is_made=is_made):
                return {"folder": path, "is_made": is_made}

    def _step(self, row: _Row) -> Step:
        return Step(row["title"], tuple(self._change(change) for change in row["changes"]))

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


# --- what is read, checked at the door


def _checked(found: Any) -> tuple[_Rows, tuple[_Way, _Row] | None]:
    """What stands in the file, and the step that was begun. Raises one of `_NO_JOURNAL`."""
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
