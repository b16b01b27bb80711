"""The table of channels: which there are, and how each is built from its settings. An SDK is loaded only for an
enabled channel.

A row names a module rather than holding a function: importing all three SDKs costs seconds and a hundred megabytes,
and most operators use one.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Mapping
from typing import Final, Protocol, cast

from channels.core.adapter import AdapterDeps, ChannelAdapter
from gateway.config import Settings, table_of
from gateway.contracts.errors import ConfigError


class AdapterModule(Protocol):
    """The content of a module that the table names."""

    def open_adapter(self, name: str, settings: Settings, parts: AdapterDeps) -> ChannelAdapter:
        """Build the adapter that the settings of channel `name` ask for. Raises `ConfigError` when they cannot work."""
        ...


MODULES: Final[Mapping[str, str]] = {
    "telegram": "channels.telegram.adapter",
    "discord": "channels.discord.adapter",
    "slack": "channels.slack.adapter",
}
"""By platform, in the order in which they are started: the quickest to load first."""


async def open_channel(name: str, settings: Settings, parts: AdapterDeps) -> ChannelAdapter:
    """Load the module of channel `name` and make its adapter; others may work meanwhile."""
    platform = name.partition(".")[0]
    module = cast(AdapterModule, await asyncio.to_thread(importlib.import_module, MODULES[platform]))
    return module.open_adapter(name, settings, parts)


def chosen(settings: Settings, asked: tuple[str, ...]) -> tuple[str, ...]:
    """Choose the channels to start: those asked for, otherwise all that are enabled. Raises `ConfigError`."""
    known = settings.channels.each()
    for name in asked:
        if name not in known:
            raise ConfigError(f"there is no channel {name!r}: choose from {', '.join(known)}")
    wanted = [name for name in known if name in (asked or settings.channels.enabled_names)]
    if not wanted:
        raise ConfigError("no channel is enabled: set a token, such as channels.telegram.token, in trivet.toml")
    for name in wanted:
        if missing := known[name].missing:
            keys = " and ".join(f"{table_of(name)}.{key}" for key in missing)
            raise ConfigError(f"channel {name} cannot start without {keys}: set it or disable the channel")
    return tuple(wanted)
