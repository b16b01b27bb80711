"""Thousands of turns with everything that can happen to them; afterwards the bus holds nothing of it."""

from __future__ import annotations

from random import Random
from typing import Any, Final

import pytest

from gateway.bus.bus import RedisBus
from gateway.bus.keys import Lifetime, kind_of
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import InboundMessage
from gateway.contracts.ports import Claim, Verdict
from gateway.limits import DEAD_LETTERS_MAX
from tests.parts.bus_samples import control, message, receipt, reply
from tests.parts.lane_audit import contradictions, draining_keys
from tests.parts.lane_model import changed
from tests.parts.leases import beat, reap

LANES: Final = [SessionKey("telegram", str(user), place) for user in range(20) for place in ((), ("-1",), ("-2",))]
WORKERS: Final = ("w1", "w2", "w3")
TURNS: Final = 1_500
FATES: Final = {"commit": 80, "part": 5, "retry": 6, "restart": 5, "kill": 1, "revoke": 3}


class Churn:
    """People, workers and a channel, played by one seeded hand."""

    def __init__(self, bus: RedisBus, raw_redis: Any, seed: int) -> None:
        self._bus = bus
        self._redis = raw_redis
        self._chance = Random(seed)
        self._next = 0
        self._lately: list[InboundMessage] = []
        self.turns = 0

    async def register(self) -> None:
        for worker in WORKERS:
            await self._bus.lanes.register(worker, lease_ttl_s=600)

    async def someone_writes(self) -> None:
        """A message, and now and then an edit, a deletion, a stop."""
        chance, intake = self._chance, self._bus.intake
        self._next += 1
        fresh = message(self._next, chance.choice(LANES))
        admission = await intake.enqueue(fresh, settle_ms=chance.choice((0, 0, 0, 5)), interrupts=chance.random() < 0.2)
        if admission.verdict is Verdict.ACCEPTED:
            self._lately = [*self._lately[-20:], fresh]
        meant = chance.choice(self._lately)
        if chance.random() < 0.05:
            await intake.amend(changed(meant, f"better {self._next}"))
        if chance.random() < 0.05:
            await intake.withdraw(meant.key, meant.id)
        if chance.random() < 0.02:
            await intake.request_control(control(self._next, meant.key))

    async def work(self, worker: str) -> int:
        """Claim, and let chance end each run; how many there were."""
        self._make_due()
        batch = await self._bus.lanes.claim(worker, lanes_max=8, messages_max=3, attempts_max=3)
        for item in batch.dead:
            await self._bus.lanes.finish_dead(item.message)
        for claim in batch.claims:
            self.turns += 1
            await self._end(claim)
        await beat(self._bus.lanes, worker, lease_ttl_s=600)
        return len(batch.claims)

    async def _end(self, claim: Claim) -> None:
        lanes, worker = self._bus.lanes, claim.lease.worker
        fate = self._chance.choices(list(FATES), list(FATES.values()))[0]
        handled = 1 if fate == "part" else len(claim.messages)
        if fate == "retry":
            await lanes.retry_later(claim, delay_s=60, error="it broke")
        elif fate == "restart":
            await lanes.restart(claim)
        elif fate == "kill":
            await beat(lanes, worker, lease_ttl_s=-1)
            await reap(lanes)
            await lanes.register(worker, lease_ttl_s=600)
        elif fate == "revoke":
            await lanes.revoke(claim.key, claim.lease.fence)
        else:
            await lanes.commit(claim, handled=handled, replies=[reply(claim.messages[0].id, claim.key)])

    async def come_to_rest(self) -> None:
        """Everything is worked off, sent and acknowledged; the workers leave."""
        while (await self._bus.operator.figures()).queued:
            for worker in WORKERS:
                await self.work(worker)
        while pending := await self._bus.deliveries.replies("telegram", "c1", count=500, wait_s=0):
            for item in pending:
                await self._bus.deliveries.finish("telegram", item.entry_id, receipt(item.reply))
        while receipts := await self._bus.deliveries.take_receipts("w1", count=500, wait_s=0):
            await self._bus.deliveries.finish_receipts([entry_id for entry_id, _ in receipts])
        for worker in WORKERS:
            await self._bus.lanes.drain(worker)

    def _make_due(self) -> None:
        """Time passes for lanes that back off or settle."""
        if delayed := self._redis.zrange("{q0}:delay", 0, -1):
            self._redis.zadd("{q0}:delay", dict.fromkeys(delayed, 1))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.long
async def test_a_bus_that_worked_hard_forgets_everything_but_its_books(
    bus: RedisBus, raw_redis: Any, seed: int
) -> None:
    """After kills, stops, retries, restarts, edits and deletions only permanent keys and those with a TTL are
    left, and the permanent ones are as small as the day before."""
    churn = Churn(bus, raw_redis, seed)
    await churn.register()
    while churn.turns < TURNS:
        for _ in range(6):
            await churn.someone_writes()
        await churn.work(Random(churn.turns).choice(WORKERS))
        if churn.turns % 500 == 0:
            assert contradictions(raw_redis) == []
    await churn.come_to_rest()

    assert contradictions(raw_redis) == []
    assert draining_keys(raw_redis) == []
    sizes = {key: permanent_size(raw_redis, key) for raw in raw_redis.scan_iter() if is_permanent(key := raw.decode())}
    assert sizes.pop("{q0}:dlq", 0) <= DEAD_LETTERS_MAX
    assert sizes.pop("{q0}:control", 0) > 0, "commands that no worker of this test reads"
    assert sizes == {
        "{q0}:tot": 0,
        "{q0}:rcpt": 0,
        "{q0}:out:telegram": 0,
        "{q0}:outs": 1,
        "{q0}:meta": 3,
        "{q0}:access": 1,
        "{q0}:fence": 1,
    }


def is_permanent(key: str) -> bool:
    kind = kind_of(key)
    return kind is not None and kind.lifetime is Lifetime.PERMANENT


def permanent_size(raw_redis: Any, key: str) -> int:
    """Elements of a permanent key; for the number of messages its value."""
    if key.endswith(":tot"):
        return int(raw_redis.get(key))
    sizes = {"string": lambda _: 1, "stream": raw_redis.xlen, "set": raw_redis.scard, "hash": raw_redis.hlen}
    return int(sizes[raw_redis.type(key).decode()](key))
