"""Traps of the platforms that have no better place; `tests/contract/traps.py` says which test pins which."""

from __future__ import annotations

import httpx
import pytest

from channels.core.adapter import SupportsPlaceholders
from channels.slack.history import ORDER
from gateway.bus.bus import RedisBus
from gateway.scrub import Scrubber
from tests.parts.answering import EchoAgent
from tests.parts.platforms import TELEGRAM_TOKEN
from tests.parts.towns import telegram_town


async def test_what_another_program_asked_telegram_for_does_not_stick(bus: RedisBus) -> None:
    """`allowed_updates` is remembered by the server; every poll of ours names its own."""
    async with telegram_town() as town, EchoAgent(bus).at_work():
        async with httpx.AsyncClient(trust_env=False) as client:
            url = f"{town.api_base}/bot{TELEGRAM_TOKEN}/getUpdates"
            assert (await client.post(url, data={"allowed_updates": '["poll"]'})).json()["ok"]
        async with town.line(bus):
            await town.stage.say(town.ann.id, town.dm(town.ann).id, "hello")
            assert await town.until_answers(1) == ["echo: hello"]


async def test_an_edit_that_changes_nothing_is_done(bus: RedisBus) -> None:
    """Telegram calls it an error; an edit that is repeated because nobody knows its outcome must come to an end."""
    async with telegram_town() as town, EchoAgent(bus).at_work() as agent:
        adapter = town.adapter(bus)
        assert isinstance(adapter, SupportsPlaceholders)
        async with town.line(bus, adapter=adapter):
            await town.stage.say(town.ann.id, town.dm(town.ann).id, "hello")
            await town.until_answers(1)
            address = agent.heard[0].address
            message_id = await adapter.put_placeholder(address)
            (chunk,) = adapter.chunks(Scrubber().scrub("the same"))
            for _ in range(2):
                assert await adapter.complete(address, chunk, message_id=message_id, plain=False)


@pytest.mark.parametrize(
    ("earlier", "later"), [("1712345678.000100", "1712345678.000101"), ("999999999.9", "1712345678.000100")]
)
def test_a_ts_is_compared_digit_by_digit(earlier: str, later: str) -> None:
    """As a float the last digits are gone, as a text the order is."""
    assert ORDER.key(earlier) < ORDER.key(later)
