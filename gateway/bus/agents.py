"""The bus as the agent role sees it: lanes, leases and the side door in one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from gateway.bus import subscriptions
from gateway.bus.control import ControlLane
from gateway.bus.holdings import Holdings
from gateway.bus.keys import InstallationNames, ShardKeys
from gateway.bus.lanes import Lanes
from gateway.bus.lanescripts import LaneScripts
from gateway.bus.leases import Leases
from gateway.bus.lending import Lending
from gateway.bus.line import Line
from gateway.bus.outbound import Publisher
from gateway.bus.pool import Pool
from gateway.bus.wire import bounded
from gateway.contracts.envelope import encode
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import Activity, ControlRequest, Draft, InboundMessage, Receipt, Reply
from gateway.contracts.ports import Cancel, Claim, ClaimBatch, WantedFile


class AgentBus:
    """`gateway.contracts.ports.LaneBus`; each promise is kept in the room its method leads to."""

    def __init__(
        self,
        line: Line,
        pool: Pool,
        keys: ShardKeys,
        names: InstallationNames,
        scripts: LaneScripts,
        *,
        turns_max: int,
    ) -> None:
        self._line = line
        self._pool = pool
        self._names = names
        self._cancels = names.news(keys.cancels(""))
        self._holdings = Holdings()
        self._lanes = Lanes(line, pool, keys, scripts, self._holdings, turns_max=turns_max)
        self._control = ControlLane(line, pool, keys, names)
        self._publisher = Publisher(line, keys, names)
        self._lending = Lending(pool, keys)
        self.leases = Leases(line, keys, scripts, self._holdings)

    async def register(self, worker: str, *, lease_ttl_s: float) -> None:
        await self.leases.register(worker, lease_ttl_s=lease_ttl_s)

    async def beat(self, worker: str, *, lease_ttl_s: float) -> tuple[Cancel, ...] | None:
        return await self.leases.beat(worker, lease_ttl_s=lease_ttl_s)

    async def reap(self) -> int:
        return await self.leases.reap()

    async def drain(self, worker: str, claims: Sequence[Claim]) -> None:
        """Hand back all lanes of `worker`, named in `claims` or not: who leaves keeps none."""
        await self.leases.drain(worker)

    async def claim(self, worker: str, *, lanes_max: int, messages_max: int, attempts_max: int) -> ClaimBatch:
        return await self._lanes.claim(
            worker, lanes_max=lanes_max, messages_max=messages_max, attempts_max=attempts_max
        )

    async def finish_dead(self, message: InboundMessage) -> None:
        await self._lanes.finish_dead(message)

    async def wait_for_work(self, *, timeout_s: float) -> None:
        await self._lanes.wait_for_work(timeout_s=timeout_s)

    async def commit(self, claim: Claim, *, handled: int, replies: Sequence[Reply] = ()) -> bool:
        return await self._lanes.commit(claim, handled=handled, replies=replies)

    async def retry_later(self, claim: Claim, *, delay_s: float, error: str) -> bool:
        return await self._lanes.retry_later(claim, delay_s=delay_s, error=error)

    async def restart(self, claim: Claim) -> bool:
        return await self._lanes.restart(claim)

    async def revoke(self, key: SessionKey, fence: int) -> bool:
        return await self._lanes.revoke(key, fence)

    async def extend(self, claim: Claim, *, messages_max: int) -> tuple[InboundMessage, ...]:
        return await self._lanes.extend(claim, messages_max=messages_max)

    def heard_cancel(self, worker: str, word: bytes) -> tuple[Cancel, ...]:
        """What a word on the worker's cancel channel means to it."""
        return self._holdings.cancelled(worker, [word.decode()])

    def cancel_channel(self, worker: str) -> str:
        """The pub/sub channel of these words."""
        return self._cancels + worker

    async def cancellations(self, worker: str) -> AsyncIterator[Cancel]:
        """Running turns to end, each once, whether this or the beat hears of it first."""
        async for heard in subscriptions.messages(self._pool, self.cancel_channel(worker)):
            for cancel in self.heard_cancel(worker, heard.data):
                yield cancel

    async def republish(self, replies: Sequence[Reply]) -> None:
        await self._publisher.publish(replies)

    async def show_activity(self, activity: Activity) -> None:
        await self._line.call("PUBLISH", self._names.activity(activity.address.channel), encode(activity))

    async def show_draft(self, draft: Draft) -> None:
        await self._line.call("PUBLISH", self._names.draft(draft.address.channel), bounded(draft))

    def held(self, worker: str) -> tuple[str, ...]:
        """The lanes that `worker` has claimed and not given back, as far as this process knows."""
        return self._holdings.lanes(worker)

    def control_requests(self, worker: str) -> AsyncIterator[tuple[str, ControlRequest]]:
        return self._control.requests(worker)

    def ask_control_anew(self, worker: str) -> None:
        """What the worker was handed and has not finished is handed out again."""
        self._control.ask_anew(worker)

    async def next_control(self, worker: str, *, count: int, wait_s: float) -> Sequence[tuple[str, ControlRequest]]:
        """Some control commands for `worker`, waiting `wait_s` for the first."""
        return await self._control.commands(worker, count=count, wait_s=wait_s)

    async def finish_control(self, receipt: str, reply: Reply) -> None:
        await self._control.finish(receipt, reply)

    async def finish_press(self, receipt: str, press: InboundMessage, answer: Reply) -> None:
        await self._control.finish_press(receipt, press, answer)

    async def receipts(self, worker: str, *, count: int, wait_s: float) -> Sequence[tuple[str, Receipt]]:
        return await self._control.receipts(worker, count=count, wait_s=wait_s)

    async def finish_receipts(self, ids: Sequence[str]) -> None:
        await self._control.finish_receipts(ids)

    async def wanted_file(self, *, wait_s: float) -> WantedFile | None:
        return await self._lending.wanted(wait_s=wait_s)

    async def lend_file(self, wanted: WantedFile, content: bytes) -> None:
        await self._lending.lend(wanted, content)
