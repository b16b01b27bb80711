"""`trivet init` from the first question to a file that works, on emulated platforms and a model on loopback."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from channels.emulators.discord import DiscordEmulator
from channels.emulators.serving import Emulator, serve
from channels.emulators.slack import SlackEmulator
from channels.emulators.telegram import TelegramEmulator
from gateway.config import Settings, load_settings
from gateway.config.presets import Preset
from gateway.ops.cli.start import app
from tests.parts.model_server import Failure, serve_model

TELEGRAM, DISCORD = "4242001:emulated-for-the-first-time", "NDI0MjAwMg.emulated.for-the-first-time"
BOT, APP = "xoxb-emulated-for-the-first-time", "xapp-emulated-for-the-first-time"


async def init(*typed: str) -> Result:
    """What the command says to somebody who types these lines."""
    return await asyncio.to_thread(CliRunner().invoke, app, ["init"], input="".join(f"{line}\n" for line in typed))


def written(path: Path) -> Settings:
    """What the file says, which nobody else may read."""
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    return load_settings(path, {}).settings


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, and no key of anybody's in the environment."""
    for name in ("TRIVET_CONFIG", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TRIVET_DATA_DIR", str(tmp_path / "kept"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "trivet.toml"


@pytest.mark.long
async def test_three_platforms_and_a_model_are_tried_and_written(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    emulators: dict[str, Emulator] = {
        "telegram": TelegramEmulator(token=TELEGRAM),
        "discord": DiscordEmulator(token=DISCORD),
        "slack": SlackEmulator(bot_token=BOT, app_token=APP),
    }
    async with serve(emulators) as served, serve_model() as model:
        for name, path in (("telegram", ""), ("discord", "/api/v10"), ("slack", "/api/")):
            monkeypatch.setenv(f"TRIVET_CHANNELS__{name.upper()}__API_BASE", served.url_of(name) + path)
        tokens = ("4242001:somebody-elses", "", TELEGRAM, DISCORD, BOT, APP)
        done = await init(*tokens, "openai/tried", "a-key-for-it", model.url, "team", "telegram:1, slack:U1", "no")
    assert done.exit_code == 0, done.output
    assert "the token is refused" in done.output
    assert "openai/tried answered: echo: Say hello." in done.output
    assert "Invite @" in done.output
    settings = written(here)
    assert settings.channels.enabled_names == ("telegram", "discord", "slack")
    assert (settings.agent.model, settings.agent.api_base) == ("openai/tried", model.url)
    assert (settings.preset, settings.session.idle_hours) == (Preset.TEAM, 72)
    assert [str(key) for key in settings.access.admins] == ["telegram:1", "slack:U1"]


@pytest.mark.long  # a process that loads litellm, as the first one here
async def test_a_model_that_refuses_the_key_says_so_and_may_be_kept(here: Path) -> None:
    async with serve_model() as model:
        model.failures.append(Failure(401, "no such key"))
        done = await init("", "", "", "openai/tried", "a-wrong-key", model.url, "keep", "", "")
    assert "wrong    agent.model  openai/tried:" in done.output
    assert written(here).agent.model == "openai/tried"


def test_who_goes_away_leaves_nothing_behind(here: Path) -> None:
    assert CliRunner().invoke(app, ["init"], input="\n\n").exit_code == 1
    assert not here.exists()


def test_a_configuration_that_is_there_is_left_alone(here: Path) -> None:
    here.write_text('[agent]\nmodel = "openai/mine"\n')
    assert "is there already" in str(CliRunner().invoke(app, ["init"]).exception)
    assert "openai/mine" in here.read_text()
