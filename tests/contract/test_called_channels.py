"""What every channel promises, where its platform calls us instead of being listened to."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.contract.test_channel_contract import TestAcknowledging, TestHearing, agent
from tests.parts.called import CalledTown, called_slack_town, called_telegram_town

__all__ = ["TestAcknowledging", "TestHearing", "agent"]

TOWNS = {"slack": called_slack_town, "telegram": called_telegram_town}


@pytest.fixture(params=sorted(TOWNS))
async def town(request: pytest.FixtureRequest) -> AsyncIterator[CalledTown]:
    """Each platform that calls, in turn."""
    async with TOWNS[request.param]() as built:
        yield built
