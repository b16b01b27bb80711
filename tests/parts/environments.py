"""Python environments beside ours, for what cannot live in our lock: made at first use from a list with hashes."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path


def interpreter(pinned: Path) -> Path:
    """The interpreter of the environment that the lock file `pinned` describes. Raises `CalledProcessError` where it
    cannot be installed."""
    home = Path(sys.prefix) / "beside" / f"{pinned.stem}-{hashlib.sha256(pinned.read_bytes()).hexdigest()[:12]}"
    python = home / "bin" / "python"
    if not python.exists():
        making = home.with_name(f"{home.name}.{os.getpid()}")
        subprocess.run((sys.executable, "-m", "venv", "--without-pip", making), check=True)
        uv = Path(sys.executable).with_name("uv")
        install = (uv, "pip", "sync", "--quiet", "--require-hashes", "--python", making / "bin" / "python", pinned)
        subprocess.run(install, check=True)
        making.rename(home)
    return python
