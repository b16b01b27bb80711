"""Many people at once, through the whole product: each is answered, nobody waits for another, nobody hears another."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import pytest
import pytest_asyncio

from tests.parts.model_server import Body, ModelServer, serve_model
from tests.parts.product import PLATFORMS, Chat, Product, running_product

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(300),
]  # processes start slowly on a busy machine
CHATS = 100
AT_ONCE = CHATS  # one agent process takes 512 turns at once by default
MODEL_LATENCY_S = 0.5


@dataclass(frozen=True, slots=True)
class Town:
    """The product, and the model that it asks."""

    product: Product
    model: ModelServer


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def town(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Town]:
    """One for all tests here."""
    async with serve_model() as model, running_product(tmp_path_factory.mktemp("town"), model=model) as product:
        yield Town(product, model)


@pytest.mark.long
async def test_nobody_hears_what_another_said(town: Town) -> None:
    """Two people on each platform, in private and in one group: no request to the model mixes two conversations."""
    conversations: dict[str, Chat] = {}
    for platform in PLATFORMS:
        people = [town.product.chat(platform, name) for name in ("Ann", "Ben")]
        group = town.product.group(platform, "Kitchen")
        for chat in people:
            conversations[f"{platform}-{chat.person.name}-private".lower()] = chat
            conversations[f"{platform}-{chat.person.name}-group".lower()] = replace(chat, place=group)
    for turn in range(3):
        for word, chat in conversations.items():
            await chat.say(f"{word}-{turn} is my word")
        for word, chat in conversations.items():
            await chat.until_answered(f"{word}-{turn}")
    await town.product.until_settled()
    asked = [json.dumps(request) for request in town.model.requests]
    heard = [[word for word in conversations if word in request] for request in asked]
    assert {len(words) for words in heard} == {1}
    for word in conversations:
        assert any(all(f"{word}-{turn}" in request for turn in range(3)) for request in asked), (
            f"{word} lost its history"
        )
    keys = {session["key"] for session in await town.product.api("/api/v1/sessions", limit=500)}
    assert len(keys) == len(conversations)


class Gate:
    """Lets no turn's call to the model pass before `count` of them have come."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._came = 0
        self._opened = asyncio.Event()

    async def __call__(self, body: Body) -> None:
        if not body.get("tools"):
            return  # titles are no turns
        self._came += 1
        if self._came >= self._count:
            self._opened.set()
        await self._opened.wait()


@pytest.mark.long
async def test_a_hundred_chats_are_served_at_once(town: Town) -> None:
    """No turn waits for the model of another one: the first answer comes only after all have been asked for."""
    town.model.latency_s = MODEL_LATENCY_S
    town.model.gate = Gate(AT_ONCE)
    platforms = itertools.cycle(PLATFORMS)
    chats = [town.product.chat(next(platforms), f"Person {number}") for number in range(CHATS)]
    began_s = time.monotonic()
    await asyncio.gather(*(chat.say(f"hello from {number}") for number, chat in enumerate(chats)))
    for number, chat in enumerate(chats):
        await chat.until_answered(f"hello from {number}")
    print(f"{CHATS} chats, a model that takes {MODEL_LATENCY_S:g} s: {time.monotonic() - began_s:.2f} s in all")
    await town.product.until_settled()
    for number, chat in enumerate(chats):
        assert len(chat.answers) == 1, chat.answers
        assert chat.answers[0].endswith(f"hello from {number}")
