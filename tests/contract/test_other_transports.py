"""What every channel promises, where what people say comes by another way: the platform calls us, or tells us over
several connections."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.contract.test_channel_contract import TestAcknowledging, TestHearing, agent
from tests.parts.called import called_slack_town, called_telegram_town, sharded_discord_town
from tests.parts.towns import Town

pytestmark = pytest.mark.long

__all__ = ["TestAcknowledging", "TestHearing", "agent"]

TOWNS = {"discord": sharded_discord_town, "slack": called_slack_town, "telegram": called_telegram_town}


@pytest.fixture(params=sorted(TOWNS))
async def town(request: pytest.FixtureRequest) -> AsyncIterator[Town]:
    """Each platform in turn."""
    async with TOWNS[request.param]() as built:
        yield built
