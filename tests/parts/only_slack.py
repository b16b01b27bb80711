"""Fixtures of tests that are about Slack alone: its town, and its emulator as itself."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from channels.emulators.slack import SlackEmulator
from tests.parts.towns import Town, slack_town


@pytest.fixture
async def town() -> AsyncIterator[Town]:
    """The town of Slack."""
    async with slack_town() as built:
        yield built


@pytest.fixture
def stage(town: Town) -> SlackEmulator:
    """Its emulator, with the switches that only this platform has."""
    assert isinstance(town.stage, SlackEmulator)
    return town.stage
