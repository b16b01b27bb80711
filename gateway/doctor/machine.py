"""Checks of this machine: configuration, data directory, ports, the model's key, what holds sub-agents."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Final

from gateway.config import SCRIPTED_MODEL, Loaded, Settings, called, masked_url, webhook_host
from gateway.config.providers import provider_of
from gateway.contracts.entries import GrantRole
from gateway.contracts.errors import ConfigError
from gateway.contracts.limit_rules import LimitRule
from gateway.doctor.findings import Finding, ok, warning, wrong
from gateway.dumpable import is_closed_to_others
from gateway.preflight import check_port_free, http_get
from gateway.scrub.finding import engine_name
from gateway.telemetry.tracing import check_exporter

_CONFINEMENT: Final = "agent.confinement"
_CONFINEMENT_S: Final = 60.0  # it tries up to four things, each for up to ten seconds
_TRIAL: Final = "agent.trial"
_TRIAL_S: Final = 90.0  # the start of the process, and what it gives each model: they are asked at the same time
_FOREWORD: Final = "trivet: "
_MOUNTS: Final = Path("/proc/self/mounts")
_OVER_THE_NETWORK: Final = frozenset(
    {
        "9p",
        "afs",
        "ceph",
        "cifs",
        "davfs",
        "fuse.glusterfs",
        "fuse.sshfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "smb3",
        "smbfs",
    }
)


def check_configuration(loaded: Loaded) -> Iterator[Finding]:
    """What loading said."""
    yield ok("configuration", str(loaded.path) if loaded.path else "no file: defaults and environment")
    for sentence in loaded.warnings:
        yield warning("configuration", sentence, "see above")
    if not loaded.settings.channels.enabled_names:
        yield wrong(
            "channels",
            "none is configured",
            "set channels.telegram.token, channels.discord.token or channels.slack.bot_token and .app_token",
        )


def check_data_dir(settings: Settings) -> Finding:
    """Can we write there, and is it a disk of this machine?"""
    path = settings.data_dir
    existing = next(folder for folder in (path, *path.parents) if folder.exists())
    if not existing.is_dir():
        return wrong("data_dir", f"{existing} is not a directory", "set data_dir to another place")
    if not os.access(existing, os.W_OK | os.X_OK):
        return wrong(
            "data_dir", f"{existing} cannot be written", f"run `chown {os.getuid()} {existing}` or set data_dir"
        )
    kind = file_system_of(path, _MOUNTS.read_text()) if _MOUNTS.exists() else ""
    if kind in _OVER_THE_NETWORK:
        return wrong("data_dir", f"{path} is on a network file system ({kind})", "set data_dir to a local disk")
    return ok("data_dir", str(path) if path.exists() else f"{path}, made at the first start")


async def check_confinement(settings: Settings, environ: Mapping[str, str]) -> Finding:
    """What would hold a sub-agent? The agent's own program tries it."""
    name = "subagents.confinement"
    if not settings.subagents.enabled:
        return ok(name, "there are no sub-agents: subagents.enabled is off")
    try:
        said = await _said_by_agent(_CONFINEMENT, environ=environ, within_s=_CONFINEMENT_S)
    except TimeoutError:
        return wrong(name, "no answer", "try again when the machine is less busy")
    except ConfigError as error:
        return wrong(name, str(error), 'set subagents.confinement to "auto", or install bubblewrap')
    held, _, not_held = said.partition("\n")
    if not_held:
        return warning(name, f"{held}: {not_held}", "install bubblewrap, and allow user namespaces")
    return ok(name, held)


async def check_mcp(settings: Settings, environ: Mapping[str, str]) -> list[Finding]:
    """What would hold the programs of MCP servers? The agent's own program tries it."""
    name = "tools.mcp"
    programs = [server for server in settings.tools.mcp_servers if server.command]
    if not programs:
        return []
    try:
        said = await _said_by_agent(_CONFINEMENT, "mcp", environ=environ, within_s=_CONFINEMENT_S)
    except TimeoutError:
        return [wrong(name, "no answer", "try again when the machine is less busy")]
    except ConfigError as error:
        return [wrong(name, str(error), "correct what it names")]
    held, *refused = said.splitlines()
    found = [wrong(name, f"not started: {each.partition(': ')[0]}", each.partition(": ")[2]) for each in refused]
    free = [server.name for server in programs if not server.is_confined]
    if free:
        remedy = "take confined=off out of tools.mcp_access, or trust them as you trust Trivet"
        found.append(warning(name, f"nothing holds {', '.join(free)}: they read what Trivet reads", remedy))
    return found or [ok(name, f"held by {held}")]


async def check_models(environ: Mapping[str, str]) -> list[Finding]:
    """Does each model that a setting names answer? The agent's own program asks it for one token."""
    try:
        said = await _said_by_agent(_TRIAL, "all", environ=environ, within_s=_TRIAL_S)
    except TimeoutError:
        return [wrong("models", f"no answer within {_TRIAL_S:g} s", "try again, or look at the network")]
    except ConfigError as error:
        return [wrong("models", str(error), "correct what it names")]
    rows = [json.loads(line) for line in said.splitlines()]
    return [
        wrong(row["setting"], f"{row['model']}: {row['wrong']}", row["remedy"])
        if row["wrong"]
        else ok(row["setting"], f"{row['model']} answers")
        for row in rows
    ]


async def _said_by_agent(module: str, *words: str, environ: Mapping[str, str], within_s: float) -> str:
    """What a program of the agent role says. Raises `TimeoutError`, and `ConfigError` with its reason if it fails."""
    trying = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, *words, env=environ, stdin=DEVNULL, stdout=PIPE, stderr=PIPE
    )
    try:
        async with asyncio.timeout(within_s):
            said, complaints = await trying.communicate()
    except TimeoutError:
        trying.kill()
        await trying.wait()
        raise
    if trying.returncode:
        raise ConfigError(complaints.decode(errors="replace").strip().rpartition("\n")[2].removeprefix(_FOREWORD))
    return said.decode().strip()


def check_scrubber() -> Finding:
    """Which engine searches for secrets? Both find the same; one is faster."""
    return ok("scrubber", f"searches with {engine_name()}")


def check_memory() -> Finding:
    """Can a program that runs as the same user read our keys? The doctor closes itself as all our processes do."""
    name = "keys in memory"
    if is_closed_to_others():
        return ok(name, "nobody but root looks into our processes")
    return warning(name, "every program of this user can read them", "run Trivet as a user of its own")


def check_disk(settings: Settings) -> Finding:
    """Is more free on the disk than has to stay so, and what may files take?"""
    disk, name = settings.limits.disk, "limits.disk"
    existing = next(folder for folder in (settings.data_dir, *settings.data_dir.parents) if folder.exists())
    free_mb = shutil.disk_usage(existing).free // 1024**2
    if free_mb < disk.free_mb:
        seen = f"{free_mb} MB are free, {disk.free_mb} have to stay so: no file is fetched or written"
        return wrong(name, seen, "make room on the disk of data_dir, or lower limits.disk.free_mb")
    most = (f"{number} MB" if number else "no limit" for number in (disk.owner_mb, disk.all_mb, disk.free_mb))
    return ok(name, "files of one user: {}, of all: {}, kept free: {}; free now: {} MB".format(*most, free_mb))


def check_limits(settings: Settings) -> Iterator[Finding]:
    """What may a day cost, of one guest and of all together? Admins may have said otherwise of some since."""
    for key, caps in (("guest", settings.limits.caps_of(GrantRole.GUEST)), ("pot", settings.limits.pot.caps)):
        said = LimitRule(caps.tokens, caps.nano_usd, caps.turns)
        yield ok(f"limits.{key}", f"{'each guest' if key == 'guest' else 'all together'}, a day: {said}")


def check_telemetry(settings: Settings) -> Finding:
    """Can traces leave? Nobody is called."""
    name = "telemetry"
    try:
        check_exporter(settings.telemetry)
    except ConfigError as error:
        seen, _, remedy = str(error).partition(": ")
        return wrong(name, seen, remedy)
    endpoint = settings.telemetry.otlp_endpoint
    return ok(name, f"traces go to {masked_url(endpoint)}" if endpoint else "traces go nowhere")


def file_system_of(path: PurePath, mounts: str) -> str:
    """The type of the file system that holds `path`, by a text in the format of /proc/mounts (proc(5)). Pure."""
    best, found = -1, ""
    for line in mounts.splitlines():
        _, place, kind, *_ = line.split(" ")
        mounted = PurePath(place.replace("\\040", " "))
        depth = len(mounted.parts)
        if path.is_relative_to(mounted) and depth >= best:
            best, found = depth, kind
    return found


async def check_ports(settings: Settings) -> list[Finding]:
    """Is each port free, or is it Trivet itself that uses it?"""
    http = settings.http
    wanted = [(http.host, http.port, "http.port")]
    if any(settings.channels.called()):
        wanted.append((webhook_host(settings), http.webhook_port, "http.webhook_port"))
    return [await _check_port(*each) for each in wanted]


async def _check_port(host: str, port: int, key: str) -> Finding:
    try:
        check_port_free(host, port, key)
    except ConfigError as error:
        answer = await http_get(host, port, "/healthz")
        if answer is not None and answer.body == {"status": "ok"}:
            return ok(key, f"{port}: Trivet is running")
        return wrong(key, f"{port} is in use", str(error).rpartition(": ")[2])
    return ok(key, f"{port} is free")


def check_model(settings: Settings, environ: Mapping[str, str]) -> Finding:
    """Is there a key for the model? Nobody is called."""
    agent = settings.agent
    entry = settings.models.get(agent.model)
    if entry is not None and (entry.has_key or entry.api_base):
        seen = "with a key" if entry.has_key else f"at {entry.api_base}, without a key"
        return ok("agent.model", f"{agent.model}, which is {entry.model} {seen}")
    if agent.model.startswith(SCRIPTED_MODEL):
        return warning("agent.model", f"{agent.model} is a demo without any AI", "set agent.model, or a provider's key")
    provider = provider_of(called(settings, agent.model))
    if agent.api_key:
        return ok("agent.model", f"{agent.model}, with agent.api_key")
    if agent.api_base:
        return ok("agent.model", f"{agent.model} at {agent.api_base}, without a key")
    if provider is None:
        return ok("agent.model", f"{agent.model}; whether it needs a key is not known here")
    if not environ.get(provider.variable):
        return wrong("agent.model", f"{agent.model} has no key", f"set {provider.variable} or agent.api_key")
    return ok("agent.model", f"{agent.model}, with {provider.variable}")
