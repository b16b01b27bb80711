"""An agent that answers at once, on the real bus: enough of a mind to test everything around it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest

from gateway.bus.bus import RedisBus
from gateway.clock import SystemClock
from gateway.contracts.access import Projection
from gateway.contracts.errors import BusUnavailable
from gateway.contracts.messages import Activity, CleanText, InboundMessage, Reply, ReplyFile, ReplyKind
from gateway.contracts.ports import Claim, QueueFigures
from tests.parts.waiting import PATIENCE_S, POLL_S

LEASE_S = 60.0


class EchoAgent:
    """Answers each batch with what `answer` makes of it. `heard` is everything it was asked, in order; `files` go
    with every answer."""

    def __init__(self, bus: RedisBus, answer: Callable[[str], str] | None = None) -> None:
        self._bus = bus
        self._clock = SystemClock()
        self.worker = f"echo-{self._clock.new_id()}"
        self._thinking: asyncio.Event | None = None
        self.answer = answer or (lambda text: f"echo: {text}")
        self.heard: list[InboundMessage] = []
        self.files: tuple[tuple[ReplyFile, bytes], ...] = ()

    def think_until(self, done: asyncio.Event) -> None:
        """From now on a turn lasts until `done`, and says so to the channel."""
        self._thinking = done

    @contextlib.asynccontextmanager
    async def at_work(self) -> AsyncIterator[EchoAgent]:
        """Claims and answers inside the context."""
        await self._bus.access.project(Projection())
        await self._bus.lanes.register(self.worker, lease_ttl_s=LEASE_S)
        tasks = [asyncio.create_task(part()) for part in (self._work, self._lend, self._show)]
        try:
            yield self
        finally:
            for task in tasks:
                if task.done():
                    task.result()
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _show(self) -> None:
        """A bus that lost its memory is told again who is let in."""
        while True:
            await asyncio.sleep(0.2)
            with contextlib.suppress(BusUnavailable):
                if await self._bus.access.projected() is None:
                    await self._bus.access.project(Projection())

    async def _lend(self) -> None:
        while True:
            try:
                wanted = await self._bus.files.wanted_file(wait_s=5.0)
                if wanted is not None:
                    await self._bus.files.put_file(wanted, self.files[wanted.position][1] if self.files else b"")
            except BusUnavailable:
                await asyncio.sleep(0.1)

    async def _work(self) -> None:
        wait_s = 0.0
        while True:
            try:
                batch = await self._bus.lanes.claim(
                    self.worker, lanes_max=16, messages_max=1, attempts_max=4, wait_s=wait_s
                )
                for claim in batch.claims:
                    await self._turn(claim)
                wait_s = 0.0 if batch.claims else 0.2
            except BusUnavailable:
                await asyncio.sleep(0.1)

    async def _turn(self, claim: Claim) -> None:
        (message,) = claim.messages
        self.heard.append(message)
        if self._thinking is not None:
            await self._bus.deliveries.show_activity(Activity(message.address, f"turn-{message.id}", 30.0))
            await self._thinking.wait()
        await self._bus.lanes.commit(claim, handled=1, replies=[self.reply_to(message)])

    def reply_to(self, message: InboundMessage, name: str = "answer") -> Reply:
        """What it says to a message; another `name` makes it another reply."""
        return Reply(
            id=f"{message.id}:{name}",
            turn_id=f"turn-{message.id}",
            key=message.key,
            address=message.address,
            text=CleanText(self.answer(message.text)),
            kind=ReplyKind.ANSWER,
            created_at_ms=self._clock.now_ms(),
            files=tuple(file for file, _ in self.files),
        )


async def until_queued(bus: RedisBus, count: int = 1) -> None:
    """Wait until so many messages lie on the bus."""
    await _until(bus, lambda figures: figures.queued >= count)


async def until_at_most_queued(bus: RedisBus, count: int) -> None:
    """Wait until no more messages than that lie on the bus."""
    await _until(bus, lambda figures: figures.queued <= count)


async def until_delivered(bus: RedisBus, channel: str) -> None:
    """Wait until nothing is queued and no reply of the channel is on its way: a kill now repeats nothing."""
    await _until(bus, lambda figures: not figures.queued and not figures.outbound_pending.get(channel))


async def _until(bus: RedisBus, is_true: Callable[[QueueFigures], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not is_true(await bus.operator.figures()):  # noqa: ASYNC110 - Redis tells only those who ask
            await asyncio.sleep(POLL_S)


@pytest.fixture
async def agent(bus: RedisBus) -> AsyncIterator[EchoAgent]:
    """One that says everything again."""
    async with EchoAgent(bus).at_work() as echo:
        yield echo
