"""Exclusive, ordered work on lanes, as the agent role does it.

A lane is absent, ready, parked, delayed or owned, never two of these. Each step from one to the next is one
script; a lease that was lost makes every step an answer that nothing happened.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from gateway.bus.holdings import Holdings
from gateway.bus.keys import HANDLE_SEPARATOR, ShardKeys, lane_handle
from gateway.bus.lanescripts import LaneScripts
from gateway.bus.line import Line, Word
from gateway.bus.outbound import reply_arguments
from gateway.bus.pool import Pool
from gateway.contracts.envelope import decode_inbound
from gateway.contracts.errors import BadEnvelope, NewerEnvelope
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import InboundMessage, Reply
from gateway.contracts.ports import Claim, ClaimBatch, DeadMessage, Lease
from gateway.limits import BUS_WAIT_MAX_S, ERROR_CHARS_MAX, NEWER_DELAY_S, RETRY_DELAYS_S

_WAIT_MIN_S: Final = 0.001  # BLPOP counts in milliseconds and takes zero for "for ever"
_ARRIVAL_DIGITS: Final = 13  # milliseconds in front of each envelope in a mailbox (enqueue.lua)


class Lanes:
    """Claim, commit and what lies between. `turns_max`: turns at a time over all workers, 0 for any number."""

    def __init__(
        self, line: Line, pool: Pool, keys: ShardKeys, scripts: LaneScripts, holdings: Holdings, *, turns_max: int
    ) -> None:
        self._line = line
        self._scripts = scripts
        self._pool = pool
        self._keys = keys
        self._holdings = holdings
        self._turns_max = turns_max
        self._claiming = asyncio.Lock()
        self._unsettled: list[Claim] = []
        self._dead_entries: dict[str, bytes] = {}

    async def claim(self, worker: str, *, lanes_max: int, messages_max: int, attempts_max: int) -> ClaimBatch:
        """Lease up to `lanes_max` ready lanes; an empty batch when nothing is ready or the lease is lost.

        A lane that failed runs again whole; on its last try its head runs alone. A message that failed
        `attempts_max` times is in `dead` and in the dead letters, and the rest of its lane goes on; until
        `finish_dead` it is in the `dead` of another claim every DEAD_TOLD_WITHIN_S.
        """
        keys = self._keys
        # One at a time: what a claim may give again depends on what the one before was answered.
        async with self._claiming:
            await self._settle(worker)
            answer = await self._scripts.run(
                "claim",
                (keys.workers, keys.fence, keys.dead_letters, keys.untold),
                (
                    *(worker, self._holdings.known_fence(worker)),
                    *(lanes_max, messages_max, attempts_max, self._turns_max),
                ),
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
            dead=tuple([found for row in dead if (found := await self._dead(row)) is not None]),
        )

    async def finish_dead(self, message: InboundMessage) -> None:
        """The author of a message that a claim found dead was told; before, others are asked to do it."""
        entry = self._dead_entries.pop(message.id, None)
        if entry is not None:
            await self._line.call("ZREM", self._keys.untold, entry)

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
        keys = self._keys
        arguments: list[Word] = [handled, keys.published("")]
        for reply in replies:
            arguments.extend(reply_arguments(reply))
        streams = (keys.outbound(reply.address.channel) for reply in replies)
        return await self._end("commit", claim, (keys.outbound_channels, *streams), arguments)

    async def retry_later(self, claim: Claim, *, delay_s: float, error: str) -> bool:
        """Give the lane back after a failed run; it waits `delay_s`, in order. False: fenced."""
        return await self._wait(claim, delay_s, is_failure=True, error=error)

    async def _wait(self, claim: Claim, delay_s: float, *, is_failure: bool, error: str) -> bool:
        arguments = (int(delay_s * 1000), int(is_failure), error[:ERROR_CHARS_MAX])
        return await self._end("retry_later", claim, (), arguments)

    async def restart(self, claim: Claim) -> bool:
        """Give the lane back to start at once, without counting a failed run. False: fenced.

        It is in front RESTARTS_IN_FRONT_MAX times, then at the tail; without messages it is gone.
        """
        return await self._end("restart", claim, (), ())

    async def revoke(self, key: SessionKey, fence: int) -> bool:
        """Take the lane from whoever runs the turn with this fence; its messages are stopped. False: nobody does."""
        return bool(await self._scripts.run("revoke", arguments=(lane_handle(key), fence)))

    async def extend(self, claim: Claim, *, messages_max: int) -> tuple[InboundMessage, ...]:
        """Up to `messages_max` messages behind those the lease covers, now covered too; each is given once."""
        lane, lease = str(claim.key), claim.lease
        have = self._holdings.messages(lease.worker, lane, lease.fence)
        if have is None or messages_max <= 0:
            return ()
        rows = await self._scripts.run("extend", arguments=(*_proof(claim), have, messages_max))
        messages: list[InboundMessage] = []
        for row in rows:
            message = _decoded(row[_ARRIVAL_DIGITS:])
            if message is None:  # it and what stands behind it wait: `commit` counts from the head
                break
            messages.append(message)
        self._holdings.grow(lease.worker, lane, lease.fence, len(messages))
        return tuple(messages)

    async def _dead(self, row: Sequence[bytes]) -> DeadMessage | None:
        """A message whose author is to be told, None for what has no author that we can read."""
        entry, envelope = row
        message = _decoded(envelope)
        if message is None:
            await self._line.call("ZREM", self._keys.untold, entry)
            return None
        self._dead_entries[message.id] = entry
        return DeadMessage(entry.decode(), message)

    async def _readable(self, worker: str, row: Sequence[Any]) -> Claim | None:
        """The claim up to the first message that we cannot read, or None if that is the first of all: then the
        lane waits, as after a failed run, or for a worker of the newer release that wrote the message."""
        handle, fence, attempts, stopped, rows = row
        key, lease = SessionKey.parse(_lane(handle)), Lease(worker, fence)
        envelopes = [row[_ARRIVAL_DIGITS:] for row in rows]
        claim = Claim(key, lease, attempts, (), is_stopped=stopped > 0)
        if not all(envelopes):  # withdrawn before we heard of the claim
            await self.restart(claim)
            return None
        messages, error = _readable_head(envelopes)
        if error is None or messages:
            return replace(claim, messages=messages)
        if isinstance(error, NewerEnvelope):
            await self._wait(claim, NEWER_DELAY_S, is_failure=False, error=str(error))
        else:
            delay_s = RETRY_DELAYS_S[min(attempts, len(RETRY_DELAYS_S) - 1)]
            await self.retry_later(claim, delay_s=delay_s, error=str(error))
        return None

    async def _end(self, name: str, claim: Claim, keys: Sequence[str], arguments: Sequence[Word]) -> bool:
        """The end of a run: nobody here works for the lane any more, whatever Redis says or does not say."""
        try:
            return bool(await self._scripts.run(name, keys, (*_proof(claim), *arguments)))
        except BaseException:
            self._unsettled.append(claim)
            raise
        finally:
            self._holdings.drop(claim.lease.worker, str(claim.key), claim.lease.fence)

    async def _settle(self, worker: str) -> None:
        """Runs whose end Redis did not answer: if it did not arrive, the lane is still ours and goes back."""
        for claim in [claim for claim in self._unsettled if claim.lease.worker == worker]:
            await self._scripts.run("restart", arguments=_proof(claim))
            self._unsettled.remove(claim)


def _proof(claim: Claim) -> tuple[str, str, int]:
    """What every script about a run begins with: the lane, and by which right."""
    return lane_handle(claim.key), claim.lease.worker, claim.lease.fence


def _lane(handle: bytes) -> str:
    return handle.decode().partition(HANDLE_SEPARATOR)[0]


def _readable_head(envelopes: Sequence[bytes]) -> tuple[tuple[InboundMessage, ...], BadEnvelope | None]:
    """What can be read up to the first that cannot, and what is wrong with that one."""
    messages: list[InboundMessage] = []
    for envelope in envelopes:
        try:
            messages.append(decode_inbound(envelope))
        except BadEnvelope as error:
            return tuple(messages), error
    return tuple(messages), None


def _decoded(envelope: bytes) -> InboundMessage | None:
    try:
        return decode_inbound(envelope)
    except BadEnvelope:
        return None
