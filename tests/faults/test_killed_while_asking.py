"""kill -9 of a process while a person is asked: the tool runs once, on one approval, whoever died."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import pytest
import pytest_asyncio

from channels.emulators.stage import Said
from tests.parts.product import PLATFORMS, VALKEY, Chat, Product, running_product
from tests.parts.waiting import PATIENCE_S, comes_true, until

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300), pytest.mark.long]
ASKING = {"TRIVET_TOOLS__POLICY": '["ask file_write"]'}
WRITE = 'tool file_write {"path": "note.txt", "content": "hello"}'
_DONE = "Wrote note.txt"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def product(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Product]:
    """One Trivet on three platforms that asks everybody before it writes."""
    async with running_product(tmp_path_factory.mktemp("asking"), settings=ASKING) as running:
        yield running


def questions(chat: Chat) -> list[Said]:
    """Those that show buttons, oldest first."""
    return [said for said in chat.stage.said(chat.place.id) if said.buttons]


async def press(chat: Chat, question: Said, label: str = "Approve") -> None:
    (button,) = (button for button in question.buttons if button.label == label)
    await chat.stage.press_button(chat.person.id, chat.place.id, question.id, button.id)


async def press_until_heard(chat: Chat) -> None:
    """Discord and Slack keep no press for a bot that is not there: their clients say so, and one presses again."""
    async with asyncio.timeout(PATIENCE_S):
        while shown := questions(chat):
            await press(chat, shown[0])
            await comes_true(lambda: not questions(chat), within_s=1.0)


@pytest.mark.parametrize("platform", PLATFORMS)
async def test_a_new_agent_asks_again_and_the_old_button_is_good_for_nothing(product: Product, platform: str) -> None:
    chat = product.chat(platform, "Ann")
    await chat.say(WRITE)
    await until(lambda: questions(chat), lambda: chat.answers)
    (old,) = questions(chat)
    await product.kill("agent")
    await until(lambda: len(questions(chat)) == 2, lambda: chat.answers)
    _, new = questions(chat)
    await press(chat, old)
    await until(lambda: [said.id for said in questions(chat)] == [new.id], lambda: chat.answers)
    assert "No longer open" in chat.heard
    assert _DONE not in chat.heard
    await press(chat, new)
    await chat.until_answered(_DONE)
    await product.until_settled()
    assert chat.heard.count(_DONE) == 1


@pytest.mark.parametrize("role", ["channels", VALKEY])
async def test_a_question_outlives_the_channels_and_the_bus(product: Product, role: str) -> None:
    """The same message, the same buttons: what the agent waits for is still heard."""
    chats = [product.chat(platform, "Ben") for platform in PLATFORMS]
    for chat in chats:
        await chat.say(WRITE)
        await until(partial(questions, chat))
    await until(lambda: not product.unsent(), product.unsent)
    await product.kill(role)
    await product.until_ready()
    for chat in chats:
        await press_until_heard(chat)
        await chat.until_answered(_DONE)
        assert not questions(chat)
    await product.until_settled()
    assert [chat.heard.count(_DONE) for chat in chats] == [1, 1, 1]
