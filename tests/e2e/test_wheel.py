"""The wheel, as somebody installs it who has no clone."""

from __future__ import annotations

import os
import subprocess
import tomllib
import zipfile
from pathlib import Path
from urllib.parse import unquote

import pytest

from gateway.config.derived import EXTRAS
from tests.parts.wheels import ROOT, environment_at, install, wheel_of_tree

NOT_IN_A_WHEEL = {"kubernetes", "light.txt"}
"""Of `deploy/`: manifests are applied from a clone, and the other is for `make install` alone."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build it."""
    return wheel_of_tree(tmp_path_factory.mktemp("source"))


def test_it_holds_every_file_that_the_product_reads_and_the_manuals_name(wheel: Path) -> None:
    data = f"{'-'.join(wheel.name.split('-')[:2])}.data/data/share/trivet/"
    with zipfile.ZipFile(wheel) as unpacked:
        names = set(unpacked.namelist())
    sources = {
        str(path.relative_to(ROOT))
        for package in ("gateway", "channels", "agent")
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    deployed = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "deploy").rglob("*")
        if path.is_file() and not NOT_IN_A_WHEEL.intersection(path.parts)
    }
    assert sources - names == set()
    assert {"deploy/slack-manifest.yaml", "deploy/compose.yaml", "deploy/systemd/trivet.service"} <= deployed
    assert {f"{data}{path}" for path in deployed} - names == set()


@pytest.mark.long
def test_an_installed_one_finds_its_files_and_says_which_extra_is_missing(wheel: Path, tmp_path: Path) -> None:
    """Here without what it needs, which is lent to it; not so the SDK of Discord, which a light installation lacks."""
    python = environment_at(tmp_path / "venv", without=("discord",))
    install(wheel, python)

    def said(*arguments: str) -> str:
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        command = [str(python.with_name("trivet")), *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False
        ).stderr

    assert "slash_commands:" in unquote(said("up", "--slack-bot", "xoxb-1"))
    assert "channels.discord needs the package discord" in said("up", "--discord", "x")
    assert "install `trivet[discord]`" in said("up", "--discord", "x")


def test_every_extra_that_is_named_is_there_and_all_means_them() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    [everything] = extras["all"]
    assert {extra for _, extra in EXTRAS.values()} <= set(everything.removeprefix("trivet[").rstrip("]").split(","))
    assert set(everything.removeprefix("trivet[").rstrip("]").split(",")) <= extras.keys()
