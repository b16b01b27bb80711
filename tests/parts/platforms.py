"""Fixtures for the three platform emulators, served on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from channels.emulators.serving import serve
from channels.emulators.telegram import TelegramEmulator

TELEGRAM_TOKEN = "4242001:emulated-bot-token-for-the-tests"


@dataclass(frozen=True, slots=True)
class ServedTelegram:
    """An emulated Telegram and where its Bot API is: `{api_base}/bot{token}/{method}`."""

    emulator: TelegramEmulator
    api_base: str
    token: str


@pytest.fixture
async def telegram_emulator() -> AsyncIterator[ServedTelegram]:
    """Telegram without people, groups or faults."""
    emulator = TelegramEmulator(token=TELEGRAM_TOKEN)
    async with serve({"telegram": emulator}) as served:
        yield ServedTelegram(emulator, served.url_of("telegram"), TELEGRAM_TOKEN)
