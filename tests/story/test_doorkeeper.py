"""What an admin decides is in SQL and on the bus, whoever dies in between; the API says it in its words."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from gateway.access import AccessService
from gateway.bus.bus import RedisBus
from gateway.clock import SystemClock
from gateway.contracts.access import (
    AccessPolicy,
    Audience,
    LinkOffer,
    LinkVerdict,
    PlaceApproval,
    PlaceRule,
    Projection,
    StrangerRule,
)
from gateway.contracts.budgets import LimitRule
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.sessions import Grant, GrantRole
from gateway.ops.admin.app import Parts, create_app
from gateway.scrub import Scrubber
from gateway.store import Store
from tests.parts.keepers import keeper_of, pairing

ANN, BOSS, DORA = SessionKey("telegram", "1"), SessionKey("telegram", "9"), SessionKey("discord", "7")
GUILD = SessionKey("discord", "", ("10",))


@pytest.fixture
def keeper(store: Store, bus: RedisBus) -> AccessService:
    return keeper_of(store, bus, AccessPolicy(StrangerRule.CLOSED, frozenset({BOSS})))


@pytest.fixture
async def api(sqlite_store: Store, bus: RedisBus) -> AsyncIterator[httpx.AsyncClient]:
    parts = Parts(
        store=sqlite_store,
        figures=bus.operator,
        lanes=bus.lanes,
        intake=bus.intake,
        deliveries=bus.deliveries,
        keeper=keeper_of(sqlite_store, bus, AccessPolicy(StrangerRule.CLOSED, frozenset({BOSS}))),
        vault=bus.vault,
        scrubber=Scrubber(),
        client_key="the-key-of-clients",
        clock=SystemClock(),
        channels=(),
        version="1",
        hosts=("admin",),
    )
    transport = httpx.ASGITransport(create_app(parts, "token"))
    headers = {"Authorization": "Bearer token"}
    async with httpx.AsyncClient(transport=transport, base_url="http://admin", headers=headers) as client:
        yield client


async def linked(store: Store, one: SessionKey, other: SessionKey) -> None:
    """Make two accounts one person."""
    await store.links.offer(
        LinkOffer(one, CleanText("Ann"), ReplyAddress(one.channel, one.user, "{}"), "en", 10), "ABCDEFGH"
    )
    await store.links.enter(other, "ABCDEFGH", now_ms=1)
    made = await store.links.join(other, one, now_ms=1, notice=lambda offer: pairing(offer.owner, "told").welcome)
    assert made.verdict is LinkVerdict.LINKED


# --- what is shown


async def test_a_decision_is_shown_at_once(keeper: AccessService, bus: RedisBus) -> None:
    await keeper.grant(ANN, GrantRole.MEMBER, actor="cli")
    await keeper.set_place(GUILD, PlaceRule(Audience.ADMINS), actor="cli")
    view = await bus.access.view(ANN, (GUILD,))
    assert (view.granted, view.places) == ("member", {GUILD: PlaceRule(Audience.ADMINS)})
    await keeper.revoke(ANN, actor="cli")
    assert (await bus.access.view(ANN)).granted is None


async def test_what_was_written_by_one_who_died_is_shown_by_the_next_look(
    keeper: AccessService, store: Store, bus: RedisBus
) -> None:
    await keeper.project()
    await store.access.put_grant(Grant(ANN, GrantRole.BLOCKED, "cli", 1))
    await keeper.keep_projected()
    assert (await bus.access.view(ANN)).granted == "blocked"


async def test_a_database_put_back_to_an_earlier_day_is_shown_all_the_same(
    keeper: AccessService, store: Store, bus: RedisBus
) -> None:
    await bus.access.project(Projection(99, [Grant(ANN, GrantRole.ADMIN, "cli", 1)]))
    await keeper.keep_projected()
    assert (await bus.access.view(ANN)).granted is None
    assert await bus.access.projected() == await store.access.revision()


# --- the API


async def test_a_stranger_is_let_in_by_the_api_and_told_so(api: httpx.AsyncClient, bus: RedisBus) -> None:
    await bus.access.ask_pairing(pairing(ANN, "ABCDEFGH"), ttl_s=60, pending_max=3)
    [waiting] = (await api.get("/api/v1/pairings")).json()
    assert (waiting["code"], waiting["key"], waiting["name"]) == ("ABCDEFGH", "telegram:1", "Ann")
    paired = await api.post("/api/v1/pairings", json={"code": "abcdefgh", "role": "guest"})
    assert (paired.status_code, paired.json()["key"]) == (200, "telegram:1")
    [told] = await bus.deliveries.replies("telegram", "test", count=9, wait_s=0)
    assert told.reply.text == "Welcome."
    [granted] = (await api.get("/api/v1/grants")).json()
    assert (granted["key"], granted["role"], granted["granted_by"]) == ("telegram:1", "guest", "admin")
    assert (await api.get("/api/v1/audit")).json()[0]["subject"] == "user:telegram:1"


async def test_wrong_codes_are_not_found_and_then_too_many(api: httpx.AsyncClient) -> None:
    answers = [await api.post("/api/v1/pairings", json={"code": "WRONGONE"}) for _ in range(6)]
    assert [answer.status_code for answer in answers] == [404] * 5 + [429]
    assert 0 < int(answers[-1].headers["retry-after"]) <= 3600


async def test_a_stranger_is_turned_down_by_the_api(api: httpx.AsyncClient, bus: RedisBus) -> None:
    await bus.access.ask_pairing(pairing(ANN, "ABCDEFGH"), ttl_s=60, pending_max=3)
    assert [(await api.delete("/api/v1/pairings/ABCDEFGH")).status_code for _ in range(2)] == [204, 404]
    assert (await api.get("/api/v1/pairings")).json() == []


async def test_people_are_blocked_and_forgotten_by_the_api(api: httpx.AsyncClient, bus: RedisBus) -> None:
    order = {"role": "blocked", "reason": "spam"}
    assert (await api.put("/api/v1/grants/telegram:1/-100", json=order)).json()["reason"] == "spam"
    assert (await bus.access.view(ANN)).granted == "blocked"
    assert [(await api.delete("/api/v1/grants/telegram:1")).status_code for _ in range(2)] == [204, 404]
    assert (await api.put("/api/v1/grants/telegram:9", json=order)).status_code == 409
    for key, body in (("nobody", order), ("telegram:1", {"role": "emperor"}), ("telegram:1", {"roll": "guest"})):
        assert (await api.put(f"/api/v1/grants/{key}", json=body)).status_code == 422


async def test_what_was_approved_for_good_is_taken_back_by_the_api(api: httpx.AsyncClient, sqlite_store: Store) -> None:
    approval = PlaceApproval(GUILD, "shell", GrantRole.MEMBER, "d1", "telegram:9", 1_000)
    await sqlite_store.access.put_place_approval(approval)
    assert (await api.get("/api/v1/approvals")).json() == [
        {
            "place": "discord:/10",
            "tool": "shell",
            "role": "member",
            "digest": "d1",
            "approved_by": "telegram:9",
            "approved_at": "1970-01-01T00:00:01Z",
        }
    ]
    assert (await api.delete("/api/v1/approvals/discord:10?tool=file_write")).status_code == 404
    assert [(await api.delete("/api/v1/approvals/discord:10?tool=shell")).status_code for _ in range(2)] == [204, 404]
    assert (await api.get("/api/v1/approvals")).json() == []


async def test_places_are_changed_by_the_api(api: httpx.AsyncClient, bus: RedisBus) -> None:
    order = {"audience": "members", "guests": False, "tools": ["recall", "recall"], "profile": "writer"}
    order |= {"roles": ["77", "78"]}
    wanted = {**order, "place": "discord:/10", "tools": ["recall"]}
    assert (await api.put("/api/v1/places/discord:10", json=order)).json() == wanted
    assert (await api.get("/api/v1/places")).json() == [wanted]
    assert (await bus.access.view(ANN, (GUILD,))).places[GUILD] == PlaceRule(
        Audience.MEMBERS, lets_guests=False, roles=("77", "78")
    )
    assert [(await api.delete("/api/v1/places/discord:/10")).status_code for _ in range(2)] == [204, 404]
    for place, body in (("discord", order), ("discord:10", {"profile": "king"}), ("discord:10", {"tools": ["a b"]})):
        assert (await api.put(f"/api/v1/places/{place}", json=body)).status_code == 422


async def test_limits_are_changed_by_the_api(api: httpx.AsyncClient, bus: RedisBus) -> None:
    order = {"tokens": 5000, "usd": 2.5, "turns": None, "messages_per_minute": 0}
    for whom in ("telegram:1", "guest"):
        assert (await api.put(f"/api/v1/limits/{whom}", json=order)).json() == {**order, "whom": whom}
    assert [found["whom"] for found in (await api.get("/api/v1/limits")).json()] == ["guest", "telegram:1"]
    assert (await bus.access.view(ANN)).limits[ANN] == LimitRule(5000, 2_500_000_000, None, 0)
    assert [(await api.delete("/api/v1/limits/guest")).status_code for _ in range(2)] == [204, 404]
    told = (await api.get("/api/v1/audit", params={"subject": "role:guest"})).json()
    assert [(line["actor"], line["action"], line["after"]) for line in told] == [
        ("admin", "access.limits", None),
        ("admin", "access.limits", {"tokens": 5000, "nano_usd": 2_500_000_000, "per_minute": 0}),
    ]
    wrong = [{"tokens": -1}, {"tokens": 1.5}, {"usd": "lots"}, {"messages_per_minute": 10_001}, {"speed": 1}]
    for whom, body in (("blocked", order), ("nobody", order), *(("guest", body) for body in wrong)):
        assert (await api.put(f"/api/v1/limits/{whom}", json=body)).status_code == 422


async def test_how_fast_an_admin_by_configuration_may_write_stands_in_the_configuration(api: httpx.AsyncClient) -> None:
    refused = await api.put("/api/v1/limits/telegram:9", json={"messages_per_minute": 1})
    assert (refused.status_code, "limits.admin" in refused.json()["detail"]) == (409, True)
    assert (await api.put("/api/v1/limits/telegram:9", json={"tokens": 1})).status_code == 200


async def test_linked_accounts_are_shown_and_parted_by_the_api(
    api: httpx.AsyncClient, bus: RedisBus, sqlite_store: Store
) -> None:
    assert (await api.get("/api/v1/links")).json() == []
    assert (await api.get("/api/v1/links/telegram:1")).json() == {"keys": ["telegram:1"]}
    await linked(sqlite_store, ANN, DORA)
    both = {"keys": ["discord:7", "telegram:1"]}
    assert (await api.get("/api/v1/links")).json() == [both]
    for key in ("telegram:1", "discord:7", "telegram:1/-100"):
        assert (await api.get(f"/api/v1/links/{key}")).json() == both
    await api.put("/api/v1/grants/telegram:1", json={"role": "blocked"})
    assert (await bus.access.view(DORA)).granted == "blocked"
    assert [(await api.delete("/api/v1/links/discord:7")).status_code for _ in range(2)] == [204, 404]
    assert (await bus.access.view(DORA)).granted is None, "a block counts for the person no longer"
    assert (await api.get("/api/v1/links")).json() == []
    told = (await api.get("/api/v1/audit", params={"subject": "user:discord:7"})).json()
    assert [(line["actor"], line["action"]) for line in told] == [("admin", "link.parted"), ("discord:7", "link.made")]


async def test_who_is_no_person_is_linked_with_nobody(api: httpx.AsyncClient) -> None:
    assert (await api.get("/api/v1/links/nobody")).status_code == 422
    assert (await api.delete("/api/v1/links/nobody")).status_code == 422
    missing = await api.delete("/api/v1/links/telegram:404")
    assert (missing.status_code, "telegram:404" in missing.json()["detail"]) == (404, True)


async def test_links_and_limits_stand_in_the_description_of_the_api(api: httpx.AsyncClient) -> None:
    paths = (await api.get("/api/v1/openapi.json")).json()["paths"]
    methods = {path: {*paths[path]} for path in paths if path.startswith(("/api/v1/links", "/api/v1/limits"))}
    assert methods == {
        "/api/v1/links": {"get"},
        "/api/v1/links/{key}": {"get", "delete"},
        "/api/v1/limits": {"get"},
        "/api/v1/limits/{whom}": {"put", "delete"},
    }


@pytest.mark.parametrize("path", ["grants", "pairings", "places", "limits", "links", "links/telegram:1"])
async def test_nobody_without_the_token_is_answered(api: httpx.AsyncClient, path: str) -> None:
    assert (await api.get(f"/api/v1/{path}", headers={"Authorization": "Bearer guess"})).status_code == 401
