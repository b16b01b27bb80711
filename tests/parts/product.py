"""The whole product as processes, in front of emulated platforms that the test itself serves and watches.

    async with running_product(tmp_path) as product:
        ada = product.chat("telegram", "Ada")
        await ada.say("hello")
        await ada.until_answered("hello")

`trivet up` runs in a directory of its own with embedded Valkey and SQLite; what it and its roles write to
their standard outputs is in `product.log`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import signal
import sqlite3
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import psutil

from channels.emulators.__main__ import PARTS, Part
from channels.emulators.serving import Emulator, serve
from channels.emulators.stage import Person, Place, PlaceKind, SharedFile
from gateway.bus.bus import open_bus
from gateway.bus.embedded import embedded_url
from gateway.contracts.errors import TrivetError
from gateway.contracts.ports import QueueFigures
from gateway.preflight import http_get
from tests.parts.model_server import ModelServer
from tests.parts.ports import LOOPBACK, free_port
from tests.parts.waiting import PATIENCE_S, POLL_S, until

PLATFORMS: Final = tuple(PARTS)
MODULES: Final = {"channels": "channels", "agent": "agent", "admin": "gateway.ops.admin"}
VALKEY: Final = "valkey"
SUPERVISOR: Final = "supervisor"
_READY: Final = "Trivet is ready: "
MODEL_KEY: Final = "sk-" + secrets.token_urlsafe(30)


@dataclass(frozen=True, slots=True)
class Chat:
    """One person in one place of a platform."""

    platform: str
    stage: Emulator
    person: Person
    place: Place

    async def say(self, text: str, *files: SharedFile) -> None:
        """Write; outside of direct chats the bot is addressed."""
        is_group = self.place.kind is not PlaceKind.DM
        await self.stage.say(self.person.id, self.place.id, text, mention_bot=is_group, files=files)

    @property
    def answers(self) -> list[str]:
        """What the bot said in the place, oldest first."""
        return [said.text for said in self.stage.said(self.place.id) if said.author.is_bot]

    @property
    def heard(self) -> str:
        """All that the bot said in the place."""
        return "\n".join(self.answers)

    async def until_answered(self, text: str) -> None:
        """Wait until the bot has said something with `text` in it."""
        await until(lambda: text in self.heard, lambda: f"{text!r} in {self.answers} ({self.platform})")

    async def ask(self, text: str, expecting: str = "", *, files: Sequence[SharedFile] = ()) -> str:
        """Say something and wait for a new answer (with `expecting` in it); that answer."""
        before = len(self.answers)
        await self.say(text, *files)
        await until(
            lambda: len(self.answers) > before and expecting in "\n".join(self.answers[before:]),
            lambda: f"an answer to {text[:80]!r}: {self.answers[before:]} ({self.platform})",
        )
        return "\n".join(self.answers[before:])


@dataclass(slots=True)
class Product:
    """One Trivet. `secrets` is every credential it was given."""

    stages: Mapping[str, Emulator]
    settings: Mapping[str, str]
    data_dir: Path
    log_file: Path
    port: int
    admin_token: str
    arguments: Sequence[str] = ()
    python: str = sys.executable
    process: Process | None = field(default=None)

    # --- life and death

    async def start(self, *, waits: bool = True) -> None:
        """`trivet up`, until it says that everything is connected. To ask /readyz would start the admin role, which
        takes a third of the time of all."""
        begins_at = len(self.log)
        with self.log_file.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                self.python,
                *("-m", "gateway", "up", *self.arguments),
                env=clean_environment() | dict(self.settings),
                cwd=self.log_file.parent,
                stdin=PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        if not waits:
            return
        if "--single" in self.arguments:
            await self.until_ready()
        else:
            await until(lambda: _READY in self.log[begins_at:] or not self.is_alive, lambda: self.log[-4000:])
            assert self.is_alive, self.log[-4000:]

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return self.process is not None and self.process.returncode is None

    async def until_ready(self) -> None:
        """Wait until /readyz says so, or fail with its reasons."""
        reasons: object = "nobody answers"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                while self.is_alive:
                    answer = await http_get(LOOPBACK, self.port, "/readyz")
                    if answer is not None and answer.status == 200:
                        return
                    reasons = answer.body if answer is not None else reasons
                    await asyncio.sleep(POLL_S)
        raise AssertionError(f"Trivet is not ready: {reasons}\n{self.log[-4000:]}")

    async def stop(self) -> None:
        """Ask it to end, as a service manager would."""
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(self.process.wait(), PATIENCE_S)

    def processes(self) -> dict[str, list[psutil.Process]]:
        """Every living process by its role."""
        assert self.process is not None
        found: dict[str, list[psutil.Process]] = {role: [] for role in (*MODULES, VALKEY)}
        with contextlib.suppress(psutil.NoSuchProcess):
            parent = psutil.Process(self.process.pid)
            found[SUPERVISOR] = [parent]
            for child in parent.children():
                role = _role_of(child)
                if role is not None:
                    found[role].append(child)
        return found

    async def kill(self, role: str) -> list[psutil.Process]:
        """SIGKILL every process of a role; they are gone on return."""
        victims = self.processes()[role]
        assert victims, f"no process of {role} is alive"
        for victim in victims:
            victim.kill()
        _, alive = await asyncio.to_thread(psutil.wait_procs, victims, timeout=PATIENCE_S)
        assert alive == []
        return victims

    async def kill_supervisor(self) -> list[psutil.Process]:
        """SIGKILL the parent alone. Returns those it leaves behind, dead or alive."""
        left = [process for role, found in self.processes().items() if role != SUPERVISOR for process in found]
        assert self.process is not None
        self.process.kill()
        await self.process.wait()
        return left

    # --- what it shows

    @property
    def log(self) -> str:
        """What all its processes wrote so far."""
        return self.log_file.read_text("utf-8", "replace") if self.log_file.exists() else ""

    @property
    def secrets(self) -> tuple[str, ...]:
        """Every credential in its configuration."""
        return tuple(
            value for name, value in self.settings.items() if re.search(r"(TOKEN|SECRET|(?<!PUBLIC_)KEY)$", name)
        )

    @property
    def channel_tokens(self) -> tuple[str, ...]:
        """Those that the channels role knows."""
        return tuple(value for name, value in self.settings.items() if re.match(r"TRIVET_CHANNELS__.*TOKEN", name))

    async def api(self, path: str, **query: Any) -> Any:
        """A GET of the operator's API."""
        headers = {"Authorization": f"Bearer {self.admin_token}"}
        base = f"http://{LOOPBACK}:{self.port}"
        async with httpx.AsyncClient(base_url=base, headers=headers, timeout=PATIENCE_S) as client:
            return (await client.get(path, params=query)).raise_for_status().json()

    async def figures(self) -> QueueFigures | None:
        """The queue at this moment; None while the bus is away."""
        try:
            bus = await open_bus(embedded_url(self.data_dir))
        except TrivetError:
            return None
        try:
            return await bus.operator.figures()
        except TrivetError:
            return None
        finally:
            await bus.close()

    async def until_figures(self, is_true: Callable[[QueueFigures], bool]) -> None:
        """Wait for a state of the queue."""
        figures: QueueFigures | None = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    figures = await self.figures()
                    if figures is not None and is_true(figures):
                        return
                    await asyncio.sleep(POLL_S)
        raise AssertionError(f"the queue stays at {figures}\n{self.log[-4000:]}")

    async def until_running(self, turns: int) -> None:
        """Wait until at least `turns` turns are in work."""
        await self.until_figures(lambda figures: figures.running >= turns)

    async def until_settled(self) -> None:
        """Wait until nothing is left that could still be answered or sent: in the queue, in flight, in SQL."""
        await self.until_figures(lambda figures: not figures.queued and not any(figures.outbound_pending.values()))
        await until(lambda: not self.unsent(), lambda: f"still in the outbox: {self.unsent()}")

    def unsent(self) -> list[tuple[str, str]]:
        """Committed replies whose end is not on record: (id, state)."""
        with contextlib.closing(self.database()) as connection:
            return connection.execute("SELECT id, state FROM outbox WHERE state NOT IN ('sent', 'failed')").fetchall()

    def database(self) -> sqlite3.Connection:
        """Its database, to look at."""
        return sqlite3.connect(f"file:{self.data_dir / 'trivet.db'}?mode=ro", uri=True)

    # --- people

    def chat(self, platform: str, name: str) -> Chat:
        """A new person in front of the bot."""
        stage = self.stages[platform]
        person = stage.add_person(name)
        place = next(place for place in stage.places() if place.person_id == person.id)
        return Chat(platform, stage, person, place)

    def group(self, platform: str, title: str) -> Place:
        """A new group with everybody in it."""
        return self.stages[platform].add_place(PlaceKind.GROUP, title)


def _role_of(process: psutil.Process) -> str | None:
    with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
        if process.name().startswith(("valkey-server", "redis-server")):
            return VALKEY
        command = process.cmdline()
        return next((role for role, module in MODULES.items() if module in command), None)
    return None


def clean_environment() -> dict[str, str]:
    """This process's environment without settings of ours and without keys of model providers."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("TRIVET_") and not name.endswith("_API_KEY")
    }


@contextlib.asynccontextmanager
async def emulated_platforms(
    names: Sequence[str] = PLATFORMS,
) -> AsyncIterator[tuple[dict[str, Emulator], dict[str, str]]]:
    """Emulators without rate limits, served in this process, and the settings that lead to them."""
    parts: dict[str, Part] = {name: PARTS[name](is_limited=False) for name in names}
    stages = {name: part.emulator for name, part in parts.items()}
    async with serve(stages) as served:
        settings = {
            f"TRIVET_CHANNELS__{name}__{key}".upper(): value
            for name, part in parts.items()
            for key, value in part.access(served.url_of(name)).items()
        }
        yield stages, settings


def model_settings(model: ModelServer) -> dict[str, str]:
    """What makes Trivet ask `model`, by way of the real litellm."""
    return {
        "TRIVET_AGENT__MODEL": "openai/gpt-4o-mini",
        "TRIVET_AGENT__API_BASE": model.url,
        "TRIVET_AGENT__API_KEY": MODEL_KEY,
    }


@contextlib.asynccontextmanager
async def running_product(
    folder: Path,
    *,
    model: ModelServer | None = None,
    settings: Mapping[str, str] | None = None,
    platforms: Sequence[str] = PLATFORMS,
    waits: bool = True,
    arguments: Sequence[str] = (),
    python: str = sys.executable,
) -> AsyncIterator[Product]:
    """A Trivet that is ready, open to everybody; stopped, with all its children, when the block ends.

    With `waits` False it is only started: something in it will never be ready.
    """
    home = folder / "trivet"
    home.mkdir()
    async with emulated_platforms(platforms) as (stages, access):
        product = Product(
            stages=stages,
            settings=access
            | {
                "TRIVET_DATA_DIR": str(home / "data"),
                "TRIVET_HTTP__HOST": LOOPBACK,
                "TRIVET_HTTP__PORT": str(free_port()),
                "TRIVET_HTTP__ADMIN_TOKEN": secrets.token_urlsafe(24),
                "TRIVET_ACCESS__DEFAULT": "open",
                "TRIVET_LIMITS__MESSAGES_PER_MINUTE": "0",  # tests write faster than people
                "TRIVET_LIMITS__GUEST__TURNS": "0",  # and more in a day
                "TRIVET_LIMITS__GUEST__TOKENS": "0",
                "TRIVET_AGENT__MODEL": "demo/scripted",
            }
            | (model_settings(model) if model else {})
            | dict(settings or {}),
            data_dir=home / "data",
            log_file=home / "log",
            port=0,
            admin_token="",
            arguments=arguments,
            python=python,
        )
        product.port = int(product.settings["TRIVET_HTTP__PORT"])
        product.admin_token = product.settings["TRIVET_HTTP__ADMIN_TOKEN"]
        try:
            await product.start(waits=waits)
            yield product
        finally:
            await product.stop()
