"""What an admin decides is in SQL and on the bus, whoever dies in between; the API says it in its words."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from gateway.admin.app import Parts, create_app
from gateway.bus.bus import RedisBus
from gateway.clock import SystemClock
from gateway.contracts.access import AccessPolicy, Audience, PlaceRule, Projection, StrangerRule
from gateway.contracts.entries import Grant, GrantRole
from gateway.contracts.ids import SessionKey
from gateway.doorkeeper import Doorkeeper
from gateway.scrub import Scrubber
from gateway.store import SqlStore
from tests.parts.keepers import keeper_of, pairing

ANN, BOSS = SessionKey("telegram", "1"), SessionKey("telegram", "9")
GUILD = SessionKey("discord", "", ("10",))


@pytest.fixture
def keeper(store: SqlStore, bus: RedisBus) -> Doorkeeper:
    return keeper_of(store, bus, AccessPolicy(StrangerRule.CLOSED, frozenset({BOSS})))


@pytest.fixture
async def api(sqlite_store: SqlStore, bus: RedisBus) -> AsyncIterator[httpx.AsyncClient]:
    parts = Parts(
        store=sqlite_store,
        figures=bus.operator,
        intake=bus.intake,
        keeper=keeper_of(sqlite_store, bus, AccessPolicy(StrangerRule.CLOSED, frozenset({BOSS}))),
        vault=bus.vault,
        scrubber=Scrubber(),
        clock=SystemClock(),
        channels=(),
        version="1",
    )
    transport = httpx.ASGITransport(create_app(parts, "token"))
    headers = {"Authorization": "Bearer token"}
    async with httpx.AsyncClient(transport=transport, base_url="http://admin", headers=headers) as client:
        yield client


# --- what is shown


async def test_a_decision_is_shown_at_once(keeper: Doorkeeper, bus: RedisBus) -> None:
    await keeper.grant(ANN, GrantRole.MEMBER, actor="cli")
    await keeper.set_place(GUILD, PlaceRule(Audience.ADMINS), actor="cli")
    view = await bus.access.view(ANN, (GUILD,))
    assert (view.granted, view.places) == ("member", {GUILD: PlaceRule(Audience.ADMINS)})
    await keeper.revoke(ANN, actor="cli")
    assert (await bus.access.view(ANN)).granted is None


async def test_what_was_written_by_one_who_died_is_shown_by_the_next_look(
    keeper: Doorkeeper, store: SqlStore, bus: RedisBus
) -> None:
    await keeper.project()
    await store.access.put_grant(Grant(ANN, GrantRole.BLOCKED, "cli", 1))
    await keeper.keep_projected()
    assert (await bus.access.view(ANN)).granted == "blocked"


async def test_a_database_put_back_to_an_earlier_day_is_shown_all_the_same(
    keeper: Doorkeeper, store: SqlStore, bus: RedisBus
) -> None:
    await bus.access.project(Projection(99, [Grant(ANN, GrantRole.ADMIN, "cli", 1)]))
    await keeper.keep_projected()
    assert (await bus.access.view(ANN)).granted is None
    assert await bus.access.projected() == await store.access.revision()


# --- the API


async def test_a_stranger_is_let_in_by_the_api_and_told_so(api: httpx.AsyncClient, bus: RedisBus) -> None:
    await bus.access.ask_pairing(pairing(ANN, "ABCDEFGH"), ttl_s=60, pending_max=3)
    [waiting] = (await api.get("/api/pairings")).json()
    assert (waiting["code"], waiting["key"], waiting["name"]) == ("ABCDEFGH", "telegram:1", "Ann")
    paired = await api.post("/api/pairings", json={"code": "abcdefgh", "role": "guest"})
    assert (paired.status_code, paired.json()["key"]) == (200, "telegram:1")
    [told] = await bus.deliveries.replies("telegram", "test", count=9, wait_s=0)
    assert told.reply.text == "Welcome."
    [granted] = (await api.get("/api/grants")).json()
    assert (granted["key"], granted["role"], granted["granted_by"]) == ("telegram:1", "guest", "admin")
    assert (await api.get("/api/audit")).json()[0]["subject"] == "user:telegram:1"


async def test_wrong_codes_are_not_found_and_then_too_many(api: httpx.AsyncClient) -> None:
    answers = [await api.post("/api/pairings", json={"code": "WRONGONE"}) for _ in range(6)]
    assert [answer.status_code for answer in answers] == [404] * 5 + [429]
    assert 0 < int(answers[-1].headers["retry-after"]) <= 3600


async def test_a_stranger_is_turned_down_by_the_api(api: httpx.AsyncClient, bus: RedisBus) -> None:
    await bus.access.ask_pairing(pairing(ANN, "ABCDEFGH"), ttl_s=60, pending_max=3)
    assert [(await api.delete("/api/pairings/ABCDEFGH")).status_code for _ in range(2)] == [204, 404]
    assert (await api.get("/api/pairings")).json() == []


async def test_people_are_blocked_and_forgotten_by_the_api(api: httpx.AsyncClient, bus: RedisBus) -> None:
    order = {"role": "blocked", "reason": "spam"}
    assert (await api.put("/api/grants/telegram:1/-100", json=order)).json()["reason"] == "spam"
    assert (await bus.access.view(ANN)).granted == "blocked"
    assert [(await api.delete("/api/grants/telegram:1")).status_code for _ in range(2)] == [204, 404]
    assert (await api.put("/api/grants/telegram:9", json=order)).status_code == 409
    for key, body in (("nobody", order), ("telegram:1", {"role": "emperor"}), ("telegram:1", {"roll": "guest"})):
        assert (await api.put(f"/api/grants/{key}", json=body)).status_code == 422


async def test_places_are_changed_by_the_api(api: httpx.AsyncClient, bus: RedisBus) -> None:
    order = {"audience": "members", "guests": False, "tools": ["recall", "recall"], "profile": "writer"}
    wanted = {**order, "place": "discord:/10", "tools": ["recall"]}
    assert (await api.put("/api/places/discord:10", json=order)).json() == wanted
    assert (await api.get("/api/places")).json() == [wanted]
    assert (await bus.access.view(ANN, (GUILD,))).places[GUILD].audience is Audience.MEMBERS
    assert [(await api.delete("/api/places/discord:/10")).status_code for _ in range(2)] == [204, 404]
    for place, body in (("discord", order), ("discord:10", {"profile": "king"}), ("discord:10", {"tools": ["a b"]})):
        assert (await api.put(f"/api/places/{place}", json=body)).status_code == 422


@pytest.mark.parametrize("path", ["grants", "pairings", "places"])
async def test_nobody_without_the_token_is_answered(api: httpx.AsyncClient, path: str) -> None:
    assert (await api.get(f"/api/{path}", headers={"Authorization": "Bearer guess"})).status_code == 401
