"""Starts the emulators and the supervisor for a demo, in a directory that is thrown away afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import signal
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gateway.config import SCRIPTED_MODEL, load_settings, own_hosts, process_environment
from gateway.config.derived import found_provider
from gateway.contracts.errors import ConfigError, TrivetError
from gateway.ops.supervisor.plan import UpOptions, for_channels, python_module
from gateway.packages import PluginKind
from gateway.plugins import load_parts
from gateway.preflight import free_port, http_get

_HOST: Final = "127.0.0.1"
_READY_TIMEOUT_S: Final = 60.0
_READY_POLL_S: Final = 0.1
_STOP_TIMEOUT_S: Final = 60.0
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
    """A running demo: the addresses of the playground and of the operator's API, and the model that answers."""

    playground_url: str
    admin_url: str
    model: str
    admin_token: str = field(repr=False)

    @property
    def board_url(self) -> str:
        """Return the page that shows sub-agents at work, for anybody with the token."""
        return f"{self.admin_url}/tasks"


@contextlib.asynccontextmanager
async def demo_rig(extra: Mapping[str, str], *, tries: Sequence[str] = ()) -> AsyncIterator[Rig]:
    """Run everything, connected, inside the context. `extra` are settings on top of the demo's, `tries` are the texts
    that the playground offers to say to the demo model.

    Raises `DemoFailed` when it does not come up.
    """
    port, webhook_port, token = free_port(_HOST), free_port(_HOST), secrets.token_urlsafe(24)
    admin_url = f"http://{_HOST}:{port}"
    environ = process_environment()
    with tempfile.TemporaryDirectory(prefix="trivet-demo-", ignore_cleanup_errors=True) as folder:
        model = _model(environ | dict(extra))
        told = {"TRIVET_DEMO_ADMIN_URL": admin_url, "TRIVET_DEMO_ADMIN_TOKEN": token}
        if model == SCRIPTED_MODEL:
            told["TRIVET_DEMO_TRIES"] = "\n".join(tries)
        calls = {name: f"http://{_HOST}:{webhook_port}/webhooks/{name}" for name in _calling(environ)}
        no_file = Path(folder) / "trivet.toml"
        no_file.touch()  # plug-ins are those of the environment, as all that a demo is told
        emulated = _plugin_emulators(load_settings(no_file, _without_settings(environ)).settings.plugins.enabled)
        async with _emulators(for_channels(environ, told), calls, emulated) as platforms:
            settings = {
                "TRIVET_DATA_DIR": str(Path(folder) / "data"),
                "TRIVET_HTTP__HOST": _HOST,
                "TRIVET_HTTP__PORT": str(port),
                "TRIVET_HTTP__ADMIN_TOKEN": token,
                "TRIVET_HTTP__WEBHOOK_PORT": str(webhook_port),
                "TRIVET_HTTP__PUBLIC_URL": f"http://{_HOST}:{webhook_port}",
                "TRIVET_ACCESS__DEFAULT": "open",
                "TRIVET_LIMITS__GUEST__TURNS": "0",  # all people of the playground are whoever sits in front of it
                **_channel_settings(platforms),
                **extra,
            }
            async with _supervisor(_without_settings(environ) | settings, folder) as process:
                await _until_ready(process, port)
                yield Rig(str(platforms["playground"]), admin_url, model, token)


@contextlib.asynccontextmanager
async def _emulators(
    environment: Mapping[str, str], calls: Mapping[str, str], plugins: Mapping[str, str]
) -> AsyncIterator[dict[str, Any]]:
    """Run the emulators' process; it ends when its standard input does. Yields the content of its first line."""
    called = [word for name, url in calls.items() for word in ("--call", f"{name}={url}")]
    called += [word for name, module in plugins.items() for word in ("--plugin", f"{name}={module}")]
    command = (sys.executable, "-m", "channels.emulators", "--port", "0", *called)
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, stdin=PIPE, stdout=PIPE, start_new_session=True
    )
    try:
        assert process.stdout is not None
        line = await process.stdout.readline()
        try:
            yield json.loads(line)
        except ValueError as error:
            raise DemoFailed("the emulators did not start: see what they said above") from error
    finally:
        if process.stdin is not None:
            process.stdin.close()
        await _ended(process)


@contextlib.asynccontextmanager
async def _supervisor(environment: Mapping[str, str], folder: str) -> AsyncIterator[Process]:
    """Run `trivet up` in a directory without a configuration file, and end it with SIGTERM."""
    settings = load_settings(None, environment).settings
    options = UpOptions.of_settings(settings, own_hosts(settings))
    process = await asyncio.create_subprocess_exec(
        *python_module("gateway.ops.supervisor", options.as_text()),
        env=environment,
        cwd=folder,
        stdin=PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        await _ended(process)


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


async def _until_ready(process: Process, port: int) -> None:
    reasons: object = "the admin role does not answer"
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_READY_TIMEOUT_S):
            while process.returncode is None:
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
