"""Exclusive, ordered work on lanes, as the agent role does it.

A lane is absent, ready, delayed or owned, never two of these. Each step from one to the next is one
script; a lease that was lost makes every step an answer that nothing happened.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from gateway.bus.holdings import Holdings
from gateway.bus.keys import HANDLE_SEPARATOR, ShardKeys, lane_handle
from gateway.bus.line import Line, Word
from gateway.bus.outbound import reply_arguments
from gateway.bus.pool import Pool
from gateway.bus.scripts import script
from gateway.contracts.envelope import decode_inbound
from gateway.contracts.errors import BadEnvelope
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import InboundMessage, Reply
from gateway.contracts.ports import Claim, ClaimBatch, Lease
from gateway.limits import BUS_WAIT_MAX_S, ERROR_CHARS_MAX, RETRY_DELAYS_S

_WAIT_MIN_S: Final = 0.001  # BLPOP counts in milliseconds and takes zero for "for ever"
_ARRIVAL_DIGITS: Final = 13  # milliseconds in front of each envelope in a mailbox (enqueue.lua)


class Lanes:
    """Claim, commit and what lies between."""

    def __init__(self, line: Line, pool: Pool, keys: ShardKeys, holdings: Holdings) -> None:
        self._line = line
        self._pool = pool
        self._keys = keys
        self._holdings = holdings
        self._claiming = asyncio.Lock()

    async def claim(self, worker: str, *, lanes_max: int, messages_max: int, attempts_max: int) -> ClaimBatch:
        """Lease up to `lanes_max` ready lanes; an empty batch when nothing is ready or the lease is lost.

        A lane that failed runs again whole; on its last try its head runs alone. A message that failed
        `attempts_max` times is in `dead`, once, and in the dead letters; the rest of its lane goes on.
        """
        keys = self._keys
        # One at a time: what a claim may give again depends on what the one before was answered.
        async with self._claiming:
            answer = await self._line.run(
                script("claim"),
                (
                    keys.workers,
                    keys.worker_lanes(worker),
                    keys.ready,
                    keys.delay,
                    keys.own,
                    keys.attempts,
                    keys.total,
                    keys.fence,
                    keys.wake,
                    keys.dead_letters,
                ),
                (worker, keys.mailbox(""), lanes_max, messages_max, attempts_max, self._holdings.known_fence(worker)),
            )
            if answer == -1:
                return ClaimBatch((), None)
            next_due_ms, rows, dead = answer
            claims = [claim for row in rows if (claim := await self._readable(worker, row)) is not None]
            # Only now: a caller cancelled before this line is given the same lanes by its next claim.
            for claim in claims:
                self._holdings.take(worker, str(claim.key), claim.lease.fence, len(claim.messages))
        return ClaimBatch(
            claims=tuple(claims),
            next_due_s=None if next_due_ms < 0 else next_due_ms / 1000,
            dead=tuple(message for envelope in dead if (message := _decoded(envelope)) is not None),
        )

    async def wait_for_work(self, *, timeout_s: float) -> None:
        """Return when a lane may be ready, at the latest after `timeout_s` or BUS_WAIT_MAX_S."""
        if timeout_s <= 0:
            return
        wait_s = max(_WAIT_MIN_S, min(timeout_s, BUS_WAIT_MAX_S))
        await self._pool.call("BLPOP", self._keys.wake, f"{wait_s:.3f}")

    async def commit(self, claim: Claim, *, handled: int, replies: Sequence[Reply] = ()) -> bool:
        """Acknowledge the first `handled` messages and publish the replies, atomically. False: fenced.

        What was claimed and not handled is ready again, in order, at the tail of the ready list.
        """
        keys, lane, lease = self._keys, str(claim.key), claim.lease
        arguments: list[Word] = [lane, lane_handle(claim.key), lease.worker, lease.fence, handled, keys.published("")]
        for reply in replies:
            arguments.extend(reply_arguments(reply))
        answer = await self._line.run(
            script("commit"),
            (
                keys.mailbox(lane),
                keys.ready,
                keys.own,
                keys.worker_lanes(lease.worker),
                keys.attempts,
                keys.total,
                keys.wake,
                keys.outbound_channels,
                *(keys.outbound(reply.address.channel) for reply in replies),
            ),
            arguments,
        )
        self._holdings.drop(lease.worker, lane, lease.fence)
        return bool(answer)

    async def retry_later(self, claim: Claim, *, delay_s: float, error: str) -> bool:
        """Give the lane back after a failed run; it waits `delay_s`, in order. False: fenced."""
        return await self._give_back(claim.key, claim.lease, delay_s=delay_s, error=error)

    async def extend(self, claim: Claim) -> tuple[InboundMessage, ...]:
        """Messages that arrived behind those the lease covers, now covered too; each is given once."""
        lane, lease = str(claim.key), claim.lease
        have = self._holdings.messages(lease.worker, lane, lease.fence)
        if have is None:
            return ()
        rows = await self._line.run(
            script("extend"),
            (self._keys.mailbox(lane), self._keys.own),
            (lane, lease.worker, lease.fence, have),
        )
        messages: list[InboundMessage] = []
        for row in rows:
            message = _decoded(row[_ARRIVAL_DIGITS:])
            if message is None:  # it and what stands behind it wait: `commit` counts from the head
                break
            messages.append(message)
        self._holdings.grow(lease.worker, lane, len(messages))
        return tuple(messages)

    async def _readable(self, worker: str, row: Sequence[Any]) -> Claim | None:
        """The claim, or None for a lane that holds something we cannot read: it waits like a failed run."""
        handle, fence, attempts, envelopes = row
        key, lease = SessionKey.parse(_lane(handle)), Lease(worker, fence)
        try:
            messages = tuple(decode_inbound(envelope[_ARRIVAL_DIGITS:]) for envelope in envelopes)
        except BadEnvelope as error:
            delay_s = RETRY_DELAYS_S[min(attempts, len(RETRY_DELAYS_S) - 1)]
            await self._give_back(key, lease, delay_s=delay_s, error=str(error))
            return None
        return Claim(key, lease, attempts, messages)

    async def _give_back(self, key: SessionKey, lease: Lease, *, delay_s: float, error: str) -> bool:
        keys, lane = self._keys, str(key)
        answer = await self._line.run(
            script("retry_later"),
            (keys.own, keys.worker_lanes(lease.worker), keys.attempts, keys.delay, keys.wake),
            (lane, lane_handle(key), lease.worker, lease.fence, int(delay_s * 1000), error[:ERROR_CHARS_MAX]),
        )
        self._holdings.drop(lease.worker, lane, lease.fence)
        return bool(answer)


def _lane(handle: bytes) -> str:
    return handle.decode().partition(HANDLE_SEPARATOR)[0]


def _decoded(envelope: bytes) -> InboundMessage | None:
    try:
        return decode_inbound(envelope)
    except BadEnvelope:
        return None
