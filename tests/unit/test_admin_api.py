"""The operator's API on a real store and a real bus: who gets in, what is shown, what an order does."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.bus.bus import RedisBus
from gateway.contracts.errors import ConfigError
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import Reply, ReplyKind
from gateway.contracts.ports import ModelFault, ModelTrouble
from gateway.http_guard import http_served
from gateway.limits import ADMIN_BODY_BYTES_MAX
from gateway.ops.admin.http import AdminToken
from gateway.ops.admin.sessions import take_replies
from gateway.preflight import listen
from gateway.store import Store, open_store
from tests.parts.operator_api import ADA, CLOCK, SCRUBBER, TOKEN, app_of, client_of, message, signed_in


@pytest.fixture
async def admin(sqlite_store: Store, bus: RedisBus) -> AsyncIterator[httpx.AsyncClient]:
    """The API with the operator's token."""
    async with client_of(app_of(sqlite_store, bus)) as client:
        yield client


@pytest.mark.parametrize(
    "path", ["/api/v1/sessions", "/api/v1/sessions/x", "/api/v1/sessions/x/messages", "/api/v1/usage", "/metrics"]
)
@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}, {"Authorization": "Bearer"}]
)
async def test_nobody_gets_in_without_the_token(
    sqlite_store: Store, bus: RedisBus, path: str, headers: dict[str, str]
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
        AdminToken(token, CLOCK)


@pytest.mark.parametrize("path", ["usage", "sessions?limit=1", "people/telegram:1", "openapi.json", "nothing"])
async def test_the_paths_without_a_version_answer_alike(admin: httpx.AsyncClient, path: str) -> None:
    old, new = await admin.get(f"/api/{path}"), await admin.get(f"/api/v1/{path}")
    assert (old.status_code, old.text) == (new.status_code, new.text)
    admin.headers.pop("Authorization")
    assert (await admin.get(f"/api/{path}")).status_code == (await admin.get(f"/api/v1/{path}")).status_code


async def test_health_needs_no_token(admin: httpx.AsyncClient) -> None:
    admin.headers.pop("Authorization")
    assert (await admin.get("/healthz")).json() == {"status": "ok"}


async def test_ready_only_when_every_channel_is_connected_and_an_agent_lives(
    sqlite_store: Store, bus: RedisBus
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
            "models": [],
        }
        await bus.lanes.register("worker", lease_ttl_s=30)
        await bus.operator.report_channel("telegram", "connected", ttl_s=30)
        await bus.operator.report_channel("slack", "the token is refused", ttl_s=30)
        assert (await client.get("/readyz")).json()["reasons"] == ["slack: the token is refused"]
        await bus.operator.report_channel("slack", "connected", ttl_s=30)
        answer = await client.get("/readyz")
    assert (answer.status_code, answer.json()) == (200, {"ready": True, "reasons": [], "models": []})


async def test_models_without_a_key_or_credit_are_named_by_those_who_ask_whether_all_is_well(
    admin: httpx.AsyncClient, bus: RedisBus
) -> None:
    key = ModelTrouble("openai/x", "openai", ModelFault.KEY, 1_700_000_000_000)
    quota = ModelTrouble("fast", "groq", ModelFault.QUOTA, 1_700_000_000_000)
    await bus.operator.report_models({"openai/x": key, "fast": quota})
    assert (await admin.get("/readyz")).json()["models"] == [
        "fast: groq says that its quota or credit is used up (2023-11-14 22:13 UTC)",
        "openai/x: openai does not accept its key (2023-11-14 22:13 UTC)",
    ]
    await bus.operator.report_models({"openai/x": None, "never/asked": None})
    assert await bus.operator.model_troubles() == [quota]


async def test_a_database_that_was_never_migrated_is_a_reason(tmp_path: Path, bus: RedisBus) -> None:
    store = open_store(f"sqlite+aiosqlite:///{tmp_path}/x.db")
    async with client_of(app_of(store, bus, channels=())) as client:
        answer = await client.get("/readyz")
        assert answer.status_code == 503
        assert any("migrate" in reason for reason in answer.json()["reasons"])
        assert "trivet_database_up 0.0" in (await client.get("/metrics")).text
    await store.close()


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
    await bus.deliveries.publish([reply])
    taking = asyncio.create_task(take_replies(bus.deliveries, consumer="admin-1", clock=CLOCK))
    try:
        received: list[str] = []
        while not received:
            received = [each.record.reply_id for _, each in await bus.deliveries.take_receipts("w", count=10, wait_s=1)]
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
    found = (await admin.get("/api/v1/queue")).json()
    assert (found["messages"], found["lanes_ready"], found["lanes_running"], found["dead_letters"]) == (1, 1, 0, 0)
    assert found["oldest_wait_ms"] >= 0
    assert found["channels"] == {"telegram": "connected"}
    await bus.operator.note_queue(await bus.operator.figures())
    [past] = (await admin.get("/api/v1/queue/past")).json()
    assert past["messages"] == 1
    assert past.keys() <= found.keys()


async def test_the_address_that_is_printed_at_start_shows_a_page(admin: httpx.AsyncClient) -> None:
    await signed_in(admin)
    front = await admin.get("/")
    assert (front.status_code, "messages waiting" in front.text) == (200, True)


async def test_the_documentation_opens_in_a_browser_and_lists_every_route(sqlite_store: Store, bus: RedisBus) -> None:
    app = app_of(sqlite_store, bus)
    async with client_of(app) as client:
        await signed_in(client)
        page = await client.get("/api/v1/docs")
        assert page.status_code == 200
        for route in ("/healthz", "/readyz", "/metrics", "/api/v1/sessions/{session_id}/compact"):
            assert f"<code>{route}</code>" in page.text
        others = await client.get("/sessions")
        assert page.headers["content-security-policy"] == others.headers["content-security-policy"]
        assert '<link rel="icon" href="data:,">' in page.text, "else a browser asks for one, in vain"
        assert (await client.get("/api/v1/openapi.json")).json()["info"]["title"] == "Trivet"
        client.cookies.clear()
        refused = await client.get("/api/v1/docs")
    assert (refused.status_code, refused.headers["location"]) == (303, "/login?next=%2Fapi%2Fv1%2Fdocs")


def every_route(router: Any) -> list[tuple[str, str]]:
    """All that the application answers, hidden routes included, with something in the place of parameters."""
    found = []
    for route in router.routes:
        if (included := getattr(route, "original_router", None)) is not None:
            found += every_route(included)
        else:
            found += [(method, re.sub(r"{[^}]*}", "1", route.path)) for method in sorted(route.methods)]
    return found


async def test_no_route_is_open_but_those_that_say_only_whether_we_are_well(sqlite_store: Store, bus: RedisBus) -> None:
    """Whatever is added later; and a password that a browser adds by itself changes nothing."""
    app = app_of(sqlite_store, bus)
    routes = every_route(app)
    assert {"/api/v1/links/1", "/api/v1/places/1", "/api/v1/grants", "/api/v1/pairings"} <= {path for _, path in routes}
    async with client_of(app) as client:
        client.headers.pop("Authorization")
        answers = {(method, path): await client.request(method, path) for method, path in routes}
        open_ones = {path for (_, path), answer in answers.items() if answer.status_code not in (401, 303)}
        assert open_ones == {"/healthz", "/readyz", "/login", "/static/1"}
        to_login = {answer.headers["location"].partition("?")[0] for answer in answers.values() if answer.is_redirect}
        assert to_login == {"/login"}
        assert answers["POST", "/login"].status_code == 403
        _, cookie = await signed_in(client)
        changing = [(method, path) for method, path in routes if method not in ("GET", "HEAD") and path != "/login"]
        for headers in ({}, {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "same-origin", "Cookie": cookie}):
            refused = [await client.request(method, path, headers=headers) for method, path in changing]
            assert {answer.status_code for answer in refused} == {401}
    assert len(changing) > 5


@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Bearer wrong"}, {"Trivet-Form-Token": "x", "Sec-Fetch-Site": "same-origin"}]
)
async def test_nobody_s_body_is_waited_for_before_he_may_ask(
    sqlite_store: Store, bus: RedisBus, headers: dict[str, str]
) -> None:
    """It never comes here, so whoever read it first would answer nothing."""
    lines = (f"{name}: {value}" for name, value in {"Content-Length": 1_000, **headers}.items())
    head = "\r\n".join(["PUT /api/v1/limits/guest HTTP/1.1", "Host: 127.0.0.1", *lines, "", ""])
    with listen("127.0.0.1", 0, "http.port") as listener:
        async with http_served(app_of(sqlite_store, bus), listener, grace_s=1):
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            writer.write(head.encode())
            assert (await reader.readline()).split()[1] == b"401"
            writer.close()


async def test_an_order_has_a_length(admin: httpx.AsyncClient) -> None:
    """Whether it says so or not; the refusal has the form of every other."""

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(ADMIN_BODY_BYTES_MAX // 65_536 + 1):
            yield b" " * 65_536

    for content in (b" " * (ADMIN_BODY_BYTES_MAX + 1), pieces()):
        answer = await admin.put("/api/v1/limits/guest", content=content)
        assert answer.status_code == 413
        assert str(ADMIN_BODY_BYTES_MAX) in answer.json()["detail"]


async def test_a_page_whose_name_leads_to_us_hears_nothing(admin: httpx.AsyncClient) -> None:
    """Not even whether we are well."""
    for path in ("/healthz", "/api/v1/sessions"):
        answer = await admin.get(path, headers={"Host": "evil.example"})
        assert (answer.status_code, "http.hosts" in answer.json()["detail"]) == (421, True)
