"""The outbound stream and the delivery ledger of a channel, as the channels role uses them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from gateway.bus import ledger, subscriptions
from gateway.bus.groups import GroupReader, StreamEntry
from gateway.bus.keys import InstallationNames, ShardKeys
from gateway.bus.lending import Lending
from gateway.bus.line import Line
from gateway.bus.outbound import Publisher
from gateway.bus.pacing import Buckets, Holds
from gateway.bus.pool import Pool
from gateway.bus.previews import Previews
from gateway.bus.processes import ProcessName
from gateway.bus.scripts import script
from gateway.bus.wire import bounded
from gateway.contracts.envelope import decode, decode_reply
from gateway.contracts.errors import BadEnvelope, NewerEnvelope
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import Activity, DeliveryRecord, Draft, Preview, Receipt, Reply
from gateway.contracts.ports import PendingReply, TokenWish, WantedFile

_Heard = TypeVar("_Heard", Activity, Draft)


@dataclass(frozen=True, slots=True)
class _Channel:
    """What this process needs to read one channel's replies; `consumer` is signed with the process."""

    consumer: str
    reader: GroupReader


class Deliveries:
    """`gateway.contracts.ports.DeliveryBus`.

    One process at a time delivers for an account: the one that holds its delivery lease. A process that
    lost the lease without noticing (it was stopped, or cut off) is refused at the next ledger row, because
    its successor owns the entries by then.
    """

    def __init__(self, line: Line, pool: Pool, keys: ShardKeys, names: InstallationNames, process: ProcessName) -> None:
        self._line = line
        self._pool = pool
        self._keys = keys
        self._names = names
        self._process = process
        self._holds = Holds(line, keys, process)
        self._buckets = Buckets(line, keys)
        self._publisher = Publisher(line, keys, names)
        self._lending = Lending(pool, keys)
        self._previews = Previews(line, keys)
        self._channels: dict[str, _Channel] = {}

    async def replies(self, channel: str, consumer: str, *, count: int, wait_s: float) -> Sequence[PendingReply]:
        """Up to `count` replies, waiting `wait_s` (at most BUS_WAIT_MAX_S) for the first.

        First come those that other consumers left behind, whoever they are: the caller holds the lease.
        A reply is handed out once per process until it is finished. Look at its record: SENDING means that
        nobody knows whether the platform got it, SENT that only the entry is left to finish.
        """
        reader = self._channel(channel, consumer).reader
        entries = await reader.read(count=count, wait_s=wait_s)
        try:
            return await self._with_records(channel, reader, entries)
        except BaseException:  # cancelled, or Redis went away between the two reads
            reader.put_back(entries)
            raise

    async def _with_records(
        self, channel: str, reader: GroupReader, entries: Sequence[StreamEntry]
    ) -> Sequence[PendingReply]:
        readable: list[tuple[str, Reply]] = []
        for entry in entries:
            reply = await self._readable(channel, reader, entry)
            if reply is not None:
                readable.append((entry.id, reply))
        rows = await self._line.call_all([("HGETALL", self._keys.ledger(reply.id)) for _, reply in readable])
        return [
            PendingReply(entry_id, reply, _since_published(entry_id, ledger.from_fields(reply.id, row)))
            for (entry_id, reply), row in zip(readable, rows, strict=True)
        ]

    async def record(self, channel: str, entry_id: str, record: DeliveryRecord) -> bool:
        """Write the ledger row, which lives for LEDGER_TTL_S. False: another process took the entry over."""
        known = self._channels.get(channel)
        is_ours = await self._line.run(
            script("write_ledger"),
            (self._keys.outbound(channel), self._keys.ledger(record.reply_id)),
            (self._names.channels, entry_id, known.consumer if known else "", *ledger.to_fields(record)),
        )
        if not is_ours and known is not None:
            known.reader.finished(entry_id)
        return bool(is_ours)

    async def delivered(self, key: SessionKey, reply_id: str) -> DeliveryRecord:
        return ledger.from_fields(reply_id, await self._line.call("HGETALL", self._keys.ledger(reply_id)))

    def put_back(self, channel: str) -> None:
        """Whatever was handed out and is not finished is handed out again, to whoever asks next."""
        if channel in self._channels:
            self._channels[channel].reader.put_back_all()

    async def finish(self, channel: str, entry_id: str, receipt: Receipt) -> None:
        """Write the last state, hand the receipt over and drop the stream entry, atomically and once."""
        keys = self._keys
        await self._line.run(
            script("finish_delivery"),
            (keys.outbound(channel), keys.ledger(receipt.record.reply_id), keys.receipts),
            (self._names.channels, entry_id, bounded(receipt), self._names.news(""), *ledger.to_fields(receipt.record)),
        )
        if channel in self._channels:
            self._channels[channel].reader.finished(entry_id)

    def drafts(self, channel: str) -> AsyncIterator[Draft]:
        """Silent while Redis is away."""
        return heard_in(self._pool, self._names.draft(channel), Draft)

    async def note_preview(self, channel: str, preview: Preview) -> bool:
        return await self._previews.note(channel, preview)

    async def preview(self, channel: str, key: SessionKey, reply_id: str) -> Preview | None:
        return await self._previews.of(channel, reply_id)

    async def previews(self, channel: str) -> Sequence[Preview]:
        return await self._previews.all(channel)

    async def drop_preview(self, channel: str, preview: Preview) -> None:
        await self._previews.drop(channel, preview)

    def activities(self, channel: str) -> AsyncIterator[Activity]:
        """Running turns of this channel's addresses, as they are announced; silent while Redis is away."""
        return heard_in(self._pool, self._names.activity(channel), Activity)

    async def publish_notice(self, reply: Reply) -> None:
        """A reply that no turn made; deduplicated by its id."""
        await self._publisher.publish([reply])

    async def borrow_file(self, wanted: WantedFile, *, wait_s: float) -> bytes | None:
        return await self._lending.borrow(wanted, wait_s=wait_s)

    async def hold(self, name: str, holder: str, *, ttl_s: float) -> bool:
        return await self._holds.hold(name, holder, ttl_s=ttl_s)

    async def release(self, name: str, holder: str) -> None:
        await self._holds.release(name, holder)

    async def take_send_tokens(self, account: str, wishes: Sequence[TokenWish]) -> float:
        return await self._buckets.take_send_tokens(account, wishes)

    async def pause_bucket(self, account: str, bucket: str, *, for_s: float) -> None:
        await self._buckets.pause_bucket(account, bucket, for_s=for_s)

    def _channel(self, channel: str, consumer: str) -> _Channel:
        known, signed = self._channels.get(channel), self._process.sign(consumer)
        if known is None or known.consumer != signed:
            reader = GroupReader(
                self._line,
                self._pool,
                stream=self._keys.outbound(channel),
                group=self._names.channels,
                consumer=signed,
                left_behind=_all_of_them,
            )
            known = self._channels[channel] = _Channel(signed, reader)
        return known

    async def _readable(self, channel: str, reader: GroupReader, entry: StreamEntry) -> Reply | None:
        envelope = entry.fields[b"e"]
        try:
            return decode_reply(envelope)
        except NewerEnvelope:  # it stays pending: our successor, of the newer release, finds it
            return None
        except BadEnvelope as error:
            await self._line.run(
                script("bury_entry"),
                (self._keys.outbound(channel), self._keys.dead_letters),
                (self._names.channels, entry.id, envelope, str(error)),
            )
            reader.finished(entry.id)
            return None


async def _all_of_them(consumers: Sequence[str]) -> Sequence[str]:
    """Who reads holds the lease, so nobody else will finish what he has."""
    return consumers


def _since_published(entry_id: str, record: DeliveryRecord) -> DeliveryRecord:
    """A stream's entry ids begin with the time in milliseconds."""
    return replace(record, published_at_ms=int(entry_id.partition("-")[0]))


async def heard_in(pool: Pool, pubsub_channel: str, kind: type[_Heard]) -> AsyncIterator[_Heard]:
    """What of this kind is announced in one pub/sub channel."""
    async for heard in subscriptions.messages(pool, pubsub_channel):
        try:
            said = decode(heard.data)
        except BadEnvelope:  # lossy on purpose: of a version we do not read
            continue
        if isinstance(said, kind):
            yield said
