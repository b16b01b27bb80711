"""`trivet up` with something wrong: one sentence that names the remedy, an exit code, no traceback."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sqlite3
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from redis import Redis

from gateway.bus.embedded import EmbeddedValkey
from gateway.preflight import http_get
from gateway.store.migrations import migrate
from tests.parts.ports import free_port
from tests.parts.product import PLATFORMS, clean_environment, emulated_platforms, running_product

ENDS_WITHIN_S = 60.0
WRONG_TOKENS = {
    "telegram": {"TRIVET_CHANNELS__TELEGRAM__TOKEN": "4242001:AAwrongwrongwrongwrongwrongwrongwro"},
    "discord": {"TRIVET_CHANNELS__DISCORD__TOKEN": "MTIwMDAwMDAwMDAwMDAwMDAwMQ.wrong.wrongwrongwrong"},
    "slack": {"TRIVET_CHANNELS__SLACK__BOT_TOKEN": "xoxb-000000000000-0000000000000-wrong"},
}
WRONG_APP_TOKEN = {"TRIVET_CHANNELS__SLACK__APP_TOKEN": "xapp-1-A0EMULATOR-0000000000000-wrong"}


@dataclass(frozen=True, slots=True)
class Refused:
    """How a `trivet up` ended."""

    code: int | None
    stderr: str

    @property
    def sentences(self) -> list[str]:
        """What it said to the operator, beside its log."""
        lines = self.stderr.splitlines()
        return [line.removeprefix("trivet: ") for line in lines if line.startswith("trivet: ")]


class Installation:
    """A directory for one Trivet, and the settings it is started with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data_dir = folder / "data"
        self.settings = {
            "TRIVET_DATA_DIR": str(self.data_dir),
            "TRIVET_HTTP__PORT": str(free_port()),
            "TRIVET_AGENT__MODEL": "demo/scripted",
        }

    async def up(self, settings: Mapping[str, str]) -> Refused:
        """`trivet up` until it ends by itself."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "gateway", "up"),
            env=clean_environment() | self.settings | dict(settings),
            cwd=self.folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            _, stderr = await asyncio.wait_for(process.communicate(), ENDS_WITHIN_S)
        finally:
            if process.returncode is None:
                process.terminate()
                await process.wait()
        return Refused(process.returncode, stderr.decode())

    async def refusal(self, settings: Mapping[str, str]) -> str:
        """The one sentence that an operator is told."""
        refused = await self.up(settings)
        assert refused.code not in (0, None), refused.stderr
        assert "Traceback" not in refused.stderr
        assert len(refused.sentences) == 1, refused.stderr
        return refused.sentences[0]


@pytest.fixture
def trivet(tmp_path: Path) -> Installation:
    return Installation(tmp_path)


@pytest.fixture
async def telegram() -> AsyncIterator[dict[str, str]]:
    """The settings of a channel with which nothing is wrong."""
    async with emulated_platforms(["telegram"]) as (_, settings):
        yield settings


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.long_on("discord", "slack")
async def test_a_rejected_token_of_the_only_channel_ends_it(trivet: Installation, platform: str) -> None:
    """The sentence names the setting."""
    async with emulated_platforms([platform]) as (_, settings):
        said = await trivet.refusal(settings | WRONG_TOKENS[platform])
    assert next(iter(WRONG_TOKENS[platform])).removeprefix("TRIVET_").replace("__", ".").lower() in said
    assert not any(token in said for token in WRONG_TOKENS[platform].values())


@pytest.mark.long
async def test_a_rejected_app_token_is_told_from_a_bot_token(trivet: Installation) -> None:
    async with emulated_platforms(["slack"]) as (_, settings):
        assert "channels.slack.app_token" in await trivet.refusal(settings | WRONG_APP_TOKEN)


@pytest.mark.long
async def test_rejected_tokens_of_all_channels_are_all_named(trivet: Installation) -> None:
    async with emulated_platforms() as (_, settings):
        wrong = {name: token for tokens in WRONG_TOKENS.values() for name, token in tokens.items()}
        said = await trivet.refusal(settings | wrong)
    for setting in ("channels.telegram.token", "channels.discord.token", "channels.slack.bot_token"):
        assert setting in said


@pytest.mark.long
async def test_one_rejected_token_does_not_take_the_other_channels_along(tmp_path: Path) -> None:
    """It is reported, and the others go on."""
    async with running_product(tmp_path, settings=WRONG_TOKENS["discord"], waits=False) as product:
        reasons: list[str] = []

        async def only_discord_is_missing() -> bool:
            answer = await http_get("127.0.0.1", product.port, "/readyz")
            reasons[:] = answer.body.get("reasons", []) if answer is not None else ["nobody answers"]
            return len(reasons) == 1 and "channels.discord.token" in reasons[0]

        async with asyncio.timeout(ENDS_WITHIN_S):
            while not await only_discord_is_missing():  # noqa: ASYNC110 - it happens in another process
                await asyncio.sleep(0.05)
        assert "channels.discord.token" in product.log
        for platform in ("telegram", "slack"):
            assert "good morning" in await product.chat(platform, "Ann").ask("good morning")
        assert await only_discord_is_missing()


async def test_redis_that_cannot_be_reached(trivet: Installation, telegram: dict[str, str]) -> None:
    said = await trivet.refusal({**telegram, "TRIVET_REDIS__URL": f"redis://:hush@127.0.0.1:{free_port()}"})
    assert "start it, correct redis.url, or leave redis.url empty" in said
    assert "hush" not in said


@pytest.mark.long
async def test_redis_that_refuses_the_password(trivet: Installation, telegram: dict[str, str]) -> None:
    server = EmbeddedValkey(trivet.folder / "elsewhere")
    with contextlib.closing(Redis.from_url(await server.start(), protocol=2)) as client:
        client.config_set("requirepass", "a-password-that-nobody-knows")
        refused = await trivet.up({**telegram, "TRIVET_REDIS__URL": server.url})
        client.config_set("requirepass", "")
    await server.stop()
    assert refused.code == 2
    assert "Traceback" not in refused.stderr
    assert all("check user, password and rights in redis.url" in said for said in refused.sentences)
    assert refused.sentences


@pytest.mark.long
async def test_a_database_that_is_locked(trivet: Installation, telegram: dict[str, str]) -> None:
    """Somebody else writes and does not end."""
    trivet.data_dir.mkdir()
    with contextlib.closing(sqlite3.connect(trivet.data_dir / "trivet.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        said = await trivet.refusal(telegram)
    assert "locked by another process" in said
    assert "trivet.db" in said


@pytest.mark.long
async def test_a_database_of_a_newer_version(trivet: Installation, telegram: dict[str, str]) -> None:
    trivet.data_dir.mkdir()
    path = trivet.data_dir / "trivet.db"
    await migrate(f"sqlite+aiosqlite:///{path}")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE schema_version SET version_num = '9999'")
        connection.commit()
    said = await trivet.refusal(telegram)
    assert "made by a newer Trivet (schema 9999" in said
    assert "install that version" in said


@pytest.mark.long
async def test_a_database_that_is_none(trivet: Installation, telegram: dict[str, str]) -> None:
    trivet.data_dir.mkdir()
    (trivet.data_dir / "trivet.db").write_text("this is a letter to my aunt, and no database at all\n" * 100)
    assert "is not an SQLite database: name another file" in await trivet.refusal(telegram)


async def test_a_port_that_is_taken(trivet: Installation, telegram: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = await trivet.refusal({**telegram, "TRIVET_HTTP__PORT": str(port)})
    assert f"cannot listen on 127.0.0.1:{port}" in said
    assert "set http.port to another port" in said


async def test_a_file_that_is_no_toml(trivet: Installation, telegram: dict[str, str]) -> None:
    (trivet.folder / "trivet.toml").write_text('[http]\nport = "8420\n')
    said = await trivet.refusal(telegram)
    assert "trivet.toml" in said
    assert "line 2" in said


@pytest.mark.long
async def test_a_model_that_nobody_knows(trivet: Installation, telegram: dict[str, str]) -> None:
    said = await trivet.refusal({**telegram, "TRIVET_AGENT__MODEL": "nobody/knows-this"})
    assert "agent.model" in said
    assert "nobody/knows-this" in said


async def test_a_second_trivet_on_the_same_directory(tmp_path: Path, trivet: Installation) -> None:
    """The first one is not disturbed."""
    async with running_product(tmp_path, platforms=["telegram"]) as product:
        said = await trivet.refusal({**product.settings, "TRIVET_HTTP__PORT": str(free_port())})
        assert "another Trivet is running on" in said
        assert "another data_dir" in said
        assert "still here" in await product.chat("telegram", "Ann").ask("still here")


async def test_no_channel_at_all(trivet: Installation) -> None:
    said = await trivet.refusal({})
    assert "no channel is configured" in said
    assert "trivet demo" in said
