"""Finds the sentences of the sources: what stands in the calls of `say`, `count`, `sentence`, and in some tables."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = ("gateway", "channels", "agent")
NOT_SPOKEN: Final = ("channels/emulators/", "gateway/ops/demo/")
"""Where `say` is what an actor on a stage does."""

_TABLES: Final = {
    "CommandSpec": {"about": 1, "argument": 2},
    "_admin_command": {"about": 1, "argument": 2},
    "ProfileRow": {"about": 1},
    "_profile_row": {"about": 1},
    **{error: {"own": 0} for error in ("Declined", "BadRule", "BadLimit", "NoSuchCode", "LockedOut")},
}
"""The rows of tables, and the errors, that hold sentences: in which fields, and where these stand in a call."""


@dataclass(frozen=True, slots=True)
class Found:
    """One sentence; `many` is its form for more than one, empty for a sentence without a number."""

    one: str
    many: str
    path: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A place where something is said that is no literal: it could not be translated."""

    path: str
    line: int
    said: str


def sources() -> Iterator[Path]:
    """Every file in which we could speak."""
    for package in SOURCES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if not path.relative_to(ROOT).as_posix().startswith(NOT_SPOKEN):
                yield path


def sentences() -> list[Found]:
    """Those of all sources, in their order."""
    return [each for each in _said_anywhere() if isinstance(each, Found)]


def unreadable() -> list[Unreadable]:
    """Where the sources say something that is no literal."""
    return [each for each in _said_anywhere() if isinstance(each, Unreadable)]


def said_in(source: str, path: str) -> Iterator[Found | Unreadable]:
    """What one source says."""
    nodes = list(ast.walk(ast.parse(source)))
    typed = {node.arg for node in nodes if isinstance(node, ast.arg) and _is_typed(node.annotation)}
    for node in nodes:
        if isinstance(node, ast.Call):
            yield from _said(node, path, typed)


@functools.cache
def _said_anywhere() -> tuple[Found | Unreadable, ...]:
    """Read once per process, which takes seconds; never while tests are only collected."""
    return tuple(each for path in sources() for each in said_in(path.read_text("utf-8"), _name(path)))


def _is_typed(annotation: ast.expr | None) -> bool:
    return isinstance(annotation, ast.Name) and annotation.id in ("Sentence", "LiteralString")


def _said(call: ast.Call, path: str, typed: Set[str]) -> Iterator[Found | Unreadable]:
    arguments = call.args
    match call.func:
        case ast.Attribute(attr="say") if arguments:
            yield from _one(arguments[0], path, typed)
        case ast.Attribute(attr="count") if len(arguments) >= 3:
            one, many = map(_literal, arguments[:2])
            yield Found(one, many, path) if one and many else _no_literal(arguments[0], path)
        case ast.Name(id="sentence") if arguments:
            text = _literal(arguments[0])
            yield Found(text, "", path) if text else _no_literal(arguments[0], path)
        case ast.Name(id=row) if row in _TABLES:
            named = {keyword.arg: keyword.value for keyword in call.keywords}
            for field, position in _TABLES[row].items():
                node = arguments[position] if position < len(arguments) else named.get(field)
                if node is not None:
                    yield from _one(node, path, typed)


def _one(node: ast.expr, path: str, typed: Set[str]) -> Iterator[Found | Unreadable]:
    text = _literal(node)
    if text:
        yield Found(text, "", path)
    elif text is None and not _is_sentence(node, typed):
        yield _no_literal(node, path)


def _literal(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _is_sentence(node: ast.expr, typed: Set[str]) -> bool:
    """A constant, an entry of one, what is typed as a `Sentence`, or a field of one of the tables."""
    match node:
        case ast.Name(id=name):
            return name.isupper() or name in typed
        case ast.IfExp(body=body, orelse=orelse):
            return _is_sentence(body, typed) and _is_sentence(orelse, typed)
        case ast.Subscript(value=value):
            return _is_sentence(value, typed)
        case ast.Attribute(value=ast.Name(id="notices"), attr=name):
            return name.isupper()
        case ast.Attribute(attr="about" | "argument" | "own"):
            return True
    return False


def _no_literal(node: ast.expr, path: str) -> Unreadable:
    return Unreadable(path, node.lineno, ast.unparse(node))


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()
