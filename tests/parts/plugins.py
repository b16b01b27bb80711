"""Packages that add something to Trivet, as an installer would leave them: metadata and a module on the path."""

from __future__ import annotations

import importlib
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from gateway.plugins import API_VERSION, DECLARATION

EXAMPLES: Final = Path(__file__).parents[2] / "examples"
DECLARED: Final = f"{DECLARATION} = {API_VERSION}\n"


class Site:
    """A folder of installed packages, on the path as long as the test lasts."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._monkeypatch = monkeypatch
        folder.mkdir()
        monkeypatch.syspath_prepend(folder)

    def install(self, package: str, adds: Mapping[str, Mapping[str, str]], source: str | None = None) -> None:
        """Install a package with these entry points by group; `source` is that of its one module."""
        module = package.replace("-", "_")
        metadata = self._folder / f"{module}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = [line for group, names in adds.items() for line in (f"[{group}]", *map(" = ".join, names.items()))]
        (metadata / "entry_points.txt").write_text("\n".join(lines))
        if source is not None:
            (self._folder / f"{module}.py").write_text(source)
            self._monkeypatch.delitem(sys.modules, module, raising=False)
        importlib.invalidate_caches()

    def install_example(self, package: str) -> None:
        """Install one of `examples`, whose modules are on the path of all tests."""
        project = tomllib.loads((EXAMPLES / package / "pyproject.toml").read_text("utf-8"))["project"]
        self.install(package, project["entry-points"])


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """An empty one."""
    return Site(tmp_path / "site", monkeypatch)
