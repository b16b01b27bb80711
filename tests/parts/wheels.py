"""Trivet as a wheel of this tree or of an earlier commit, and installed like one.

What a wheel needs is lent to it by the environment of the tests: only Trivet itself is installed, without a network.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = ("gateway", "channels", "agent", "deploy", "pyproject.toml", "README.md", "LICENSE")
_UV: Final = (sys.executable, "-m", "uv", "--quiet", "--offline")


def wheel_of_tree(folder: Path) -> Path:
    """Build what lies here, of a copy: building writes beside the source."""
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder / name)
    return _built(folder)


def wheel_of_commit(commit: str, folder: Path) -> Path:
    """Build what a commit of this repository holds."""
    packed = subprocess.run(("git", "archive", commit, *SOURCES), cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return _built(folder)


def environment_at(home: Path, *, without: tuple[str, ...] = ()) -> Path:
    """Make an environment that may import what ours has installed, but Trivet and packages whose names begin with
    `without`; its interpreter."""
    subprocess.run((*_UV, "venv", "--python", sys.executable, str(home)), check=True)
    lent = home / "lent"
    lent.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not entry.name.startswith(("__editable__", "trivet", *without)):
            (lent / entry.name).symlink_to(entry)
    [packages] = home.glob("lib/python*/site-packages")
    (packages / "lent.pth").write_text(f"{lent}\n")
    return home / "bin" / "python"


def install(wheel: Path, python: Path) -> None:
    """Install the wheel, in place of the one that is there."""
    command = (*_UV, "pip", "install", "--no-deps", "--reinstall", "--python", str(python), str(wheel))
    subprocess.run(command, check=True)


def _built(folder: Path) -> Path:
    build = ("build", "--quiet", "--wheel", "--no-build-isolation", "--out-dir", str(folder / "dist"), str(folder))
    subprocess.run((sys.executable, "-m", "uv", *build), check=True, cwd=folder)
    [built] = (folder / "dist").glob("*.whl")
    return built
