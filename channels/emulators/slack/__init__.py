"""The emulated Slack."""

from __future__ import annotations

from channels.emulators.slack.emulator import SlackEmulator
from channels.emulators.slack.world import SlackSwitches

__all__ = ["SlackEmulator", "SlackSwitches"]
