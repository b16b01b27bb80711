"""Telegram's Bot API on loopback."""

from channels.emulators.telegram.emulator import TelegramEmulator

__all__ = ["TelegramEmulator"]
