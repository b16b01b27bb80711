"""The file tools that change nothing: file_read, file_list, file_tree, file_info, file_search."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any, Final

from agent.limits import (
    FILE_PATH_CHARS_MAX,
    LISTED_FILES_MAX,
    READ_LINES_MAX,
    SEARCH_BYTES_MAX,
    SEARCH_HITS_MAX,
    SEARCH_LINE_CHARS_MAX,
    SEARCH_S,
)
from agent.tools.files.content import path_locks, text_of
from agent.tools.files.file_tool import FileTool
from agent.tools.files.workspace import Listed, Workspace
from gateway.contracts.errors import ToolError
from gateway.scrub.cutting import KEY_MARK, head, key_starts

PATH: Final = {"type": "string", "maxLength": FILE_PATH_CHARS_MAX, "description": "Relative to the workspace."}
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
    shown = lines[first - 1 : min(last, first - 1 + READ_LINES_MAX)]
    numbered = [f"{number:>6}  {line}" for number, line in enumerate(shown, first)]
    if (next_line := first + len(shown)) <= last:
        numbered.append(f"… {last - next_line + 1} more lines: read on with first_line={next_line}")
    return "\n".join(numbered) or f"{path} is empty"


def _list(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    entries = workspace.entries(arguments.get("path", ""))
    shown = [_row(entry) for entry in entries]
    if len(entries) == LISTED_FILES_MAX:
        shown.append(f"… only the first {LISTED_FILES_MAX}")
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
        if len(shown) == LISTED_FILES_MAX:
            shown.append(f"… only the first {LISTED_FILES_MAX}")
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
        if len(hits) == SEARCH_HITS_MAX:
            hits.append(f"… more than {SEARCH_HITS_MAX} hits: search for something more special")
            break
        hits.append(hit)
    return "\n".join(hits) or "Nothing matches."


def _hits(workspace: Workspace, arguments: Mapping[str, Any]) -> Iterator[str]:
    ignores_case = arguments.get("ignore_case", False)
    text = arguments.get("text", "")
    wanted = text.casefold() if ignores_case else text
    left, give_up_at_s = SEARCH_BYTES_MAX, time.monotonic() + SEARCH_S
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
            yield f"{entry.path}:{number}: {head(line.strip(), SEARCH_LINE_CHARS_MAX)}"


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
        {
            "type": "object",
            "properties": {
                "path": PATH,
                "first_line": {"type": "integer", "minimum": 1},
                "lines": {"type": "integer", "minimum": 1},
            },
            "required": ["path"],
        },
        _read,
        path_locks("path"),
    ),
    FileTool(
        "file_list",
        "List one folder.",
        {"type": "object", "properties": {"path": _FOLDER}},
        _list,
        path_locks("path"),
    ),
    FileTool(
        "file_tree",
        "Show everything below a folder as a tree.",
        {
            "type": "object",
            "properties": {"path": _FOLDER, "depth": {"type": "integer", "minimum": 1, "maximum": 20}},
        },
        _tree,
        path_locks("path"),
    ),
    FileTool(
        "file_info",
        "Kind, size and time of a file or folder.",
        {"type": "object", "properties": {"path": PATH}},
        _info,
        path_locks("path"),
    ),
    FileTool(
        "file_search",
        "Find files by name (`glob`, where * also crosses folders), lines by a text they contain, or both.",
        {
            "type": "object",
            "properties": {
                "path": _FOLDER,
                "glob": {"type": "string", "minLength": 1, "maxLength": 200},
                "text": {"type": "string", "minLength": 1, "maxLength": 500},
                "ignore_case": {"type": "boolean"},
            },
        },
        _search,
        path_locks("path"),
    ),
)
