"""The examples as their packages, installed and at work; and a channel that cannot be used beside one that can."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import httpx
import pytest
from trivet_matrix.channel import emulate
from trivet_matrix.homeserver import Homeserver

from channels.__main__ import serve as serve_channels
from channels.emulators.__main__ import PARTS
from channels.emulators.serving import serve
from gateway.bus.bus import RedisBus
from gateway.config.loader import load_settings
from gateway.scrub import Scrubber
from tests.parts.answering import EchoAgent
from tests.parts.plugins import DECLARED, EXAMPLES, Site, site
from tests.parts.ports import LOOPBACK
from tests.parts.product import running_product
from tests.parts.waiting import until

__all__ = ["site"]

ROOT = Path(__file__).parents[2]
SECRET = "ghp_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5"
PACKAGES = ("trivet-dice", "trivet-house-rules", "trivet-matrix", "trivet-oncall")
HOSTILE = f"""{DECLARED}
import asyncio, time
from gateway.plugins import tool
async def hang(event):
    await asyncio.Event().wait()
def block(event):
    time.sleep(3600)
def fail(event):
    raise ValueError(event.text)
@tool(risk="read")
def leak():
    "Tell a secret."
    return "the token is {SECRET}"
"""
HOSTILE_PROJECT = """
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"
[project]
name = "hostile"
version = "1.0"
[project.entry-points."trivet.hooks"]
"after_normalize.hostile" = "hostile:hang"
"before_model.hostile" = "hostile:block"
"after_answer.hostile" = "hostile:fail"
"on_delivery.hostile" = "hostile:hang"
[project.entry-points."trivet.tools"]
leak = "hostile:leak"
[tool.setuptools]
py-modules = ["hostile"]
"""


async def test_a_channel_that_cannot_be_used_leaves_the_others(
    site: Site, bus: RedisBus, valkey_url: str, tmp_path: Path
) -> None:
    site.install_example("trivet-matrix")
    site.install("broken", {"trivet.channels": {"cracked": "broken"}}, f"{DECLARED}raise OSError('dead')")
    home = Homeserver(token="syt_0815")
    ann = home.add_person("Ann")
    async with serve({"matrix": home}) as served, EchoAgent(bus).at_work():
        environ = {
            "TRIVET_PLUGINS__ENABLED": "broken,trivet-matrix",
            "TRIVET_CHANNELS__MATRIX__TOKEN": "syt_0815",
            "TRIVET_CHANNELS__MATRIX__API_BASE": served.url_of("matrix"),
            "TRIVET_REDIS__URL": valkey_url,
            "TRIVET_DATA_DIR": str(tmp_path / "data"),
            "TRIVET_ACCESS__DEFAULT": "open",
        }
        settings, stopping = load_settings(None, environ).settings, asyncio.Event()
        working = asyncio.create_task(serve_channels(settings, ("cracked", "matrix"), Scrubber(), stopping))
        figures = bus.operator.figures
        while (await figures()).channels_connected.get("matrix") != "connected":  # noqa: ASYNC110 - another process's
            await asyncio.sleep(0.02)
        await home.say(ann.id, home.places()[0].id, "hello")
        await until(lambda: any(said.text == "echo: hello" for said in home.said(home.places()[0].id)))
        stopping.set()
        await working


@pytest.fixture
def python(tmp_path: Path) -> str:
    """The interpreter of a fresh environment with the examples and a hostile package; all else is lent to it."""
    environment = tmp_path / "venv"
    interpreter = environment / "bin" / "python"
    uv = (sys.executable, "-m", "uv", "--quiet", "--offline")
    subprocess.run([*uv, "venv", "--python", sys.executable, str(environment)], check=True, cwd=tmp_path)
    hostile = tmp_path / "source" / "hostile"
    hostile.mkdir(parents=True)
    (hostile / "pyproject.toml").write_text(HOSTILE_PROJECT)
    (hostile / "hostile.py").write_text(HOSTILE)
    for package in PACKAGES:
        shutil.copytree(EXAMPLES / package, hostile.parent / package, ignore=shutil.ignore_patterns("__pycache__"))
    for package in ("hostile", *PACKAGES):
        built = ("build", "--wheel", "--no-build-isolation", "--out-dir", str(tmp_path / "wheels"))
        subprocess.run([*uv, *built, str(hostile.parent / package)], check=True, cwd=tmp_path)
    wheels = map(str, (tmp_path / "wheels").glob("*.whl"))
    subprocess.run([*uv, "pip", "install", "--python", str(interpreter), "--no-deps", *wheels], check=True)
    [packages] = environment.glob("lib/python*/site-packages")
    (packages / "lent.pth").write_text(f"{ROOT}\n{sysconfig.get_path('purelib')}\n")
    return str(interpreter)


def listed(python: str, folder: Path) -> list[dict[str, Any]]:
    """What `trivet plugins` says there."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    command = [python, "-m", "gateway", "plugins", "--json"]
    ended = subprocess.run(command, capture_output=True, cwd=folder, env=environment, check=True)
    rows: list[dict[str, Any]] = json.loads(ended.stdout)
    return rows


def emulated(python: str, folder: Path) -> dict[str, Any]:
    """What the process of the emulators says of the platforms that it serves, with that of a plug-in."""
    command = [python, "-m", "channels.emulators", "--plugin", "matrix=trivet_matrix.channel"]
    ended = subprocess.run(command, capture_output=True, cwd=folder, stdin=subprocess.DEVNULL, check=True)
    platforms: dict[str, Any] = json.loads(ended.stdout)
    return platforms


@pytest.mark.long
async def test_the_examples_work_as_they_are_installed_beside_a_hostile_one(
    python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each message is answered once, although a hook at each point hangs or raises."""
    rows = {row["package"]: row for row in listed(python, tmp_path)}
    assert set(rows) == {"hostile", *PACKAGES}
    assert not any(row["enabled"] for row in rows.values())
    assert emulated(python, tmp_path)["matrix"]["token"].startswith("syt_")
    monkeypatch.setitem(PARTS, "matrix", emulate)
    settings = {
        "TRIVET_PLUGINS__ENABLED": json.dumps(["hostile", *PACKAGES]),
        "TRIVET_ACCESS__ADMINS": '["matrix:@ada%3Ahome"]',
    }
    async with running_product(tmp_path, settings=settings, platforms=("telegram", "matrix"), python=python) as product:
        ada, gus = product.chat("matrix", "Ada"), product.chat("telegram", "Gus")
        said = await ada.ask("say what is the price while I am OOO", "— the house")
        assert "out of office" in said
        assert "In week 3 it is Ada." in await ada.ask("/oncall 3", "In week")
        assert "Only members and admins" in await gus.ask("/oncall 3", "Only")
        assert re.search(r"\d \+ \d = \d", await ada.ask('tool roll_dice {"dice": 2}', " = "))
        assert SECRET not in await ada.ask("tool leak {}", "the token is")
        assert "is not permitted" in await gus.ask('tool keep_roll {"points": 9}', "keep_roll")
        question = await ada.ask('tool keep_roll {"points": 9}', "/approve")
        found = re.search(r"/approve \w+", question)
        assert found is not None
        await ada.ask(found[0], '"best": 9')
        for number in range(3):
            await gus.ask(f"say number {number}", f"number {number}")
        await product.until_settled()
        for number in range(3):
            assert sum(f"number {number}" in answer for answer in gus.answers) == 1
        assert "trivet_house_rules" in product.log
        loaded = [line for line in product.log.splitlines() if "plugin.loaded" in line]
        assert sum("roll_dice" in line for line in loaded) == 1, loaded  # by the agent, and by nobody else
        assert sum("after_normalize" in line for line in loaded) == 2, loaded  # by the channels: ours and the hostile
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {product.admin_token}"}) as client:
            metrics = ""
            while metrics.count("trivet_hook_failures_total{") < 4:
                metrics = (await client.get(f"http://{LOOPBACK}:{product.port}/metrics")).text
                await asyncio.sleep(0.2)
        assert 'hook="hostile:after_normalize.hostile"' in metrics
