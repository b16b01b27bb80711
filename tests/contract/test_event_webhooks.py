"""Events on their way to a webhook that refuses them, is slow, or is away: each arrives, with the same id."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from hashlib import sha256
from typing import Any

import pytest
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from channels.api import adapter
from channels.api.adapter import EventAdapter
from channels.core import attempt
from channels.core.adapter import InboundHandler
from channels.core.intake import IntakeDeps
from channels.core.runtime import ChannelConfig, ChannelRuntime
from channels.emulators.serving import listening
from gateway.bus.bus import RedisBus
from gateway.clock import SystemClock
from gateway.config.features import Webhook, WebhookEvent
from gateway.contracts.errors import AddressDead, BusError, RateLimited, SendFailed
from gateway.contracts.ids import SessionKey, SessionScope
from gateway.contracts.messages import DeliveryState, Reply, literal_text
from gateway.scrub import Scrubber
from gateway.webhooks import WebhookEvents
from tests.parts.keepers import policy_of
from tests.parts.ports import LOOPBACK, free_port
from tests.parts.waiting import until, until_found

ADA = SessionKey("telegram", "1")
SECRET = "a secret of sixteen or more"


class Receiver:
    """A program that is called; `answer` says what it does with a call."""

    def __init__(self, port: int) -> None:
        self.calls: list[tuple[Request, dict[str, Any]]] = []
        self.answer: Callable[[], int] = lambda: 204
        self.port = port
        self.webhook = Webhook(url=f"http://{LOOPBACK}:{port}/hook", secret=SecretStr(SECRET), private=True)

    async def take(self, request: Request) -> Response:
        self.calls.append((request, await request.json()))
        status = self.answer()
        if not status:
            await asyncio.Event().wait()
        return Response(status_code=status, headers={"Retry-After": "0"})

    @asynccontextmanager
    async def there(self) -> AsyncIterator[None]:
        async with listening(Starlette(routes=[Route("/hook", self.take, methods=["POST"])]), port=self.port):
            yield

    def event(self, subject: str) -> Reply:
        """An event that this webhook is told of."""
        told = WebhookEvents([self.webhook]).tell(
            WebhookEvent.TURN_FAILED, subject, ADA, literal_text("It failed."), at_ms=1, turn_id=subject
        )
        return told[0]


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Receiver:
    monkeypatch.setattr(attempt, "RETRY_DELAYS_S", (0.01,) * 13)
    monkeypatch.setattr(adapter, "WEBHOOK_TIMEOUT_S", 0.2)
    return Receiver(free_port())


@asynccontextmanager
async def telling(bus: RedisBus, receiver: Receiver) -> AsyncIterator[None]:
    deps = IntakeDeps.of(bus, Scrubber(), SystemClock())
    config = ChannelConfig(policy_of(), SessionScope.PLACE)
    runtime = ChannelRuntime(EventAdapter([receiver.webhook]), bus, deps, config, consumer="c1")
    running = asyncio.create_task(runtime.run())
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_what_is_refused_or_not_answered_comes_again_with_the_same_id(bus: RedisBus, receiver: Receiver) -> None:
    answers = iter((500, 0, 301, 429, 204))
    receiver.answer = lambda: next(answers)
    event = receiver.event("t1")
    await bus.deliveries.publish([event, event])
    async with receiver.there(), telling(bus, receiver):
        await until(lambda: len(receiver.calls) == 5)
        [(_, receipt)] = await bus.deliveries.take_receipts("w", count=9, wait_s=5)
    assert receipt.record.state is DeliveryState.SENT
    assert {said["id"] for _, said in receiver.calls} == {"turn_failed:t1:127.0.0.1"}
    request, said = receiver.calls[0]
    assert said == {
        "id": "turn_failed:t1:127.0.0.1",
        "type": "turn_failed",
        "at": "1970-01-01T00:00:00.001+00:00",
        "key": "telegram:1",
        "turn_id": "t1",
        "text": "It failed.",
    }
    at_s, signed = (part.split("=")[1] for part in request.headers["x-trivet-signature"].split(","))
    expected = hmac.new(SECRET.encode(), f"{at_s}.".encode() + await request.body(), sha256).hexdigest()
    assert hmac.compare_digest(signed, expected)


async def test_one_that_is_away_is_told_when_it_is_back_and_no_event_waits_for_another(
    bus: RedisBus, receiver: Receiver
) -> None:
    await bus.deliveries.publish([receiver.event(f"t{number}") for number in range(9)])
    receiver.answer = lambda: 500 if receiver.calls[-1][1]["turn_id"] == "t0" and len(receiver.calls) < 12 else 204
    async with telling(bus, receiver):
        await until_found(partial(attempts, bus, receiver.event("t0")))
        async with receiver.there():
            await until(lambda: {said["turn_id"] for _, said in receiver.calls} == {f"t{each}" for each in range(9)})


async def test_a_report_that_the_bus_refuses_ends_no_channel(
    bus: RedisBus, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How a channel is, is for the operator: what it does for people goes on."""
    refused: list[str] = []

    async def refuse(_: object, channel: str, state: str, *, ttl_s: float) -> None:
        refused.append(channel)
        raise BusError("no such command here")

    monkeypatch.setattr(type(bus.operator), "report_channel", refuse)
    async with receiver.there(), telling(bus, receiver):
        await until(lambda: len(refused) > 1)
        await bus.deliveries.publish([receiver.event("t1")])
        await until(lambda: len(receiver.calls) == 1)


async def attempts(bus: RedisBus, event: Reply) -> int:
    return (await bus.deliveries.delivered(ADA, event.id)).attempt


@pytest.mark.parametrize("url", ["http://127.0.0.1:{port}/hook", "http://localhost:{port}/hook"])
async def test_nothing_in_a_private_network_is_called_unless_it_is_allowed(receiver: Receiver, url: str) -> None:
    guarded = Webhook(url=url.format(port=receiver.port), secret=SecretStr(SECRET), name="guarded")
    receiver.webhook = guarded
    event = receiver.event("t1")
    async with receiver.there(), adapter_of(guarded) as events:
        with pytest.raises(SendFailed, match="cannot be reached"):
            await events.send(event.address, events.chunks(event.text)[0], send_id="s", plain=False)
    assert receiver.calls == []


async def test_a_webhook_that_was_taken_out_is_told_nothing_more(receiver: Receiver) -> None:
    event = receiver.event("t1")
    async with receiver.there(), adapter_of() as events:
        with pytest.raises(AddressDead):
            await events.send(event.address, events.chunks(event.text)[0], send_id="s", plain=False)


async def test_one_that_asks_for_a_pause_gets_it(receiver: Receiver) -> None:
    receiver.answer = lambda: 429
    event = receiver.event("t1")
    async with receiver.there(), adapter_of(receiver.webhook) as events:
        with pytest.raises(RateLimited, match="0 s"):
            await events.send(event.address, events.chunks(event.text)[0], send_id="s", plain=False)


@asynccontextmanager
async def adapter_of(*named: Webhook) -> AsyncIterator[EventAdapter]:
    events = EventAdapter(named)
    handler: InboundHandler = None  # type: ignore[assignment]
    running = asyncio.create_task(events.run(handler))
    await events.until_ready()
    yield events
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
