"""Reminders through the whole product: real client libraries, emulated platforms, processes that come and go."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gateway.clock import SystemClock
from tests.parts.product import running_product
from tests.parts.waiting import until

SHOWN = "Reminder: call mum"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("platform", ["telegram", "discord", "slack"])
@pytest.mark.long
async def test_a_reminder_fires_once_after_everything_was_restarted(tmp_path: Path, platform: str) -> None:
    """In a direct chat and in a group. The agent is killed, then all of it is stopped; it comes due
    while nothing runs, and arrives where it was asked for and nowhere else."""
    async with running_product(tmp_path, platforms=(platform,)) as product:
        direct = product.chat(platform, "Ann")
        chats = [direct, replace(direct, place=product.group(platform, "friends"))]
        for chat in chats:
            await chat.ask("/remind in 5 seconds call mum", expecting="I shall remind you")
        asked_ms = SystemClock().now_ms()
        await product.kill("agent")
        await product.stop()
        heard = [len(chat.answers) for chat in chats]
        await until(lambda: SystemClock().now_ms() > asked_ms + 5_000)
        await product.start()
        for chat in chats:
            await until(lambda: SHOWN in chat.heard.replace("*", ""), lambda: f"{chat.platform}: {chat.answers}")  # noqa: B023
        await product.kill("agent")
        for chat in chats:
            await chat.ask("hello", expecting="hello")
        await product.until_settled()
        assert [len(chat.answers) - before for chat, before in zip(chats, heard, strict=True)] == [2] * len(chats)
