"""The processes that make up one Trivet, in the order in which they stop. Pure, and without the configuration."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Final, Self

from gateway.limits import HAND_OVER_S, SHUTDOWN_GRACE_S
from gateway.process import MIGRATE

if TYPE_CHECKING:
    from gateway.config import Settings  # loads pydantic, which the supervisor lives without

# The environment of each role's process: a model's code never sees a channel token, a channel never a model key. Pure.


_CHANNELS: Final = "TRIVET_CHANNELS__"
_MODEL_KEY: Final = "TRIVET_AGENT__API_KEY"
_MODELS: Final = "TRIVET_MODELS"
"""With keys among their settings, so that nobody but the agent is told of any of them."""

_ADMIN_TOKEN: Final = "TRIVET_HTTP__ADMIN_TOKEN"  # noqa: S105 - a variable's name
_VAULT_KEY: Final = "TRIVET_SCRUB__VAULT__KEY"
_DATABASE: Final = "TRIVET_DATABASE__URL"
_COLLECTOR_KEY: Final = "TRIVET_TELEMETRY__OTLP_HEADERS"
_CLIENT_KEY: Final = "TRIVET_CHANNELS__API__KEY"
_WEBHOOKS: Final = "TRIVET_WEBHOOKS"
_TOOL_SECRETS: Final = frozenset({"TRIVET_TOOLS__WEB__KEY", "TRIVET_TOOLS__MCP_SECRETS", "TRIVET_TOOLS__DATABASES"})
_PLAIN: Final = re.compile(
    r"TRIVET_.*|PATH|HOME|USER|LOGNAME|SHELL|TERM|TZ|LANG|LANGUAGE|LC_.*|TMPDIR|XDG_.*|VIRTUAL_ENV|PYTHON.*"
    r"|LD_LIBRARY_PATH|DYLD_.*|SSL_CERT_.*|REQUESTS_CA_BUNDLE|(HTTPS?|ALL|NO)_PROXY|COVERAGE_.*",
    re.IGNORECASE,
)


def for_channels(environ: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Select plain variables and ours, without the keys of the model, the tools and the collector, the database, the
    operator's token."""
    return _plain(environ, given, hidden={_MODEL_KEY, _DATABASE, _ADMIN_TOKEN, _COLLECTOR_KEY, *_TOOL_SECRETS})


def for_agent(environ: Mapping[str, str], given: Mapping[str, str], *, channels: Iterable[str]) -> dict[str, str]:
    """Select everything (a provider's or a tool's variables have any name) but tokens of channels and of the
    operator."""
    kept = {name: value for name, value in environ.items() if name != _ADMIN_TOKEN}
    return _without_channels({**kept, **given}, channels)


def for_admin(environ: Mapping[str, str], given: Mapping[str, str], *, channels: Iterable[str]) -> dict[str, str]:
    """Select plain variables and ours, without tokens of channels and the keys of the model, the tools, the collector,
    the vault and webhooks. It makes the tokens of programs, so it has that key."""
    hidden = {_MODEL_KEY, _VAULT_KEY, _COLLECTOR_KEY, _WEBHOOKS, *_TOOL_SECRETS}
    kept = _plain(environ, given, hidden=hidden)
    return _without_channels(kept, channels) | {name: kept[name] for name in (_CLIENT_KEY,) if name in kept}


def plain_variables(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Select ours, and those that a Python program and its HTTP clients may need, with their values."""
    return [(name, value) for name, value in environ.items() if _PLAIN.fullmatch(name)]


def _plain(environ: Mapping[str, str], given: Mapping[str, str], *, hidden: set[str]) -> dict[str, str]:
    return {
        name: value
        for name, value in (*plain_variables(environ), *plain_variables(given))
        if name not in hidden and not name.startswith(_MODELS)
    }


def _without_channels(environ: Mapping[str, str], channels: Iterable[str]) -> dict[str, str]:
    """Strip the settings of channels, except which of them shall be connected."""
    told = {f"{_CHANNELS}{name.replace('.', '__ACCOUNTS__').upper()}__ENABLED": "true" for name in channels}
    return {name: value for name, value in environ.items() if not name.startswith(_CHANNELS)} | told


CHANNELS_GRACE_S: Final = 10.0  # intake stops at once; a send in flight has time to come back
ADMIN_GRACE_S: Final = 3.0  # nothing of it is worth waiting for
_SLACK_S: Final = 2.0  # beyond the grace a role gives itself, before it is killed


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """All that the supervisor has to know of the configuration, which it does not read itself. No secret is in it.

    `has_own_bus`: no `redis.url` is set, so that the embedded server is started in `data_dir`. `hosts` are our names,
    in addition to localhost and addresses."""

    channels: tuple[str, ...]
    agent_processes: int
    data_dir: str
    has_own_bus: bool
    redis_memory_mb: int
    http_host: str
    http_port: int
    hosts: tuple[str, ...]
    admin_on_demand: bool
    log_level: str
    log_as_json: bool
    rules_file: str = ""

    def as_text(self) -> str:
        """Write the options as one argument of a command line."""
        return json.dumps(asdict(self))

    @classmethod
    def of_settings(cls, settings: Settings, hosts: Iterable[str]) -> Self:
        """Take what the supervisor needs from the settings. An admin role that has to bring the database up to date,
        since no agent runs here, does not wait for a request."""
        return cls(
            channels=tuple(settings.channels.enabled_names),
            agent_processes=settings.agent.processes,
            data_dir=str(settings.data_dir),
            has_own_bus=not settings.redis.url,
            redis_memory_mb=settings.redis.memory_mb,
            http_host=settings.http.host,
            http_port=settings.http.port,
            hosts=tuple(sorted(hosts)),
            admin_on_demand=settings.http.admin_on_demand and settings.agent.processes > 0,
            log_level=settings.log.level.value,
            log_as_json=settings.log.as_json,
            rules_file=str(settings.scrub.rules_file or ""),
        )

    @classmethod
    def of_text(cls, text: str) -> Self:
        """Read what `as_text` wrote."""
        found = json.loads(text)
        return cls(**{**found, "channels": tuple(found["channels"]), "hosts": tuple(found["hosts"])})


@dataclass(frozen=True, slots=True)
class RoleProcess:
    """One kind of process: how it is called, started and given time to stop. One `on_demand` starts when somebody asks
    at its port, and ends with code 0 when nobody has asked for long."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    processes: int = 1
    grace_s: float = ADMIN_GRACE_S
    is_on_demand: bool = False


@dataclass(frozen=True, slots=True)
class ProcessPlan:
    """The roles, which stop one after another in this order."""

    roles: tuple[RoleProcess, ...]

    def only(self, name: str) -> ProcessPlan:
        """Reduce the plan to one role."""
        return replace(self, roles=tuple(role for role in self.roles if role.name == name))


def python_module(name: str, *arguments: str) -> tuple[str, ...]:
    """Return the command that runs a module of ours as a child of the supervisor."""
    return (sys.executable, "-m", "gateway.ops.supervisor.child", name, *arguments)


def plan(options: UpOptions, environ: Mapping[str, str], given: Mapping[str, str]) -> ProcessPlan:
    """Make the plan for these options. `given` is what the supervisor tells every role, such as the bus's address.

    The database is brought up to date by the agents, or by the admin role where none runs here."""
    channels = options.channels
    migrating = () if options.agent_processes else (MIGRATE,)
    return ProcessPlan(
        (
            RoleProcess(
                "channels", python_module("channels"), for_channels(environ, given), grace_s=CHANNELS_GRACE_S + _SLACK_S
            ),
            RoleProcess(
                "agent",
                python_module("agent", MIGRATE),
                for_agent(environ, given, channels=channels),
                processes=options.agent_processes,
                grace_s=SHUTDOWN_GRACE_S + HAND_OVER_S,
            ),
            RoleProcess(
                "admin",
                python_module("gateway.ops.admin", *migrating),
                for_admin(environ, given, channels=channels),
                is_on_demand=options.admin_on_demand,
            ),
        )
    )
