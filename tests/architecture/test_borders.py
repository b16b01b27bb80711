"""Borders that a later line of code could forget: what starts processes, opens databases, prints."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
STARTERS = {"create_subprocess_exec", "create_subprocess_shell", "Popen", "check_output", "check_call"}
INHERITING = {"gateway/ops/supervisor/chat.py": "the terminal of `trivet chat` is this process with another face"}
PRINTERS = {"pprint", "print", "print_exc", "print_exception", "print_stack"}


def calls(source: str, names: set[str]) -> Iterator[ast.Call]:
    if not any(name in source for name in names):
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in names:
                yield node


def keywords(call: ast.Call) -> set[str | None]:
    return {keyword.arg for keyword in call.keywords}


def modules() -> Iterator[tuple[str, str]]:
    for package in ("gateway", "channels", "agent"):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith("channels/emulators/"):
                yield name, path.read_text("utf-8")


def test_whoever_starts_a_process_says_what_it_may_know() -> None:
    """Without `env` a child gets every key and token of ours."""
    found = {name for name, source in modules() for call in calls(source, STARTERS) if "env" not in keywords(call)}
    assert found == set(INHERITING)


def test_no_database_tells_what_it_was_given() -> None:
    """SQLAlchemy's errors quote a statement's parameters unless told not to."""
    engines = {"create_async_engine", "create_engine"}
    opened = [(name, call) for name, source in modules() for call in calls(source, engines)]
    assert opened
    assert [name for name, call in opened if "hide_parameters" not in keywords(call)] == []


def test_nothing_prints_past_the_logs() -> None:
    found = {
        name
        for name, source in modules()
        for call in calls(source, PRINTERS)
        if not (isinstance(call.func, ast.Attribute) and "console" in ast.unparse(call.func.value))
    }
    assert found == set()


def test_the_rules_see_a_violation() -> None:
    assert list(calls("asyncio.create_subprocess_exec('x')", STARTERS))
    assert list(calls("print('x')", PRINTERS))
    assert "env" in keywords(next(calls("Popen(['x'], env={})", STARTERS)))


PROOFS = ("channels/telegram/connection.py", "channels/slack/client.py")
"""Where what somebody sends is compared with what only the platform knows."""


def names_compared(source: str) -> set[str]:
    """The names and attributes that `==` and its like look at."""
    compared = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Compare))
    sides = (side for node in compared for side in (node.left, *node.comparators))
    return {getattr(side, "id", getattr(side, "attr", "")) for side in sides}


def test_what_proves_who_calls_is_compared_in_constant_time() -> None:
    """Whoever measures an ordinary comparison learns the secret letter by letter."""
    for module in PROOFS:
        source = (ROOT / module).read_text(encoding="utf-8")
        assert "hmac.compare_digest(" in source
        assert not {"_secret", "secret", "signature", "expected"} & names_compared(source), module
