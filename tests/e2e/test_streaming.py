"""Answers that grow, through the whole product, with the demo model taking its time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.models.demo import SIGNATURE
from channels.emulators.stage import EventKind
from channels.emulators.telegram import TelegramEmulator
from tests.parts.product import Product, running_product

STORY = "once upon a time there was an answer that nobody wanted to wait for, " * 4
pytestmark = [pytest.mark.long, pytest.mark.timeout(120)]


@pytest.fixture
async def product(tmp_path: Path) -> AsyncIterator[Product]:
    async with running_product(tmp_path) as running:
        yield running


async def test_people_read_along_and_have_one_whole_answer_in_the_end(product: Product) -> None:
    """In a message on Discord and on Slack, in a draft on Telegram."""
    chats = [product.chat(platform, "Ann") for platform in product.stages]
    telegram = product.stages["telegram"]
    assert isinstance(telegram, TelegramEmulator)
    drafts: list[str] = []

    async def watch() -> None:
        async for event in telegram.events():
            if event.kind is EventKind.DRAFT and event.said:
                drafts.append(event.said.text)  # noqa: PERF401 - the list is read while it grows

    watching = asyncio.create_task(watch())
    for chat in chats:
        await chat.say(f"slow 4 say {STORY}")
    staying = [chat for chat in chats if chat.platform != "telegram"]
    for chat in staying:
        await chat.until_answered("once upon")
        assert SIGNATURE.strip("_") not in chat.heard
    for chat in chats:
        await chat.until_answered(SIGNATURE.strip("_"))
    await product.until_settled()
    watching.cancel()
    assert [len(chat.answers) for chat in chats] == [1, 1, 1]
    assert all(STORY.strip() in chat.heard for chat in chats)
    assert drafts == sorted(drafts, key=len)
    assert len(drafts) > 1
