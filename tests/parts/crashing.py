"""A role of ours that dies, or stops for a while, right behind an `await` that the test names.

    python -m tests.parts.crashing HOST MODULE [POINT PASSAGE SIGNAL]

The modules in `WATCHED` are compiled with a check behind every `await`, at the start of every body of an
`async for` and `async with`, and behind it. The points are read off the source, so that a new `await` is a
new point. A line `POINT PASSAGE SIGNAL` on standard input arms one: at the given passage from then on the
process sends itself that signal. Each point that is passed is written to `HOST.passed` in the working
directory, once, and again after a line `forget`.

HOST is what the process takes for the name of its machine. LIMITS in the environment, such as
`SHUTDOWN_GRACE_S=2`, changes bounds of `gateway.limits` and of `agent.limits`.
"""

from __future__ import annotations

import ast
import builtins
import gc
import importlib.util
import os
import runpy
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final, TextIO

from agent import limits as agent_limits
from gateway import limits
from gateway.bus import load_redis

WATCHED: Final = {
    "agent": (
        "agent.runtime.worker",
        "agent.runtime.run",
        "gateway.tasks",
        "agent.runtime.relay",
        "agent.runtime.control",
        "agent.features.schedules.service",
        "agent.subagents.wakes",
        "agent.features.accounts",
    ),
    "channels": (
        "channels.core.delivery",
        "channels.core.attempt",
        "channels.core.rate_limit",
        "gateway.tasks",
        "channels.core.preview",
        "channels.core.places",
        "channels.core.intake",
        "channels.core.backfill",
        "channels.telegram.connection",
        "gateway.bus.deliveries",
    ),
}
"""Which modules have crash points, by the role that runs them."""

SUB_AGENTS: Final = ("agent.subagents.dispatcher", "agent.subagents.tools", "agent.subagents.runs")
"""These have some, too; an ordinary conversation passes none of them."""

_CHECK: Final = "__crash_point__"
_STDIN: Final = 0


@dataclass(frozen=True, slots=True)
class Point:
    """One place behind an `await`. `name` is stable as long as its function has the same awaits before it."""

    name: str
    line: int
    source: str

    def __str__(self) -> str:
        return f"{self.name} (line {self.line}: {self.source})"


class _Marking(ast.NodeTransformer):
    """Puts the check in and keeps the list of the points."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._scope: list[str] = []
        self._counts: dict[str, int] = {}
        self.points: list[Point] = []

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self._inside(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._inside(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._inside(node)

    def visit_Await(self, node: ast.Await) -> ast.AST:
        source = ast.unparse(node)
        self.generic_visit(node)
        return ast.copy_location(self._check(node, source, node), node)

    def visit_AsyncFor(self, node: ast.AsyncFor) -> ast.AST | list[ast.stmt]:
        return self._around(node, f"async for … in {ast.unparse(node.iter)}")

    def visit_AsyncWith(self, node: ast.AsyncWith) -> ast.AST | list[ast.stmt]:
        return self._around(node, f"async with {', '.join(ast.unparse(item) for item in node.items)}")

    def _inside(self, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        self._scope.append(node.name)
        self.generic_visit(node)
        self._scope.pop()
        return node

    def _around(self, node: ast.AsyncFor | ast.AsyncWith, source: str) -> list[ast.stmt]:
        entered = ast.Expr(self._check(node, f"{source}: entered"))
        self.generic_visit(node)
        node.body.insert(0, ast.copy_location(entered, node))
        left = ast.Expr(self._check(node, f"{source}: left"))
        return [node, ast.copy_location(left, node)]

    def _check(self, node: ast.stmt | ast.expr, source: str, value: ast.expr | None = None) -> ast.Call:
        scope = ".".join(self._scope)
        number = self._counts[scope] = self._counts.get(scope, 0) + 1
        point = Point(f"{self._module}:{scope}:{number}", node.lineno, " ".join(source.split()))
        self.points.append(point)
        arguments: list[ast.expr] = [ast.Constant(point.name), *([value] if value is not None else [])]
        return ast.Call(ast.Name(_CHECK, ast.Load()), arguments, [])


def _marked(module: str, source: bytes | str) -> tuple[ast.Module, list[Point]]:
    marking = _Marking(module)
    tree = marking.visit(ast.parse(source))
    return ast.fix_missing_locations(tree), marking.points


def points_of(module: str) -> Sequence[Point]:
    """Every crash point of a module, in the order of its source."""
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return _marked(module, Path(spec.origin).read_bytes())[1]


def all_points(role: str) -> Sequence[Point]:
    """Every crash point of a role."""
    return [point for module in WATCHED[role] for point in points_of(module)]


class _Loader(SourceFileLoader):
    """Compiles with the checks in, past the bytecode cache."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        tree, _ = _marked(fullname, self.get_data(path))
        code = compile(tree, path, "exec", dont_inherit=True)
        assert isinstance(code, CodeType)
        return code


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not any(fullname in modules for modules in (*WATCHED.values(), SUB_AGENTS)):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(fullname, spec.origin)
        return spec


@dataclass(slots=True)
class _Trap:
    """What is armed in this process."""

    diary: TextIO
    point: str = ""
    passages: int = 0
    number: int = signal.SIGKILL
    known: set[str] = field(default_factory=set)

    def obey(self, words: Sequence[str]) -> None:
        if words == ["forget"]:
            self.known.clear()
            return
        point, passages, number = words
        self.point, self.passages, self.number = "", int(passages), int(number)
        self.point = point  # last: another thread looks at it

    def passed(self, point: str, value: Any = None) -> Any:
        """Behind every await; gives back what the await gave."""
        if point not in self.known:
            self.known.add(point)
            self.diary.write(f"{point}\n")
        if point == self.point:
            self.passages -= 1
            if self.passages <= 0:
                self.point = ""
                os.kill(os.getpid(), self.number)
        return value


def _obey(trap: _Trap) -> None:
    """Do what standard input says; end with whoever holds its other end."""
    with os.fdopen(_STDIN, closefd=False) as lines:
        for line in lines:
            trap.obey(line.split())
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Become the module named in the arguments, with traps in it."""
    _, host, module, *words = sys.argv
    for name, _, value in (pair.partition("=") for pair in os.environ.get("LIMITS", "").split()):
        owner = limits if hasattr(limits, name) else agent_limits
        setattr(owner, name, float(value))  # before a module of the role has taken its own copy
    gc.disable()  # until the role has loaded, as under the supervisor
    load_redis()
    from gateway.bus import heartbeat  # noqa: PLC0415 - it, too, takes copies of the limits

    socket.gethostname = lambda: host
    heartbeat._machine = lambda: host  # type: ignore[assignment]  # another machine to whoever compares
    with Path(f"{host}.passed").open("a", buffering=1) as diary:
        trap = _Trap(diary)
        if words:
            trap.obey(words)
        setattr(builtins, _CHECK, trap.passed)
        sys.meta_path.insert(0, _Finder())
        threading.Thread(target=_obey, args=(trap,), name="trap", daemon=True).start()
        sys.argv = [module]
        runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
