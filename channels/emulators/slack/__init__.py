"""The emulated Slack."""

from __future__ import annotations

from channels.emulators.slack.emulator import SlackEmulator
from channels.emulators.slack.switches import Switches

__all__ = ["SlackEmulator", "Switches"]
