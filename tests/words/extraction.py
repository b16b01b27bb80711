"""Finds the sentences of the sources: what stands in the calls of `say`, `count`, `sentence` and `CommandSpec`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = ("gateway", "channels", "agent")
NOT_SPOKEN: Final = ("channels/emulators/", "gateway/demo/")
"""Where `say` is what an actor on a stage does."""

_COMMAND_FIELDS: Final = ("name", "about", "argument")
_COMMAND_SENTENCES: Final = ("about", "argument")


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
    found = (each for path in sources() for each in said_in(path.read_text("utf-8"), _name(path)))
    return [each for each in found if isinstance(each, Found)]


def unreadable() -> list[Unreadable]:
    """Where the sources say something that is no literal."""
    found = (each for path in sources() for each in said_in(path.read_text("utf-8"), _name(path)))
    return [each for each in found if isinstance(each, Unreadable)]


def said_in(source: str, path: str) -> Iterator[Found | Unreadable]:
    """What one source says."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            yield from _said(node, path)


def _said(call: ast.Call, path: str) -> Iterator[Found | Unreadable]:
    arguments = call.args
    match call.func:
        case ast.Attribute(attr="say") if arguments:
            yield from _one(arguments[0], path)
        case ast.Attribute(attr="count") if len(arguments) >= 3:
            one, many = map(_literal, arguments[:2])
            yield Found(one, many, path) if one and many else _no_literal(arguments[0], path)
        case ast.Name(id="sentence") if arguments:
            text = _literal(arguments[0])
            yield Found(text, "", path) if text else _no_literal(arguments[0], path)
        case ast.Name(id="CommandSpec"):
            named = dict(zip(_COMMAND_FIELDS, arguments, strict=False))
            named |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
            for node in (named[field] for field in _COMMAND_SENTENCES if field in named):
                yield from _one(node, path)


def _one(node: ast.expr, path: str) -> Iterator[Found | Unreadable]:
    text = _literal(node)
    if text:
        yield Found(text, "", path)
    elif text is None and not _is_sentence(node):
        yield _no_literal(node, path)


def _literal(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _is_sentence(node: ast.expr) -> bool:
    """A constant, an entry of one, or a field of the table of commands: made by `sentence`, or typed as one."""
    match node:
        case ast.Name(id=name):
            return name.isupper()
        case ast.Subscript(value=value):
            return _is_sentence(value)
        case ast.Attribute(value=ast.Name(id="notices" | "questions"), attr=name):
            return name.isupper()
        case ast.Attribute(attr="about" | "argument" | "own"):
            return True
    return False


def _no_literal(node: ast.expr, path: str) -> Unreadable:
    return Unreadable(path, node.lineno, ast.unparse(node))


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()
