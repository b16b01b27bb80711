"""What happens to files, as values that can be turned round: each change knows what it expects to find."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from agent.tools.files.workspace import Workspace
from gateway.contracts.errors import ToolError


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
    """An empty folder came to be; turned round, it was deleted. One that is there already is as good as made, and
    one that is not empty stays: it has become somebody's."""

    path: str
    is_made: bool


Change = Written | Moved | FolderMade


@dataclass(frozen=True, slots=True)
class Step:
    """The changes of one call, made and taken back together; `title` is shown when they are."""

    title: str
    changes: tuple[Change, ...]

    def reversed(self) -> Step:
        """The step that takes this one back."""
        return Step(self.title, tuple(_reversed(change) for change in reversed(self.changes)))


def with_folders(workspace: Workspace, step: Step) -> Step:
    """The step with the folders that it will bring about as changes of their own, so that they go with it."""
    paths = [
        change.path if isinstance(change, Written) else change.target
        for change in step.changes
        if isinstance(change, Moved) or (isinstance(change, Written) and change.after is not None)
    ]
    missing = dict.fromkeys(folder for path in paths for folder in workspace.missing_folders(path))
    return Step(step.title, (*(FolderMade(folder, is_made=True) for folder in missing), *step.changes))


def perform(workspace: Workspace, step: Step) -> None:
    """Make all changes of a step or, if one is not possible, none. Raises `ToolError`."""
    done: list[Change] = []
    try:
        for change in step.changes:
            _make(workspace, change)
            done.append(change)
    except ToolError:
        _take_back(workspace, done)
        raise


def seems_made(workspace: Workspace, step: Step) -> bool:
    """True if everything is as it will be behind this step. Raises `ToolError` if that cannot be looked at."""
    return all(_is_made(workspace, change) for change in step.changes)


def settle(workspace: Workspace, step: Step) -> bool:
    """For a step that somebody began and may not have ended, because the process was killed: True if all of it is
    made, else none of it is, as far as nobody has changed the files since."""
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
