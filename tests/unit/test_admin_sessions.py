"""Conversations in the operator's API: lists, transcripts, and the order to compact one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime

import httpx
import pytest

from gateway.bus.bus import RedisBus
from gateway.contracts.ids import SessionKey
from gateway.contracts.sessions import OpenSession
from gateway.limits import LANE_MESSAGES_MAX
from gateway.store import Store
from tests.parts.effects import apply_effects
from tests.parts.operator_api import ADA, CLOCK, app_of, client_of, converse, message


@pytest.fixture
async def admin(sqlite_store: Store, bus: RedisBus) -> AsyncIterator[httpx.AsyncClient]:
    """The API with the operator's token."""
    async with client_of(app_of(sqlite_store, bus)) as client:
        yield client


async def test_sessions_are_listed_newest_first_with_all_their_fields(
    admin: httpx.AsyncClient, sqlite_store: Store
) -> None:
    first = await converse(sqlite_store, ADA, 1)
    second = await converse(sqlite_store, SessionKey("slack", "U1", ("C1",)), 2)
    rows = (await admin.get("/api/v1/sessions")).json()
    assert [row["id"] for row in rows] == [second.id, first.id]
    row = rows[1]
    assert datetime.fromisoformat(row.pop("created_at")) <= datetime.fromisoformat(row.pop("updated_at"))
    assert row == {
        "id": first.id,
        "key": "telegram:1",
        "owner": "telegram:1",
        "name": "",
        "title": "New Chat",
        "channel": "telegram",
        "status": "active",
        "is_current": True,
        "parent_session_id": None,
        "message_count": 2,
        "children_count": 0,
        "tokens": 15,
        "cost": 0.25,
    }
    assert (rows[0]["key"], rows[0]["channel"]) == ("slack:U1/C1", "slack")


async def test_sessions_come_in_pages_and_of_one_key(admin: httpx.AsyncClient, sqlite_store: Store) -> None:
    made = [await converse(sqlite_store, SessionKey("telegram", str(number)), number) for number in (1, 2, 3)]
    newest_first = [session.id for session in reversed(made)]

    async def ids(query: str) -> list[str]:
        return [row["id"] for row in (await admin.get(f"/api/v1/sessions?{query}")).json()]

    assert await ids("limit=2") == newest_first[:2]
    assert await ids("limit=2&offset=2") == newest_first[2:]
    assert await ids("key=telegram:2") == [made[1].id]
    assert (await admin.get("/api/v1/sessions?key=nonsense")).status_code == 422
    assert (await admin.get("/api/v1/sessions?limit=0")).status_code == 422
    assert (await admin.get("/api/v1/sessions?limit=100000")).status_code == 422


async def test_one_session_and_its_messages_in_order(admin: httpx.AsyncClient, sqlite_store: Store) -> None:
    await converse(sqlite_store, ADA, 1)
    session = await converse(sqlite_store, ADA, 2)
    assert (await admin.get(f"/api/v1/sessions/{session.id}")).json()["message_count"] == 4
    rows = (await admin.get(f"/api/v1/sessions/{session.id}/messages")).json()
    assert [(row["role"], row["text"]) for row in rows] == [
        ("user", "question 1"),
        ("assistant", "answer 1"),
        ("user", "question 2"),
        ("assistant", "answer 2"),
    ]
    assert rows[0]["message_id"] == "telegram:bot:1:1"
    after = (await admin.get(f"/api/v1/sessions/{session.id}/messages?after_seq={rows[1]['seq']}&limit=1")).json()
    assert [row["text"] for row in after] == ["question 2"]
    before = (await admin.get(f"/api/v1/sessions/{session.id}/messages?before_seq={2**53}&limit=1")).json()
    assert [row["text"] for row in before] == ["answer 2"]


@pytest.mark.parametrize("path", ["/api/v1/sessions/none", "/api/v1/sessions/none/messages", "/api/v1/nothing"])
async def test_what_is_not_there_is_404(admin: httpx.AsyncClient, path: str) -> None:
    assert (await admin.get(path)).status_code == 404


async def test_compact_puts_the_command_on_the_lane_of_the_session(
    admin: httpx.AsyncClient, sqlite_store: Store, bus: RedisBus
) -> None:
    session = await converse(sqlite_store, ADA, 1)
    answers = [
        await admin.post(f"/api/v1/sessions/{session.id}/compact", json={"focus": "the boat"}),
        await admin.post(f"/api/v1/sessions/{session.id}/compact"),
    ]
    assert [answer.status_code for answer in answers] == [202, 202]
    await bus.lanes.register("worker", lease_ttl_s=30)
    batch = await bus.lanes.claim("worker", lanes_max=1, messages_max=10, attempts_max=4)
    queued = batch.claims[0].messages
    assert [each.id for each in queued] == [answer.json()["message_id"] for answer in answers]
    assert [each.text for each in queued] == ["/compact the boat", "/compact"]
    assert {each.key for each in queued} == {ADA}
    assert {each.address.channel for each in queued} == {"admin"}


async def test_only_the_current_session_of_a_key_can_be_compacted(
    admin: httpx.AsyncClient, sqlite_store: Store
) -> None:
    old = await converse(sqlite_store, ADA, 1)
    await apply_effects(sqlite_store, ADA, [OpenSession()], now_ms=CLOCK.now_ms())
    answer = await admin.post(f"/api/v1/sessions/{old.id}/compact")
    assert answer.status_code == 409
    assert (await admin.post("/api/v1/sessions/none/compact")).status_code == 404


async def test_a_full_lane_is_told(admin: httpx.AsyncClient, sqlite_store: Store, bus: RedisBus) -> None:
    session = await converse(sqlite_store, ADA, 1)
    for number in range(LANE_MESSAGES_MAX):
        await bus.intake.enqueue(message(ADA, 100 + number, "waiting"))
    assert (await admin.post(f"/api/v1/sessions/{session.id}/compact")).status_code == 429
