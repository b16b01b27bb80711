"""The channel of programs on a real bus: what one process delivers, another one's clients hear."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import cast

import httpx
import pytest

from channels.api.adapter import ApiAdapter, ApiMessage, WatchedAnswer, message_id
from channels.api.server import ApiServer, ChatOrder
from channels.core.adapter import InboundHandler
from gateway.bus.bus import RedisBus
from gateway.clients import token_of
from gateway.clock import SystemClock
from gateway.contracts.ids import SessionKey, SessionScope
from gateway.contracts.messages import Draft, literal_text
from gateway.contracts.sessions import GrantRole
from gateway.limits import API_CLIENT_REQUESTS_MAX
from tests.parts.waiting import until_found

SHOP = SessionKey("api", "shop-0a1b2c")


@asynccontextmanager
async def unserved(_adapter: ApiAdapter, _handler: InboundHandler) -> AsyncIterator[None]:
    yield


def adapter_of(bus: RedisBus) -> ApiAdapter:
    drafts = partial(bus.deliveries.drafts, "api")
    return ApiAdapter(unserved, bus.answers, drafts, SystemClock(), key="k", webhooks=(), scope=SessionScope.PLACE)


@pytest.fixture
async def elsewhere(bus: RedisBus) -> AsyncIterator[ApiAdapter]:
    """A process that serves the port and delivers nothing."""
    adapter = adapter_of(bus)
    running = asyncio.create_task(adapter.run(None))  # type: ignore[arg-type]
    yield adapter
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_draft_is_heard_in_every_process(bus: RedisBus, elsewhere: ApiAdapter) -> None:
    message = elsewhere.incoming(ApiMessage(SHOP, "m1", "", "hello"))
    watched, other = elsewhere.watch(message.id), elsewhere.watch("api:local:other-0a1b2c:m1")
    draft = Draft(message.address, SHOP, "t1", "r1", literal_text("Half of it"))

    async def is_heard(watched: WatchedAnswer) -> bool:
        await bus.deliveries.show_draft(draft)  # again, until somebody listens
        return watched.draft == "Half of it"

    await until_found(partial(is_heard, watched))
    assert other.draft == ""


def test_without_a_user_the_conversation_is_what_the_client_says() -> None:
    said = [("system", "be kind"), ("user", "Plums?"), ("assistant", "In August."), ("user", "And pears?")]
    messages = [{"role": role, "content": text} for role, text in said]
    chat = ChatOrder.model_validate({"messages": messages})
    once, again = chat.message(SHOP, "m1"), chat.message(SHOP, "m2")
    assert once.text == "And pears?"
    assert [(quote.author_name, quote.text) for quote in once.before] == [
        ("user", "Plums?"),
        ("assistant", "In August."),
    ]
    assert once.thread != again.thread, "a chat that begins alike is another one"
    kept = ChatOrder.model_validate({"messages": messages, "user": "ada"}).message(SHOP, "m3")
    assert (kept.thread, kept.before) == ("ada", ())


async def test_one_client_leaves_room_for_the_others(bus: RedisBus) -> None:
    """A port has so many connections, and nobody who waits for an answer is hung up on."""
    adapter, other = adapter_of(bus), SessionKey("api", "bank-0a1b2c")

    async def member(_client: SessionKey) -> GrantRole:
        return GrantRole.MEMBER

    server = ApiServer(adapter, cast(InboundHandler, None), member, hosts=())
    for client in (SHOP, other):
        await bus.answers.expect(message_id(client, "m1"))
    client_of_port = httpx.AsyncClient(transport=httpx.ASGITransport(server.app), base_url="http://localhost")
    async with client_of_port as http, asyncio.TaskGroup() as group:

        async def asked(client: SessionKey, path: str) -> int:
            told = await http.get(path, headers={"Authorization": f"Bearer {token_of('k', client)}"})
            return told.status_code

        events = [asked(SHOP, "/api/v1/messages/m1/events") for _ in range(API_CLIENT_REQUESTS_MAX + 1)]
        refused, waiting = await asyncio.wait(map(group.create_task, events), return_when=asyncio.FIRST_COMPLETED)
        assert [task.result() for task in refused] == [429]
        assert await asked(other, "/api/v1/messages/m1") == 202
        one = waiting.pop()
        one.cancel()
        await asyncio.wait([one])
        assert await asked(SHOP, "/api/v1/messages/m1") == 202
        for task in waiting:
            task.cancel()
