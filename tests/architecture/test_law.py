"""The law of the imports bites: every contract is broken by a deliberate violation."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("gateway", "channels", "agent")

VIOLATIONS: Final = {
    "roots": ("agent/runtime/turn.py", "import channels.core.adapter"),
    "gateway": ("gateway/contracts/ids.py", "import gateway.bus.bus"),
    "ops": ("gateway/ops/admin/app.py", "import gateway.ops.cli.common"),
    "channels": ("channels/a_module_nobody_placed.py", ""),
    "agent": ("agent/tokens.py", "import agent.runtime.worker"),
    "agent-folders": ("agent/tokens.py", "import agent.runtime.worker"),
    "agent-features": ("agent/features/access.py", "import agent.features.sessions"),
    "no-sql-in-channels": ("channels/core/intake.py", "import gateway.store.store"),
    "emulators": ("channels/emulators/stage.py", "import gateway.limits"),
    "contracts": ("gateway/contracts/messages.py", "import os"),
    "pure": ("channels/core/notices.py", "import asyncio"),
    "pure-agent": ("agent/runtime/compaction_plan.py", "import asyncio"),
    "light-child": ("agent/tools/files/paths.py", "import asyncio"),
    "redis": ("agent/runtime/worker.py", "import redis"),
    "sqlalchemy": ("agent/runtime/relay.py", "import sqlalchemy"),
    "litellm": ("agent/runtime/steps.py", "import litellm"),
    "claude-sdk": ("agent/runtime/turn.py", "import claude_agent_sdk"),
    "mcp-sdk": ("agent/runtime/steps.py", "import mcp"),
    "opentelemetry": ("gateway/telemetry/logs.py", "import opentelemetry"),
    "playwright": ("agent/runtime/steps.py", "import playwright"),
    "ddgs": ("agent/tools/web/tools.py", "import ddgs"),
    "telegram-sdk": ("channels/core/delivery.py", "import telegram"),
    "discord-sdk": ("channels/core/delivery.py", "import discord"),
    "slack-sdk": ("channels/core/delivery.py", "import slack_sdk"),
    "accelerator": ("agent/runtime/steps.py", "import ahocorasick_rs"),
    "re2": ("gateway/scrub/rules.py", "import re2"),
    "acyclic": ("gateway/contracts/errors.py", "import gateway.contracts.envelope"),
}


def verdicts(project: Path) -> dict[str, str]:
    """KEPT, BROKEN or an error for every contract of the project in `project`, by contract name."""
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()", "--no-cache"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False, timeout=100)
    found = dict(re.findall(r"^(.+?) (KEPT|BROKEN)\b", done.stdout, re.MULTILINE))
    return found or {"output": done.stdout + done.stderr}


def names_by_id() -> dict[str, str]:
    """The contracts of pyproject.toml."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    return dict(re.findall(r'^id = "(.+)"\nname = "(.+)"$', text, re.MULTILINE))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the sources, with the law and without the tests."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "__init__.py").touch()
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_every_contract_has_a_violation_that_breaks_it(project: Path) -> None:
    """One line each is enough."""
    for path, line in VIOLATIONS.values():
        with (project / path).open("a", encoding="utf-8") as module:
            module.write(f"\n{line}\n")
    names = names_by_id()
    assert set(names) == set(VIOLATIONS)
    found = verdicts(project)
    kept = [contract for contract, name in names.items() if found.get(name) != "BROKEN"]
    assert not kept, (kept, found)


def test_the_sources_keep_the_law(project: Path) -> None:
    """What `make lint` says, said here too, so that the violations above are known to be the cause."""
    assert set(verdicts(project).values()) == {"KEPT"}
