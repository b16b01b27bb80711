"""The API that the pages of people, conversations, schedules and memory are drawn from, and what it does."""

from __future__ import annotations

import io
import logging
from collections.abc import AsyncIterator

import httpx
import pytest
import structlog

from gateway import clients
from gateway.bus.bus import RedisBus, open_bus
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText, ReplyKind
from gateway.contracts.sessions import Grant, GrantRole
from gateway.ops.admin.sessions import OPERATOR_WROTE
from gateway.store import Store
from gateway.telemetry.logs import KeptLines, configure_logs
from gateway.telemetry.metrics import ANSWER_SECONDS, MODEL_OUTCOMES, MODEL_SECONDS, TURNS, Tally
from tests.contract.store_samples import ANN, CHAT, talk
from tests.contract.test_store_schedules import schedule
from tests.parts.databases import INSTALLATION
from tests.parts.operator_api import ADA, CLOCK, SCRUBBER, app_of, client_of, converse, message


@pytest.fixture
async def admin(sqlite_store: Store, bus: RedisBus) -> AsyncIterator[httpx.AsyncClient]:
    """The API with the operator's token."""
    async with client_of(app_of(sqlite_store, bus)) as client:
        yield client


async def actions(admin: httpx.AsyncClient) -> list[tuple[str, str]]:
    return [(line["action"], line["subject"]) for line in (await admin.get("/api/v1/audit")).json()]


async def test_a_person_stands_with_name_role_usage_and_places(
    admin: httpx.AsyncClient, sqlite_store: Store, bus: RedisBus
) -> None:
    await converse(sqlite_store, ADA, 1)
    await bus.operator.note_names({ADA: "Ada Lovelace"})
    await sqlite_store.access.put_grant(Grant(ADA, GrantRole.MEMBER, "admin", 1, CleanText("an old friend")))
    await bus.intake.enqueue(message(ADA, 2, "waiting"))
    [found] = (await admin.get("/api/v1/people", params={"q": "lovelace"})).json()
    assert (found["key"], found["name"], found["role"]) == (str(ADA), "Ada Lovelace", "member")
    assert (found["turns"], found["tokens"], found["cost"], found["lanes"]) == (1, 15, 0.25, 1)
    whole = (await admin.get(f"/api/v1/people/{ADA}")).json()
    assert found.items() <= whole.items()
    assert whole["places"] == [{"key": str(ADA), "waiting": 1, "running": False}]
    assert (whole["reason"], whole["limits"], whole["accounts"]) == ("an old friend", None, [str(ADA)])
    await admin.put(f"/api/v1/limits/{ADA}", json={"turns": 3})
    assert (await admin.get(f"/api/v1/people/{ADA}")).json()["limits"]["turns"] == 3
    assert (await admin.get("/api/v1/people/telegram:404")).status_code == 404
    assert (await admin.get("/api/v1/people", params={"q": "nobody"})).json() == []


async def test_who_is_erased_leaves_no_name(admin: httpx.AsyncClient, sqlite_store: Store, bus: RedisBus) -> None:
    await converse(sqlite_store, ADA, 1)
    await bus.operator.note_names({ADA: "Ada Lovelace"})
    assert (await admin.delete(f"/api/v1/users/{ADA}")).status_code == 200
    assert await bus.operator.names() == {}
    assert await actions(admin) == [("user.erase", "erased")]


async def test_conversations_are_searched_by_what_was_said_and_by_name(
    admin: httpx.AsyncClient, sqlite_store: Store, bus: RedisBus
) -> None:
    first = await converse(sqlite_store, ADA, 1)
    second = await converse(sqlite_store, SessionKey("slack", "U1", ("C1",)), 2)
    await bus.operator.note_names({SessionKey("slack", "U1"): "Grace"})

    async def found(**asked: object) -> list[str]:
        answer = await admin.get("/api/v1/sessions", params={name: str(value) for name, value in asked.items()})
        return [row["id"] for row in answer.raise_for_status().json()]

    assert await found(q="QUESTION 1") == [first.id]
    assert await found(q="grace") == [second.id]
    assert await found(person="slack:U1") == [second.id]
    assert await found(cost_min=1) == []
    assert await found(since="2200-01-01") == []
    assert len(await found(until="2200-01-01")) == 2
    assert (await admin.get("/api/v1/sessions?since=yesterday")).status_code == 422


async def test_the_operator_writes_to_a_chat_and_the_transcript_says_so(
    admin: httpx.AsyncClient, sqlite_store: Store, bus: RedisBus
) -> None:
    session = await talk(sqlite_store, ANN, "hello", number=1)
    answer = await admin.post(f"/api/v1/sessions/{session.id}/say", json={"text": " I am Grace. "})
    assert answer.status_code == 202
    sent = await sqlite_store.outbox.committed(answer.json()["reply_id"])
    assert sent is not None
    assert (sent.text, sent.address, sent.kind) == ("I am Grace.", CHAT, ReplyKind.NOTICE)
    [pending] = await bus.deliveries.replies("telegram", "c1", count=9, wait_s=1)
    assert pending.reply == sent
    said = (await admin.get(f"/api/v1/sessions/{session.id}/messages")).json()
    assert (said[-1]["kind"], said[-1]["text"]) == ("note", f"{OPERATOR_WROTE}\n\nI am Grace.")
    assert await actions(admin) == [("session.say", f"session:{session.id}")]
    for body in ({"text": ""}, {"text": "x" * 4001}, {}):
        assert (await admin.post(f"/api/v1/sessions/{session.id}/say", json=body)).status_code == 422
    assert (await admin.post("/api/v1/sessions/none/say", json={"text": "x"})).status_code == 404


async def test_orders_go_to_the_lane_and_are_written_down(
    admin: httpx.AsyncClient, sqlite_store: Store, bus: RedisBus
) -> None:
    session = await talk(sqlite_store, ANN, "hello", number=1)
    path = f"/api/v1/sessions/{session.id}"
    assert (await admin.post(f"{path}/retry")).status_code == 202
    assert (await admin.post(f"{path}/compact", json={"focus": "tea"})).status_code == 202
    assert (await bus.lanes.depth(ANN))[0] == 2
    await bus.lanes.register("w1", lease_ttl_s=60)
    [claim] = (await bus.lanes.claim("w1", lanes_max=1, messages_max=9, attempts_max=4)).claims
    asked = [(each.text, each.address.channel, each.author_name) for each in claim.messages]
    assert asked == [("/retry", CHAT.channel, ""), ("/compact tea", "admin", "")]
    assert (await admin.post(f"{path}/stop")).status_code == 202
    assert (await bus.lanes.depth(ANN))[0] == 0
    assert [action for action, _ in await actions(admin)] == ["session.stop", "session.compact", "session.retry"]


async def test_where_nothing_was_answered_it_is_not_known_where_to_write(
    admin: httpx.AsyncClient, sqlite_store: Store
) -> None:
    session = await converse(sqlite_store, ADA, 1)
    for order in ("retry", "say"):
        answer = await admin.post(f"/api/v1/sessions/{session.id}/{order}", json={"text": "x"})
        assert (answer.status_code, "not known where" in answer.json()["detail"]) == (409, True)
    assert await actions(admin) == []


async def test_schedules_and_memory_are_listed_and_ended(admin: httpx.AsyncClient, sqlite_store: Store) -> None:
    await sqlite_store.schedules.add(schedule("s1", ANN), active_max=9)
    await sqlite_store.memories.remember(ANN, CleanText("likes tea"), now_ms=CLOCK.now_ms())
    [coming] = (await admin.get("/api/v1/schedules")).json()
    assert (coming["owner"], coming["number"]) == (str(ANN), 1)
    assert (await admin.get("/api/v1/schedules?key=slack:U2")).json() == []
    [fact] = (await admin.get(f"/api/v1/memory?key={ANN}")).json()
    assert (fact["text"], fact["number"], fact["origin"]) == ("likes tea", 1, "told")
    for path in (f"/api/v1/schedules/{ANN}?number=1", f"/api/v1/memory/{ANN}?number=1"):
        assert [(await admin.delete(path)).status_code for _ in range(2)] == [204, 404]
    assert (await admin.get("/api/v1/schedules")).json() == (await admin.get(f"/api/v1/memory?key={ANN}")).json() == []
    subject = f"user:{ANN}"
    assert await actions(admin) == [("memory.forget", subject), ("schedule.cancel", subject)]


async def test_the_overview_and_the_models_tell_of_the_last_day(
    admin: httpx.AsyncClient, sqlite_store: Store, bus: RedisBus
) -> None:
    await converse(sqlite_store, ADA, 1)
    await bus.intake.enqueue(message(ADA, 2, "waiting"))
    tally = Tally()
    for state in ("done", "done", "failed"):
        tally.add(TURNS, state)
        tally.time(ANSWER_SECONDS, 700)
    for outcome in ("answered", "answered", "timeout"):
        tally.add(MODEL_OUTCOMES, "openai/x", outcome)
    tally.time(MODEL_SECONDS, 400, "openai/x")
    await bus.operator.add_counts(tally.take())
    now = (await admin.get("/api/v1/overview")).json()
    assert (now["ready"], now["queue"]["messages"]) == (False, 1)
    assert (now["model_calls"], now["model_errors"], now["cost_today"], now["tokens_today"]) == (3, 1, 0.25, 15)
    assert (now["p50_ms"], round(now["p95_ms"])) == (750.0, 975)
    assert len(now["past"]) == 288
    assert sum(span["answers"] for span in now["past"]) == 3
    assert sum(span["failures"] for span in now["past"]) == 1
    assert now["per_minute"] > 0
    assert [hour["cost"] for hour in now["hours"]] == [0.25]
    [asked, used] = (await admin.get("/api/v1/models")).json()[::-1]
    assert (asked["model"], asked["answered"], asked["failed"], asked["p50_ms"]) == ("openai/x", 2, 1, 375.0)
    assert (used["model"], used["calls_today"], used["cost_today"]) == ("demo/scripted", 1, 0.25)
    assert (await admin.get("/api/v1/settings")).json() == []


async def test_what_processes_log_is_found_by_a_part_of_a_line_and_by_its_level(
    admin: httpx.AsyncClient, bus: RedisBus
) -> None:
    output = io.StringIO()
    handlers = logging.getLogger().handlers[:]
    try:
        kept = configure_logs(SCRUBBER, as_json=False, output=output)
        assert isinstance(kept, KeptLines)
        log = structlog.get_logger("trivet.test")
        log.info("turn began", turn_id="t_1", lane=str(ADA))
        log.warning("model away", turn_id="t_2", key="sk-ant-api03-" + "a1B2" * 24)
    finally:
        logging.getLogger().handlers[:] = handlers
    lines = kept.take()
    assert "".join(f"{line.text}\n" for line in lines) == output.getvalue()
    assert kept.take() == []
    await bus.operator.add_lines(lines)

    async def found(**asked: str) -> list[str]:
        answer = await admin.get("/api/v1/logs", params=asked)
        return [line["level"] for line in answer.raise_for_status().json()]

    assert await found() == ["warning", "info"]
    assert await found(q="T_1") == ["info"]
    assert await found(level="warning") == ["warning"]
    assert "a1B2" not in (await admin.get("/api/v1/logs")).text
    assert (await admin.get("/api/v1/logs?level=loud")).status_code == 422
    await bus.operator.forget(ADA)
    assert await found() == ["warning"]


async def test_the_overview_says_that_the_bus_is_away_instead_of_nothing(sqlite_store: Store, valkey_url: str) -> None:
    bus = await open_bus(valkey_url, installation=INSTALLATION)
    async with client_of(app_of(sqlite_store, bus)) as client:
        await converse(sqlite_store, ADA, 1)
        await bus.close()
        now = (await client.get("/api/v1/overview")).json()
        page = await client.get("/")
    assert (now["queue"], now["ready"], now["cost_today"]) == (None, False, 0.25)
    assert "the bus does not answer" in now["reasons"]
    assert (page.status_code, "the bus does not answer" in page.text) == (200, True)


async def test_a_program_is_let_in_with_a_token_that_is_shown_once(
    admin: httpx.AsyncClient, sqlite_store: Store, bus: RedisBus
) -> None:
    order = {"name": "shop", "role": "guest", "turns": 7}
    made = (await admin.post("/api/v1/clients", json=order)).raise_for_status().json()
    client = clients.client_of("the-key-of-clients", made["token"])
    assert (str(client), made["role"]) == (made["key"], "guest")
    assert client is not None
    assert (await bus.access.view(client)).granted == "guest"
    assert (await admin.get(f"/api/v1/people/{client}")).json()["limits"]["turns"] == 7
    [before] = (await admin.get("/api/v1/clients")).json()
    assert (before["key"], before["role"], before["last_used"]) == (made["key"], "guest", None)
    await converse(sqlite_store, client, 1)
    listed = await admin.get("/api/v1/clients")
    assert listed.json()[0]["last_used"] is not None
    assert made["token"] not in listed.text
    assert (await admin.delete(f"/api/v1/clients/{client}")).status_code == 204
    assert (await bus.access.view(client)).granted is None
    assert (await admin.get("/api/v1/clients")).json() == []
    assert [action for action, _ in await actions(admin)] == ["access.revoke", "access.grant", "access.limits"]
    assert (await admin.delete(f"/api/v1/clients/{client}")).status_code == 404
    assert (await admin.delete("/api/v1/clients/telegram:1")).status_code == 404
    for wrong in ({"name": "Shop"}, {"name": "shop", "role": "blocked"}, {"name": "shop", "turns": -1}, {}):
        assert (await admin.post("/api/v1/clients", json=wrong)).status_code == 422
