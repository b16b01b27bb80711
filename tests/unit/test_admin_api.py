"""The operator's API on a real store and a real bus: who gets in, what is shown, what an order does."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from agent.subagents.life.orders import SubOrder
from gateway.admin.app import Parts, create_app
from gateway.admin.auth import AdminToken
from gateway.admin.operator_channel import take_replies
from gateway.bus.bus import RedisBus
from gateway.clock import SystemClock
from gateway.contracts.entries import (
    Entry,
    Grant,
    GrantRole,
    OpenSession,
    Role,
    Session,
    TurnCommit,
    TurnState,
    Usage,
    UsagePurpose,
)
from gateway.contracts.errors import ConfigError
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import CleanText, DeliveryState, InboundMessage, Receipt, Reply, ReplyKind
from gateway.contracts.workspaces import folder_name
from gateway.limits import LANE_MESSAGES_MAX
from gateway.scrub import Scrubber
from gateway.store import SqlStore, open_store
from tests.parts.keepers import keeper_of
from tests.parts.nursery import never, nursery
from tests.parts.waiting import until

TOKEN = "the-operator's-token"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
ADA = SessionKey("telegram", "1")
CHAT = ReplyAddress("telegram", "1", "{}")
CLOCK = SystemClock()
SCRUBBER = Scrubber()


def app_of(
    store: SqlStore, bus: RedisBus, *, channels: tuple[str, ...] = ("telegram",), workspaces: Path | None = None
) -> FastAPI:
    parts = Parts(
        store=store,
        figures=bus.operator,
        intake=bus.intake,
        keeper=keeper_of(store, bus),
        vault=bus.vault,
        scrubber=SCRUBBER,
        clock=CLOCK,
        channels=channels,
        version="0.1.0",
        workspaces=workspaces,
    )
    return create_app(parts, TOKEN)


def client_of(app: FastAPI) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://admin", headers=HEADERS)


@pytest.fixture
async def admin(sqlite_store: SqlStore, bus: RedisBus) -> AsyncIterator[httpx.AsyncClient]:
    """The API with the operator's token."""
    async with client_of(app_of(sqlite_store, bus)) as client:
        yield client


def message(key: SessionKey, number: int, text: str) -> InboundMessage:
    return InboundMessage(
        id=f"telegram:bot:{key.user}:{number}",
        key=key,
        address=CHAT,
        text=SCRUBBER.scrub(text),
        author_id=key.user,
        author_name=SCRUBBER.scrub("Ada"),
        is_private=True,
        sent_at_ms=1_700_000_000_000,
        received_at_ms=1_700_000_000_000,
    )


async def converse(store: SqlStore, key: SessionKey, number: int) -> Session:
    """One question, one answer, one model call; the key's session."""
    asked = message(key, number, f"question {number}")
    turn_id = CLOCK.new_id()
    start = await store.begin_turn(turn_id=turn_id, key=key, fence=number, messages=[asked], now_ms=CLOCK.now_ms())
    usage = Usage(key, UsagePurpose.TURN, "demo/scripted", 10, 5, cost_usd=0.25, turn_id=turn_id)
    committed = await store.commit_turn(
        TurnCommit(
            turn_id=turn_id,
            session_id=start.session.id,
            key=key,
            fence=number,
            state=TurnState.DONE,
            consumed=(asked.id,),
            entries=(Entry(Role.ASSISTANT, SCRUBBER.scrub(f"answer {number}"), turn_id=turn_id),),
            usage=(usage,),
            finished_at_ms=CLOCK.now_ms(),
        )
    )
    return committed.session


def basic(password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"me:{password}".encode()).decode()}


@pytest.mark.parametrize(
    "path", ["/api/sessions", "/api/sessions/x", "/api/sessions/x/messages", "/api/usage", "/metrics"]
)
@pytest.mark.parametrize(
    "headers",
    [{}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}, basic(TOKEN), {"Authorization": "Bearer"}],
)
async def test_nobody_gets_in_without_the_token(
    sqlite_store: SqlStore, bus: RedisBus, path: str, headers: dict[str, str]
) -> None:
    async with client_of(app_of(sqlite_store, bus)) as client:
        client.headers.pop("Authorization")
        answer = await client.get(path, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert answer.json() == {"detail": "the admin token is required"}


@pytest.mark.parametrize("token", ["", "  "])
def test_there_is_no_api_without_a_token(token: str) -> None:
    with pytest.raises(ConfigError, match="admin token is empty"):
        AdminToken(token)


async def test_health_needs_no_token(admin: httpx.AsyncClient) -> None:
    admin.headers.pop("Authorization")
    assert (await admin.get("/healthz")).json() == {"status": "ok"}


async def test_ready_only_when_every_channel_is_connected_and_an_agent_lives(
    sqlite_store: SqlStore, bus: RedisBus
) -> None:
    async with client_of(app_of(sqlite_store, bus, channels=("telegram", "slack"))) as client:
        answer = await client.get("/readyz")
        assert answer.status_code == 503
        assert answer.json() == {
            "ready": False,
            "reasons": [
                "telegram: no report from the channels role",
                "slack: no report from the channels role",
                "no agent process is alive",
            ],
        }
        await bus.lanes.register("worker", lease_ttl_s=30)
        await bus.operator.report_channel("telegram", "connected", ttl_s=30)
        await bus.operator.report_channel("slack", "the token is refused", ttl_s=30)
        assert (await client.get("/readyz")).json()["reasons"] == ["slack: the token is refused"]
        await bus.operator.report_channel("slack", "connected", ttl_s=30)
        answer = await client.get("/readyz")
    assert (answer.status_code, answer.json()) == (200, {"ready": True, "reasons": []})


async def test_a_database_that_was_never_migrated_is_a_reason(tmp_path: Path, bus: RedisBus) -> None:
    store = open_store(f"sqlite+aiosqlite:///{tmp_path}/x.db")
    async with client_of(app_of(store, bus, channels=())) as client:
        answer = await client.get("/readyz")
        assert answer.status_code == 503
        assert any("migrate" in reason for reason in answer.json()["reasons"])
        assert "trivet_database_up 0.0" in (await client.get("/metrics")).text
    await store.close()


async def test_sessions_are_listed_newest_first_with_all_their_fields(
    admin: httpx.AsyncClient, sqlite_store: SqlStore
) -> None:
    first = await converse(sqlite_store, ADA, 1)
    second = await converse(sqlite_store, SessionKey("slack", "U1", ("C1",)), 2)
    rows = (await admin.get("/api/sessions")).json()
    assert [row["id"] for row in rows] == [second.id, first.id]
    row = rows[1]
    assert datetime.fromisoformat(row.pop("created_at")) <= datetime.fromisoformat(row.pop("updated_at"))
    assert row == {
        "id": first.id,
        "key": "telegram:1",
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


async def test_sessions_come_in_pages_and_of_one_key(admin: httpx.AsyncClient, sqlite_store: SqlStore) -> None:
    made = [await converse(sqlite_store, SessionKey("telegram", str(number)), number) for number in (1, 2, 3)]
    newest_first = [session.id for session in reversed(made)]

    async def ids(query: str) -> list[str]:
        return [row["id"] for row in (await admin.get(f"/api/sessions?{query}")).json()]

    assert await ids("limit=2") == newest_first[:2]
    assert await ids("limit=2&offset=2") == newest_first[2:]
    assert await ids("key=telegram:2") == [made[1].id]
    assert (await admin.get("/api/sessions?key=nonsense")).status_code == 422
    assert (await admin.get("/api/sessions?limit=0")).status_code == 422
    assert (await admin.get("/api/sessions?limit=100000")).status_code == 422


async def test_one_session_and_its_messages_in_order(admin: httpx.AsyncClient, sqlite_store: SqlStore) -> None:
    await converse(sqlite_store, ADA, 1)
    session = await converse(sqlite_store, ADA, 2)
    assert (await admin.get(f"/api/sessions/{session.id}")).json()["message_count"] == 4
    rows = (await admin.get(f"/api/sessions/{session.id}/messages")).json()
    assert [(row["role"], row["text"]) for row in rows] == [
        ("user", "question 1"),
        ("assistant", "answer 1"),
        ("user", "question 2"),
        ("assistant", "answer 2"),
    ]
    assert rows[0]["message_id"] == "telegram:bot:1:1"
    after = (await admin.get(f"/api/sessions/{session.id}/messages?after_seq={rows[1]['seq']}&limit=1")).json()
    assert [row["text"] for row in after] == ["question 2"]
    before = (await admin.get(f"/api/sessions/{session.id}/messages?before_seq={2**53}&limit=1")).json()
    assert [row["text"] for row in before] == ["answer 2"]


@pytest.mark.parametrize("path", ["/api/sessions/none", "/api/sessions/none/messages", "/api/nothing"])
async def test_what_is_not_there_is_404(admin: httpx.AsyncClient, path: str) -> None:
    assert (await admin.get(path)).status_code == 404


async def test_compact_puts_the_command_on_the_lane_of_the_session(
    admin: httpx.AsyncClient, sqlite_store: SqlStore, bus: RedisBus
) -> None:
    session = await converse(sqlite_store, ADA, 1)
    answers = [
        await admin.post(f"/api/sessions/{session.id}/compact", json={"focus": "the boat"}),
        await admin.post(f"/api/sessions/{session.id}/compact"),
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
    admin: httpx.AsyncClient, sqlite_store: SqlStore
) -> None:
    old = await converse(sqlite_store, ADA, 1)
    await sqlite_store.apply(ADA, [OpenSession()], now_ms=CLOCK.now_ms())
    answer = await admin.post(f"/api/sessions/{old.id}/compact")
    assert answer.status_code == 409
    assert (await admin.post("/api/sessions/none/compact")).status_code == 404


async def test_a_full_lane_is_told(admin: httpx.AsyncClient, sqlite_store: SqlStore, bus: RedisBus) -> None:
    session = await converse(sqlite_store, ADA, 1)
    for number in range(LANE_MESSAGES_MAX):
        await bus.intake.enqueue(message(ADA, 100 + number, "waiting"))
    assert (await admin.post(f"/api/sessions/{session.id}/compact")).status_code == 429


async def test_answers_to_the_operator_are_received_and_go_to_no_chat(bus: RedisBus) -> None:
    reply = Reply(
        id="o1",
        turn_id="t1",
        key=ADA,
        address=ReplyAddress("admin", "telegram:1", "{}"),
        text=SCRUBBER.scrub("Compacted."),
        kind=ReplyKind.NOTICE,
        created_at_ms=CLOCK.now_ms(),
    )
    await bus.deliveries.publish_notice(reply)
    taking = asyncio.create_task(take_replies(bus.deliveries, consumer="admin-1", clock=CLOCK))
    try:
        received: list[str] = []
        while not received:
            received = [each.record.reply_id for _, each in await bus.lanes.receipts("w", count=10, wait_s=1)]
    finally:
        taking.cancel()
        await asyncio.gather(taking, return_exceptions=True)
    assert received == ["o1"]
    assert sum((await bus.operator.figures()).outbound_pending.values()) == 0


async def test_metrics_show_the_bus(admin: httpx.AsyncClient, bus: RedisBus) -> None:
    await bus.intake.enqueue(message(ADA, 1, "waiting"))
    await bus.operator.report_channel("telegram", "connected", ttl_s=30)
    answer = await admin.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    lines = answer.text.splitlines()
    for line in (
        "trivet_queue_messages 1.0",
        "trivet_lanes_ready 1.0",
        'trivet_channel_connected{channel="telegram"} 1.0',
        "trivet_agent_workers 0.0",
        "trivet_bus_up 1.0",
        "trivet_database_up 1.0",
        'trivet_build_info{version="0.1.0"} 1.0',
    ):
        assert line in lines


async def test_the_queue_is_told_in_figures(admin: httpx.AsyncClient, bus: RedisBus) -> None:
    await bus.intake.enqueue(message(ADA, 1, "waiting"))
    await bus.operator.report_channel("telegram", "connected", ttl_s=30)
    found = (await admin.get("/api/queue")).json()
    assert (found["messages"], found["lanes_ready"], found["lanes_running"], found["dead_letters"]) == (1, 1, 0, 0)
    assert found["oldest_wait_ms"] >= 0
    assert found["channels"] == {"telegram": "connected"}


async def test_the_address_that_is_printed_at_start_shows_a_page(sqlite_store: SqlStore, bus: RedisBus) -> None:
    async with client_of(app_of(sqlite_store, bus)) as client:
        front = await client.get("/", headers=basic(TOKEN))
        assert (front.status_code, front.headers["location"]) == (307, "/sessions")
        assert (await client.get("/sessions", headers=basic(TOKEN))).status_code == 200


async def test_the_documentation_opens_in_a_browser_and_lists_every_route(
    sqlite_store: SqlStore, bus: RedisBus
) -> None:
    app = app_of(sqlite_store, bus)
    async with client_of(app) as client:
        page = await client.get("/api/docs", headers=basic(TOKEN))
        assert page.status_code == 200
        for route in ("/healthz", "/readyz", "/metrics", "/api/sessions/{session_id}/compact"):
            assert f"<code>{route}</code>" in page.text
        assert (await client.get("/api/openapi.json")).json()["info"]["title"] == "Trivet"
        refused = await client.get("/api/docs", headers=basic("wrong"))
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"].startswith("Basic")


class TestDeliveries:
    async def test_a_trace_tells_every_hop_in_order(
        self, admin: httpx.AsyncClient, sqlite_store: SqlStore, bus: RedisBus
    ) -> None:
        """From the message to the receipt, by the message's id or the reply's."""
        reply = await answered_reply(sqlite_store, bus)
        await bus.lanes.republish([reply])
        (pending,) = await bus.deliveries.replies("telegram", "c1", count=1, wait_s=5)
        begun = replace(pending.record, state=DeliveryState.SENDING, begun_at_ms=CLOCK.now_ms())
        assert await bus.deliveries.record("telegram", pending.entry_id, begun)
        sent = replace(begun, state=DeliveryState.SENT, next_chunk=1, chunks=1, platform_ids=("7",))
        receipt = Receipt(replace(sent, updated_at_ms=CLOCK.now_ms()), ADA, "telegram")
        await bus.deliveries.finish("telegram", pending.entry_id, receipt)
        await sqlite_store.record_receipts([receipt])
        names = [hop["name"] for hop in (await admin.get("/api/trace/telegram:bot:1:1")).json()]
        assert names == [
            "taken by a turn",
            "turn began",
            "turn done",
            "answered",
            "reply committed",
            "published",
            "sending",
            "sent",
            "receipt",
        ]
        assert (await admin.get(f"/api/trace/{reply.id}")).json() == (
            await admin.get(f"/api/trace/{reply.turn_id}")
        ).json()
        assert (await admin.get("/api/trace/nobody")).status_code == 404

    async def test_the_newest_are_listed(self, admin: httpx.AsyncClient, sqlite_store: SqlStore, bus: RedisBus) -> None:
        reply = await answered_reply(sqlite_store, bus)
        (row,) = (await admin.get("/api/deliveries", params={"key": str(ADA)})).json()
        assert (row["reply_id"], row["state"], row["chunks_sent"]) == (reply.id, "pending", 0)
        assert (await admin.get("/api/deliveries", params={"key": "telegram:2"})).json() == []
        assert (await admin.get("/api/deliveries", params={"key": "nonsense"})).status_code == 422

    async def test_a_dead_letter_is_shown_tried_again_and_dropped(
        self, admin: httpx.AsyncClient, bus: RedisBus
    ) -> None:
        for number in (1, 2):
            await bury(bus, message(ADA, number, f"poison {number}"))
        second, first = (await admin.get("/api/dead-letters")).json()
        assert (first["message_id"], first["text"]) == ("telegram:bot:1:1", "poison 1")
        hops = [hop["name"] for hop in (await admin.get("/api/trace/telegram:bot:1:1")).json()]
        assert hops == ["received", "dead letter"]
        assert (await admin.post(f"/api/dead-letters/{first['id']}/retry")).status_code == 204
        assert (await admin.delete(f"/api/dead-letters/{second['id']}")).status_code == 204
        assert (await admin.delete(f"/api/dead-letters/{second['id']}")).status_code == 404
        assert (await admin.post("/api/dead-letters/nonsense/retry")).status_code == 404
        assert (await bus.operator.lane_depth(ADA))[0] == 1


async def answered_reply(store: SqlStore, bus: RedisBus) -> Reply:
    """A committed turn with one reply that nobody has published yet."""
    asked = message(ADA, 1, "question")
    start = await store.begin_turn(turn_id="t1", key=ADA, fence=1, messages=[asked], now_ms=1_700_000_000_000)
    reply = Reply("t1:0", "t1", ADA, CHAT, SCRUBBER.scrub("answer"), ReplyKind.ANSWER, 1_700_000_002_000)
    await store.commit_turn(
        TurnCommit(
            turn_id="t1",
            session_id=start.session.id,
            key=ADA,
            fence=1,
            state=TurnState.DONE,
            consumed=(asked.id,),
            outbox=(reply,),
            finished_at_ms=1_700_000_001_000,
        )
    )
    return reply


async def bury(bus: RedisBus, poison: InboundMessage) -> None:
    """A message whose only run fails."""
    await bus.intake.enqueue(poison)
    await bus.lanes.register("w1", lease_ttl_s=60)
    for _ in range(2):
        batch = await bus.lanes.claim("w1", lanes_max=1, messages_max=1, attempts_max=1)
        for claim in batch.claims:
            await bus.lanes.retry_later(claim, delay_s=0.0, error="boom")


# --- everything of one person


async def test_a_users_belongings_are_exported_and_erased(
    admin: httpx.AsyncClient, sqlite_store: SqlStore, bus: RedisBus
) -> None:
    """From every place; a role that was granted goes with the rest, and intake knows at once."""
    bob = SessionKey("telegram", "2")
    for number, key in enumerate((ADA, SessionKey("telegram", "1", ("-100",)), bob), 1):
        await converse(sqlite_store, key, number)
    await sqlite_store.access.put_grant(Grant(ADA, GrantRole.MEMBER, "cli", 1))
    await keeper_of(sqlite_store, bus).project()
    document = (await admin.get("/api/users/telegram:1/-100/export")).json()
    assert document["owner"] == "telegram:1"
    assert {row["key"] for row in document["sessions"]} == {"telegram:1", "telegram:1/-100"}
    erased = (await admin.delete("/api/users/telegram:1")).json()
    assert erased["key"] == "telegram:1"
    assert erased["rows"]["sessions"] == 2
    assert (await bus.access.view(ADA)).granted is None
    assert [session.key for session in await sqlite_store.sessions()] == [bob]


async def test_what_works_for_a_user_ends_before_he_is_erased(admin: httpx.AsyncClient, sqlite_store: SqlStore) -> None:
    """So that nothing is written of him afterwards; what works for others goes on."""
    async with nursery(sqlite_store, never) as made:
        await made.agents.spawn(made.context, SubOrder("explore", CleanText("look around")))
        await until(lambda: made.lived)
        (life,) = made.lived
        await admin.delete("/api/users/telegram:999")
        assert not life.is_ended
        assert "sub_tasks" in (await admin.delete(f"/api/users/{life.task.key.owner}")).json()["rows"]
        assert life.gone.is_set()
        assert await made.newest() == []


async def test_the_files_of_an_erased_user_go_with_him(sqlite_store: SqlStore, bus: RedisBus, tmp_path: Path) -> None:
    """What he sent in any of his conversations, and nobody else's."""
    bob, everywhere = SessionKey("telegram", "2"), SessionKey("telegram", "1", ("-100",))
    for number, key in enumerate((ADA, everywhere, bob), 1):
        await converse(sqlite_store, key, number)
        inbox = tmp_path / "workspaces" / folder_name(key) / "files" / "inbox"
        inbox.mkdir(parents=True)
        (inbox / "photo.png").write_bytes(b"a picture")
    async with client_of(app_of(sqlite_store, bus, workspaces=tmp_path / "workspaces")) as admin:
        erased = (await admin.delete("/api/users/telegram:1", headers=HEADERS)).json()
    assert erased["rows"]["workspaces"] == 2
    assert [home.name for home in (tmp_path / "workspaces").iterdir()] == [folder_name(bob)]


def every_route(router: Any) -> list[tuple[str, str]]:
    """All that the application answers, hidden routes included, with something in the place of parameters."""
    found = []
    for route in router.routes:
        if (included := getattr(route, "original_router", None)) is not None:
            found += every_route(included)
        else:
            found += [(method, re.sub(r"{[^}]*}", "1", route.path)) for method in sorted(route.methods)]
    return found


async def test_no_route_is_open_but_those_that_say_only_whether_we_are_well(
    sqlite_store: SqlStore, bus: RedisBus
) -> None:
    """Whatever is added later; and a password that a browser adds by itself changes nothing."""
    app = app_of(sqlite_store, bus)
    routes = every_route(app)
    assert {"/api/links/1", "/api/places/1", "/api/grants", "/api/pairings"} <= {path for _, path in routes}
    async with client_of(app) as client:
        client.headers.pop("Authorization")
        open_ones = {path for method, path in routes if (await client.request(method, path)).status_code != 401}
        assert open_ones == {"/healthz", "/readyz"}
        changing = [(method, path) for method, path in routes if method not in ("GET", "HEAD")]
        for headers in (basic(TOKEN), basic(TOKEN) | {"Sec-Fetch-Site": "same-origin"}):
            answers = [await client.request(method, path, headers=headers) for method, path in changing]
            assert {answer.status_code for answer in answers} == {401}
    assert len(changing) > 5


async def test_the_dead_letters_of_an_erased_user_go_with_him(admin: httpx.AsyncClient, bus: RedisBus) -> None:
    """They hold his words, and nothing else would ever take them away; those of others stay."""
    ben = SessionKey("telegram", "2")
    for number, key in enumerate((ADA, SessionKey("telegram", "1", ("-100",)), ben), 1):
        await bury(bus, message(key, number, "poison"))
    erased = (await admin.delete("/api/users/telegram:1")).json()
    assert erased["rows"] == {"dead_letters": 2}
    assert [letter.message and letter.message.key for letter in await bus.operator.dead_letters(10)] == [ben]


async def test_belongings_are_the_operators_business_only(admin: httpx.AsyncClient) -> None:
    for method, path in (("GET", "/api/users/telegram:1/export"), ("DELETE", "/api/users/telegram:1")):
        assert (await admin.request(method, path, headers={"Authorization": ""})).status_code == 401
    assert (await admin.delete("/api/users/nonsense")).status_code == 422
