"""The emulated Discord."""

from __future__ import annotations

from channels.emulators.discord.emulator import DiscordEmulator
from channels.emulators.discord.world import Switches

__all__ = ["DiscordEmulator", "Switches"]
