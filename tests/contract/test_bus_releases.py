"""Two releases side by side on one bus: what a newer one wrote waits for those who can read it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from gateway.bus.bus import RedisBus, open_bus
from gateway.contracts.envelope import VERSION, Wire, decode, encode
from gateway.contracts.errors import BadEnvelope, NewerEnvelope
from gateway.contracts.messages import ControlKind, ControlRequest, DeliveryRecord, DeliveryState, Receipt
from tests.parts.bus_samples import ANNA, message, reply

NEWER = VERSION + 1


def of_newer_release(value: Wire) -> bytes:
    """How a later release writes it: another version, another shape."""
    return json.dumps({"v": NEWER, "t": "everything", "body": encode(value).decode()}).encode()


def as_newer_release(data: bytes) -> Wire:
    """How a later release reads: its own envelopes and ours."""
    body = json.loads(data)
    return decode(body["body"].encode() if body["v"] == NEWER else data)


@pytest.fixture
def writes_newer(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Lets this process write as the newer release does, or as we do again."""

    def switch(is_newer: bool) -> None:
        monkeypatch.setattr("gateway.bus.shards.encode", of_newer_release if is_newer else encode)

    return switch


@pytest.fixture
def reads_newer(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From now on this process is of the newer release."""

    def switch() -> None:
        monkeypatch.setattr("gateway.bus.deliveries.decode", as_newer_release)
        for room in ("lanes", "deliveries", "inbound"):
            monkeypatch.setattr(f"gateway.bus.{room}.decode_as", lambda _kind, data: as_newer_release(data))

    return switch


def test_a_newer_release_is_told_from_nonsense() -> None:
    """Nonsense is given up, what is newer is left alone."""
    with pytest.raises(NewerEnvelope):
        decode(of_newer_release(message(1)))
    for nonsense in (b'{"v":0,"t":"reply"}', b'{"v":"2","t":"reply"}', b'{"v":true,"t":"reply"}'):
        with pytest.raises(BadEnvelope) as caught:
            decode(nonsense)
        assert not isinstance(caught.value, NewerEnvelope)


async def test_a_lane_waits_at_the_first_message_of_a_newer_release(
    bus: RedisBus,
    raw_redis: Any,
    writes_newer: Callable[[bool], None],
    reads_newer: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What stands before it is answered; it counts no attempt; and a worker that can read it goes on."""
    monkeypatch.setattr("gateway.bus.lanes.NEWER_DELAY_S", 0.0)
    await bus.lanes.register("old", lease_ttl_s=60)
    await bus.intake.enqueue(message(1))
    writes_newer(True)
    await bus.intake.enqueue(message(2))
    writes_newer(False)
    await bus.intake.enqueue(message(3))

    async def claimed() -> list[str]:
        batch = await bus.lanes.claim("old", lanes_max=10, messages_max=20, attempts_max=2)
        for claim in batch.claims:
            await bus.lanes.commit(claim, handled=len(claim.messages))
        return [each.id for claim in batch.claims for each in claim.messages]

    assert await claimed() == [message(1).id]
    for _ in range(5):
        assert await claimed() == []
    assert (await bus.operator.figures()).dead_letters == 0
    reads_newer()
    assert await claimed() == [message(2).id, message(3).id]


async def test_a_reply_of_a_newer_release_waits_for_the_next_process(
    bus: RedisBus, valkey_url: str, writes_newer: Callable[[bool], None], reads_newer: Callable[[], None]
) -> None:
    """Those after it are delivered, and nothing is given up."""
    writes_newer(True)
    await bus.deliveries.publish([reply(1)])
    writes_newer(False)
    await bus.deliveries.publish([reply(2)])
    first = await bus.deliveries.replies("telegram", "c", count=10, wait_s=0)
    assert [pending.reply.id for pending in first] == [reply(2).id]
    assert await bus.deliveries.replies("telegram", "c", count=10, wait_s=0) == []
    assert (await bus.operator.figures()).dead_letters == 0
    await bus.close()
    reads_newer()
    upgraded = await open_bus(valkey_url)
    again = await upgraded.deliveries.replies("telegram", "c", count=10, wait_s=0)
    assert reply(1).id in [pending.reply.id for pending in again]
    await upgraded.close()


async def test_commands_and_receipts_of_a_newer_release_wait_for_a_newer_worker(
    bus: RedisBus, valkey_url: str, writes_newer: Callable[[bool], None], reads_newer: Callable[[], None]
) -> None:
    """The old worker leaves them pending; when it has gone they are somebody else's."""
    await bus.lanes.register("old", lease_ttl_s=60)
    receipt = Receipt(DeliveryRecord(reply(1).id, DeliveryState.SENT, 1), ANNA, "telegram")
    await bus.deliveries.publish([reply(1)])
    (pending,) = await bus.deliveries.replies("telegram", "c", count=10, wait_s=0)
    writes_newer(True)
    await bus.intake.request_control(ControlRequest(ControlKind.STATUS, message(1)))
    await bus.deliveries.finish("telegram", pending.entry_id, receipt)
    writes_newer(False)
    await bus.intake.request_control(ControlRequest(ControlKind.STATUS, message(2)))
    requests = bus.control.requests("old")
    assert (await anext(requests))[1].message.id == message(2).id
    assert await bus.deliveries.take_receipts("old", count=10, wait_s=0) == []
    assert (await bus.operator.figures()).dead_letters == 0
    await bus.lanes.drain("old")
    reads_newer()
    upgraded = await open_bus(valkey_url)
    await upgraded.lanes.register("new", lease_ttl_s=60)
    assert (await anext(upgraded.control.requests("new")))[1].message.id == message(1).id
    assert [found for _, found in await upgraded.deliveries.take_receipts("new", count=10, wait_s=0)] == [receipt]
    await upgraded.close()
