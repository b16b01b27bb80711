"""`trivet up --telegram TOKEN …`: from tokens on one line to bots that answer and know whose they are."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from gateway.config import load_settings
from gateway.contracts.sessions import GrantRole
from gateway.ops.doctor import CheckState
from gateway.ops.doctor.checks import check_channels
from gateway.store import open_store
from tests.parts.ports import LOOPBACK, free_port
from tests.parts.product import Product, clean_environment, emulated_platforms
from tests.parts.waiting import PATIENCE_S, until

OPTIONS = {
    "TRIVET_CHANNELS__TELEGRAM__TOKEN": "--telegram",
    "TRIVET_CHANNELS__DISCORD__TOKEN": "--discord",
    "TRIVET_CHANNELS__SLACK__BOT_TOKEN": "--slack-bot",
    "TRIVET_CHANNELS__SLACK__APP_TOKEN": "--slack-app",
}


@pytest.fixture
async def product(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Product]:
    """A Trivet that has not started: its tokens are options, the one of Discord is typed unless the test says
    otherwise; all else is where the platforms are."""
    async with emulated_platforms() as (stages, access):
        given = {option: access.pop(variable) for variable, option in OPTIONS.items()}
        typed = given.pop("--discord")
        product = Product(
            stages=stages,
            settings=access | {"TRIVET_DATA_DIR": str(tmp_path / "data"), "TRIVET_HTTP__PORT": str(free_port())},
            data_dir=tmp_path / "data",
            log_file=tmp_path / "here" / "log",
            port=0,
            admin_token="",
            arguments=[
                *(word for pair in given.items() for word in pair),
                "--discord",
                "-" if getattr(request, "param", "typed") == "typed" else typed,
            ],
        )
        product.log_file.parent.mkdir()
        product.port = int(product.settings["TRIVET_HTTP__PORT"])
        await product.start(waits=False)
        assert product.process is not None
        assert product.process.stdin is not None
        product.process.stdin.write(f"{typed}\n".encode())
        try:
            yield product
        finally:
            await product.stop()


async def test_a_bot_is_there_and_who_sends_the_code_first_is_its_admin(product: Product) -> None:
    await until(lambda: "In Telegram this link does it" in product.log, lambda: product.log)
    bot = "trivet_demo_bot"
    assert f"telegram   @{bot}: https://t.me/{bot}\n" in product.log
    assert re.search(r"discord    @\w+: https://discord.com/oauth2/authorize\?client_id=\d+&scope=bot\+", product.log)
    assert re.search(r"slack      @trivet in Emulator: https://", product.log)
    assert "demo/scripted, which is offline" in product.log
    assert f"dashboard  http://{LOOPBACK}:{product.port}" in product.log
    code = re.search(r"within an hour: (\S+)\n", product.log)
    link = re.search(rf"https://t\.me/{bot}\?start=(\S+)\n", product.log)
    assert code is not None
    assert link is not None
    assert code[1] == link[1]
    await product.until_ready()
    ada, bob = product.chat("telegram", "Ada"), product.chat("discord", "Bob")
    assert "I do not know you yet" in await ada.ask("let me in", "I do not know you")
    assert "You are my admin now" in await ada.ask(f"/start {link[1]}", "admin")
    assert "used up" in await bob.ask(code[1].lower(), "used up")
    assert "who waits" in await ada.ask("/help", "/pair")
    store = open_store(f"sqlite+aiosqlite:///{product.data_dir}/trivet.db")
    [grant] = await store.access.grants()
    await store.close()
    assert (str(grant.key), grant.role) == (f"telegram:{ada.person.id}", GrantRole.ADMIN)
    assert code[1].replace("-", "") not in product.log.replace(code[0], "").replace(link[0], "")
    [told] = await check_channels(load_settings(None, {"TRIVET_HTTP__PORT": str(product.port)}).settings)
    assert (told.state, told.seen.partition("; ")[0]) == (CheckState.WARNING, "none is configured here")
    assert f"the Trivet that runs at {LOOPBACK}:{product.port} is ready" in told.seen
    assert "`trivet init` writes tokens and model" in told.remedy


@pytest.mark.long_on("typed")
@pytest.mark.parametrize("product", ["typed", "given"], indirect=True)
async def test_no_token_is_on_a_command_line_or_in_a_file_and_nothing_is_written_here(product: Product) -> None:
    await product.until_ready()
    assert product.process is not None
    family = [psutil.Process(product.process.pid), *psutil.Process(product.process.pid).children(recursive=True)]
    words = [word for process in family for word in process.cmdline()]
    tokens = [word for word in product.arguments if not word.startswith("-")]
    assert len(tokens) == 3 + ("-" not in product.arguments)
    assert not any(token in word for token in tokens for word in words)
    assert [path.name for path in product.log_file.parent.iterdir()] == ["log"]
    assert not any(token in path.read_text("utf-8", "replace") for token in tokens for path in _kept(product))


@pytest.mark.parametrize(("base", "code"), [("", 2), ("http://127.0.0.1:1", None)])
@pytest.mark.long
async def test_a_refused_token_starts_nothing_and_a_platform_that_is_away_stops_nothing(
    tmp_path: Path, base: str, code: int | None
) -> None:
    async with emulated_platforms(["telegram"]) as (_, access):
        access["TRIVET_CHANNELS__TELEGRAM__API_BASE"] = base or access["TRIVET_CHANNELS__TELEGRAM__API_BASE"]
        told = {"TRIVET_DATA_DIR": str(tmp_path / "data"), "TRIVET_HTTP__PORT": str(free_port())}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gateway", "up", "--telegram", "4242001:of-somebody-else"),
            env=clean_environment() | access | told,
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            if code is None:
                said = await process.stdout.readuntil(b"role started")
                process.terminate()
                await process.communicate()
                assert b"telegram  its API cannot be used" in said
            else:
                said = await process.stdout.read()
                assert await process.wait() == code
                assert b"trivet: telegram: the token is refused" in said
                assert b"role started" not in said


@pytest.mark.long
async def test_the_interview_ends_by_starting(tmp_path: Path) -> None:
    async with emulated_platforms(["telegram"]) as (_, access):
        token = access.pop("TRIVET_CHANNELS__TELEGRAM__TOKEN")
        told = {"TRIVET_DATA_DIR": str(tmp_path / "data"), "TRIVET_HTTP__PORT": str(free_port())}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gateway", "init"),
            env=clean_environment() | access | told,
            cwd=tmp_path,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n".join((token, "", "", "", "", "telegram:1", "yes", "")).encode())
        try:
            async with asyncio.timeout(PATIENCE_S):
                said = await process.stdout.readuntil(b"Trivet is ready")
        finally:
            process.terminate()
            await process.wait()
        assert b"Start it now? [Y/n]" in said
        assert token in (tmp_path / "trivet.toml").read_text()
        assert token.encode() not in said


def _kept(product: Product) -> list[Path]:
    return [path for path in product.data_dir.rglob("*") if path.is_file()]
