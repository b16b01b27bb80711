"""`trivet demo --headless`: everything together, as `make demo` runs it. `--emulators`: the platforms alone."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import psutil
import pytest

from gateway.config import load_settings
from gateway.ops.demo.__main__ import SECRET

PLATFORMS = ("telegram", "discord", "slack")


@pytest.mark.parametrize("optimize", ["", "2"])
@pytest.mark.long_on("2")
async def test_every_reply_comes_on_every_platform_and_nothing_is_left_running(optimize: str, tmp_path: Path) -> None:
    """The transcript shows places, session keys and titles; the secret is nowhere in it but in what was typed. Nothing
    depends on an `assert` or on a docstring, which Python leaves out at `-OO`."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path), "PYTHONOPTIMIZE": optimize}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", "demo", "--headless"), env=environ, cwd=tmp_path, stdout=PIPE, stderr=PIPE
    )
    out, err = (text.decode() for text in await process.communicate())
    assert process.returncode == 0, err + out
    for platform in PLATFORMS:
        assert f"=== {platform} ===" in out
        keys = re.findall(rf"^session ({platform}:\S+) .* title: (.+)$", out, re.MULTILINE)
        assert len(keys) >= 5
        assert all(title != "New Chat" for _, title in keys)
    answers = [line for line in out.splitlines() if "] bot" in line]
    assert not any(SECRET in line for line in answers)
    assert any("[redacted:" in line for line in answers)
    assert not [p for p in psutil.process_iter(["environ"]) if (p.info["environ"] or {}).get("HOME") == str(tmp_path)]
    assert not await asyncio.to_thread(lambda: list(tmp_path.glob("trivet-demo-*")))


async def test_what_the_emulators_print_takes_a_trivet_to_them_and_away_from_a_real_one(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", "demo", "--emulators"), cwd=tmp_path, stdout=PIPE, stderr=PIPE
    )
    assert process.stderr is not None
    assert (await process.stderr.readline()).startswith(b"Playground: http://127.0.0.1:")
    process.terminate()
    printed, _ = await process.communicate()
    assert process.returncode == 0
    reads = ("/bin/sh", "-c", f"{printed.decode()}\nenv")
    told = subprocess.check_output(reads, cwd=tmp_path, env={}, text=True)  # noqa: ASYNC221 - nothing else runs here
    loaded = load_settings(None, dict(line.split("=", 1) for line in told.splitlines()))
    settings = loaded.settings
    assert loaded.warnings == ()
    assert set(settings.channels.enabled_names) == set(PLATFORMS)
    assert settings.data_dir == tmp_path / "emulated"
    assert str(tmp_path) in settings.database.url
    for name in PLATFORMS:
        assert str(getattr(settings.channels, name).api_base).startswith("http://127.0.0.1:")
