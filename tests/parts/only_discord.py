"""Fixtures of tests that are about Discord alone: its town, and its emulator as itself."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from channels.emulators.discord import DiscordEmulator
from tests.parts.towns import Town, discord_town


@pytest.fixture
async def town() -> AsyncIterator[Town]:
    """The town of Discord."""
    async with discord_town() as built:
        yield built


@pytest.fixture
def stage(town: Town) -> DiscordEmulator:
    """Its emulator, with the switches that only this platform has."""
    assert isinstance(town.stage, DiscordEmulator)
    return town.stage
