"""kill -9 of the agent the moment a button is pressed: what it says is done once, and the button goes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from channels.emulators.stage import Said
from tests.parts.product import PLATFORMS, Chat, Product, running_product
from tests.parts.waiting import until

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300), pytest.mark.long]
_ERROR = "/retry tries it once more"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def product(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Product]:
    """One Trivet on three platforms."""
    async with running_product(tmp_path_factory.mktemp("pressing")) as running:
        yield running


def offering(chat: Chat) -> list[Said]:
    """What shows buttons, oldest first."""
    return [said for said in chat.stage.said(chat.place.id) if said.buttons]


@pytest.mark.parametrize("platform", PLATFORMS)
async def test_a_retry_is_done_once_whoever_dies(product: Product, platform: str) -> None:
    """The model fails again, so that each run of it is to be seen."""
    chat = product.chat(platform, "Ann")
    await chat.say("fail")
    await until(lambda: offering(chat), lambda: chat.answers)
    (error,) = offering(chat)
    await chat.stage.press_button(chat.person.id, chat.place.id, error.id, error.buttons[0].id)
    await product.kill("agent")
    await until(lambda: [said.id for said in offering(chat)] not in ([], [error.id]), lambda: chat.answers)
    await until(lambda: len(offering(chat)) == 1, lambda: chat.answers)
    await chat.say("say still here")
    await chat.until_answered("still here")
    await product.until_settled()
    assert chat.heard.count(_ERROR) == 2
