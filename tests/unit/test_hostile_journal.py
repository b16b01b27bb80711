"""The journal of a conversation in which somebody has written who has no business there: a sub-agent that went bad
has the folder, too. Nobody who reads it is led to another place, held up or made to fail for good."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.tools.files.journal import FileStep, Journal, Written
from agent.tools.files.workspace import Workspace
from gateway.contracts.errors import ToolError

CANARY = b"of somebody else"


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A folder that is none of the conversation's business, with one file."""
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "file").write_bytes(CANARY)
    return tmp_path / "foreign"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "home")


def write(workspace: Workspace, path: str, content: bytes) -> None:
    before = workspace.read_if_there(path)
    Journal(workspace).make(FileStep(f"file_write {path}", (Written(path, before, content),)))


def steps(*changes: object) -> str:
    return json.dumps({"done": [{"title": "file_write", "changes": changes}], "undone": []})


def everything_below(place: Path) -> dict[str, bytes]:
    return {str(found.relative_to(place)): found.read_bytes() for found in place.rglob("*") if found.is_file()}


def test_the_name_of_a_content_leads_to_no_file_outside(workspace: Workspace, foreign: Path) -> None:
    (workspace.files / "a").write_bytes(b"now")
    (workspace.journal / "blobs").mkdir()
    (workspace.journal / "blobs" / "x").write_bytes(b"now")
    for name in (str(foreign / "file"), "../../../foreign/file"):
        (workspace.journal / "steps.json").write_text(steps({"path": "a", "before": name, "after": "x"}))
        with pytest.raises(ToolError, match="nothing to take back"):
            Journal(workspace).undo()
    assert everything_below(workspace.files) == {"a": b"now"}


def test_a_content_that_is_a_link_or_not_what_it_is_named_after_is_lost(workspace: Workspace, foreign: Path) -> None:
    write(workspace, "a", b"first")
    write(workspace, "a", b"second")
    blob = workspace.journal / "blobs" / hashlib.sha256(b"first").hexdigest()
    for spoil in (lambda: blob.symlink_to(foreign / "file"), lambda: blob.write_bytes(b"other"), lambda: None):
        blob.unlink(missing_ok=True)
        spoil()
        with pytest.raises(ToolError, match="lost"):
            Journal(workspace).undo()
    assert (workspace.files / "a").read_bytes() == b"second"


@pytest.mark.parametrize("name", ["steps.json", "steps.json.unfinished", "blobs"])
def test_nothing_is_written_or_deleted_through_a_link(workspace: Workspace, foreign: Path, name: str) -> None:
    (workspace.journal / name).symlink_to(foreign if name == "blobs" else foreign / "file")
    for content in (b"1", b"2"):
        try:
            write(workspace, "a", content)
        except ToolError:
            assert name == "blobs"
    assert everything_below(foreign) == {"file": CANARY}


@pytest.mark.parametrize(
    "spoil",
    [
        os.mkfifo,
        Path.mkdir,
        lambda path: path.write_text("[" * 100_000),
        lambda path: path.write_text("[]"),
        lambda path: path.write_text('{"done": 1, "undone": []}'),
        lambda path: path.write_text(steps("x")),
        lambda path: path.write_text(steps({"path": 1, "before": None, "after": None})),
        lambda path: path.write_text(steps({"source": "a"})),
        lambda path: path.write_text('{"done": [], "undone": [], "begun": {"way": "sideways", "row": {}}}'),
        lambda path: path.write_bytes(b'{"done": [], "undone": [], "\xff": 1}'),
    ],
)
def test_a_journal_that_is_none_is_an_empty_one(workspace: Workspace, spoil: Callable[[Path], object]) -> None:
    spoil(workspace.journal / "steps.json")
    with pytest.raises(ToolError, match="nothing to take back"):
        Journal(workspace).undo()


def test_after_all_that_it_works_again(workspace: Workspace) -> None:
    """Also where a content that the journal names is gone."""
    (workspace.journal / "steps.json").write_text(steps({"path": "b", "before": "0" * 64, "after": None}))
    os.mkfifo(workspace.journal / "steps.json.unfinished")
    write(workspace, "a", b"x")
    assert Journal(workspace).undo().title == "file_write a"
