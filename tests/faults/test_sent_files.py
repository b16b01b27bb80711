"""kill -9 of channels and agent while files are on their way: each arrives once, behind its words."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.e2e.test_sent_files import SETTINGS, received
from tests.parts.product import PLATFORMS, Chat, Product, running_product
from tests.parts.waiting import until

pytestmark = [pytest.mark.timeout(600), pytest.mark.long]
ROUNDS = 6


@contextlib.asynccontextmanager
async def slow_platforms(product: Product, delay_s: float) -> AsyncIterator[None]:
    """Every platform takes its time with each answer, so that a kill falls into it."""
    for stage in product.stages.values():
        stage.faults.delay_s = delay_s
    try:
        yield
    finally:
        for stage in product.stages.values():
            stage.faults.delay_s = 0.0


async def until_received(product: Product, chat: Chat, count: int) -> None:
    """Wait until the place has so many files."""
    await until(lambda: len(received(chat)) >= count, lambda: product.log[-4000:])


@pytest.mark.parametrize("role", ["channels", "agent"])
async def test_a_kill_between_the_upload_and_the_receipt(tmp_path: Path, role: str) -> None:
    """At moments that move through the delivery: before, in and behind the upload."""
    async with running_product(tmp_path, settings=SETTINGS) as product:
        chats = [product.chat(platform, "Ada") for platform in PLATFORMS]
        for number in range(ROUNDS):
            name, content = f"file{number}.txt", f"content {number}\n"
            for chat in chats:
                await chat.ask(f"tool file_write {json.dumps({'path': name, 'content': content})}", "Wrote")
            async with slow_platforms(product, 0.3):
                for chat in chats:
                    await chat.say(f"tool send_file {json.dumps({'path': name})}")
                await asyncio.sleep(0.3 + 0.25 * number)  # the moment of the kill is what varies
                await product.kill(role)
            for chat in chats:
                await until_received(product, chat, number + 1)
        await product.until_settled()
        for chat in chats:
            expected = [f"content {number}\n".encode() for number in range(ROUNDS)]
            assert [file.content for file in received(chat)] == expected, chat.platform
