"""Deliveries, traces and dead letters in the operator's API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest

from gateway.bus.bus import RedisBus
from gateway.contracts.messages import DeliveryState, Receipt, Reply, ReplyKind
from gateway.contracts.sessions import TurnCommit, TurnState
from gateway.store import Store
from tests.parts.operator_api import ADA, CHAT, CLOCK, SCRUBBER, app_of, client_of, make_dead_letter, message


@pytest.fixture
async def admin(sqlite_store: Store, bus: RedisBus) -> AsyncIterator[httpx.AsyncClient]:
    """The API with the operator's token."""
    async with client_of(app_of(sqlite_store, bus)) as client:
        yield client


class TestDeliveries:
    async def test_a_trace_tells_every_hop_in_order(
        self, admin: httpx.AsyncClient, sqlite_store: Store, bus: RedisBus
    ) -> None:
        """From the message to the receipt, by the message's id or the reply's."""
        reply = await answered_reply(sqlite_store, bus)
        await bus.deliveries.publish([reply])
        (pending,) = await bus.deliveries.replies("telegram", "c1", count=1, wait_s=5)
        begun = replace(pending.record, state=DeliveryState.SENDING, begun_at_ms=CLOCK.now_ms())
        assert await bus.deliveries.record("telegram", pending.entry_id, begun)
        sent = replace(begun, state=DeliveryState.SENT, next_chunk=1, chunks=1, platform_ids=("7",))
        receipt = Receipt(replace(sent, updated_at_ms=CLOCK.now_ms()), ADA, "telegram")
        await bus.deliveries.finish("telegram", pending.entry_id, receipt)
        await sqlite_store.outbox.record_receipts([receipt])
        names = [hop["name"] for hop in (await admin.get("/api/v1/trace/telegram:bot:1:1")).json()]
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
        assert (await admin.get(f"/api/v1/trace/{reply.id}")).json() == (
            await admin.get(f"/api/v1/trace/{reply.turn_id}")
        ).json()
        for wrong in ("nobody", "K7QX2", "1700000000000-0", "%20", "%F0%9F"):
            answer = await admin.get(f"/api/v1/trace/{wrong}")
            assert answer.status_code == 404
            assert "nothing is known of" in answer.json()["detail"]

    async def test_a_dead_letter_is_followed_from_its_lane_to_its_next_try(
        self, admin: httpx.AsyncClient, sqlite_store: Store, bus: RedisBus
    ) -> None:
        """By the reference in its apology, by its own id, and by the message's, also while it waits again."""
        poison = message(ADA, 1, "poison")
        await bus.intake.enqueue(message(ADA, 0, "first"))
        await bus.intake.enqueue(poison)
        assert await self.names(admin, poison.id) == ["waits in its lane"]
        await bus.lanes.stop(ADA)
        await make_dead_letter(bus, message(ADA, 2, "poison"))
        (letter,) = await bus.operator.dead_letters(10)
        assert await self.names(admin, letter.entry_id) == ["received", "dead letter"]
        dead = letter.message
        assert dead is not None
        now_ms = CLOCK.now_ms()
        sorry = Reply("t2:dead", "t2", ADA, CHAT, SCRUBBER.scrub("sorry"), ReplyKind.ERROR, now_ms)
        assert await sqlite_store.turns.give_up(
            turn_id="t2",
            message=dead,
            replies=[sorry],
            note=SCRUBBER.scrub(""),
            reference="K7QX2M",
            letter_id=letter.entry_id,
            now_ms=now_ms,
        )
        told = ["received", "dead letter", "given up", "reply committed"]
        for wanted in ("K7QX2M", " k7qx2m ", letter.entry_id, dead.id, "t2:dead"):
            assert await self.names(admin, wanted) == told, wanted
        assert await bus.operator.retry_dead(letter.entry_id)
        for wanted in ("K7QX2M", letter.entry_id, dead.id, f"{dead.id}~1", "t2"):
            assert await self.names(admin, wanted) == ["given up", "reply committed", "waits in its lane"], wanted

    @staticmethod
    async def names(admin: httpx.AsyncClient, wanted: str) -> list[str]:
        return [hop["name"] for hop in (await admin.get(f"/api/v1/trace/{wanted}")).raise_for_status().json()]

    async def test_the_newest_are_listed(self, admin: httpx.AsyncClient, sqlite_store: Store, bus: RedisBus) -> None:
        reply = await answered_reply(sqlite_store, bus)
        (row,) = (await admin.get("/api/v1/deliveries", params={"key": str(ADA)})).json()
        assert (row["reply_id"], row["state"], row["chunks_sent"]) == (reply.id, "pending", 0)
        assert (await admin.get("/api/v1/deliveries", params={"key": "telegram:2"})).json() == []
        assert (await admin.get("/api/v1/deliveries", params={"key": "nonsense"})).status_code == 422

    async def test_a_dead_letter_is_shown_tried_again_and_dropped(
        self, admin: httpx.AsyncClient, bus: RedisBus
    ) -> None:
        for number in (1, 2):
            await make_dead_letter(bus, message(ADA, number, f"poison {number}"))
        second, first = (await admin.get("/api/v1/dead-letters")).json()
        assert (first["message_id"], first["text"]) == ("telegram:bot:1:1", "poison 1")
        hops = [hop["name"] for hop in (await admin.get("/api/v1/trace/telegram:bot:1:1")).json()]
        assert hops == ["received", "dead letter"]
        assert (await admin.post(f"/api/v1/dead-letters/{first['id']}/retry")).status_code == 204
        assert (await admin.delete(f"/api/v1/dead-letters/{second['id']}")).status_code == 204
        assert (await admin.delete(f"/api/v1/dead-letters/{second['id']}")).status_code == 404
        assert (await admin.post("/api/v1/dead-letters/nonsense/retry")).status_code == 404
        assert (await bus.lanes.depth(ADA))[0] == 1


async def answered_reply(store: Store, bus: RedisBus) -> Reply:
    """A committed turn with one reply that nobody has published yet."""
    asked = message(ADA, 1, "question")
    start = await store.turns.begin(turn_id="t1", key=ADA, fence=1, messages=[asked], now_ms=1_700_000_000_000)
    reply = Reply("t1:0", "t1", ADA, CHAT, SCRUBBER.scrub("answer"), ReplyKind.ANSWER, 1_700_000_002_000)
    await store.turns.commit(
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
