"""The bus as the agent role sees it, over the shards of a Cluster: each promise is kept by the shard it concerns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final

from gateway.bus import subscriptions
from gateway.bus.bell import Bells
from gateway.bus.claims import Claims, Wish
from gateway.bus.control import CONTROL_BATCH, CONTROL_WAIT_S
from gateway.bus.outages import Outages
from gateway.bus.placing import Placing
from gateway.bus.pool import Pool
from gateway.bus.rounds import read_rung
from gateway.bus.shard import Shard
from gateway.contracts.errors import BusUnavailable
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import Activity, ControlRequest, Draft, InboundMessage, Receipt, Reply
from gateway.contracts.ports import Cancel, Claim, ClaimBatch, WantedFile

_PAUSE_S: Final = 0.2


class SpreadLanes:
    """`gateway.contracts.ports.LaneBus`. `pool` leads to any server of the Cluster, for what pub/sub says."""

    def __init__(self, shards: Sequence[Shard], pool: Pool, bells: Bells, outages: Outages) -> None:
        self._shards = shards
        self._rooms = Placing([shard.lanes for shard in shards])
        self._pool = pool
        self._outages = outages
        self._control_bell = bells.hang(lambda keys: keys.control)
        self._receipt_bell = bells.hang(lambda keys: keys.receipts)
        self._claims = Claims(shards, bells.hang(lambda keys: keys.wake), outages)

    async def register(self, worker: str, *, lease_ttl_s: float) -> None:
        """With every shard that answers; with the others the first beat that they answer finds no lease."""
        registering = [shard.lanes.register(worker, lease_ttl_s=lease_ttl_s) for shard in self._shards]
        outcomes = await asyncio.gather(*registering, return_exceptions=True)
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        for failure in failures:
            if not isinstance(failure, BusUnavailable) or len(failures) == len(self._shards):
                raise failure

    async def claim(self, worker: str, *, lanes_max: int, messages_max: int, attempts_max: int) -> ClaimBatch:
        return await self._claims.claim(Wish(worker, messages_max, attempts_max), lanes_max)

    async def wait_for_work(self, *, timeout_s: float) -> None:
        await self._claims.wait(timeout_s)

    async def commit(self, claim: Claim, *, handled: int, replies: Sequence[Reply] = ()) -> bool:
        return await self._rooms.of(claim.key).commit(claim, handled=handled, replies=replies)

    async def wanted_file(self, *, wait_s: float) -> WantedFile | None:
        return await self._shards[0].lanes.wanted_file(wait_s=wait_s)

    async def lend_file(self, wanted: WantedFile, content: bytes) -> None:
        await self._shards[0].lanes.lend_file(wanted, content)

    async def finish_dead(self, message: InboundMessage) -> None:
        await self._rooms.of(message.key).finish_dead(message)

    async def retry_later(self, claim: Claim, *, delay_s: float, error: str) -> bool:
        return await self._rooms.of(claim.key).retry_later(claim, delay_s=delay_s, error=error)

    async def restart(self, claim: Claim) -> bool:
        return await self._rooms.of(claim.key).restart(claim)

    async def revoke(self, key: SessionKey, fence: int) -> bool:
        return await self._rooms.of(key).revoke(key, fence)

    async def extend(self, claim: Claim, *, messages_max: int) -> tuple[InboundMessage, ...]:
        return await self._rooms.of(claim.key).extend(claim, messages_max=messages_max)

    async def beat(self, worker: str, *, lease_ttl_s: float) -> tuple[Cancel, ...] | None:
        """None if the lease was lost in any shard."""
        heard = await asyncio.gather(*[shard.lanes.beat(worker, lease_ttl_s=lease_ttl_s) for shard in self._shards])
        cancels: list[Cancel] = []
        for found in heard:
            if found is None:
                return None
            cancels += found
        return tuple(cancels)

    async def cancellations(self, worker: str) -> AsyncIterator[Cancel]:
        rooms = {shard.lanes.cancel_channel(worker): shard.lanes for shard in self._shards}
        async for heard in subscriptions.messages(self._pool, *rooms):
            for cancel in rooms[heard.channel].heard_cancel(worker, heard.data):
                yield cancel

    async def reap(self) -> int:
        return sum(await asyncio.gather(*[shard.lanes.reap() for shard in self._shards]))

    async def drain(self, worker: str, claims: Sequence[Claim]) -> None:
        """Where a shard does not answer, the lease ends by itself."""
        await asyncio.gather(*[shard.lanes.drain(worker, claims) for shard in self._shards], return_exceptions=True)

    async def republish(self, replies: Sequence[Reply]) -> None:
        """A shard that is away keeps nobody else's replies back; then it raises `BusUnavailable`."""
        groups: dict[int, list[Reply]] = {}
        for reply in replies:
            groups.setdefault(self._rooms.number(reply.key), []).append(reply)
        publishing = [self._shards[number].lanes.republish(group) for number, group in groups.items()]
        for outcome in await asyncio.gather(*publishing, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def show_activity(self, activity: Activity) -> None:
        """Any server passes it on to all the others, so the one that serves the lane is as good as any."""
        await self._rooms.named(activity.address.lane).show_activity(activity)

    async def show_draft(self, draft: Draft) -> None:
        """As an activity."""
        await self._rooms.named(draft.address.lane).show_draft(draft)

    async def control_requests(self, worker: str) -> AsyncIterator[tuple[str, ControlRequest]]:
        for shard in self._shards:
            shard.lanes.ask_control_anew(worker)
        while True:
            try:
                number, found = await read_rung(
                    self._control_bell,
                    self._outages,
                    lambda shard: self._shards[shard].lanes.next_control(worker, count=CONTROL_BATCH, wait_s=0),
                    wait_s=CONTROL_WAIT_S,
                )
            except BusUnavailable:
                await asyncio.sleep(_PAUSE_S)
                continue
            for receipt, request in found:
                yield self._rooms.sign(number, receipt), request

    async def finish_control(self, receipt: str, reply: Reply) -> None:
        number, entry_id = self._rooms.signed(receipt)
        await self._shards[number].lanes.finish_control(entry_id, reply)

    async def finish_press(self, receipt: str, press: InboundMessage, answer: Reply) -> None:
        number, entry_id = self._rooms.signed(receipt)
        await self._shards[number].lanes.finish_press(entry_id, press, answer)

    async def receipts(self, worker: str, *, count: int, wait_s: float) -> Sequence[tuple[str, Receipt]]:
        """Those of one shard at a time; the next call goes on with the others."""
        number, found = await read_rung(
            self._receipt_bell,
            self._outages,
            lambda shard: self._shards[shard].lanes.receipts(worker, count=count, wait_s=0),
            wait_s=wait_s,
        )
        return [(self._rooms.sign(number, entry_id), receipt) for entry_id, receipt in found]

    async def finish_receipts(self, ids: Sequence[str]) -> None:
        groups: dict[int, list[str]] = {}
        for signed in ids:
            number, entry_id = self._rooms.signed(signed)
            groups.setdefault(number, []).append(entry_id)
        await asyncio.gather(*[self._shards[number].lanes.finish_receipts(group) for number, group in groups.items()])

    async def close(self) -> None:
        """Claims that are still on their way arrive and are handed back."""
        await self._claims.close()
