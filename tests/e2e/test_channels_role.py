"""The channels role as a process: how it starts, what it says when it cannot, how it stops, what a kill costs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from channels.emulators.serving import serve
from channels.emulators.stage import PlaceKind
from channels.emulators.telegram import TelegramEmulator
from gateway.bus.bus import RedisBus
from gateway.contracts.access import Projection
from gateway.contracts.ids import SessionKey
from gateway.contracts.sessions import Grant, GrantRole
from gateway.process import EXIT_CONFIG, EXIT_OK
from tests.parts.answering import EchoAgent, agent, until_delivered
from tests.parts.waiting import until

__all__ = ["agent"]

SECRET = "AAbbCCddEEffGGhhIIjjKKllMMnnOOppQQr"
TOKEN = f"4242001:{SECRET}"
PATIENCE_S = 60.0
LOG = "role.log"


class Telegram:
    """An emulated Telegram with one person, and what a role needs to connect to it."""

    def __init__(self, emulator: TelegramEmulator, api_base: str, redis_url: str, data_dir: Path) -> None:
        self.emulator = emulator
        self.ann = emulator.add_person("Ann")
        self.dm = next(place for place in emulator.places() if place.kind is PlaceKind.DM)
        self.settings = {
            "TRIVET_CHANNELS__TELEGRAM__TOKEN": TOKEN,
            "TRIVET_CHANNELS__TELEGRAM__API_BASE": api_base,
            "TRIVET_REDIS__URL": redis_url,
            "TRIVET_DATA_DIR": str(data_dir),
            "TRIVET_ACCESS__DEFAULT": "open",
            "TRIVET_LOG__LEVEL": "debug",
        }

    async def say(self, text: str) -> None:
        await self.emulator.say(self.ann.id, self.dm.id, text)

    def answers(self) -> list[str]:
        return [said.text for said in self.emulator.said(self.dm.id) if said.author.is_bot]


@pytest.fixture
async def telegram(valkey_url: str, tmp_path: Path) -> AsyncIterator[Telegram]:
    emulator = TelegramEmulator(token=TOKEN)
    async with serve({"telegram": emulator}) as where:
        yield Telegram(emulator, where.url_of("telegram"), valkey_url, tmp_path)


@contextlib.asynccontextmanager
async def role(settings: Mapping[str, str], *command: str) -> AsyncIterator[Process]:
    """The role as a process, ended for good with the block."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TRIVET_")}
    with (Path(settings["TRIVET_DATA_DIR"]) / LOG).open("ab") as log:  # nobody reads a pipe while the role runs
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            *(command or ("channels",)),
            env={**environment, **settings},
            cwd=settings["TRIVET_DATA_DIR"],
            stdin=PIPE,
            stdout=PIPE,
            stderr=log,
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def ended(process: Process, data_dir: Path, said: bytes = b"") -> tuple[int, str, str]:
    """Exit code, standard output and log of a process that ends by itself, told `said`."""
    async with asyncio.timeout(PATIENCE_S):
        out, _ = await process.communicate(said)
    assert process.returncode is not None
    return process.returncode, out.decode(), (data_dir / LOG).read_text()


class TestStarting:
    async def test_answers_flow_and_the_token_is_in_no_line_of_the_log(
        self, telegram: Telegram, agent: EchoAgent, tmp_path: Path
    ) -> None:
        async with role(telegram.settings) as process:
            await telegram.say("hello")
            await until(lambda: telegram.answers() == ["echo: hello"])
            process.send_signal(signal.SIGTERM)
            code, _, log = await ended(process, tmp_path)
        assert code == EXIT_OK
        assert SECRET not in log
        assert "Traceback" not in log

    async def test_a_message_that_no_replica_has_is_not_received(self, telegram: Telegram, tmp_path: Path) -> None:
        """The platform keeps it: `redis.wait_replicas` reaches the bus that channels open."""
        async with role({**telegram.settings, "TRIVET_REDIS__WAIT_REPLICAS": "1"}):
            await telegram.say("hello")
            await until(lambda: "0 of 1 replicas have it" in (tmp_path / LOG).read_text())

    @pytest.mark.long
    async def test_a_wrong_token_ends_the_role_with_one_sentence(self, telegram: Telegram, tmp_path: Path) -> None:
        wrong = "4242001:" + SECRET[::-1]
        async with role(telegram.settings | {"TRIVET_CHANNELS__TELEGRAM__TOKEN": wrong}) as process:
            code, _, log = await ended(process, tmp_path)
        assert code == EXIT_CONFIG
        assert log.splitlines()[-1].startswith(
            "trivet: channels.telegram.token: Telegram does not accept the bot token"
        )
        assert "@BotFather" in log
        assert SECRET[::-1] not in log

    async def test_one_rejected_channel_leaves_the_others_alone(
        self, telegram: Telegram, agent: EchoAgent, bus: RedisBus
    ) -> None:
        """Its own line ends and keeps saying why."""
        broken = {
            "TRIVET_CHANNELS__DISCORD__TOKEN": "not-a-token",
            "TRIVET_CHANNELS__DISCORD__API_BASE": telegram.settings["TRIVET_CHANNELS__TELEGRAM__API_BASE"],
            "TRIVET_CHANNELS__DISCORD__GATEWAY_URL": "ws://127.0.0.1:1",
        }
        async with role(telegram.settings | broken):
            await telegram.say("hello")
            await until(lambda: telegram.answers() == ["echo: hello"])
            states: dict[str, str] = {}
            async with asyncio.timeout(PATIENCE_S):
                while "discord" not in states or states.get("telegram") != "connected":
                    states = (await bus.operator.figures()).channels_connected
            assert states["discord"] != "connected"

    @pytest.mark.long
    async def test_without_a_channel_says_what_to_set(self, tmp_path: Path) -> None:
        async with role({"TRIVET_DATA_DIR": str(tmp_path)}) as process:
            code, _, log = await ended(process, tmp_path)
        assert code == EXIT_CONFIG
        assert "channels.telegram.token" in log


class TestStopping:
    @pytest.mark.long
    async def test_a_kill_loses_nothing_and_doubles_nothing(
        self, telegram: Telegram, agent: EchoAgent, bus: RedisBus
    ) -> None:
        """What was said while nobody listened is answered by the next process."""
        async with role(telegram.settings):
            await telegram.say("before")
            await until(lambda: telegram.answers() == ["echo: before"])
            await until_delivered(bus, "telegram")
        await telegram.say("while it was dead")
        async with role(telegram.settings):
            await until(lambda: telegram.answers() == ["echo: before", "echo: while it was dead"])
            await telegram.say("after")
            await until(lambda: "echo: after" in telegram.answers())
        assert telegram.answers() == ["echo: before", "echo: while it was dead", "echo: after"]


class TestTheTerminal:
    async def test_answers_what_is_piped_in_and_ends_with_it(
        self, telegram: Telegram, agent: EchoAgent, tmp_path: Path
    ) -> None:
        """Its key is `cli:default`, and it ends only after the answers have come."""
        async with role(telegram.settings, "channels.terminal") as process:
            code, out, _ = await ended(process, tmp_path, b"hello\nand goodbye\n")
        assert code == EXIT_OK
        assert out.splitlines() == ["echo: hello", "echo: and goodbye"]
        assert {str(message.key) for message in agent.heard} == {"cli:default"}

    async def test_says_when_nobody_is_there_to_answer(self, telegram: Telegram, tmp_path: Path) -> None:
        async with role(telegram.settings, "channels.terminal") as process:
            code, _, log = await ended(process, tmp_path)
        assert code == EXIT_OK
        assert "no agent is running" in log


async def test_a_grant_on_the_bus_lets_a_stranger_in(telegram: Telegram, agent: EchoAgent, bus: RedisBus) -> None:
    """Pairing is decided by the projection of the grants, at the moment a message comes."""
    async with role(telegram.settings | {"TRIVET_ACCESS__DEFAULT": "pairing"}):
        await telegram.say("let me in")
        await until(lambda: len(telegram.answers()) == 1)
        assert "code" in telegram.answers()[0]
        ann = SessionKey("telegram", telegram.ann.id)
        await bus.access.project(Projection(grants=[Grant(ann, GrantRole.MEMBER, "the test", 1)]))
        await telegram.say("and now?")
        await until(lambda: telegram.answers()[1:] == ["echo: and now?"])
