"""Paths never lead out, patches turn one text into the other, the journal goes back and forth: for any input."""

from __future__ import annotations

import difflib
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agent.tools.files.journal import FileStep, FolderMade, Journal, Moved, Written, perform
from agent.tools.files.patch import ComparisonBudget, apply_hunks, parse_patch
from agent.tools.files.workspace import Workspace
from gateway.contracts.errors import ToolError

CANARY = b"what stands outside"
parts = st.sampled_from(["a", "b", "c", "..", ".", "", "outside", "workspace", "files"])
paths = st.builds(
    lambda start, middle: start + "/".join(middle),
    st.sampled_from(["", "", "/", "/workspace/", "./", "../"]),
    st.lists(parts, min_size=1, max_size=6),
)
links = st.dictionaries(
    st.sampled_from(["a", "b", "c", "a/b", "a/c", "b/a"]),
    st.one_of(paths, st.sampled_from(["OUT", "OUT/secret", "../../..", "/", "/proc/self/root"])),
    max_size=4,
)


@given(links, paths, paths)
@settings(max_examples=200)
@example({"a": ".."}, "a/secret", "a")
@example({"a": "OUT"}, "a/secret", "a/new")
@example({"a": "b", "b": "a"}, "a", "b")
def test_whatever_the_links_say_nothing_outside_is_read_or_changed(
    links: dict[str, str], path: str, other: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "home")
        outside = Path(folder, "outside")
        outside.mkdir()
        (outside / "secret").write_bytes(CANARY)
        (Path(folder) / "secret").write_bytes(CANARY)
        workspace = Workspace(home)
        for name, target in links.items():
            place = workspace.files / name
            with suppress(OSError, RuntimeError):  # links that lead in circles are one or the other
                if not place.parent.resolve().is_relative_to(workspace.files.resolve()):
                    continue  # through an earlier link it would stand on the machine that runs the tests
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(target.replace("OUT", str(outside)) or ".")
        before = _everything_outside(Path(folder))
        for change in (
            FileStep("", (Written(path, None, b"mine"),)),
            FileStep("", (Written(f"{path}/secret", None, b"mine"),)),
            FileStep("", (Moved(path, other),)),
            FileStep("", (FolderMade(other, is_made=False),)),
            FileStep("", (FolderMade(f"{path}/made", is_made=True),)),
        ):
            with suppress(ToolError):
                perform(workspace, change)
        for name in (path, other, f"{path}/secret", f"{other}/secret"):
            with suppress(ToolError):
                assert workspace.read(name) != CANARY
            with suppress(ToolError):
                assert not any(
                    entry.path.endswith("secret") and entry.size_bytes == len(CANARY) for entry in workspace.walk(name)
                )
        assert _everything_outside(Path(folder)) == before


def _everything_outside(folder: Path) -> dict[str, bytes]:
    found = {}
    for root, folders, files in os.walk(folder):
        if Path(root) == folder / "home":
            folders.remove("files")
        for name in files:
            place = Path(root, name)
            found[str(place)] = str(place.readlink()).encode() if place.is_symlink() else place.read_bytes()
    return found


lines = st.lists(st.sampled_from(["", "a", "b", "-- c", "++ d", "\\ e", " f", "@@ g", "\x0c", "h\r"]), max_size=12)
texts = st.builds(lambda rows, end: "\n".join(rows) + end, lines, st.sampled_from(["", "\n"]))


def diff(old: str, new: str) -> str:
    """A unified diff as git writes it, with its word on a missing line end."""
    cut_old, cut_new = ([f"{line}\n" for line in text.split("\n")] for text in (old, new))
    for rows_of, text in ((cut_old, old), (cut_new, new)):
        rows_of[-1] = rows_of[-1].removesuffix("\n")
        if not text.split("\n")[-1]:
            rows_of.pop()
    rows = difflib.unified_diff(cut_old, cut_new, "a/x", "b/x", n=2)
    return "".join(row if row.endswith("\n") else f"{row}\n\\ No newline at end of file\n" for row in rows)


@given(texts, texts)
def test_a_diff_turns_the_old_text_into_the_new(old: str, new: str) -> None:
    text = diff(old, new)
    if not text:
        assert old == new
        return
    (patch,) = parse_patch(f"diff --git a/x b/x\nindex 1..2 100644\n{text}\n\nThat is all.\n")
    assert (patch.source, patch.target) == ("x", "x")
    assert apply_hunks("x", old, patch.hunks, ComparisonBudget()) == new


@given(texts, texts)
def test_wrong_counts_and_a_wrong_place_in_the_header_do_no_harm(old: str, new: str) -> None:
    """Models cannot count: where the lines stand only once, they are found."""
    old = "\n".join(f"{number} {line}" for number, line in enumerate(old.split("\n"))) + "\n"
    new = "\n".join(f"{number} {line}" for number, line in enumerate(new.split("\n"))) + "\n"
    text = diff(old, new)
    if not text:
        return
    wrong = "\n".join("@@ -7,1 +9,9 @@" if row.startswith("@@ -") else row for row in text.split("\n"))
    (patch,) = parse_patch(wrong)
    if all(hunk.old for hunk in patch.hunks):
        assert apply_hunks("x", old, patch.hunks, ComparisonBudget()) == new


@given(st.text(max_size=300))
def test_any_text_is_a_patch_or_is_refused(text: str) -> None:
    with suppress(ToolError):
        for patch in parse_patch(f"--- a\n+++ a\n@@ -1 +1 @@\n{text}"):
            apply_hunks("a", text, patch.hunks, ComparisonBudget())


class JournalMachine(RuleBasedStateMachine):
    """Any row of steps, taken back and made again at any moment, against a model that keeps all states."""

    names = st.sampled_from(["a", "b", "d/a", "d/b"])

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.workspace = Workspace(Path(self.folder.name))
        self.journal = Journal(self.workspace)
        self.states: list[dict[str, bytes]] = [{}]
        self.at = 0

    def teardown(self) -> None:
        self.folder.cleanup()

    def _make(self, step: FileStep) -> None:
        try:
            self.journal.make(step)
        except ToolError:
            return
        self.states[self.at + 1 :] = [self._files()]
        self.at += 1

    def _files(self) -> dict[str, bytes]:
        root = self.workspace.files
        return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}

    @rule(name=names, content=st.binary(max_size=8))
    def write(self, name: str, content: bytes) -> None:
        self._make(FileStep("write", (Written(name, self._files().get(name), content),)))

    @rule(name=names)
    def delete(self, name: str) -> None:
        if name in self._files():
            self._make(FileStep("delete", (Written(name, self._files()[name], None),)))

    @rule(name=st.sampled_from(["a", "b", "d", "d/a"]), to=st.sampled_from(["b", "c", "d/c"]))
    def rename(self, name: str, to: str) -> None:
        self._make(FileStep("rename", (Moved(name, to),)))

    @rule(name=names, other=names, content=st.binary(max_size=8))
    def write_two(self, name: str, other: str, content: bytes) -> None:
        before = self._files()
        self._make(FileStep("two", (Written(name, before.get(name), content), Written(other, b"not so", content))))

    @precondition(lambda self: self.at > 0)
    @rule()
    def undo(self) -> None:
        self.journal.undo()
        self.at -= 1

    @precondition(lambda self: self.at < len(self.states) - 1)
    @rule()
    def redo(self) -> None:
        self.journal.redo()
        self.at += 1

    @invariant()
    def files_are_as_they_were(self) -> None:
        assert self._files() == self.states[self.at]


JournalMachine.TestCase.settings = settings(max_examples=80, stateful_step_count=25)
TestJournal = JournalMachine.TestCase


class Killed(BaseException):
    """The end of a process, as far as one process can play it."""


class Mortal:
    """Dies before or behind the n-th change of the disk."""

    def __init__(self, dies_at: int, *, before: bool) -> None:
        self._left = dies_at
        self._before = before

    def of(self, change: Callable[..., None]) -> Callable[..., None]:
        def mortal(*arguments: Any, **named: Any) -> None:
            self._left -= 1
            if self._left == 0 and self._before:
                raise Killed
            change(*arguments, **named)
            if self._left == 0:
                raise Killed

        return mortal


WRITES = st.dictionaries(st.sampled_from(["a", "d/a", "d/e/b"]), st.none() | st.binary(max_size=3), min_size=1)
MOVES = st.tuples(st.sampled_from(["a", "d"]), st.sampled_from(["b", "f/c"]))
DEEDS = st.lists(st.sampled_from(["undo", "redo"]) | WRITES | MOVES, min_size=1, max_size=6)
Deed = str | dict[str, bytes | None] | tuple[str, str]


def _contents(workspace: Workspace) -> dict[str, bytes]:
    root = workspace.files
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def _do(workspace: Workspace, deed: Deed) -> None:
    with suppress(ToolError):
        match deed:
            case "undo":
                Journal(workspace).undo()
            case "redo":
                Journal(workspace).redo()
            case dict():
                found = _contents(workspace)
                writes = [Written(path, found.get(path), new) for path, new in deed.items() if new or path in found]
                Journal(workspace).make(FileStep("several", tuple(writes)))
            case (source, target):
                Journal(workspace).make(FileStep("move", (Moved(source, target),)))


def _take_all_back(workspace: Workspace) -> None:
    try:
        while True:
            Journal(workspace).undo()
    except ToolError as error:
        assert str(error) == "there is nothing to take back"  # noqa: PT017 - the other undos must raise nothing


@given(DEEDS, st.integers(1, 30), st.booleans())
@settings(max_examples=60)
def test_whenever_a_process_is_killed_a_change_and_its_line_are_both_there_or_neither(
    deeds: list[Deed], dies_at: int, before: bool
) -> None:
    """Whoever comes next goes on as if the last deed had been done, or had not, and can take everything back."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        immortal, states = Workspace(Path(one)), list[dict[str, bytes]]([{}])
        for deed in deeds:
            _do(immortal, deed)
            states.append(_contents(immortal))
        workspace, done, mortal = Workspace(Path(other)), 0, Mortal(dies_at, before=before)
        with suppress(Killed), pytest.MonkeyPatch.context() as patch:
            for name in ("rename", "replace", "mkdir", "rmdir", "unlink"):
                patch.setattr(os, name, mortal.of(getattr(os, name)))
            for deed in deeds:
                _do(workspace, deed)
                done += 1
        Journal(workspace).make(FileStep("next", (Written("next", None, b""),)))
        Journal(workspace).undo()
        assert _contents(workspace) in states[done : done + 2]
        _take_all_back(workspace)
        assert _contents(workspace) == {}


def test_a_deleted_folder_comes_back(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.make_folder("d")
    Journal(workspace).make(FileStep("delete", (FolderMade("d", is_made=False),)))
    assert not (workspace.files / "d").exists()
    Journal(workspace).undo()
    assert (workspace.files / "d").is_dir()
