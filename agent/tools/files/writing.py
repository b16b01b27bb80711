"""The file tools that change something: file_write, file_edit, file_patch, file_delete, file_rename, and the two
that go back and forth in the journal: file_undo, file_redo."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from agent.limits import FILE_BYTES_MAX, PATCH_BYTES_MAX, PATCH_FILES_MAX
from agent.tools.files.changes import Change, FolderMade, Moved, Step, Written
from agent.tools.files.content import path_locks, text_of
from agent.tools.files.file_tool import FileTool, Locks, Work
from agent.tools.files.journal import Journal
from agent.tools.files.patching import FilePatch, Looks, apply_hunks, parse_patch
from agent.tools.files.reading import PATH
from agent.tools.files.workspace import Workspace
from gateway.contracts.errors import ToolError

_INSTEAD: Final = (
    "The file holds the secret itself: a whole new text would destroy it, and a line with a placeholder is not found "
    "in it. Change only other lines, with file_edit or file_patch, and give none of the secret's lines, not even "
    "around the change. If the secret is new, let the user fill it in."
)


def _the_journal(_arguments: Mapping[str, Any]) -> tuple[str, ...]:
    return ("the journal",)


def _patched_paths(arguments: Mapping[str, Any]) -> tuple[str, ...]:
    try:
        patches = parse_patch(arguments["patch"])
    except ToolError:
        return ()  # the call itself will say so
    return tuple(lock for patch in patches for lock in _paths(patch))


def _paths(patch: FilePatch) -> tuple[str, ...]:
    names = (patch.source, patch.target)
    return tuple(lock for name in names if name for lock in path_locks("path")({"path": name}))


def _write(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    content = arguments["content"]
    return put(workspace, "file_write", arguments["path"], _encoded(content))


def _edit(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    path, old, new = arguments["path"], arguments["old"], arguments["new"]
    with workspace.lock:
        text = text_of(path, workspace.read(path))
        if old not in text and "\r\n" in text:
            old, new = (part.replace("\r\n", "\n").replace("\n", "\r\n") for part in (old, new))
        count = text.count(old)
        if count == 0:
            raise ToolError(f"`old` does not stand in {path}: read it again and copy the piece exactly")
        if count > 1 and not arguments.get("all", False):
            raise ToolError(f"`old` stands in {path} {count} times: give more lines around it, or set `all`")
        size = len(_encoded(text)) + count * (len(_encoded(new)) - len(_encoded(old)))
        if size > FILE_BYTES_MAX:
            raise ToolError(f"{path}: a file may have at most {FILE_BYTES_MAX} bytes, and this would be {size}")
        return put(workspace, "file_edit", path, _encoded(text.replace(old, new)))


def _patch(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    patches = parse_patch(arguments["patch"])
    if len(patches) > PATCH_FILES_MAX:
        raise ToolError(f"a patch may change at most {PATCH_FILES_MAX} files at a time")
    named = Counter(lock for patch in patches for lock in set(_paths(patch)))
    if twice := [name for name, times in named.items() if times > 1]:
        raise ToolError(f"the patch names {twice[0]} several times: put all hunks of a file below one header")
    with workspace.lock:
        changes: list[Change] = []
        looks, left = Looks(), PATCH_BYTES_MAX
        for patch in patches:
            made = _patch_changes(workspace, patch, looks)
            left -= sum(len(side or b"") for change in made for side in _sides(change))
            if left < 0:
                raise ToolError(f"the patch changes files of more than {PATCH_BYTES_MAX} bytes: patch them in parts")
            changes += made
        names = ", ".join(patch.target or patch.source or "" for patch in patches)
        Journal(workspace).make(Step(f"file_patch {names}", tuple(changes)))
    return f"Patched {names}."


def _sides(change: Change) -> tuple[bytes | None, ...]:
    return (change.before, change.after) if isinstance(change, Written) else ()


def _patch_changes(workspace: Workspace, patch: FilePatch, looks: Looks) -> tuple[Change, ...]:
    before = workspace.read(patch.source) if patch.source else None
    name = patch.source or patch.target or ""
    after = _encoded(apply_hunks(name, text_of(name, before or b""), patch.hunks, looks))
    if patch.target is None:
        if after:
            raise ToolError(f"{name}: the patch deletes the file, but does not remove all of its lines")
        return (Written(name, before, None),)
    if patch.source is None or patch.source == patch.target:
        return (Written(patch.target, before, after),)
    return Moved(patch.source, patch.target), Written(patch.target, before, after)


def _delete(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    path = arguments["path"]
    with workspace.lock:
        found = workspace.look(path)
        if found.is_link:
            workspace.delete(path)
            return f"Deleted the link {path}; it cannot be taken back."
        if found.is_folder and workspace.entries(path):
            raise ToolError(f"{path} is a folder that is not empty")
        change = FolderMade(path, is_made=False) if found.is_folder else Written(path, workspace.read(path), None)
        Journal(workspace).make(Step(f"file_delete {path}", (change,)))
    return f"Deleted {path}."


def _rename(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    source, target = arguments["path"], arguments["to"]
    with workspace.lock:
        Journal(workspace).make(Step(f"file_rename {source} to {target}", (Moved(source, target),)))
    return f"Renamed {source} to {target}."


def _undo(workspace: Workspace, _arguments: Mapping[str, Any]) -> str:
    return f"Took back: {Journal(workspace).undo().title}"


def _redo(workspace: Workspace, _arguments: Mapping[str, Any]) -> str:
    return f"Made again: {Journal(workspace).redo().title}"


def put(workspace: Workspace, tool: str, path: str, content: bytes) -> str:
    """Write a file through the journal."""
    with workspace.lock:
        before = workspace.read_if_there(path)
        Journal(workspace).make(Step(f"{tool} {path}", (Written(path, before, content),)))
    return f"{'Wrote' if before is None else 'Changed'} {path} ({len(content)} bytes)."


def _encoded(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ToolError("the text has half characters (lone surrogates)") from error


def _changing(name: str, description: str, schema: Mapping[str, Any], work: Work, locks: Locks) -> FileTool:
    return FileTool(name, description, schema, work, locks, changes_files=True, instead=_INSTEAD)


WRITING: Final = (
    _changing(
        "file_write",
        "Write a whole text file, a new one or over an old one; missing folders are made.",
        {
            "type": "object",
            "properties": {"path": PATH, "content": {"type": "string", "maxLength": FILE_BYTES_MAX}},
            "required": ["path", "content"],
        },
        _write,
        path_locks("path"),
    ),
    _changing(
        "file_edit",
        "Replace a piece of a text file. `old` must stand in the file exactly once, unless `all` is true.",
        {
            "type": "object",
            "properties": {
                "path": PATH,
                "old": {"type": "string", "minLength": 1},
                "new": {"type": "string"},
                "all": {"type": "boolean"},
            },
            "required": ["path", "old", "new"],
        },
        _edit,
        path_locks("path"),
    ),
    _changing(
        "file_patch",
        "Apply a unified diff to one or more files: all of it or nothing. /dev/null makes or deletes a file.",
        {"type": "object", "properties": {"patch": {"type": "string", "minLength": 1}}, "required": ["patch"]},
        _patch,
        _patched_paths,
    ),
    _changing(
        "file_delete",
        "Delete a file or an empty folder.",
        {"type": "object", "properties": {"path": PATH}, "required": ["path"]},
        _delete,
        path_locks("path"),
    ),
    _changing(
        "file_rename",
        "Move or rename a file or folder to a name that is free.",
        {"type": "object", "properties": {"path": PATH, "to": PATH}, "required": ["path", "to"]},
        _rename,
        path_locks("path", "to"),
    ),
    _changing(
        "file_undo",
        "Take back the newest change made by a file tool.",
        {"type": "object", "properties": {}},
        _undo,
        _the_journal,
    ),
    _changing(
        "file_redo",
        "Make the change again that file_undo took back.",
        {"type": "object", "properties": {}},
        _redo,
        _the_journal,
    ),
)
