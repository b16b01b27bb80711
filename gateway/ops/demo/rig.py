"""Starts the emulators and the supervisor for a demo, in a directory that is thrown away afterwards, and kills what the
playground's page says."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx

from gateway.config import SCRIPTED_MODEL, load_settings, own_hosts, process_environment
from gateway.config.derived import found_provider, is_installed
from gateway.contracts.errors import ConfigError, TrivetError
from gateway.contracts.ids import MODEL_AWAY
from gateway.ops.supervisor.plan import UpOptions, for_channels, python_module
from gateway.packages import PluginKind
from gateway.plugins import load_parts
from gateway.preflight import free_port, http_get

_HOST: Final = "127.0.0.1"
_READY_TIMEOUT_S: Final = 60.0
_READY_POLL_S: Final = 0.1
_STOP_TIMEOUT_S: Final = 60.0
_GUEST_TURNS: Final = 3  # so that a guest's limit can be seen
_CALLED_BY: Final = {
    "TRIVET_CHANNELS__SLACK__MODE": ("slack", "events"),
    "TRIVET_CHANNELS__DISCORD__INTERACTIONS": ("discord", "http"),
}
"""Variables by which a demo may be told to let a platform call, instead of listening to it. Telegram is told by us."""

_MODES: Final = ("TRIVET_CHANNELS__TELEGRAM__MODE", *_CALLED_BY)
_KEPT: Final = ("TRIVET_AGENT__", "TRIVET_SUBAGENTS__", "TRIVET_LOG__", "TRIVET_PLUGINS__")


class DemoFailed(TrivetError):
    """A part of the demo did not come up."""


@dataclass(frozen=True, slots=True)
class Rig:
    """A running demo: the addresses of the playground and of the operator's API, and the model that answers. When the
    page asks for a new beginning, `reset` is set."""

    playground_url: str
    admin_url: str
    model: str
    admin_token: str = field(repr=False)
    reset: asyncio.Event

    @property
    def board_url(self) -> str:
        """Return the page that shows sub-agents at work, for anybody with the token."""
        return f"{self.admin_url}/tasks"


@dataclass(frozen=True, slots=True)
class DemoPorts:
    """The addresses at which a demo listens, and the admin token; the same again after a new beginning."""

    page: int = field(default_factory=lambda: free_port(_HOST))
    admin: int = field(default_factory=lambda: free_port(_HOST))
    webhooks: int = field(default_factory=lambda: free_port(_HOST))
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)

    @property
    def admin_url(self) -> str:
        return f"http://{_HOST}:{self.admin}"

    def told(self) -> dict[str, str]:
        """Return what the playground has to know of the operator's API."""
        return {"TRIVET_DEMO_ADMIN_URL": self.admin_url, "TRIVET_DEMO_ADMIN_TOKEN": self.token}


@contextlib.asynccontextmanager
async def emulators_alone(folder: Path) -> AsyncIterator[tuple[str, Mapping[str, str]]]:
    """Run the emulators for a Trivet that somebody starts beside them. Yields the playground's address, and the
    settings which take that Trivet there, away from real bots; its data is in `folder`, apart from a real one's."""
    ports = DemoPorts()
    async with _emulators(for_channels(process_environment(), ports.told()), {}, {}, ports.page) as (_, platforms):
        platforms.pop("roles")
        yield (
            str(platforms["playground"]),
            {
                "TRIVET_DATA_DIR": str(folder),
                "TRIVET_DATABASE__URL": f"sqlite+aiosqlite:///{folder}/trivet.db",
                "TRIVET_HTTP__PORT": str(ports.admin),
                "TRIVET_HTTP__ADMIN_TOKEN": ports.token,
                "TRIVET_CHANNELS__TELEGRAM__MODE": "polling",
                "TRIVET_CHANNELS__SLACK__MODE": "socket",
                "TRIVET_CHANNELS__DISCORD__INTERACTIONS": "gateway",
                **_channel_settings({name: keys for name, keys in platforms.items() if is_installed(name)}),
            },
        )


@contextlib.asynccontextmanager
async def demo_rig(
    extra: Mapping[str, str], *, tries: Sequence[Mapping[str, str]] = (), ports: DemoPorts | None = None
) -> AsyncIterator[Rig]:
    """Run everything, connected, inside the context. `extra` are settings on top of the demo's, `tries` is what the
    playground offers to say to the demo model.

    Raises `DemoFailed` when it does not come up."""
    ports = ports or DemoPorts()
    port, webhook_port, token, admin_url = ports.admin, ports.webhooks, ports.token, ports.admin_url
    environ = process_environment()
    with tempfile.TemporaryDirectory(prefix="trivet-demo-", ignore_cleanup_errors=True) as folder:
        model = _model(environ | dict(extra))
        data_dir, is_scripted = Path(folder) / "data", model == SCRIPTED_MODEL
        shown = {
            "tries": list(tries) if is_scripted else [],
            "orders": [order for order in ORDERS if is_scripted or order != "cut-model"],
        }
        told = ports.told() | {"TRIVET_DEMO": json.dumps(shown)}
        calls = {name: f"http://{_HOST}:{webhook_port}/webhooks/{name}" for name in _calling(environ)}
        no_file = Path(folder) / "trivet.toml"
        no_file.touch()  # plug-ins are those of the environment, as all that a demo is told
        emulated = _plugin_emulators(load_settings(no_file, _without_settings(environ)).settings.plugins.enabled)
        async with _emulators(for_channels(environ, told), calls, emulated, ports.page) as (emulators, platforms):
            roles = platforms.pop("roles")
            settings = {
                "TRIVET_DATA_DIR": str(data_dir),
                "TRIVET_HTTP__HOST": _HOST,
                "TRIVET_HTTP__PORT": str(port),
                "TRIVET_HTTP__ADMIN_TOKEN": token,
                "TRIVET_HTTP__WEBHOOK_PORT": str(webhook_port),
                "TRIVET_HTTP__PUBLIC_URL": f"http://{_HOST}:{webhook_port}",
                "TRIVET_ACCESS__DEFAULT": "pairing",
                "TRIVET_LIMITS__GUEST__TURNS": str(_GUEST_TURNS),
                **_channel_settings(platforms),
                **extra,
            }
            trivet = _Trivet(_without_settings(environ) | settings, folder)
            orders, keeping = _Orders(trivet, data_dir), asyncio.create_task(trivet.keep())
            serving = asyncio.create_task(orders.serve(emulators))
            try:
                await _until_ready(keeping, port)
                await _give_roles(admin_url, token, roles)
                yield Rig(str(platforms["playground"]), admin_url, model, token, orders.reset)
            finally:
                serving.cancel()
                await trivet.end()
                await asyncio.gather(serving, keeping, return_exceptions=True)


@contextlib.asynccontextmanager
async def _emulators(
    environment: Mapping[str, str], calls: Mapping[str, str], plugins: Mapping[str, str], port: int
) -> AsyncIterator[tuple[Process, dict[str, Any]]]:
    """Run the emulators' process; it ends when its standard input does. Yields it and the content of its first line."""
    called = [word for name, url in calls.items() for word in ("--call", f"{name}={url}")]
    called += [word for name, module in plugins.items() for word in ("--plugin", f"{name}={module}")]
    command = (sys.executable, "-m", "channels.emulators", "--port", str(port), *called)
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, stdin=PIPE, stdout=PIPE, start_new_session=True
    )
    try:
        assert process.stdout is not None
        line = await process.stdout.readline()
        try:
            told = json.loads(line)
        except ValueError as error:
            raise DemoFailed("the emulators did not start: see what they said above") from error
        yield process, told
    finally:
        if process.stdin is not None:
            process.stdin.close()
        await _ended(process)


class _Trivet:
    """`trivet up` in a directory without a configuration file. It is started again whenever somebody has killed it."""

    def __init__(self, environment: Mapping[str, str], folder: str) -> None:
        settings = load_settings(None, environment).settings
        self._options = UpOptions.of_settings(settings, own_hosts(settings))
        self._environment = environment
        self._folder = folder
        self._process: Process | None = None
        self._ending = asyncio.Event()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def keep(self) -> None:
        """Run it until `end`. Raises `DemoFailed` when it ends by itself."""
        while not self._ending.is_set():
            self._process = await asyncio.create_subprocess_exec(
                *python_module("gateway.ops.supervisor", self._options.as_text()),
                env=self._environment,
                cwd=self._folder,
                stdin=PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
            if self._ending.is_set():  # while it was being started
                self._process.terminate()
            if await self._process.wait() != -signal.SIGKILL and not self._ending.is_set():
                raise DemoFailed("Trivet ended by itself: see what it said above")

    async def end(self) -> None:
        """End it with SIGTERM."""
        self._ending.set()
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGTERM)
            await _ended(self._process)


# What the page may order: faults as they happen to machines and cables, and a new beginning.


_AGENT: Final = "gateway.ops.supervisor.child agent"
_VALKEY: Final = "valkey-server"
_PROC: Final = Path("/proc")
_BUS_AWAY_S: Final = 5.0
_MODEL_AWAY_S: Final = 2.0  # within the pauses between the tries of one call of a model
ORDERS: Final = ("kill-agent", "kill-everything", "cut-bus", "cut-model", "reset")


class _Orders:
    """Carries out what the page orders, on the processes below one supervisor."""

    def __init__(self, trivet: _Trivet, data_dir: Path) -> None:
        self._trivet = trivet
        self._model_away = data_dir / MODEL_AWAY
        self.reset = asyncio.Event()

    async def serve(self, emulators: Process) -> None:
        """Read the orders from the emulators' standard output, and answer each when it is carried out."""
        answers, lines = emulators.stdin, emulators.stdout
        assert answers is not None
        assert lines is not None

        async def answer(number: int, order: str) -> None:
            happened = await self._carry_out(order)
            told = [{"at_ms": at_ms, "what": what} for at_ms, what in happened]
            answers.write(json.dumps({"number": number, "happened": told}).encode() + b"\n")

        async with asyncio.TaskGroup() as group:
            async for line in lines:
                group.create_task(answer(**json.loads(line)))

    async def _carry_out(self, order: str) -> list[tuple[int, str]]:
        match order:
            case "kill-agent":
                return self._kill({pid: name for pid, name in self._below().items() if _AGENT in name})
            case "kill-everything":
                return self._kill({self._trivet.pid: "gateway.ops.supervisor"} | self._below())
            case "cut-bus":
                return await self._cut_bus()
            case "cut-model":
                cut_ms = _now_ms()
                self._model_away.touch()
                try:
                    await asyncio.sleep(_MODEL_AWAY_S)
                finally:
                    self._model_away.unlink(missing_ok=True)
                return [(cut_ms, "the model's cable is pulled"), (_now_ms(), "the model's cable is back")]
            case _:
                self.reset.set()
                return [(_now_ms(), "everything begins anew")]

    def _below(self) -> dict[int, str]:
        return descendants(self._trivet.pid, process_table())

    def _kill(self, processes: Mapping[int, str]) -> list[tuple[int, str]]:
        at_ms = _now_ms()
        for pid in processes:
            _signal(pid, signal.SIGKILL)
        return [(at_ms, f"kill -9 {pid} ({_short(command)})") for pid, command in processes.items()]

    async def _cut_bus(self) -> list[tuple[int, str]]:
        """Let the server neither read nor answer, as if its cable were pulled; no connection is closed."""
        pids = [pid for pid, command in self._below().items() if _VALKEY in command]
        cut_ms = _now_ms()
        for pid in pids:
            _signal(pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(_BUS_AWAY_S)
        finally:
            for pid in pids:
                _signal(pid, signal.SIGCONT)
        return [(cut_ms, "the bus's cable is pulled"), (_now_ms(), "the bus's cable is back")]


def process_table() -> dict[int, tuple[int, str]]:
    """List the processes of this machine: parent and command line of each. Linux tells them in /proc (proc(5)), other
    systems by ps(1)."""
    found: dict[int, tuple[int, str]] = {}
    if not _PROC.is_dir():
        listed = subprocess.check_output(("/bin/ps", "-Ao", "pid=,ppid=,args="), env={"LC_ALL": "C"}, text=True)
        rows = (line.split(maxsplit=2) for line in listed.splitlines())
        return {int(row[0]): (int(row[1]), row[2]) for row in rows if len(row) == 3}
    for entry in _PROC.iterdir():
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if entry.name.isdecimal():
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                found[int(entry.name)] = (int(parent), (entry / "cmdline").read_text().replace("\0", " "))
    return found


def descendants(root: int, table: Mapping[int, tuple[int, str]]) -> dict[int, str]:
    """Select the command lines of the processes below `root`, however deep. Pure."""
    found: dict[int, str] = {}
    above = {root}
    while above:
        below = {pid: command for pid, (parent, command) in table.items() if parent in above and pid not in found}
        found |= below
        above = set(below)
    return found


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _short(command: str) -> str:
    """Name a process by what it runs: the module of ours, or the program."""
    module = re.search(r"-m (?:gateway\.ops\.supervisor\.child )?(\S+)", command)
    return module[1] if module else Path(command.split()[0]).name


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


async def _give_roles(admin_url: str, token: str, roles: Mapping[str, str]) -> None:
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(
        base_url=admin_url, headers=headers, trust_env=False, timeout=_READY_TIMEOUT_S
    ) as admin:
        for key, role in roles.items():
            (await admin.put(f"/api/v1/grants/{key}", json={"role": role})).raise_for_status()


def _plugin_emulators(packages: Sequence[str]) -> dict[str, str]:
    """Return the modules of plug-ins' channels that can be emulated, by channel."""
    channels = load_parts(packages, PluginKind.CHANNELS)
    return {part.name: part.entry.module for part, module in channels if hasattr(module, "emulate")}


async def _ended(process: Process) -> None:
    try:
        await asyncio.wait_for(process.wait(), _STOP_TIMEOUT_S)
    except TimeoutError:
        process.kill()
        await process.wait()


async def _until_ready(keeping: asyncio.Task[None], port: int) -> None:
    reasons: object = "the admin role does not answer"
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_READY_TIMEOUT_S):
            while not keeping.done():
                answer = await http_get(_HOST, port, "/readyz")
                if answer is not None and answer.status == 200:
                    return
                reasons = answer.body.get("reasons", reasons) if answer else reasons
                await asyncio.sleep(_READY_POLL_S)
            raise DemoFailed("Trivet did not start: see what it said above")
    raise DemoFailed(f"Trivet is not ready after {_READY_TIMEOUT_S:g} s: {reasons}")


def _model(environ: Mapping[str, str]) -> str:
    """Return the model that the agent takes, by the rule of the configuration."""
    provider = found_provider(environ)
    return environ.get("TRIVET_AGENT__MODEL") or (provider.model if provider else SCRIPTED_MODEL)


def _channel_settings(platforms: Mapping[str, Any]) -> dict[str, str]:
    """Write the emulators' addresses and tokens as variables: `telegram.token` is TRIVET_CHANNELS__TELEGRAM__TOKEN."""
    found = {
        f"TRIVET_CHANNELS__{name.upper()}__{key.upper()}": str(value)
        for name, keys in platforms.items()
        if isinstance(keys, dict)
        for key, value in keys.items()
    }
    if not found:
        raise ConfigError("the emulators named no platform")
    return found


def _calling(environ: Mapping[str, str]) -> list[str]:
    """List the platforms that call us."""
    return [name for variable, (name, mode) in _CALLED_BY.items() if environ.get(variable) == mode]


def _without_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Strip Trivet's own settings from the environment, but for the models and how platforms are listened to: a demo
    disturbs no real bot."""
    return {
        name: value
        for name, value in environ.items()
        if not name.startswith("TRIVET_") or name.startswith(_KEPT) or name in _MODES
    }
