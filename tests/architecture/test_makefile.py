"""What `make` does, as it says itself."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")
def test_what_takes_the_checks_packages_away_says_that_they_are_gone() -> None:
    """Installing the lock anew leaves only what is in it: the stamp of what checks need beside that goes first, also
    where nothing follows that brings it back."""
    order = ("make", "--dry-run", "--what-if=requirements.lock", "test-llm")
    commands = subprocess.run(order, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    [gone] = [at for at, command in enumerate(commands) if command == "rm -f .venv/.checked"]
    [synced] = [at for at, command in enumerate(commands) if "uv pip sync" in command]
    assert gone < synced
    assert not any("checks.lock" in command for command in commands)
