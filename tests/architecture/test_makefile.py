"""What `make` does, as it says itself."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")


def commands_of(target: str) -> list[str]:
    """List what `make` would do for a target where the lock has changed."""
    order = ("make", "--dry-run", "--what-if=requirements.lock", target)
    return subprocess.run(order, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def test_what_takes_the_tools_away_says_that_they_are_gone() -> None:
    """Installing anew leaves only what Trivet runs on: the stamps of what is installed beside that go first, also where
    nothing follows that brings it back."""
    commands = commands_of("test-llm")
    [gone] = [at for at, command in enumerate(commands) if command == "rm -f .venv/.tools .venv/.checked"]
    [exact] = [at for at, command in enumerate(commands) if "uv pip install" in command and "--exact" in command]
    [tools] = [at for at, command in enumerate(commands) if "--requirements requirements.lock" in command]
    assert gone < exact < tools
    assert not any("checks.lock" in command for command in commands)


@pytest.mark.parametrize("target", ["setup", "demo", "up", "install"])
def test_who_only_uses_it_gets_no_tools(target: str) -> None:
    """The lock names them, too: there it only says which versions there are."""
    commands = commands_of(target)
    assert any("requirements.lock" in command for command in commands)
    assert not any("--requirements" in command for command in commands)
