"""`make bench-install`: how large an installation is, and how long it takes with everything in uv's cache.

The goal for Telegram alone is 300 MB and 25 s. Bytecode is counted apart: Python writes it at the first start of what
it loads, an image compiles all of it.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from rich.console import Console
from rich.table import Table

ROOT: Final = Path(__file__).parents[2]
_UV: Final = (sys.executable, "-m", "uv", "--quiet")
_LOCK: Final = ("--constraint", str(ROOT / "requirements.lock"))
_KINDS: Final = {
    "Telegram alone (LIGHT=1)": ("", ("--override", str(ROOT / "deploy" / "light.txt"))),
    "Telegram alone, every provider": ("", ()),
    "all": ("[all]", ()),
}
_SHOWN: Final = 8
_MB: Final = 1_000_000


def megabytes(folder: Path) -> float:
    """Add up what the files of a folder take on the disk, each once."""
    blocks = {(found.st_dev, found.st_ino): found.st_blocks for found in map(Path.lstat, folder.rglob("*"))}
    return sum(blocks.values()) * 512 / _MB


def main() -> None:
    """Install each kind into a new environment, twice: the first fills the cache."""
    table = Table("installed", "seconds, warm", "MB", "MB with bytecode", "the largest parts, in MB")
    with TemporaryDirectory() as place:
        wheels = Path(place, "wheels")
        _uv("build", "--wheel", "--no-build-isolation", "--out-dir", str(wheels), str(ROOT))
        [wheel] = wheels.glob("*.whl")
        for name, (extras, options) in _KINDS.items():
            _install(Path(place, "first"), f"{wheel}{extras}", options)
            began_s = time.monotonic()
            folder = Path(place, name)
            _install(folder, f"{wheel}{extras}", options)
            took_s, size = time.monotonic() - began_s, megabytes(folder)
            [packages] = folder.glob("lib/python*/site-packages")
            largest = sorted(((megabytes(each), each.name) for each in packages.iterdir()), reverse=True)[:_SHOWN]
            subprocess.run([folder / "bin" / "python", "-m", "compileall", "-q", packages], check=False)
            parts = ", ".join(f"{each} {part:.0f}" for part, each in largest)
            table.add_row(name, f"{took_s:.1f}", f"{size:.0f}", f"{megabytes(folder):.0f}", parts)
    Console(width=140).print(table)


def _install(folder: Path, what: str, options: tuple[str, ...]) -> None:
    """Copy, as on a disk that the cache is not on: linked files would weigh nothing."""
    _uv("venv", "--clear", str(folder))
    python = str(folder / "bin" / "python")
    _uv("pip", "install", "--link-mode", "copy", "--python", python, *_LOCK, *options, what)


def _uv(*words: str) -> None:
    subprocess.run([*_UV, *words], check=True)


if __name__ == "__main__":
    main()
