"""The file tools: those that read, and those that change something. Light: sub-agents load them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any, Final

from agent import limits
from agent.schema import object_schema, text_schema
from agent.tools.files.journal import Change, FileStep, FolderMade, Journal, Moved, Written
from agent.tools.files.patch import ComparisonBudget, FilePatch, apply_hunks, parse_patch
from agent.tools.files.paths import path_locks, text_of
from agent.tools.files.workspace import Listed, Workspace
from gateway.contracts.errors import ToolError
from gateway.scrub.raw_text import KEY_MARK, head, key_starts

Work = Callable[[Workspace, Mapping[str, Any]], str]
"""Blocks; returns raw text, and raises `ToolError` for what the model did wrong."""

Locks = Callable[[Mapping[str, Any]], tuple[str, ...]]
"""As `Tool.locks`."""

_ITS_PATH: Final = path_locks("path")


@dataclass(frozen=True, slots=True)
class FileTool:
    """One of them. The arguments of its work have passed `schema`; `instead` is as `Tool` has it."""

    name: str
    description: str
    schema: Mapping[str, Any]
    work: Work
    locks: Locks = _ITS_PATH
    changes_files: bool = False
    instead: str = ""


# The file tools that change nothing: file_read, file_list, file_tree, file_info, file_search.


PATH: Final = {"type": "string", "maxLength": limits.FILE_PATH_CHARS_MAX, "description": "Relative to the workspace."}
_NUMBER: Final = {"type": "integer", "minimum": 1}
_FOLDER: Final = {**PATH, "description": "A folder relative to the workspace; empty for all of it."}


def _read(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    path = arguments["path"]
    lines = text_of(path, workspace.read(path)).split("\n")
    if lines[-1] == "":
        lines.pop()
    first = arguments.get("first_line", 1)
    if first > max(len(lines), 1):
        raise ToolError(f"{path} has {len(lines)} lines")
    last = min(first - 1 + arguments.get("lines", len(lines)), len(lines))
    first = 1 + next(islice(key_starts(lines), first - 1, None), 0)
    shown = lines[first - 1 : min(last, first - 1 + limits.READ_LINES_MAX)]
    numbered = [f"{number:>6}  {line}" for number, line in enumerate(shown, first)]
    if (next_line := first + len(shown)) <= last:
        numbered.append(f"… {last - next_line + 1} more lines: read on with first_line={next_line}")
    return "\n".join(numbered) or f"{path} is empty"


def _list(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    entries = workspace.entries(arguments.get("path", ""))
    shown = [_row(entry) for entry in entries]
    if len(entries) == limits.LISTED_FILES_MAX:
        shown.append(f"… only the first {limits.LISTED_FILES_MAX}")
    return "\n".join(shown) or "The folder is empty."


def _tree(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    root = arguments.get("path", "")
    above = len([part for part in workspace.resolved(root).split("/") if part])
    depth = arguments.get("depth", 20)
    shown: list[str] = []
    for entry in workspace.walk(root):
        level = entry.path.count("/") - above
        if level >= depth:
            continue
        if len(shown) == limits.LISTED_FILES_MAX:
            shown.append(f"… only the first {limits.LISTED_FILES_MAX}")
            break
        shown.append("  " * level + entry.path.rpartition("/")[2] + ("/" if entry.is_folder else ""))
    return "\n".join(shown) or "The folder is empty."


def _info(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    return _row(workspace.look(arguments.get("path", "")))


def _row(entry: Listed) -> str:
    kind = "folder" if entry.is_folder else "link" if entry.is_link else f"{entry.size_bytes} bytes"
    changed = datetime.fromtimestamp(entry.changed_at_s, UTC)
    return f"{entry.path or '.'}{'/' if entry.is_folder else ''}  {kind}  {changed:%Y-%m-%d %H:%M} UTC"


def _search(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    if "glob" not in arguments and "text" not in arguments:
        raise ToolError("say what to search for: `glob`, `text`, or both")
    if "\n" in arguments.get("text", ""):
        raise ToolError("`text` is looked for in single lines: search for a piece of one line")
    hits: list[str] = []
    for hit in _hits(workspace, arguments):
        if len(hits) == limits.SEARCH_HITS_MAX:
            hits.append(f"… more than {limits.SEARCH_HITS_MAX} hits: search for something more special")
            break
        hits.append(hit)
    return "\n".join(hits) or "Nothing matches."


def _hits(workspace: Workspace, arguments: Mapping[str, Any]) -> Iterator[str]:
    ignores_case = arguments.get("ignore_case", False)
    text = arguments.get("text", "")
    wanted = text.casefold() if ignores_case else text
    left, give_up_at_s = limits.SEARCH_BYTES_MAX, time.monotonic() + limits.SEARCH_S
    for entry in workspace.walk(arguments.get("path", "")):
        if time.monotonic() > give_up_at_s:
            yield "… the rest was not searched: it took too long"
            return
        if not _is_named(entry.path, arguments.get("glob"), ignores_case=ignores_case):
            continue
        if not text:
            yield entry.path + ("/" if entry.is_folder else "")
            continue
        if entry.is_folder or entry.is_link:
            continue
        left -= entry.size_bytes
        if left < 0:
            yield "… the rest was not searched: too many bytes"
            return
        try:
            content = text_of(entry.path, workspace.read(entry.path))
        except ToolError:  # too long, no text, or gone by now
            continue
        for number, line in _lines_with(wanted, content, content.casefold() if ignores_case else content):
            yield f"{entry.path}:{number}: {head(line.strip(), limits.SEARCH_LINE_CHARS_MAX)}"


def _is_named(path: str, glob: str | None, *, ignores_case: bool) -> bool:
    if glob is None:
        return True
    if ignores_case:
        path, glob = path.casefold(), glob.casefold()
    return fnmatchcase(path, glob) or fnmatchcase(path.rpartition("/")[2], glob.removeprefix("**/"))


def _lines_with(wanted: str, content: str, searched: str) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of `content` with `wanted` in them, but for the inner ones of a private key. `searched`
    is the same text, perhaps in one case: as long in lines, not in characters. Lines are looked at only where there
    are hits: a text may have two million of them."""
    at = searched.find(wanted)
    if at < 0:
        return
    lines = content.split("\n")
    is_inner = bytes(at != start for at, start in enumerate(key_starts(lines))) if KEY_MARK in content else b""
    number, counted = 0, 0
    while at >= 0:
        number += searched[counted:at].count("\n")
        if not (is_inner and is_inner[number]):
            yield number + 1, lines[number]
        counted = searched.find("\n", at)
        at = searched.find(wanted, counted) if counted >= 0 else -1


READING: Final = (
    FileTool(
        "file_read",
        "Read a text file of the workspace, with line numbers; all of it or some lines.",
        object_schema({"path": PATH, "first_line": _NUMBER, "lines": _NUMBER}, "path"),
        _read,
    ),
    FileTool("file_list", "List one folder.", object_schema({"path": _FOLDER}), _list),
    FileTool(
        "file_tree",
        "Show everything below a folder as a tree.",
        object_schema({"path": _FOLDER, "depth": {**_NUMBER, "maximum": 20}}),
        _tree,
    ),
    FileTool("file_info", "Kind, size and time of a file or folder.", object_schema({"path": PATH}), _info),
    FileTool(
        "file_search",
        "Find files by name (`glob`, where * also crosses folders), lines by a text they contain, or both.",
        object_schema(
            {"path": _FOLDER, "glob": text_schema(200), "text": text_schema(500), "ignore_case": {"type": "boolean"}}
        ),
        _search,
    ),
)


# The file tools that change something: file_write, file_edit, file_patch, file_delete, file_rename, and the two
# that go back and forth in the journal: file_undo, file_redo.


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
            raise ToolError(f"`old` is not in {path}: read it again and copy the piece exactly")
        if count > 1 and not arguments.get("all", False):
            raise ToolError(f"`old` is in {path} {count} times: give more lines around it, or set `all`")
        size = len(_encoded(text)) + count * (len(_encoded(new)) - len(_encoded(old)))
        if size > limits.FILE_BYTES_MAX:
            raise ToolError(f"{path}: a file may have at most {limits.FILE_BYTES_MAX} bytes, and this would be {size}")
        return put(workspace, "file_edit", path, _encoded(text.replace(old, new)))


def _patch(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    patches = parse_patch(arguments["patch"])
    if len(patches) > limits.PATCH_FILES_MAX:
        raise ToolError(f"a patch may change at most {limits.PATCH_FILES_MAX} files at a time")
    named = Counter(lock for patch in patches for lock in set(_paths(patch)))
    if twice := [name for name, times in named.items() if times > 1]:
        raise ToolError(f"the patch names {twice[0]} several times: put all hunks of a file below one header")
    with workspace.lock:
        changes: list[Change] = []
        budget, left = ComparisonBudget(), limits.PATCH_BYTES_MAX
        for patch in patches:
            made = _patch_changes(workspace, patch, budget)
            left -= sum(len(side or b"") for change in made for side in _sides(change))
            if left < 0:
                raise ToolError(
                    f"the patch changes files of more than {limits.PATCH_BYTES_MAX} bytes: patch them in parts"
                )
            changes += made
        names = ", ".join(patch.target or patch.source or "" for patch in patches)
        Journal(workspace).make(FileStep(f"file_patch {names}", tuple(changes)))
    return f"Patched {names}."


def _sides(change: Change) -> tuple[bytes | None, ...]:
    return (change.before, change.after) if isinstance(change, Written) else ()


def _patch_changes(workspace: Workspace, patch: FilePatch, budget: ComparisonBudget) -> tuple[Change, ...]:
    before = workspace.read(patch.source) if patch.source else None
    name = patch.source or patch.target or ""
    after = _encoded(apply_hunks(name, text_of(name, before or b""), patch.hunks, budget))
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
        Journal(workspace).make(FileStep(f"file_delete {path}", (change,)))
    return f"Deleted {path}."


def _rename(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    source, target = arguments["path"], arguments["to"]
    with workspace.lock:
        Journal(workspace).make(FileStep(f"file_rename {source} to {target}", (Moved(source, target),)))
    return f"Renamed {source} to {target}."


def _undo(workspace: Workspace, _arguments: Mapping[str, Any]) -> str:
    return f"Took back: {Journal(workspace).undo().title}"


def _redo(workspace: Workspace, _arguments: Mapping[str, Any]) -> str:
    return f"Made again: {Journal(workspace).redo().title}"


def put(workspace: Workspace, tool: str, path: str, content: bytes) -> str:
    """Write a file through the journal."""
    with workspace.lock:
        before = workspace.read_if_there(path)
        Journal(workspace).make(FileStep(f"{tool} {path}", (Written(path, before, content),)))
    return f"{'Wrote' if before is None else 'Changed'} {path} ({len(content)} bytes)."


def _encoded(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ToolError("the text has half characters (lone surrogates)") from error


def _changing(name: str, description: str, schema: Mapping[str, Any], work: Work, locks: Locks = _ITS_PATH) -> FileTool:
    return FileTool(name, description, schema, work, locks, changes_files=True, instead=_INSTEAD)


WRITING: Final = (
    _changing(
        "file_write",
        "Write a whole text file, a new one or over an old one; missing folders are made.",
        object_schema(
            {"path": PATH, "content": {"type": "string", "maxLength": limits.FILE_BYTES_MAX}}, "path", "content"
        ),
        _write,
    ),
    _changing(
        "file_edit",
        "Replace a piece of a text file. `old` must be in the file exactly once, unless `all` is true.",
        object_schema(
            {
                "path": PATH,
                "old": {"type": "string", "minLength": 1},
                "new": {"type": "string"},
                "all": {"type": "boolean"},
            },
            *("path", "old", "new"),
        ),
        _edit,
    ),
    _changing(
        "file_patch",
        "Apply a unified diff to one or more files: all of it or nothing. /dev/null makes or deletes a file.",
        object_schema({"patch": {"type": "string", "minLength": 1}}, "patch"),
        _patch,
        _patched_paths,
    ),
    _changing("file_delete", "Delete a file or an empty folder.", object_schema({"path": PATH}, "path"), _delete),
    _changing(
        "file_rename",
        "Move or rename a file or folder to a name that is free.",
        object_schema({"path": PATH, "to": PATH}, "path", "to"),
        _rename,
        path_locks("path", "to"),
    ),
    _changing("file_undo", "Take back the newest change made by a file tool.", object_schema({}), _undo, _the_journal),
    _changing("file_redo", "Make the change again that file_undo took back.", object_schema({}), _redo, _the_journal),
)
