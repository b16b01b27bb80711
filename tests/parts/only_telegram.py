"""Fixtures of tests that are about Telegram alone: its town, and its emulator as itself."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from channels.emulators.telegram import TelegramEmulator
from tests.parts.towns import Town, telegram_town


@pytest.fixture
async def town() -> AsyncIterator[Town]:
    """The town of Telegram."""
    async with telegram_town() as built:
        yield built


@pytest.fixture
def stage(town: Town) -> TelegramEmulator:
    """Its emulator, with the switches that only this platform has."""
    assert isinstance(town.stage, TelegramEmulator)
    return town.stage
