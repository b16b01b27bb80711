"""Weigh the product's code: what `make stats` prints and `test_ratchets.py` holds.

Every figure is read from the sources alone (files that git tracks), so that two commits can be compared.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from typing_extensions import TypeIs

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("gateway", "channels", "agent")
CODE_SUFFIXES: Final = (".py", ".lua", ".js", ".css", ".html")
"""What counts as a line of the product: code in every language, but no catalogue, prompt or rule file."""

FUNCTION_LINES_MAX: Final = 50

VERBS: Final = frozenset((Path(__file__).parent / "verbs.txt").read_text("utf-8").split())
"""First words of a docstring that begins with a verb. A verb that is missing there is added."""


@dataclass(frozen=True)
class Stats:
    """Figures of one tree. Shares are percentages; the fields' order is the order of the printed table."""

    files: int
    """Python files of the product."""
    lines: int
    """Lines of the product in all languages."""
    files_per_10k: float
    """Python files for each 10,000 lines of Python."""
    one_importer: float
    """Share of modules that exactly one other module imports."""
    import_lines: float
    """Share of Python lines that are part of an import."""
    duplicate_classes: int
    """Public class names that are defined more than once."""
    methods_run: int
    methods_close: int
    no_verb: float
    """Share of functions' docstrings that do not begin with a verb."""
    comment_lines: float
    """Share of Python lines that hold a comment."""
    forwarders: int
    """Methods that do nothing but call one other with their own arguments."""
    protocols: int
    lone_protocols: int
    """Protocols with at most one class of the product that has all their methods."""
    long_functions: float
    """Share of functions with more than 50 lines."""


@dataclass(frozen=True)
class Module:
    name: str
    source: str
    tree: ast.Module


def read_modules(root: Path = ROOT) -> list[Module]:
    """Read every tracked Python file of the product, packages' `__init__` included."""
    found = []
    for path in tracked(root):
        if path.suffix == ".py":
            source = (root / path).read_text("utf-8")
            parts = path.with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found.append(Module(name, source, ast.parse(source)))
    return found


def tracked(root: Path) -> list[Path]:
    """List the product's files that git tracks; all files where there is no git (an unpacked archive)."""
    command = ("git", "ls-files", "-z", *PACKAGES)
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        found = [path for package in PACKAGES for path in (root / package).rglob("*")]
        return [path.relative_to(root) for path in found if path.is_file() and "__pycache__" not in path.parts]
    names = [Path(name) for name in done.stdout.decode().split("\0") if name]
    return [name for name in names if (root / name).is_file()]


def collect_stats(root: Path = ROOT) -> Stats:
    """Measure the tree at `root`."""
    modules = read_modules(root)
    python = sum(count_lines(module.source) for module in modules)
    everything = [path for path in tracked(root) if path.suffix in CODE_SUFFIXES]
    functions = [node for module in modules for node in ast.walk(module.tree) if is_function(node)]
    classes = [node for module in modules for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)]
    methods = [node for each in classes for node in each.body if is_function(node)]
    documented = [text for node in functions if (text := ast.get_docstring(node))]
    public = Counter(each.name for each in classes if not each.name.startswith("_"))
    protocols = [each for each in classes if is_protocol(each)]
    return Stats(
        files=len(modules),
        lines=sum(count_lines((root / path).read_text("utf-8")) for path in everything),
        files_per_10k=share(len(modules), python, of=10_000),
        one_importer=share(sum(count == 1 for count in importers(modules).values()), len(modules)),
        import_lines=share(sum(import_lines(module.tree) for module in modules), python),
        duplicate_classes=sum(count > 1 for count in public.values()),
        methods_run=sum(node.name == "run" for node in methods),
        methods_close=sum(node.name == "close" for node in methods),
        no_verb=share(sum(not begins_with_verb(text) for text in documented), len(documented)),
        comment_lines=share(sum(comment_lines(module.source) for module in modules), python),
        forwarders=sum(is_forwarder(node) for node in methods),
        protocols=len(protocols),
        lone_protocols=sum(implementations(each, classes) <= 1 for each in protocols),
        long_functions=share(sum(length(node) > FUNCTION_LINES_MAX for node in functions), len(functions)),
    )


Function = ast.FunctionDef | ast.AsyncFunctionDef


def is_function(node: ast.AST) -> TypeIs[Function]:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def share(part: int, whole: int, *, of: int = 100) -> float:
    """Say how much of the whole a part is, rounded to one decimal."""
    return round(of * part / whole, 1) if whole else 0.0


def count_lines(source: str) -> int:
    return len(source.splitlines())


def length(node: Function) -> int:
    """Count a function's lines, its docstring included."""
    return (node.end_lineno or node.lineno) - node.lineno + 1


def begins_with_verb(docstring: str) -> bool:
    """Tell whether the first word is a verb in its plain form ("Return", not "Returns" or "The")."""
    word = re.match(r"[A-Za-z]+", docstring)
    return word is not None and word[0].lower() in VERBS


def comment_lines(source: str) -> int:
    """Count lines that hold a comment, behind code or alone."""
    lines = source.splitlines(keepends=True)
    return sum(token.type == tokenize.COMMENT for token in tokenize.generate_tokens(iter(lines).__next__))


def import_lines(tree: ast.Module) -> int:
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))
    return sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in nodes)


def importers(modules: list[Module]) -> dict[str, int]:
    """Count for each module how many others of the product import it; `__init__` files are no modules here."""
    names = {module.name for module in modules}
    by: dict[str, set[str]] = {module.name: set() for module in modules if module.source.strip()}
    for module in modules:
        for imported in imported_names(module.tree):
            target = imported if imported in names else imported.rpartition(".")[0]
            if target in by and target != module.name:
                by[target].add(module.name)
    return {name: len(who) for name, who in by.items()}


def imported_names(tree: ast.Module) -> Iterator[str]:
    """Yield the dotted names that a module imports; `from a import b` as `a.b`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_protocol(node: ast.ClassDef) -> bool:
    return any(getattr(base, "id", getattr(base, "attr", "")) == "Protocol" for base in map(unsubscripted, node.bases))


def unsubscripted(node: ast.expr) -> ast.expr:
    return node.value if isinstance(node, ast.Subscript) else node


def implementations(protocol: ast.ClassDef, classes: list[ast.ClassDef]) -> int:
    """Count the product's classes that define every method of a Protocol."""
    wanted = {node.name for node in protocol.body if is_function(node)}
    others = (each for each in classes if not is_protocol(each))
    return sum(bool(wanted) and wanted <= {node.name for node in each.body if is_function(node)} for each in others)


def is_forwarder(node: Function) -> bool:
    """Tell whether a method's only statement hands its own arguments on, with nothing but held things beside them."""
    body = [each for each in node.body if not is_docstring(each)]
    if len(body) != 1 or not isinstance(body[0], ast.Return | ast.Expr) or node.name.startswith("__"):
        return False
    call = body[0].value.value if isinstance(body[0].value, ast.Await) else body[0].value
    if not isinstance(call, ast.Call):
        return False
    arguments = node.args
    own = [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)][1:]
    own += [each.arg for each in (arguments.vararg, arguments.kwarg) if each]
    values = [*call.args, *(keyword.value for keyword in call.keywords)]
    if not own and not is_held(call.func):
        return False
    return [plain(each) for each in values if not is_held(each)] == own


def is_held(node: ast.expr) -> bool:
    """Tell whether this is an attribute of `self`, or of one of those: `self.x`, `self.x.y`."""
    while isinstance(node, ast.Attribute):
        node = node.value
        if isinstance(node, ast.Name):
            return node.id == "self"
    return False


def is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def plain(node: ast.expr) -> str | None:
    """Name the variable that an argument is, starred or not."""
    inner = node.value if isinstance(node, ast.Starred) else node
    return inner.id if isinstance(inner, ast.Name) else None


def print_table(write: Callable[[str], object], stats: Stats) -> None:
    """Print one figure a line."""
    for field in fields(Stats):
        write(f"{field.name:<20} {getattr(stats, field.name):>10,}\n")


if __name__ == "__main__":
    print_table(sys.stdout.write, collect_stats())
