"""Trivet without the vendors' send rates: what the bench starts when it measures how fast the product can be.

    python -m tests.bench.unpaced up | channels

The emulators have no limits then either. Tokens are still taken from the buckets, only there is always one left. With
`TRIVET_BENCH_COUNTS` (a directory) in its environment, channels and agent count their own work there
(`tests.bench.sampled`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from types import ModuleType
from typing import Final

from channels import __main__ as channels_role
from channels.discord import limits as discord_limits
from channels.slack import limits as slack_limits
from channels.telegram import limits as telegram_limits
from gateway.config import load, own_hosts
from gateway.ops.supervisor import __main__ as supervisor
from gateway.ops.supervisor.plan import ProcessPlan, UpOptions, plan, python_module
from gateway.process import MIGRATE, run_to_exit

COUNTS: Final = "TRIVET_BENCH_COUNTS"
COUNTED: Final = ("channels", "agent")
PLENTY: Final = 1_000_000
RATES: Final[Mapping[ModuleType, tuple[str, ...]]] = {
    telegram_limits: ("CHAT_PER_S", "CHAT_BURST", "GROUP_PER_S", "GROUP_BURST", "BOT_PER_S", "BOT_BURST"),
    discord_limits: ("CHANNEL_PER_S", "CHANNEL_BURST", "BOT_PER_S", "BOT_BURST"),
    slack_limits: ("CHANNEL_PER_S", "CHANNEL_BURST", "WORKSPACE_PER_S", "WORKSPACE_BURST"),
}


def unpaced_plan(options: UpOptions, environ: Mapping[str, str], given: Mapping[str, str]) -> ProcessPlan:
    """The supervisor's plan, with this module in place of the channels role, or with roles that count."""
    usual = plan(options, environ, given)
    commands = {"channels": python_module("tests.bench.unpaced", "channels")}
    if folder := os.environ.get(COUNTS):
        commands = {name: python_module("tests.bench.sampled", f"{folder}/{name}.json", name) for name in COUNTED}
        commands["agent"] = (*commands["agent"], MIGRATE)
    roles = (replace(role, command=commands.get(role.name, role.command)) for role in usual.roles)
    return replace(usual, roles=tuple(roles))


def serve_channels() -> None:
    """The channels role, with always one token left."""
    for limits, names in RATES.items():
        for name in names:
            if not hasattr(limits, name):
                raise SystemExit(f"{limits.__name__} has no {name}: the bench would measure our own waiting")
            setattr(limits, name, PLENTY)
    channels_role.main()


def main() -> None:
    role = sys.argv.pop(1)
    if role == "up":
        setattr(supervisor, "plan", unpaced_plan)  # noqa: B010 - the one place where the roles' commands are decided
        settings = load().settings
        sys.argv.append(UpOptions.of_settings(settings, own_hosts(settings)).as_text())
        supervisor.main()
    else:
        serve_channels()


if __name__ == "__main__":
    run_to_exit(main)
