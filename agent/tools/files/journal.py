"""The journal of a workspace: what file_undo takes back and file_redo makes again. Everything here blocks.

`steps.json` names contents by their digest, `blobs/` holds them. Both stand beside the workspace, where no
tool and no sandbox can reach them. The oldest steps go when there are too many or their contents too large.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from agent.limits import JOURNAL_BYTES_MAX, JOURNAL_STEPS_MAX
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
from agent.tools.files.workspace import Workspace
from gateway.contracts.errors import ToolError

_STEPS: Final = "steps.json"
_BLOBS: Final = "blobs"

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
        self._folder = workspace.journal

    def make(self, step: Step) -> None:
        """Make a step; what was taken back before cannot be made again any more. Raises `ToolError`."""
        with self._workspace.lock:
            rows, step = self._read(), with_folders(self._workspace, step)
            self._carry_out(rows, _Way.MAKE, self._row(step), step)

    def undo(self) -> Step:
        """Take back the newest step; returns it. Raises `ToolError` if there is none, or a file has changed."""
        with self._workspace.lock:
            rows = self._read()
            if not rows.done:
                raise ToolError("there is nothing to take back")
            step = self._step(rows.done[-1])
            self._carry_out(rows, _Way.UNDO, rows.done[-1], step.reversed())
            return step

    def redo(self) -> Step:
        """Make the step again that was taken back last; returns it. Raises `ToolError`."""
        with self._workspace.lock:
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
        try:
            found = json.loads((self._folder / _STEPS).read_text("utf-8"))
        except (FileNotFoundError, ValueError):
            return _Rows([], [])  # ValueError: a power cut took it; the files themselves are whole
        rows, begun = _Rows(found["done"], found["undone"]), found.get("begun")
        return self._settled(rows, _Way(begun["way"]), begun["row"]) if begun else rows

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
        for blob in (self._folder / _BLOBS).glob("*"):
            if blob.name not in wanted:
                blob.unlink()

    def _put(self, rows: _Rows, begun: _Row | None = None) -> None:
        unfinished = self._folder / f"{_STEPS}.unfinished"
        written = {"done": rows.done, "undone": rows.undone} | ({"begun": begun} if begun else {})
        unfinished.write_text(json.dumps(written), "utf-8")
        unfinished.replace(self._folder / _STEPS)

    def _size(self, rows: _Rows) -> int:
        return sum(self._blob(digest).stat().st_size for digest in _digests((*rows.done, *rows.undone)))

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
        digest = hashlib.sha256(content).hexdigest()
        path = self._blob(digest)
        path.parent.mkdir(exist_ok=True, mode=0o700)
        if not path.exists():
            unfinished = path.with_suffix(".unfinished")
            unfinished.write_bytes(content)
            unfinished.replace(path)
        return digest

    def _content(self, digest: str | None) -> bytes | None:
        if digest is None:
            return None
        try:
            return self._blob(digest).read_bytes()
        except FileNotFoundError as error:
            raise ToolError("the journal has lost what stood there: it cannot be taken back") from error

    def _blob(self, digest: str) -> Path:
        return self._folder / _BLOBS / digest


def _digests(rows: Iterable[_Row]) -> frozenset[str]:
    found = (change.get(side) for row in rows for change in row["changes"] for side in ("before", "after"))
    return frozenset(digest for digest in found if digest is not None)
