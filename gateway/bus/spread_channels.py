"""The bus as the channels role sees it, over the shards of a Cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence

from gateway.bus.bell import Bell, Bells
from gateway.bus.deliveries import heard_in
from gateway.bus.keys import InstallationNames
from gateway.bus.outages import Outages
from gateway.bus.places import Places
from gateway.bus.placing import Placing
from gateway.bus.pool import Pool
from gateway.bus.rounds import read_rung
from gateway.bus.shard import Shard
from gateway.contracts.access import Rate
from gateway.contracts.errors import BusError
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import (
    Activity,
    ControlRequest,
    DeliveryRecord,
    Draft,
    InboundMessage,
    Preview,
    Receipt,
    Reply,
)
from gateway.contracts.ports import Admission, Amendment, Outlook, PendingReply, TokenWish, WantedFile
from gateway.contracts.questions import PutQuestion, Standing


class SpreadIntake:
    """`gateway.contracts.ports.IntakeBus`: a lane is in the shard of its owner, a position in that of its name."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self._rooms = Placing([shard.intake for shard in shards])

    async def enqueue(
        self,
        message: InboundMessage,
        *,
        settle_ms: int = 0,
        interrupts: bool = False,
        rate: Rate = Rate(),  # noqa: B008 - frozen
    ) -> Admission:
        room = self._rooms.of(message.key)
        return await room.enqueue(message, settle_ms=settle_ms, interrupts=interrupts, rate=rate)

    async def amend(self, message: InboundMessage) -> Amendment:
        return await self._rooms.of(message.key).amend(message)

    async def withdraw(self, key: SessionKey, message_id: str) -> Amendment:
        return await self._rooms.of(key).withdraw(key, message_id)

    async def request_control(
        self,
        request: ControlRequest,
        *,
        rate: Rate = Rate(),  # noqa: B008 - frozen
    ) -> Admission:
        return await self._rooms.of(request.message.key).request_control(request, rate=rate)

    async def position(self, name: str) -> str | None:
        return await self._rooms.named(name).position(name)

    async def set_position(self, name: str, value: str) -> None:
        await self._rooms.named(name).set_position(name, value)


class SpreadDeliveries:
    """`gateway.contracts.ports.DeliveryBus`: a reply is in the shard of its lane, in order with the others of it."""

    def __init__(
        self, shards: Sequence[Shard], names: InstallationNames, pool: Pool, bells: Bells, outages: Outages
    ) -> None:
        self._shards = shards
        self._names = names
        self._rooms = Placing([shard.deliveries for shard in shards])
        self._pool = pool
        self._bells = bells
        self._outages = outages
        self._bell_of: dict[str, Bell] = {}
        self._shard_of: dict[str, int] = {}  # by reply id, from hand-out to finish

    async def replies(self, channel: str, consumer: str, *, count: int, wait_s: float) -> Sequence[PendingReply]:
        """Those of one shard at a time; the next call goes on with the others."""
        bell = self._bell_of.get(channel)
        if bell is None:
            bell = self._bell_of[channel] = self._bells.hang(lambda keys: keys.outbound(channel))
        shard, found = await read_rung(
            bell,
            self._outages,
            lambda shard: self._shards[shard].deliveries.replies(channel, consumer, count=count, wait_s=0),
            wait_s=wait_s,
        )
        self._shard_of.update((pending.reply.id, shard) for pending in found)
        return found

    async def record(self, channel: str, entry_id: str, record: DeliveryRecord) -> bool:
        """Of a reply that was handed out here and is not finished. Raises `BusError` for any other."""
        shard = self._shard_of.get(record.reply_id)
        if shard is None:
            raise BusError(f"the reply {record.reply_id!r} is not being delivered by this process")
        return await self._shards[shard].deliveries.record(channel, entry_id, record)

    async def delivered(self, key: SessionKey, reply_id: str) -> DeliveryRecord:
        return await self._rooms.of(key).delivered(key, reply_id)

    def put_back(self, channel: str) -> None:
        for shard in self._shards:
            shard.deliveries.put_back(channel)
        if channel in self._bell_of:
            self._bell_of[channel].ring_all()

    async def finish(self, channel: str, entry_id: str, receipt: Receipt) -> None:
        await self._rooms.of(receipt.key).finish(channel, entry_id, receipt)
        self._shard_of.pop(receipt.record.reply_id, None)

    def drafts(self, channel: str) -> AsyncIterator[Draft]:
        return heard_in(self._pool, self._names.draft(channel), Draft)

    async def note_preview(self, channel: str, preview: Preview) -> bool:
        return await self._rooms.of(preview.key).note_preview(channel, preview)

    async def preview(self, channel: str, key: SessionKey, reply_id: str) -> Preview | None:
        return await self._rooms.of(key).preview(channel, key, reply_id)

    async def previews(self, channel: str) -> Sequence[Preview]:
        found = await asyncio.gather(*(shard.deliveries.previews(channel) for shard in self._shards))
        return [preview for few in found for preview in few]

    async def drop_preview(self, channel: str, preview: Preview) -> None:
        await self._rooms.of(preview.key).drop_preview(channel, preview)

    def activities(self, channel: str) -> AsyncIterator[Activity]:
        return heard_in(self._pool, self._names.activity(channel), Activity)

    async def publish_notice(self, reply: Reply) -> None:
        await self._rooms.of(reply.key).publish_notice(reply)

    async def borrow_file(self, wanted: WantedFile, *, wait_s: float) -> bytes | None:
        return await self._shards[0].deliveries.borrow_file(wanted, wait_s=wait_s)

    async def hold(self, name: str, holder: str, *, ttl_s: float) -> bool:
        return await self._rooms.named(name).hold(name, holder, ttl_s=ttl_s)

    async def release(self, name: str, holder: str) -> None:
        await self._rooms.named(name).release(name, holder)

    async def take_send_tokens(self, account: str, wishes: Sequence[TokenWish]) -> float:
        """The buckets of an account are in one shard: a send spends from several of them at once."""
        return await self._rooms.named(account).take_send_tokens(account, wishes)

    async def pause_bucket(self, account: str, bucket: str, *, for_s: float) -> None:
        await self._rooms.named(account).pause_bucket(account, bucket, for_s=for_s)


class SpreadQuestions:
    """`gateway.contracts.ports.QuestionBus`: a question is in the shard of its code, a word to a person in his."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self._rooms = Placing([shard.questions for shard in shards])

    async def put(self, question: PutQuestion, *, ttl_s: float) -> None:
        await self._rooms.named(question.code).put(question, ttl_s=ttl_s)

    async def standing(self, code: str) -> Standing | None:
        return await self._rooms.named(code).standing(code)

    async def settle(self, code: str, answer: ControlRequest | None) -> Standing | None:
        return await self._rooms.named(code).settle(code, answer)

    async def told(self, press: InboundMessage, *, wait_s: float) -> Reply | None:
        return await self._rooms.of(press.key).told(press, wait_s=wait_s)


class SpreadPlaces:
    """`gateway.contracts.ports.PlaceBus`: what is known of a channel's accounts and places is in one shard."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self._rooms = Placing([shard.places for shard in shards])

    def _of(self, name: str) -> Places:
        return self._rooms.named(name.partition(":")[0])

    async def outlook(self, account: str, place: str) -> Outlook:
        return await self._of(account).outlook(account, place)

    async def bury(self, account: str, place: str, *, reason: str) -> int:
        return await self._of(account).bury(account, place, reason=reason)

    async def revive(self, place: str) -> None:
        await self._of(place).revive(place)

    async def doubt(self, account: str) -> None:
        await self._of(account).doubt(account)

    async def note_sent(self, place: str, ids: Sequence[str]) -> None:
        await self._of(place).note_sent(place, ids)

    async def sent_lately(self, place: str) -> frozenset[str]:
        return await self._of(place).sent_lately(place)

    async def note_move(self, channel: str, old: str, new: str) -> None:
        await self._of(channel).note_move(channel, old, new)

    async def newest_ids(self, channel: str, chats: Sequence[str]) -> Sequence[str]:
        return await self._of(channel).newest_ids(channel, chats)

    async def first_ids(self, channel: str, chats: Sequence[str]) -> Sequence[str]:
        return await self._of(channel).first_ids(channel, chats)

    async def moved(self, channel: str) -> Mapping[str, str]:
        return await self._of(channel).moved(channel)

    async def keep_link(self, name: str, url: str, *, ttl_s: float) -> None:
        await self._of(name).keep_link(name, url, ttl_s=ttl_s)

    async def link(self, name: str) -> str:
        return await self._of(name).link(name)

    async def introduce(self, platform: str, bots: Sequence[str]) -> None:
        await self._of(platform).introduce(platform, bots)

    async def hear_bot(self, room: str, message_id: str, *, speaker: str) -> bool:
        return await self._of(room).hear_bot(room, message_id, speaker=speaker)

    async def person_spoke(self, room: str) -> None:
        await self._of(room).person_spoke(room)

    async def may_name(self, place: str, *, conversation: str, is_first: bool) -> bool:
        return await self._of(place).may_name(place, conversation=conversation, is_first=is_first)

    async def count_ambiguous(self, channel: str) -> None:
        await self._of(channel).count_ambiguous(channel)
