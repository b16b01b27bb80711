"""Which processes make up one Trivet, in the order in which they stop. Pure."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from gateway.config import Settings
from gateway.limits import HAND_OVER_S, SHUTDOWN_GRACE_S
from gateway.supervisor.environment import for_admin, for_agent, for_channels

CHANNELS_GRACE_S: Final = 10.0  # intake stops at once; a send in flight has time to come back
ADMIN_GRACE_S: Final = 3.0  # nothing of it is worth waiting for
_SLACK_S: Final = 2.0  # beyond the grace a role gives itself, before it is killed


@dataclass(frozen=True, slots=True)
class Role:
    """One kind of process: how it is called, started and given time to stop."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    processes: int = 1
    grace_s: float = ADMIN_GRACE_S


@dataclass(frozen=True, slots=True)
class Plan:
    """`preparation` runs to its end before any role starts. `roles` stop one after another, in this order."""

    preparation: Role
    roles: tuple[Role, ...]

    def only(self, name: str) -> Plan:
        """The same plan with one role."""
        return replace(self, roles=tuple(role for role in self.roles if role.name == name))


def python_module(name: str, *arguments: str) -> tuple[str, ...]:
    """The command that runs a module of ours as a child of the supervisor."""
    return (sys.executable, "-m", "gateway.supervisor.child", name, *arguments)


def plan(settings: Settings, environ: Mapping[str, str], given: Mapping[str, str]) -> Plan:
    """The plan for these settings. `given` is what the supervisor tells every role, such as the bus's address."""
    channels = settings.channels.enabled_names
    admin_environment = for_admin(environ, given, channels=channels)
    return Plan(
        preparation=Role("migrate", python_module("gateway", "migrate", "--quiet"), admin_environment),
        roles=(
            Role(
                "channels",
                python_module("channels"),
                for_channels(environ, given),
                grace_s=CHANNELS_GRACE_S + _SLACK_S,
            ),
            Role(
                "agent",
                python_module("agent"),
                for_agent(environ, given, channels=channels),
                processes=settings.agent.processes,
                grace_s=SHUTDOWN_GRACE_S + HAND_OVER_S,
            ),
            Role("admin", python_module("gateway.admin"), admin_environment),
        ),
    )
