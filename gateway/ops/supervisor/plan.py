"""The processes that make up one Trivet, in the order in which they stop. Pure."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from gateway.config import Settings
from gateway.limits import HAND_OVER_S, SHUTDOWN_GRACE_S

# The environment of each role's process: a model's code never sees a channel token, a channel never a model key. Pure.


_CHANNELS: Final = "TRIVET_CHANNELS__"
_MODEL_KEY: Final = "TRIVET_AGENT__API_KEY"
_MODELS: Final = "TRIVET_MODELS"
"""With keys among their settings, so that nobody but the agent is told of any of them."""

_ADMIN_TOKEN: Final = "TRIVET_HTTP__ADMIN_TOKEN"  # noqa: S105 - a variable's name
_VAULT_KEY: Final = "TRIVET_SCRUB__VAULT__KEY"
_DATABASE: Final = "TRIVET_DATABASE__URL"
_COLLECTOR_KEY: Final = "TRIVET_TELEMETRY__OTLP_HEADERS"
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
    """Select plain variables and ours, without tokens of channels and the keys of the model, the tools, the collector
    and the vault."""
    return _without_channels(
        _plain(environ, given, hidden={_MODEL_KEY, _VAULT_KEY, _COLLECTOR_KEY, *_TOOL_SECRETS}), channels
    )


def _plain(environ: Mapping[str, str], given: Mapping[str, str], *, hidden: set[str]) -> dict[str, str]:
    return {
        name: value
        for name, value in (*environ.items(), *given.items())
        if _PLAIN.fullmatch(name) and name not in hidden and not name.startswith(_MODELS)
    }


def _without_channels(environ: Mapping[str, str], channels: Iterable[str]) -> dict[str, str]:
    """Strip the settings of channels, except which of them shall be connected."""
    told = {f"{_CHANNELS}{name.replace('.', '__ACCOUNTS__').upper()}__ENABLED": "true" for name in channels}
    return {name: value for name, value in environ.items() if not name.startswith(_CHANNELS)} | told


CHANNELS_GRACE_S: Final = 10.0  # intake stops at once; a send in flight has time to come back
ADMIN_GRACE_S: Final = 3.0  # nothing of it is worth waiting for
_SLACK_S: Final = 2.0  # beyond the grace a role gives itself, before it is killed


@dataclass(frozen=True, slots=True)
class RoleProcess:
    """One kind of process: how it is called, started and given time to stop."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    processes: int = 1
    grace_s: float = ADMIN_GRACE_S


@dataclass(frozen=True, slots=True)
class ProcessPlan:
    """`preparation` runs to its end before any role starts. `roles` stop one after another, in this order."""

    preparation: RoleProcess
    roles: tuple[RoleProcess, ...]

    def only(self, name: str) -> ProcessPlan:
        """Reduce the plan to one role."""
        return replace(self, roles=tuple(role for role in self.roles if role.name == name))


def python_module(name: str, *arguments: str) -> tuple[str, ...]:
    """Return the command that runs a module of ours as a child of the supervisor."""
    return (sys.executable, "-m", "gateway.ops.supervisor.child", name, *arguments)


def plan(settings: Settings, environ: Mapping[str, str], given: Mapping[str, str]) -> ProcessPlan:
    """Make the plan for these settings. `given` is what the supervisor tells every role, such as the bus's address."""
    channels = settings.channels.enabled_names
    admin_environment = for_admin(environ, given, channels=channels)
    return ProcessPlan(
        preparation=RoleProcess("migrate", python_module("gateway", "migrate", "--quiet"), admin_environment),
        roles=(
            RoleProcess(
                "channels",
                python_module("channels"),
                for_channels(environ, given),
                grace_s=CHANNELS_GRACE_S + _SLACK_S,
            ),
            RoleProcess(
                "agent",
                python_module("agent"),
                for_agent(environ, given, channels=channels),
                processes=settings.agent.processes,
                grace_s=SHUTDOWN_GRACE_S + HAND_OVER_S,
            ),
            RoleProcess("admin", python_module("gateway.ops.admin"), admin_environment),
        ),
    )
