"""Trivet on several machines, in miniature: role processes on hosts of their own names, on one Valkey and one
database, in front of emulated platforms; every connection is a wire that the test may cut.

    async with running_fleet(tmp_path, hosts={"h1": ROLES, "h2": ROLES}) as fleet:
        ada = fleet.chat("telegram", "Ada")
        await fleet.role("h1", "agent").kill()

A role that ends by itself is started again at once, as a supervisor would do it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import psutil
from redis import Redis

from channels.emulators.__main__ import PARTS
from channels.emulators.discord import DiscordEmulator
from channels.emulators.serving import Emulator, serve
from channels.emulators.stage import Place, PlaceKind
from gateway.bus.bus import open_bus
from gateway.bus.embedded import EmbeddedValkey
from gateway.contracts.errors import TrivetError
from gateway.contracts.ports import QueueFigures
from gateway.store.migrations import migrate
from tests.parts.postgres_server import PostgresServer, postgres_of_its_own
from tests.parts.product import MODULES, PLATFORMS, Chat, clean_environment
from tests.parts.waiting import PATIENCE_S, POLL_S, until
from tests.parts.wires import Wire, wire_to

ROOT: Final = Path(__file__).parents[2]
ROLES: Final = ("channels", "agent")
START_AGAIN_S: Final = 0.1


@dataclass(slots=True)
class RoleProcess:
    """One role on one host, life after life: `endings` are their exit codes. `trap` is armed at each start
    (tests.parts.crashing)."""

    host: str
    name: str
    environment: Mapping[str, str]
    folder: Path
    trap: Sequence[str] = ()
    inside: Sequence[str] = ()
    """What runs a command where the process shall be, such as in a network namespace."""
    process: Process | None = None
    endings: list[int] = field(default_factory=list)
    _keeping: asyncio.Task[None] | None = None

    @property
    def role(self) -> str:
        """`channels` or `agent`, without a number."""
        return self.name.partition("-")[0]

    @property
    def pid(self) -> int:
        """Of the living process."""
        assert self.process is not None
        return self.process.pid

    @property
    def log_file(self) -> Path:
        """What it writes, in all its lives."""
        return self.folder / f"{self.host}-{self.name}.log"

    async def start(self) -> None:
        """Start it, and again whenever it ends."""
        await self._spawn()
        self._keeping = asyncio.create_task(self._keep(), name=f"keep-{self.host}-{self.name}")

    async def kill(self) -> None:
        """SIGKILL; it is started again."""
        self.send(signal.SIGKILL)

    def send(self, number: int) -> None:
        """Send a signal to the process of this moment."""
        if self.process is not None and self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(number)

    async def arm(self, point: str, *, passage: int = 1, number: int = signal.SIGKILL) -> None:
        """Set a trap in the living process."""
        await self._tell(f"{point} {passage} {int(number)}")

    async def passed(self, provoke: Callable[[], Awaitable[None]]) -> set[str]:
        """The crash points that the processes of this host passed while `provoke` ran."""
        await self._tell("forget")
        diary = self.folder / f"{self.host}.passed"
        begin = diary.stat().st_size
        await provoke()
        return set(diary.read_bytes()[begin:].decode().split())

    async def _tell(self, line: str) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        with contextlib.suppress(ConnectionError):
            self.process.stdin.write(f"{line}\n".encode())
            await self.process.stdin.drain()

    async def stop(self, number: int = signal.SIGTERM) -> None:
        """End it for good: asked politely, unless `number` says otherwise."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
            self._keeping = None
        self.send(signal.SIGCONT)
        self.send(number)
        if self.process is not None:
            async with asyncio.timeout(PATIENCE_S):
                await self.process.wait()

    async def restart(self) -> None:
        """SIGTERM, wait for its end, start the next one: what a rolling restart does to it."""
        await self.stop()
        await self.start()

    async def _keep(self) -> None:
        while True:
            assert self.process is not None
            self.endings.append(await self.process.wait())
            await asyncio.sleep(START_AGAIN_S)
            await self._spawn()

    async def _spawn(self) -> None:
        with self.log_file.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *(*self.inside, sys.executable),
                *("-m", "tests.parts.crashing", self.host, MODULES[self.role], *self.trap),
                env=self.environment,
                cwd=self.folder,
                stdin=PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )


@dataclass(slots=True)
class Host:
    """One machine: its roles and its wires to the bus, to the database and to the platforms."""

    name: str
    wires: Mapping[str, Wire]
    roles: list[RoleProcess] = field(default_factory=list)

    async def kill(self) -> None:
        """Power off and on: every role dies at once."""
        for role in self.roles:
            role.send(signal.SIGKILL)


@dataclass(slots=True)
class Fleet:
    """Everything, and what can be asked of it."""

    stages: Mapping[str, Emulator]
    hosts: Mapping[str, Host]
    bus_url: str
    database: PostgresServer
    folder: Path

    # --- processes

    @property
    def roles(self) -> list[RoleProcess]:
        """All role processes."""
        return [role for host in self.hosts.values() for role in host.roles]

    def role(self, host: str, name: str) -> RoleProcess:
        """One of them."""
        return next(role for role in self.hosts[host].roles if role.name == name)

    def of(self, role: str) -> list[RoleProcess]:
        """All processes of a role."""
        return [process for process in self.roles if process.role == role]

    @property
    def database_url(self) -> str:
        """Past all wires."""
        return f"postgresql+asyncpg://postgres@/postgres?host={self.database.socket_dir}"

    @property
    def wires(self) -> list[Wire]:
        """Every wire of every host."""
        return [wire for host in self.hosts.values() for wire in host.wires.values()]

    # --- what it shows

    @property
    def log(self) -> str:
        """What all processes wrote so far, each process in a part of its own."""
        files = sorted(self.folder.glob("*.log"))
        return "".join(f"--- {file.name}\n{file.read_text('utf-8', 'replace')}" for file in files)

    def log_lines(self, *words: str) -> list[str]:
        """Lines of all logs that hold any of the words."""
        return [line for line in self.log.splitlines() if any(word in line for word in words)]

    async def figures(self) -> QueueFigures | None:
        """The queue at this moment, past all wires; None while the bus is away."""
        try:
            bus = await open_bus(self.bus_url)
        except TrivetError:
            return None
        try:
            return await bus.operator.figures()
        except TrivetError:
            return None
        finally:
            await bus.close()

    def redis(self) -> Any:
        """A plain client of the bus's server, past all wires."""
        return Redis.from_url(self.bus_url, protocol=2)

    async def until_connected(self) -> None:
        """Wait until every platform is connected and every agent has registered."""
        agents = len(self.of("agent"))
        await self.until_figures(
            lambda figures: (
                figures.workers_alive >= agents
                and all(figures.channels_connected.get(name) == "connected" for name in self.stages)
            )
        )
        discord = self.stages.get("discord")
        if isinstance(discord, DiscordEmulator):
            await until(lambda: discord.gateway.is_connected)

    async def until_figures(self, is_true: Any) -> None:
        """Wait for a state of the queue."""
        figures: QueueFigures | None = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    figures = await self.figures()
                    if figures is not None and is_true(figures):
                        return
                    await asyncio.sleep(10 * POLL_S)
        raise AssertionError(f"the queue stays at {figures}\n{self.log[-4000:]}")

    async def until_settled(self) -> None:
        """Wait until nothing is left that could still be answered or sent: in the queue or in flight."""
        await self.until_figures(lambda figures: not figures.queued and not any(figures.outbound_pending.values()))

    # --- people

    def chat(self, platform: str, name: str, place: Place | None = None) -> Chat:
        """A new person in front of the bot, in a direct chat or in `place`."""
        stage = self.stages[platform]
        person = stage.add_person(name)
        direct = next(each for each in stage.places() if each.person_id == person.id)
        return Chat(platform, stage, person, place or direct)

    def group(self, platform: str, title: str) -> Place:
        """A new group with everybody in it."""
        return self.stages[platform].add_place(PlaceKind.GROUP, title)


@dataclass(slots=True)
class WiredFleet(Fleet):
    """One whose bus is a single server of ours."""

    valkey: EmbeddedValkey

    async def kill_valkey(self) -> None:
        """SIGKILL the bus's server; it stays away until it is started."""
        assert self.valkey.pid is not None
        os.kill(self.valkey.pid, signal.SIGKILL)
        await self.valkey.wait()

    def signal_valkey(self, number: int) -> None:
        """SIGSTOP or SIGCONT for the bus's server."""
        assert self.valkey.pid is not None
        os.kill(self.valkey.pid, number)


@contextlib.asynccontextmanager
async def running_fleet(
    folder: Path,
    *,
    hosts: Mapping[str, Sequence[str]],
    settings: Mapping[str, str] | None = None,
    platforms: Sequence[str] = PLATFORMS,
) -> AsyncIterator[WiredFleet]:
    """Hosts with the roles named for each (`agent-1`, `agent-2` for two of one kind), connected and at work."""
    async with contextlib.AsyncExitStack() as stack:
        database = await stack.enter_async_context(postgres_of_its_own())
        await migrate(f"postgresql+asyncpg://postgres@/postgres?host={database.socket_dir}")
        valkey = EmbeddedValkey(folder / "bus")
        stack.push_async_callback(valkey.stop)
        await valkey.start()
        parts = {name: PARTS[name](is_limited=False) for name in platforms}
        stages = {name: part.emulator for name, part in parts.items()}
        served = await stack.enter_async_context(serve(stages))
        fleet = WiredFleet(stages, {}, valkey.url, database, folder, valkey)
        stack.push_async_callback(_end_all, fleet)
        for name, roles in hosts.items():
            wires = await _wires(stack, fleet, {each: served.ports[each] for each in stages})
            access = {
                f"TRIVET_CHANNELS__{each}__{key}".upper(): value
                for each, part in parts.items()
                for key, value in part.access(f"http://127.0.0.1:{wires[each].port}").items()
            }
            login = {"TRIVET_REDIS__URL": f"redis://:{urlsplit(valkey.url).password}@127.0.0.1:{wires['bus'].port}"}
            environment = _environment(folder / name, wires, login | access | dict(settings or {}))
            host = Host(name, wires, [RoleProcess(name, role, environment, folder) for role in roles])
            fleet.hosts = {**fleet.hosts, name: host}
        for role in fleet.roles:
            await role.start()
        await fleet.until_connected()
        yield fleet


async def _wires(stack: contextlib.AsyncExitStack, fleet: WiredFleet, ports: Mapping[str, int]) -> dict[str, Wire]:
    ends: dict[str, Path | tuple[str, int]] = {name: ("127.0.0.1", port) for name, port in ports.items()}
    ends["bus"] = Path(urlsplit(fleet.bus_url).path)
    ends["database"] = fleet.database.socket
    return {name: await stack.enter_async_context(wire_to(end)) for name, end in ends.items()}


def _environment(data_dir: Path, wires: Mapping[str, Wire], more: Mapping[str, str]) -> dict[str, str]:
    return clean_environment() | {
        "PYTHONPATH": str(ROOT),
        "TRIVET_DATA_DIR": str(data_dir),
        "TRIVET_DATABASE__URL": f"postgresql+asyncpg://postgres@127.0.0.1:{wires['database'].port}/postgres",
        "TRIVET_ACCESS__DEFAULT": "open",
        "TRIVET_LIMITS__MESSAGES_PER_MINUTE": "0",  # tests write faster than people
        "TRIVET_LIMITS__GUEST__TURNS": "0",  # and more in a day
        "TRIVET_LIMITS__GUEST__TOKENS": "0",
        "TRIVET_AGENT__MODEL": "demo/scripted",
        **more,
    }


async def _end_all(fleet: Fleet) -> None:
    for wire in fleet.wires:
        await wire.mend()
    await asyncio.gather(*(role.stop(signal.SIGKILL) for role in fleet.roles))
    left = [psutil.Process(role.pid) for role in fleet.roles if role.process and role.process.returncode is None]
    assert left == []
