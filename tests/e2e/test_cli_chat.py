"""`trivet chat`: a talk in the terminal, with nothing configured and nothing running."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil


def talk(data_dir: Path, said: str) -> subprocess.CompletedProcess[str]:
    """What `trivet chat` shows for this input."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("TRIVET_")}
    command = [sys.executable, "-m", "gateway", "chat"]
    environ |= {"TRIVET_DATA_DIR": str(data_dir), "TRIVET_AGENT__MODEL": "demo/scripted"}
    return subprocess.run(
        command, input=said, env=environ, cwd=data_dir, capture_output=True, text=True, check=False, timeout=90
    )


def test_a_talk_brings_its_own_agent_and_is_remembered(tmp_path: Path) -> None:
    """The second talk goes on where the first one ended; nothing keeps running between them."""
    first = talk(tmp_path, "say the first thing\n")
    assert (first.returncode, first.stderr) == (0, "")
    assert "the first thing" in first.stdout
    second = talk(tmp_path, "history\n")
    assert "1. say the first thing" in second.stdout
    left = [process for process in psutil.process_iter(["cmdline"]) if str(tmp_path) in str(process.info["cmdline"])]
    assert left == []
