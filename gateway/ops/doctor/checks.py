"""All checks, in the order in which a start would meet them: this machine, then Redis and the database."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Final
from urllib.parse import urlsplit

from gateway.bus.embedded import embedded_url, find_server
from gateway.bus.inspection import ServerFacts, inspect_bus, refuse_foreign
from gateway.config import SCRIPTED_MODEL, Loaded, Settings, called, database_url, masked_url, table_of, webhook_host
from gateway.config.derived import is_readable_by_others, provider_of
from gateway.config.features import Webhook
from gateway.config.loader import CONFIG_VARIABLE
from gateway.contracts.budgets import LimitRule
from gateway.contracts.errors import ConfigError, PluginBroken, SchemaMismatch, TrivetError
from gateway.contracts.sessions import GrantRole
from gateway.dumpable import is_closed_to_others
from gateway.key_files import REDIS_PASSWORD_FILE
from gateway.ops.doctor import CheckResult, ok, warning, wrong
from gateway.ops.doctor.platforms import check_platforms
from gateway.packages import PluginKind, PluginPart, parts_of
from gateway.plugins import call, load_part
from gateway.preflight import at, check_port_free, http_get, said_by_agent
from gateway.public_web import is_on_public_web, resolved
from gateway.scrub.own_rules import load_rules, read_rules
from gateway.scrub.rules import engine_name
from gateway.store import open_store
from gateway.store.foreign import ForeignDatabases
from gateway.telemetry.spans import check_exporter

# Checks of this machine: configuration, data directory, ports, the model's key, the confinement of sub-agents.


_CONFINEMENT: Final = "confinement"
_CONFINEMENT_S: Final = 60.0  # it tries up to four things, each for up to ten seconds
_TRIAL: Final = "agent.trial"
_TRIAL_S: Final = 90.0  # the start of the process, and what it gives each model: they are asked at the same time
_READY_S: Final = 15.0  # the first request starts the admin role
_PLUGIN_S: Final = 10.0  # for the check of one channel, as long as a platform of ours has
_MOUNTS: Final = Path("/proc/self/mounts")
_OVER_THE_NETWORK: Final = frozenset(
    {"9p", "afs", "ceph", "cifs", "davfs", "fuse.glusterfs", "fuse.sshfs"}
    | {"lustre", "ncpfs", "nfs", "nfs4", "smb3", "smbfs"}
)


def check_configuration(loaded: Loaded) -> Iterator[CheckResult]:
    """Report the problems that loading the configuration found."""
    yield ok("configuration", str(loaded.path) if loaded.path else "no file: defaults and environment")
    for sentence in loaded.warnings:
        yield warning("configuration", sentence, "see above")


async def check_channels(settings: Settings) -> list[CheckResult]:
    """Check that a channel is configured. `trivet up --telegram TOKEN` writes no configuration, so where there is none
    a Trivet that runs here is asked how it is; which tokens and which model it was given stays unknown."""
    if settings.channels.enabled_names:
        return []
    name, http = "channels", settings.http
    answer = await http_get(http.host, http.port, "/readyz", timeout_s=_READY_S)
    if answer is None or "reasons" not in answer.body:
        remedy = "set channels.telegram.token, channels.discord.token or channels.slack.bot_token and .app_token"
        return [wrong(name, "none is configured", f"run `trivet init`, or {remedy}")]
    running = f"none is configured here; the Trivet that runs at {at(http.host, http.port)}"
    if answer.body["reasons"]:
        return [wrong(name, f"{running} is not ready: {'; '.join(answer.body['reasons'])}", "see `trivet status`")]
    remedy = "`trivet init` writes tokens and model to trivet.toml, which the next start and this check read"
    return [warning(name, f"{running} is ready, by what it was given at its start", remedy)]


def check_data_dir(settings: Settings) -> CheckResult:
    """Check that we can write there, and that it is a disk of this machine."""
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


async def check_confinement(settings: Settings, environ: Mapping[str, str]) -> CheckResult:
    """Check what would hold a sub-agent: the agent's own program tries it."""
    name = "subagents.confinement"
    if not settings.subagents.enabled:
        return ok(name, "there are no sub-agents: subagents.enabled is off")
    try:
        said = await said_by_agent(_TRIAL, _CONFINEMENT, environ=environ, within_s=_CONFINEMENT_S)
    except TimeoutError:
        return wrong(name, "no answer", "try again when the machine is less busy")
    except ConfigError as error:
        return wrong(name, str(error), 'set subagents.confinement to "auto", or install bubblewrap')
    held, _, not_held = said.partition("\n")
    if not_held:
        return warning(name, f"{held}: {not_held}", "install bubblewrap, and allow user namespaces")
    return ok(name, held)


async def check_mcp(settings: Settings, environ: Mapping[str, str]) -> list[CheckResult]:
    """Check what would hold the programs of MCP servers: the agent's own program tries it."""
    name = "tools.mcp"
    try:
        programs = [server for server in settings.tools.every_mcp_server(environ) if server.command]
    except ConfigError as error:
        return [wrong(name, str(error), "correct what it names")]
    if not programs:
        return []
    try:
        said = await said_by_agent(_TRIAL, _CONFINEMENT, "mcp", environ=environ, within_s=_CONFINEMENT_S)
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


async def check_workspace(settings: Settings, environ: Mapping[str, str]) -> list[CheckResult]:
    """Check the operator's own commands, types and profiles: the agent's own program reads their files."""
    name, folder = "workspace", settings.data_dir / "workspace"
    if not any((folder / kind).is_dir() for kind in ("commands", "agents", "profiles")):
        return []
    try:
        said = await said_by_agent(_TRIAL, "workspace", environ=environ, within_s=_CONFINEMENT_S)
    except TimeoutError:
        return [wrong(name, "no answer", "try again when the machine is less busy")]
    except ConfigError as error:
        return [wrong(name, str(error), "correct what it names")]
    named, *mistakes = said.split("\n")
    found = [wrong(name, each, f"correct it in {folder}; until then it is not there") for each in mistakes]
    return [*found, ok(name, f"added: {named}")]


async def check_models(environ: Mapping[str, str]) -> list[CheckResult]:
    """Check that each model that a setting names answers: the agent's own program asks it for one token."""
    try:
        said = await said_by_agent(_TRIAL, "all", environ=environ, within_s=_TRIAL_S)
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


async def check_plugins(settings: Settings, *, is_offline: bool = False) -> list[CheckResult]:
    """Import what enabled plug-ins add, as the roles do, and ask their channels whether they can connect."""
    found: list[CheckResult] = []
    for package in settings.plugins.enabled:
        try:
            found += [await _check_part(part, settings, is_offline=is_offline) for part in parts_of(package)]
        except PluginBroken as error:
            seen, _, remedy = str(error).rpartition(": ")
            found.append(wrong("plugins.enabled", seen, remedy))
    return found


async def _check_part(part: PluginPart, settings: Settings, *, is_offline: bool) -> CheckResult:
    name = f"{part.kind.value} {part.name}"
    try:
        loaded = load_part(part)
        account = settings.channels.of_plugins().get(part.name) if part.kind is PluginKind.CHANNELS else None
        if account is None or not account.is_enabled:
            return ok(name, f"of {part.package} {part.version}")
        own = account.read_as(loaded.Account, table_of(part.name))
        check = None if is_offline else getattr(loaded, "check_account", None)
        async with asyncio.timeout(_PLUGIN_S):
            return ok(name, str(await call(check, own)) if check else f"of {part.package} {part.version}")
    except ConfigError as error:
        seen, _, remedy = str(error).rpartition(": ")
        return wrong(name, seen or remedy, remedy)
    except Exception as error:  # noqa: BLE001 - named boundary, a plug-in: its check may raise anything
        return wrong(name, f"its check failed ({type(error).__name__})", f"ask who made {part.package}")


def check_scrubber(settings: Settings) -> Iterator[CheckResult]:
    """Report which engine searches for secrets (both find the same; one is faster), and what becomes of own rules.
    Raises `ConfigError` for a file of rules that stops the start."""
    yield ok("scrubber", f"searches with {engine_name()}")
    if (path := settings.scrub.rules_file) is None:
        return
    taken, refused = len(load_rules(path)), read_rules(path).refused
    if refused:
        told = ", ".join(row.id for row in refused)
        remedy = f"`trivet scrub --check {path}` says why; take them out of the file or write them anew"
        yield warning("scrub.rules_file", f"{taken} rules are in force, and these are not: {told}", remedy)
    else:
        yield ok("scrub.rules_file", f"{taken} rules of {path} are in force")


def check_memory() -> CheckResult:
    """Check whether a program that runs as the same user can read our keys. The doctor closes itself as all our
    processes do."""
    name = "keys in memory"
    if is_closed_to_others():
        return ok(name, "nobody but root looks into our processes")
    return warning(name, "every program of this user can read them", "run Trivet as a user of its own")


def check_disk(settings: Settings) -> CheckResult:
    """Check that more is free on the disk than has to stay so, and report how much files may take."""
    disk, name = settings.limits.disk, "limits.disk"
    existing = next(folder for folder in (settings.data_dir, *settings.data_dir.parents) if folder.exists())
    free_mb = shutil.disk_usage(existing).free // 1024**2
    if free_mb < disk.free_mb:
        seen = f"{free_mb} MB are free, {disk.free_mb} have to stay so: no file is fetched or written"
        return wrong(name, seen, "make room on the disk of data_dir, or lower limits.disk.free_mb")
    most = (f"{number} MB" if number else "no limit" for number in (disk.owner_mb, disk.all_mb, disk.free_mb))
    return ok(name, "files of one user: {}, of all: {}, kept free: {}; free now: {} MB".format(*most, free_mb))


def check_limits(settings: Settings) -> Iterator[CheckResult]:
    """Report what a day may cost, of one guest and of all together. Admins may have changed the limits of
    some since."""
    for key, caps in (("guest", settings.limits.caps_of(GrantRole.GUEST)), ("pot", settings.limits.pot.caps)):
        said = LimitRule(caps.tokens, caps.nano_usd, caps.turns)
        yield ok(f"limits.{key}", f"{'each guest' if key == 'guest' else 'all together'}, a day: {said}")


def check_telemetry(settings: Settings) -> CheckResult:
    """Check whether traces can leave. Nobody is called."""
    name = "telemetry"
    try:
        check_exporter(settings.telemetry)
    except ConfigError as error:
        seen, _, remedy = str(error).partition(": ")
        return wrong(name, seen, remedy)
    endpoint = settings.telemetry.otlp_endpoint
    return ok(name, f"traces go to {masked_url(endpoint)}" if endpoint else "traces go nowhere")


def file_system_of(path: PurePath, mounts: str) -> str:
    """Find the type of the file system that holds `path`, by a text in the format of /proc/mounts (proc(5)). Pure."""
    best, found = -1, ""
    for line in mounts.splitlines():
        _, place, kind, *_ = line.split(" ")
        mounted = PurePath(place.replace("\\040", " "))
        depth = len(mounted.parts)
        if path.is_relative_to(mounted) and depth >= best:
            best, found = depth, kind
    return found


async def check_ports(settings: Settings) -> list[CheckResult]:
    """Check that each port is free, or that Trivet itself uses it."""
    http = settings.http
    wanted = [(http.host, http.port, "http.port")]
    if any(settings.channels.called()):
        wanted.append((webhook_host(settings), http.webhook_port, "http.webhook_port"))
    return [await _check_port(*each) for each in wanted]


async def _check_port(host: str, port: int, key: str) -> CheckResult:
    try:
        check_port_free(host, port, key)
    except ConfigError as error:
        answer = await http_get(host, port, "/healthz")
        if answer is not None and answer.body == {"status": "ok"}:
            return ok(key, f"{port}: Trivet is running")
        return wrong(key, f"{port} is in use", str(error).rpartition(": ")[2])
    return ok(key, f"{port} is free")


def check_model(settings: Settings, environ: Mapping[str, str]) -> CheckResult:
    """Check that there is a key for the model. Nobody is called."""
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


# Checks of the servers that we use: Redis and the database.


_LOSSES: Final = {
    "everysec": "a power cut, or a crash of the server while its disk is slow, loses up to 2 s of messages that"
    " platforms were told were received (appendfsync everysec)",
    "no": "a power cut loses what the system had not written yet, often 30 s (appendfsync no)",
}
_SQLITE: Final = "sqlite+aiosqlite:///"


async def check_redis(settings: Settings) -> list[CheckResult]:
    """Check that Redis answers, is new enough, and keeps what it is given."""
    if not settings.redis.url:
        return [_check_embedded(settings)]
    try:
        facts = await inspect_bus(settings.redis.url)
    except TrivetError as error:
        return [wrong("redis", str(error), "start it or correct redis.url")]
    found = [ok("redis", f"{facts.arrangement.value} at {masked_url(settings.redis.url)}")]
    for server in facts.servers:
        found += _judge(server, settings.redis.wait_replicas)
    if settings.redis.wait_replicas == 0 and any(server.replicas for server in facts.servers):
        found.append(
            warning("redis", "a failover loses messages that no replica had yet", "set redis.wait_replicas to 1")
        )
    if facts.needs_full_coverage:
        found.append(
            warning("redis", "one lost primary stops the whole Cluster", "set `cluster-require-full-coverage no`")
        )
    return found


def _judge(server: ServerFacts, wait_replicas: int) -> list[CheckResult]:
    """Judge what one server that holds keys of ours would lose, and when."""
    replicas = f", replicas: {server.replicas}" if server.replicas else ""
    found = [ok("redis", f"{server.product} {server.version} at {server.where}{replicas}")]
    if not server.is_primary:
        found.append(wrong("redis", f"{server.where} is a replica, which takes no writes", "name its primary"))
    if not server.is_durable:
        found.append(warning("redis", "forgets waiting messages when it ends", "switch on `appendonly yes`"))
    elif server.appendfsync not in ("always", ""):
        found.append(warning("redis", _LOSSES.get(server.appendfsync, server.appendfsync), "set `appendfsync always`"))
    if server.is_write_failing:
        found.append(wrong("redis", "cannot write its append-only file", "make room on its disk"))
    if server.may_evict:
        found.append(wrong("redis", f"may drop messages ({server.eviction})", "set `maxmemory-policy noeviction`"))
    if server.replicas < wait_replicas:
        found.append(
            wrong(
                "redis",
                f"{server.replicas} of {wait_replicas} replicas are connected",
                "add some, or lower redis.wait_replicas",
            )
        )
    return found


def _check_embedded(settings: Settings) -> CheckResult:
    try:
        server = find_server()
    except TrivetError as error:
        return wrong("redis", "no server for redis.url", str(error))
    path = settings.data_dir / REDIS_PASSWORD_FILE
    if path.exists() and is_readable_by_others(path):
        return warning(
            "redis", f"others may read the password of Trivet's own Valkey, {path}", f"run `chmod 600 {path}`"
        )
    kept = f"with its password in {path}" if path.exists() else "which gets a password at its first start"
    return ok("redis", f"Trivet's own Valkey, {server}, {kept}; {settings.redis.memory_mb} MB at most, nothing dropped")


async def check_database(settings: Settings) -> CheckResult:
    """Check that the database answers, and that its schema is ours. A file that does not exist yet is not created."""
    url = database_url(settings)
    if (path := _absent_file(url)) is not None:
        return ok("database", f"{path}, made at the first start")
    try:
        async with open_store(url) as store:
            await store.check_schema()
    except SchemaMismatch as error:
        return wrong("database", str(error), "run `trivet migrate`, or use the Trivet that made it")
    except TrivetError as error:
        return wrong("database", str(error), "start it or correct database.url")
    return ok("database", masked_url(url))


async def check_installation(settings: Settings) -> list[CheckResult]:
    """Do database and bus belong to the same Trivet? Of one that cannot be asked another check tells."""
    own: str | None = None
    if _absent_file(database_url(settings)) is None:
        try:
            async with open_store(database_url(settings)) as store:
                own = await store.known_installation()
        except TrivetError:
            return []
    url, named = settings.redis.url or embedded_url(settings.data_dir), ""
    with contextlib.suppress(TrivetError):
        named = (await inspect_bus(url)).installation
    if not named:
        return [
            ok("installation", f"{own}, which Redis is told at the next start" if own else "named at the first start")
        ]
    try:
        refuse_foreign(named, masked_url(url), own or "nobody yet")
    except ConfigError as error:
        seen, _, remedy = str(error).partition(": ")
        return [wrong("installation", seen, remedy)]
    return [ok("installation", named)]


async def check_foreign(settings: Settings) -> list[CheckResult]:
    """Check that the users of the databases for db_query may only read."""
    found: list[CheckResult] = []
    for name, url in settings.tools.database_urls.items():
        try:
            await ForeignDatabases({name: url}).check()
        except ConfigError as error:
            seen, _, remedy = str(error).rpartition(": ")
            found.append(wrong("tools.databases", seen, remedy))
        else:
            found.append(ok("tools.databases", name))
    return found


async def check_webhooks(settings: Settings) -> list[CheckResult]:
    """Check that each webhook leads to a host that may be called; none is called."""
    return [await _check_webhook(webhook) for webhook in settings.webhooks]


async def _check_webhook(webhook: Webhook) -> CheckResult:
    parts, name = urlsplit(webhook.url), f"webhooks.{webhook.called}"
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        found = await resolved(parts.hostname or "", port)
    except (OSError, UnicodeError):
        return wrong(name, f"{parts.hostname} has no address", "correct its url, or look at the network")
    if not webhook.private and not all(is_on_public_web(address, port) for address in found):
        return wrong(
            name, f"{parts.hostname} port {port} is not on the public web", "set private = true if it shall be called"
        )
    if parts.scheme != "https" and not webhook.private:
        return warning(name, "what it is told can be read on the way", "give it an https address")
    return ok(name, ", ".join(webhook.events))


def _absent_file(url: str) -> Path | None:
    """Return the SQLite file of the URL, if it does not exist yet."""
    path = Path(url.removeprefix(_SQLITE)).expanduser()
    return path if url.startswith(_SQLITE) and not path.exists() else None


async def examine(loaded: Loaded, environ: Mapping[str, str], *, is_offline: bool = False) -> list[CheckResult]:
    """Look at everything; takes as long as the slowest server that does not answer. Neither platforms nor models are
    called when `is_offline`."""
    settings = loaded.settings
    if loaded.path is not None:
        environ = {**environ, CONFIG_VARIABLE: str(loaded.path.absolute())}
    models: Sequence[CheckResult] = ()
    platforms: Sequence[CheckResult] = ()
    webhooks: Sequence[CheckResult] = ()
    if not is_offline:
        models, platforms, webhooks = await asyncio.gather(
            check_models(environ), check_platforms(settings), check_webhooks(settings)
        )
    return [
        *check_configuration(loaded),
        *await check_channels(settings),
        check_data_dir(settings),
        check_disk(settings),
        *await check_redis(settings),
        await check_database(settings),
        *await check_installation(settings),
        *await check_foreign(settings),
        *await check_ports(settings),
        check_model(settings, environ),
        *models,
        *check_scrubber(settings),
        check_memory(),
        *check_limits(settings),
        check_telemetry(settings),
        await check_confinement(settings, environ),
        *await check_mcp(settings, environ),
        *webhooks,
        *await check_plugins(settings, is_offline=is_offline),
        *await check_workspace(settings, environ),
        *platforms,
    ]
