"""kill -9 around the lines in a chat: none is left saying for ever that somebody is at work."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.parts.product import PLATFORMS, VALKEY, Chat, running_product
from tests.parts.waiting import until

ANSWERED = "The sub-agents answered:"
pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


def lines_of(chat: Chat) -> list[str]:
    """What the chat shows of sub-agents, message by message."""
    return [text for text in chat.answers if any(sign in text for sign in "⏳✓✗")]


async def until_all_are_over(chat: Chat) -> None:
    """Wait until no line says that somebody is at work."""
    await until(lambda: "⏳" not in chat.heard, lambda: chat.answers)


@pytest.mark.parametrize("role", ["agent", "channels", VALKEY, "agent channels"])
@pytest.mark.parametrize("moment", ["while they work", "as they end"])
async def test_every_line_says_how_it_ended(tmp_path: Path, role: str, moment: str) -> None:
    """On every platform; the one message stands in front of the answer."""
    async with running_product(tmp_path) as product:
        chats = [product.chat(platform, "Ada") for platform in PLATFORMS]
        for chat in chats:
            await chat.say("split slow 4 alpha | slow 4 beta | slow 4 gamma")
        for chat in chats:
            await chat.until_answered("⏳")
        if moment == "as they end":
            await until(lambda: any("✓" in chat.heard for chat in chats), lambda: [chat.answers for chat in chats])
        for each in role.split():
            await product.kill(each)
        for chat in chats:
            await chat.until_answered(ANSWERED)
            await until_all_are_over(chat)
            assert chat.heard.count(ANSWERED) == 1, chat.answers
            (at,) = [place for place, text in enumerate(chat.answers) if text in lines_of(chat)]
            assert ANSWERED in chat.answers[at + 1], chat.answers
