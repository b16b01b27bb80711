"""Our bus: dedupe, order, lease with heartbeat, fence, attempts, back-pressure; a turn for each message.

    python -m tests.bench.contest.ours URL JOBS KEYS [silent | answered]

`answered` turns publish a reply each, once per id, in the step that acknowledges the message.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from gateway.bus.bus import RedisBus, open_bus
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import CleanText, InboundMessage, Reply, ReplyKind
from gateway.contracts.ports import Claim
from gateway.limits import CLAIM_LANES_MAX, LEASE_TTL_S, TURN_ATTEMPTS_MAX
from tests.bench.contest import race

INSTALLATION: Final = "CONTESTANTS1"
WORKER: Final = "contest"
PLENTY: Final = 10_000_000
TEXT: Final = CleanText("x" * 200)
_WAIT_S: Final = 1.0


def message(key: int, number: int) -> InboundMessage:
    """Job `number` as a message of user `key`."""
    session_key = SessionKey("telegram", str(key))
    return InboundMessage(
        id=f"telegram:bot:{key}:{number}",
        key=session_key,
        address=ReplyAddress("telegram", str(session_key), "{}"),
        text=TEXT,
        author_id=str(key),
        author_name=CleanText("Anna"),
        is_private=True,
        sent_at_ms=1_700_000_000_000,
        received_at_ms=number,
    )


class Ours:
    """The worker's loop without a turn in it."""

    def __init__(self, bus: RedisBus, *, answers: bool) -> None:
        self._bus = bus
        self._answers = answers

    async def put(self, key: int, number: int) -> None:
        await self._bus.intake.enqueue(message(key, number))

    @asynccontextmanager
    async def working(self, tally: race.Tally) -> AsyncIterator[None]:
        await self._bus.lanes.register(WORKER, lease_ttl_s=LEASE_TTL_S)
        pulse = self._bus.heartbeat(WORKER, on_cancel=_unexpected, on_lost=_unexpected)
        async with pulse, race.in_background(self._claim_for_ever(tally)):
            yield
        await self._bus.lanes.drain(WORKER)

    async def _claim_for_ever(self, tally: race.Tally) -> None:
        free, freed, wait_s = race.SLOTS, asyncio.Event(), 0.0

        def give_back(_: asyncio.Task[None]) -> None:
            nonlocal free
            free += 1
            freed.set()

        async with asyncio.TaskGroup() as turns:
            while True:
                if free == 0:
                    freed.clear()
                    await freed.wait()
                found = await self._bus.lanes.claim(
                    WORKER,
                    lanes_max=min(free, CLAIM_LANES_MAX),
                    messages_max=1,
                    attempts_max=TURN_ATTEMPTS_MAX,
                    wait_s=wait_s,
                )
                for claim in found.claims:
                    free -= 1
                    turns.create_task(self._take(claim, tally)).add_done_callback(give_back)
                wait_s = 0.0 if found.claims else _WAIT_S

    async def _take(self, claim: Claim, tally: race.Tally) -> None:
        number = claim.messages[0].received_at_ms
        tally.start(int(claim.key.user), number)
        replies = (_reply(claim, number),) if self._answers else ()
        if not await self._bus.lanes.commit(claim, handled=1, replies=replies):
            raise AssertionError("a lease was lost in a race without a rival")
        tally.end()


def _reply(claim: Claim, number: int) -> Reply:
    return Reply(
        id=f"{claim.key}:{number}:0",
        turn_id=str(number),
        key=claim.key,
        address=claim.messages[0].address,
        text=TEXT,
        kind=ReplyKind.ANSWER,
        created_at_ms=number,
    )


def _unexpected(*_: object) -> None:
    raise AssertionError("nobody stops anything here")


@asynccontextmanager
async def open_ours(url: str) -> AsyncIterator[Ours]:
    bus = await open_bus(url, installation=INSTALLATION, lane_messages_max=PLENTY, queue_messages_max=PLENTY)
    try:
        yield Ours(bus, answers=sys.argv[-1] == "answered")
    finally:
        await bus.close()


if __name__ == "__main__":
    race.run(open_ours)
