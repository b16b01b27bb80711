"""Grants, pairing codes and the operator's questions, over the shards of a Cluster."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gateway.bus.placing import NotSigned, Placing
from gateway.bus.shard import Shard
from gateway.contracts.access import AccessView, Asked, Pairing, Projection, Taken
from gateway.contracts.entries import Grant
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import DeliveryRecord
from gateway.contracts.ports import DeadLetter, ModelTrouble, QueueFigures, QueueMoment, WaitingMessage


class SpreadAccess:
    """`gateway.contracts.ports.AccessBus`: a grant is in the shard of its owner, rules are in
    every one, all pairing codes in the first."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self._shards = shards
        self._rooms = Placing([shard.access for shard in shards])

    async def view(self, owner: SessionKey, places: Sequence[SessionKey] = ()) -> AccessView:
        return await self._rooms.of(owner).view(owner, places)

    async def project(self, projection: Projection, *, is_forced: bool = False) -> bool:
        groups: list[list[Grant]] = [[] for _ in self._shards]
        for grant in projection.grants:
            groups[self._rooms.number(grant.key)].append(grant)
        pairs = zip(self._shards, groups, strict=True)
        shown = await asyncio.gather(
            *[shard.access.project(replace(projection, grants=group), is_forced=is_forced) for shard, group in pairs]
        )
        return all(shown)

    async def projected(self) -> int | None:
        found = set(await asyncio.gather(*[shard.access.projected() for shard in self._shards]))
        return found.pop() if len(found) == 1 else None

    async def ask_pairing(self, pairing: Pairing, *, ttl_s: int, pending_max: int) -> Asked:
        return await self._shards[0].access.ask_pairing(pairing, ttl_s=ttl_s, pending_max=pending_max)

    async def take_pairing(self, code: str, *, by: str, taker: str) -> Taken:
        return await self._shards[0].access.take_pairing(code, by=by, taker=taker)

    async def deny_pairing(self, code: str) -> SessionKey | None:
        return await self._shards[0].access.deny_pairing(code)

    async def pairings(self) -> Sequence[Pairing]:
        return await self._shards[0].access.pairings()


class SpreadOperator:
    """`gateway.contracts.ports.OperatorBus`: figures are sums, and none are given while a shard is away.
    Counts, what is told of models, and how much waited before are in the first."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self._shards = shards
        self._rooms = Placing([shard.operator for shard in shards])

    async def figures(self) -> QueueFigures:
        found = await asyncio.gather(*[shard.operator.figures() for shard in self._shards])
        pending: Counter[str] = Counter()
        for figures in found:
            pending.update(figures.outbound_pending)
        return QueueFigures(
            queued=sum(figures.queued for figures in found),
            ready=sum(figures.ready for figures in found),
            running=sum(figures.running for figures in found),
            delayed=sum(figures.delayed for figures in found),
            dead_letters=sum(figures.dead_letters for figures in found),
            workers_alive=max(figures.workers_alive for figures in found),  # each is known to every shard
            outbound_pending=dict(pending),
            channels_connected={name: state for figures in found for name, state in figures.channels_connected.items()},
            ambiguous_sends={name: count for figures in found for name, count in figures.ambiguous_sends.items()},
            oldest_wait_ms=max(figures.oldest_wait_ms for figures in found),
        )

    async def note_queue(self, figures: QueueFigures) -> None:
        await self._shards[0].operator.note_queue(figures)

    async def queue_past(self) -> Sequence[QueueMoment]:
        return await self._shards[0].operator.queue_past()

    async def lane_depth(self, key: SessionKey) -> tuple[int, bool]:
        return await self._rooms.of(key).lane_depth(key)

    async def is_in_work(self, key: SessionKey, fence: int) -> bool:
        return await self._rooms.of(key).is_in_work(key, fence)

    async def stop(self, key: SessionKey) -> None:
        await self._rooms.of(key).stop(key)

    async def delivery_records(self, key: SessionKey, reply_ids: Sequence[str]) -> Sequence[DeliveryRecord]:
        return await self._rooms.of(key).delivery_records(key, reply_ids)

    async def dead_letters(self, limit: int) -> Sequence[DeadLetter]:
        found = await asyncio.gather(*[shard.operator.dead_letters(limit) for shard in self._shards])
        letters = [
            replace(letter, entry_id=self._rooms.sign(number, letter.entry_id))
            for number, group in enumerate(found)
            for letter in group
        ]
        return sorted(letters, key=lambda letter: letter.died_at_ms, reverse=True)[:limit]

    async def dead_letter(self, entry_id: str) -> DeadLetter | None:
        try:
            number, own_id = self._rooms.signed(entry_id)
        except NotSigned:
            return None
        letter = await self._shards[number].operator.dead_letter(own_id)
        return replace(letter, entry_id=entry_id) if letter else None

    async def waiting(self, message_ids: Sequence[str]) -> Sequence[WaitingMessage]:
        found = await asyncio.gather(*[shard.operator.waiting(message_ids) for shard in self._shards])
        return [message for group in found for message in group]

    async def retry_dead(self, entry_id: str) -> bool:
        try:
            number, own_id = self._rooms.signed(entry_id)
        except NotSigned:
            return False
        return await self._shards[number].operator.retry_dead(own_id)

    async def drop_dead(self, entry_id: str) -> bool:
        try:
            number, own_id = self._rooms.signed(entry_id)
        except NotSigned:
            return False
        return await self._shards[number].operator.drop_dead(own_id)

    async def forget(self, owner: SessionKey) -> int:
        """Everywhere: what somebody said in a shared place is with the place."""
        return sum(await asyncio.gather(*[shard.operator.forget(owner) for shard in self._shards]))

    async def report_channel(self, channel: str, state: str, *, ttl_s: float) -> None:
        await self._rooms.named(channel).report_channel(channel, state, ttl_s=ttl_s)

    async def report_models(self, news: Mapping[str, ModelTrouble | None]) -> None:
        await self._shards[0].operator.report_models(news)

    async def model_troubles(self) -> Sequence[ModelTrouble]:
        return await self._shards[0].operator.model_troubles()

    async def add_counts(self, counts: Mapping[str, int]) -> None:
        await self._shards[0].operator.add_counts(counts)

    async def counts(self) -> Mapping[str, int]:
        return await self._shards[0].operator.counts()

    async def ping(self) -> None:
        """Raises `BusUnavailable` unless every shard is served."""
        await asyncio.gather(*[shard.operator.ping() for shard in self._shards])
