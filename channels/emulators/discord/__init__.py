"""The emulated Discord."""

from __future__ import annotations

from channels.emulators.discord.emulator import DiscordEmulator
from channels.emulators.discord.world import DiscordSwitches

__all__ = ["DiscordEmulator", "DiscordSwitches"]
