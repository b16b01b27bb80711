"""The operator's API on a real store and a real bus, called without a socket; and what lies there to be shown."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path

import httpx
from fastapi import FastAPI, routing

from gateway.bus.bus import RedisBus
from gateway.clock import SystemClock
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import InboundMessage
from gateway.contracts.profiles import SUB_TYPE_ROWS, SubTypeRows
from gateway.contracts.sessions import Entry, Role, Session, TurnCommit, TurnState, Usage, UsagePurpose
from gateway.ops.admin.agents import no_skills
from gateway.ops.admin.app import Parts, create_app
from gateway.scrub import Scrubber
from gateway.store import Store
from tests.parts.keepers import keeper_of

TOKEN = "the-operator's-token"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
ADA = SessionKey("telegram", "1")
CHAT = ReplyAddress("telegram", "1", "{}")
CLOCK = SystemClock()
SCRUBBER = Scrubber()

# FastAPI makes a reader of every answer of every route, which are the same in each app: most of what an app costs.
routing.create_model_field = cache(routing.create_model_field)  # type: ignore[attr-defined]


def app_of(
    store: Store,
    bus: RedisBus,
    *,
    channels: tuple[str, ...] = ("telegram",),
    workspaces: Path | None = None,
    sub_types: SubTypeRows = SUB_TYPE_ROWS,
    skills: Callable[[], Awaitable[str]] = no_skills,
) -> FastAPI:
    parts = Parts(
        store=store,
        figures=bus.operator,
        lanes=bus.lanes,
        intake=bus.intake,
        deliveries=bus.deliveries,
        keeper=keeper_of(store, bus),
        vault=bus.vault,
        scrubber=SCRUBBER,
        clock=CLOCK,
        client_key="the-key-of-clients",
        channels=channels,
        version="0.1.0",
        workspaces=workspaces,
        sub_types=sub_types,
        hosts=("admin",),
        skills=skills,
    )
    return create_app(parts, TOKEN)


def client_of(app: FastAPI) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://admin", headers=HEADERS)


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


async def converse(store: Store, key: SessionKey, number: int) -> Session:
    """One question, one answer, one model call; the key's session."""
    asked = message(key, number, f"question {number}")
    turn_id = CLOCK.new_id()
    start = await store.turns.begin(turn_id=turn_id, key=key, fence=number, messages=[asked], now_ms=CLOCK.now_ms())
    usage = Usage(key, UsagePurpose.TURN, "demo/scripted", 10, 5, cost_usd=0.25, turn_id=turn_id)
    committed = await store.turns.commit(
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


async def signed_in(client: httpx.AsyncClient) -> tuple[str, str]:
    """Sign in as a browser does, from now on without the header; the form token, and the cookie."""
    client.headers.pop("Authorization", None)
    answer = await client.post("/login", data={"token": TOKEN}, headers={"Sec-Fetch-Site": "same-origin"})
    assert answer.status_code == 303, answer.text
    page = await client.get("/audit")
    found = re.search('data-form-token="([0-9a-f]{64})"', page.text)
    assert found is not None
    return found[1], answer.headers["set-cookie"]


async def make_dead_letter(bus: RedisBus, poison: InboundMessage) -> None:
    """A message whose only run fails."""
    await bus.intake.enqueue(poison)
    await bus.lanes.register("w1", lease_ttl_s=60)
    for _ in range(2):
        batch = await bus.lanes.claim("w1", lanes_max=1, messages_max=1, attempts_max=1)
        for claim in batch.claims:
            await bus.lanes.retry_later(claim, delay_s=0.0, error="boom")
