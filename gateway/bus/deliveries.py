"""Replies on their way to a channel: the outbound stream, the delivery ledger, drafts, and what several channel
processes share besides: named leases and send buckets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Generic, TypeVar

from gateway.bus import subscriptions
from gateway.bus.client import Pool, Refused
from gateway.bus.heartbeat import ProcessName
from gateway.bus.keys import ShardKeys
from gateway.bus.scripts import Command, Word, digest
from gateway.bus.shards import Shard, Shards, bounded
from gateway.contracts.envelope import decode, decode_as, encode
from gateway.contracts.errors import BadEnvelope, BusUnavailable, NewerEnvelope
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import (
    Activity,
    CleanText,
    DeliveryRecord,
    DeliveryState,
    Draft,
    Preview,
    Receipt,
    Reply,
)
from gateway.contracts.ports import Beginning, PendingReply, SendAttempt, SentMessages, TokenWish
from gateway.limits import BUS_WAIT_MAX_S

# Reading streams through a consumer group, so that nothing is lost with the one who read it.
#
# An entry stays pending with its consumer until it is finished. What a dead consumer left behind is
# adopted and handed out again; what this process has handed out itself is not.


T = TypeVar("T")
_ADOPT_EVERY_S: Final = 1.0
_ADOPT_BATCH: Final = 500
_GROUP_LOST: Final = ("NOGROUP", "UNBLOCKED")
"""Redis was emptied: before the read, or while it waited."""


@dataclass(frozen=True, slots=True)
class StreamEntry:
    """One entry: its id and its fields as they lie in Redis."""

    id: str
    fields: Mapping[bytes, bytes]


class GroupReader(Generic[T]):
    """One consumer of one stream in every shard.

    `understand` says what an entry means and raises `BadEnvelope` for one that nobody can read, which goes to the dead
    letters; one that a newer release wrote stays pending for it. Where the consumer `is_sole`, it holds a lease that no
    other has: whatever others hold was left behind, and entries are given in the order of the stream. Else a consumer
    will not come back once its worker has no lease."""

    def __init__(
        self,
        shards: Shards,
        key_of: Callable[[ShardKeys], str],
        *,
        group: str,
        consumer: str,
        understand: Callable[[StreamEntry], T],
        is_sole: bool = False,
    ) -> None:
        self.consumer = consumer
        self._shards = shards
        self._group = group
        self._understand = understand
        self._wakeups = shards.wakeups(key_of)
        self._readers = [_ShardReader(shard, key_of(shard.keys), group, consumer, is_sole=is_sole) for shard in shards]

    async def read(self, *, count: int, wait_s: float) -> Sequence[tuple[Shard, str, T]]:
        """Return up to `count` entries of one shard, each with its own id there: what was left behind first, then new
        ones, waiting `wait_s` at most. The next call goes on with the other shards."""
        return await self._shards.read(self._wakeups, lambda shard, s: self._look(shard, count, s), wait_s=wait_s)

    def put_back_all(self) -> None:
        """Give everything again that is not finished: nobody works on any of it any more."""
        for reader in self._readers:
            reader.put_back_all()
        self._wakeups.wake_all()

    def handed_out(self, shard: Shard) -> int:
        """Count the entries of a shard that were given and are not finished."""
        return len(self._readers[shard.number].handed_out)

    def finished(self, shard: Shard, entry_id: str) -> None:
        """Forget an entry that was acknowledged, or given up."""
        self._readers[shard.number].handed_out.discard(entry_id)

    async def _look(self, shard: Shard, count: int, wait_s: float) -> Sequence[tuple[Shard, str, T]]:
        reader = self._readers[shard.number]
        entries = await reader.read(count=count, wait_s=wait_s)
        found: list[tuple[Shard, str, T]] = []
        try:
            for entry in entries:
                try:
                    found.append((shard, entry.id, self._understand(entry)))
                except NewerEnvelope:  # it stays pending: when we have gone a newer process adopts it
                    continue
                except BadEnvelope as error:
                    arguments = (self._group, entry.id, entry.fields[b"e"], str(error))
                    await shard.run_script("give_up_entry", (reader.stream, shard.keys.dead_letters), arguments)
                    reader.handed_out.discard(entry.id)
        except BaseException:  # cancelled, or Redis went away over an unreadable one
            reader.put_back([entry.id for entry in entries])
            raise
        return found


class _ShardReader:
    """One consumer of one stream."""

    def __init__(self, shard: Shard, stream: str, group: str, consumer: str, *, is_sole: bool) -> None:
        self.stream = stream
        self.handed_out: set[str] = set()
        self._shard = shard
        self._group = group
        self._consumer = consumer
        self._is_sole = is_sole
        self._has_group = False
        self._has_backlog = True  # until a look at our own pending entries says otherwise
        self._adopt_at = 0.0

    async def read(self, *, count: int, wait_s: float) -> list[StreamEntry]:
        if not self._has_group:
            await self._make_group()
        await self._adopt()
        if self._has_backlog:
            entries = await self._backlog(count)
            if entries:
                return entries
        return await self._fresh(count, wait_s)

    def put_back(self, entry_ids: Sequence[str]) -> None:
        self.handed_out.difference_update(entry_ids)
        self._has_backlog = True

    def put_back_all(self) -> None:
        self.handed_out.clear()
        self._has_backlog = True

    async def _make_group(self) -> None:
        await self._shard.run_script("make_group", (self.stream,), (self._group,))
        self._has_group = True

    async def _adopt(self) -> None:
        now = asyncio.get_running_loop().time()
        if now < self._adopt_at:
            return
        self._adopt_at = now + _ADOPT_EVERY_S
        try:
            rows = await self._shard.line.call("XINFO CONSUMERS", self.stream, self._group)
        except Refused:  # somebody emptied Redis under us
            await self._make_group()
            return
        others = [name for row in rows if (name := _text(row["name"])) != self._consumer]
        if not others:
            return
        for name in others if self._is_sole else await _dead_workers(self._shard, others):
            arguments = (self._group, name, self._consumer, _ADOPT_BATCH)
            while adopted := int(await self._shard.run_script("adopt", (self.stream,), arguments)):
                self._has_backlog = True
                if adopted < _ADOPT_BATCH:
                    break

    async def _backlog(self, count: int) -> list[StreamEntry]:
        """Return entries that are ours but were not handed out by this process, oldest first."""
        room = count + len(self.handed_out)
        entries, _ = await self._read_group("0", room)
        gone = [entry.id for entry in entries if not entry.fields]
        if gone:  # deleted from the stream while pending: nothing is left to do
            await self._shard.run_script("drop_entries", (self.stream,), (self._group, *gone))
        open_entries = [entry for entry in entries if entry.fields and entry.id not in self.handed_out]
        self._has_backlog = len(entries) >= room or len(open_entries) > count
        return self._hand_out(open_entries[:count])

    async def _fresh(self, count: int, wait_s: float) -> list[StreamEntry]:
        """Read new entries. Where order counts, what another consumer holds came before them and is given first: the
        server goes on serving a reader that sleeps, also after we have looked for what it left behind."""
        wait_ms = int(min(wait_s, BUS_WAIT_MAX_S) * 1000)
        entries, are_others = await self._read_group(">", count, *(("BLOCK", wait_ms) if wait_ms > 0 else ()))
        if not entries or not are_others:
            return self._hand_out(entries)
        self._adopt_at = 0.0
        await self._adopt()
        return await self._backlog(count)

    async def _read_group(self, start: str, count: int, *block: str | int) -> tuple[list[StreamEntry], bool]:
        """Return the entries after `start`, and, for a sole consumer, whether others held any at that moment."""
        group = ("GROUP", self._group, self._consumer, "COUNT", count)
        commands: list[Command] = [("XREADGROUP", *group, *block, "STREAMS", self.stream, start)]
        if self._is_sole:
            commands.append(("XPENDING", self.stream, self._group))
        try:
            answer, *pending = await self._shard.pool.call_all(commands)
        except Refused as error:
            if error.code not in _GROUP_LOST:
                raise
            self._has_group = False
            return [], False
        except (asyncio.CancelledError, BusUnavailable):
            self._has_backlog = True  # the server may have given us entries that we never saw
            raise
        holders = {_text(row["name"]) for told in pending for row in told["consumers"]}
        entries = [StreamEntry(_text(row[0]), row[1] or {}) for row in answer[0][1]] if answer else []
        return entries, bool(holders - {self._consumer})

    def _hand_out(self, entries: list[StreamEntry]) -> list[StreamEntry]:
        self.handed_out.update(entry.id for entry in entries)
        return entries


def _text(word: bytes | str) -> str:
    return word.decode() if isinstance(word, bytes) else word


async def _dead_workers(shard: Shard, consumers: Sequence[str]) -> Sequence[str]:
    """Return the consumers without a lease: who is reaped or drained is gone for good under that name."""
    alive = {name.decode() for name in await shard.line.call("ZRANGE", shard.keys.workers, 0, -1)}
    return [name for name in consumers if name not in alive]


PREVIEWS_READ_MAX: Final = 1_000  # of one channel in one shard: more than it has lanes that are answered at once

_Heard = TypeVar("_Heard", Activity, Draft)


class Deliveries:
    """Publishing replies, delivering them, and telling how it ended. Raises `BusUnavailable`.

    One process at a time delivers for an account: the one that holds its delivery lease. A process that
    lost the lease without noticing (it was stopped, or cut off) is refused at the next ledger row, because
    its successor owns the entries by then. A reply is in the shard of its lane, in order with the others of it."""

    def __init__(self, shards: Shards, process: ProcessName) -> None:
        self._shards = shards
        self._process = process
        self._readers: dict[str, GroupReader[Reply]] = {}
        self._receipt_readers: dict[str, GroupReader[Receipt]] = {}

    # --- publishing

    async def publish(self, replies: Sequence[Reply]) -> None:
        """Put replies that no commit carries on their channels' streams, each unless its id is known or its delivery
        has begun. A shard that is away keeps nobody else's replies back; then it raises `BusUnavailable`."""
        groups: dict[int, list[Reply]] = {}
        for reply in replies:
            groups.setdefault(self._shards.of(reply.key).number, []).append(reply)
        publishing = [self._publish(number, group) for number, group in groups.items()]
        for outcome in await asyncio.gather(*publishing, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def show_activity(self, activity: Activity) -> None:
        """Tell the channel that a turn runs. Lossy on purpose.

        Any server passes it on to all the others, so the one that serves the lane is as good as any."""
        line = self._shards.named(activity.address.lane).line
        await line.call("PUBLISH", self._shards.names.activity(activity.address.channel), encode(activity))

    async def show_draft(self, draft: Draft) -> None:
        """Let the channel show the answer as far as it is. Lossy on purpose."""
        line = self._shards.named(draft.address.lane).line
        await line.call("PUBLISH", self._shards.names.draft(draft.address.channel), bounded(draft))

    def activities(self, channel: str) -> AsyncIterator[Activity]:
        """Yield running turns of this channel's addresses, as they are announced; silent while Redis is away."""
        return _heard_in(self._shards.pubsub, self._shards.names.activity(channel), Activity)

    def drafts(self, channel: str) -> AsyncIterator[Draft]:
        """Yield answers of this channel's addresses while they are made; silent while Redis is away."""
        return _heard_in(self._shards.pubsub, self._shards.names.draft(channel), Draft)

    # --- delivering

    async def replies(self, channel: str, consumer: str, *, count: int, wait_s: float) -> Sequence[PendingReply]:
        """Return up to `count` replies, waiting `wait_s` (at most BUS_WAIT_MAX_S) for the first.

        First come those that any other consumer left behind: the caller holds the lease.
        A reply is handed out once per process until it is finished. What the ledger says of it is told when its
        delivery begins: SENDING means that nobody knows whether the platform got it."""
        reader = self._reader(channel, self._process.sign(consumer))
        return [
            PendingReply(
                self._shards.sign(shard, entry_id), reply, _since_published(entry_id, ledger_row(reply.id, {}))
            )
            for shard, entry_id, reply in await reader.read(count=count, wait_s=wait_s)
        ]

    async def begin(self, channel: str, entry_id: str, attempt: SendAttempt) -> Beginning | None:
        """Begin an attempt at a reply, before each platform call: the ledger says SENDING and the tokens are spent, or
        neither. Who asks again because the answer was lost has begun once. None: another process took the entry over.

        On one server all is judged in one step; on a Cluster the reply, the place, its tokens and once more the reply
        are judged in this order, since they are in different shards."""
        shard, own_id = self._shards.signed(entry_id)
        judge = partial(self._judge, channel, shard, own_id)
        begun = await judge(attempt) if self._shards.is_one else await self._begin_apart(judge, attempt)
        if begun is None:
            self._is_over(channel, shard, own_id)
        return begun

    async def record(
        self, channel: str, entry_id: str, record: DeliveryRecord, *, sent: SentMessages | None = None
    ) -> bool:
        """Write the ledger row, which lives for LEDGER_TTL_S, and remember messages that have arrived. False, and
        nothing is written: another process took the entry over."""
        shard, own_id = self._shards.signed(entry_id)
        is_ours = await self._end(channel, shard, own_id, record, b"", sent)
        if not is_ours:
            self._is_over(channel, shard, own_id)
        return is_ours

    async def delivered(self, key: SessionKey, reply_id: str) -> DeliveryRecord:
        """Return what the ledger says of a reply; PENDING when it says nothing (any more)."""
        shard = self._shards.of(key)
        return ledger_row(reply_id, await shard.line.call("HGETALL", shard.keys.ledger(reply_id)))

    def put_back(self, channel: str) -> None:
        """Hand out again, to the next reader, the entries that were handed out and are not finished."""
        if channel in self._readers:
            self._readers[channel].put_back_all()

    async def finish(self, channel: str, entry_id: str, receipt: Receipt, *, sent: SentMessages | None = None) -> None:
        """Write the last state, remember messages that have arrived, hand the receipt over and drop the stream entry,
        atomically and once."""
        shard, own_id = self._shards.signed(entry_id)
        await self._end(channel, shard, own_id, receipt.record, bounded(receipt), sent)
        self._is_over(channel, shard, own_id)

    # --- how deliveries ended

    async def take_receipts(self, worker: str, *, count: int, wait_s: float) -> Sequence[tuple[str, Receipt]]:
        """Return ends of deliveries, each to one worker until it is finished by the id that comes with it."""
        reader = self._receipt_readers.get(worker)
        if reader is None:
            reader = self._receipt_readers[worker] = GroupReader(
                self._shards,
                lambda keys: keys.receipts,
                group=self._shards.names.agents,
                consumer=worker,
                understand=lambda entry: decode_as(Receipt, entry.fields[b"e"]),
            )
        found = await reader.read(count=count, wait_s=wait_s)
        return [(self._shards.sign(shard, entry_id), receipt) for shard, entry_id, receipt in found]

    async def finish_receipts(self, ids: Sequence[str]) -> None:
        """Forget receipts: they are in SQL."""
        groups = self._shards.by_shard(ids)
        agents = self._shards.names.agents
        await asyncio.gather(
            *[shard.run_script("drop_entries", (shard.keys.receipts,), (agents, *own_ids)) for shard, own_ids in groups]
        )
        for reader in self._receipt_readers.values():
            for shard, own_ids in groups:
                for own_id in own_ids:
                    reader.finished(shard, own_id)

    # --- messages that show drafts: part of the ledger, though no reply exists

    async def note_preview(self, channel: str, preview: Preview, *, sent: SentMessages | None = None) -> bool:
        """Write down what shows a draft: before each message that is begun, and again with its id, which is remembered
        as `sent`. False, and nothing is written: the ledger has a row for the reply by now, and its writer has
        looked for previews."""
        shard = self._shards.of(preview.key)
        keys, ids = self._sent_keys(sent), sent.ids if sent else ()
        own_keys = (shard.keys.ledger(preview.reply_id), shard.keys.previews(channel))
        arguments: list[Word] = [preview.reply_id, bounded(preview), *ids]
        is_noted = bool(await shard.run_script("note_preview", (*own_keys, *keys), arguments))
        if is_noted:
            await self._note_sent_apart(sent)
        return is_noted

    async def has_taken_all(self, channel: str, key: SessionKey) -> bool:
        """Tell whether `replies` has handed out here all that the lane's shard holds. Else an earlier answer of the
        lane may wait, which nothing is to be shown in front of."""
        shard, reader = self._shards.of(key), self._readers.get(channel)
        waiting: int = await shard.line.call("XLEN", shard.keys.outbound(channel))
        return waiting <= (reader.handed_out(shard) if reader else 0)

    async def preview(self, channel: str, key: SessionKey, reply_id: str) -> Preview | None:
        """Return what shows the draft of a reply."""
        shard = self._shards.of(key)
        return _preview(await shard.line.call("HGET", shard.keys.previews(channel), reply_id))

    async def previews(self, channel: str) -> Sequence[Preview]:
        """Return all that show drafts of a channel, whoever began them."""
        found = await self._shards.ask_all(lambda shard: shard.line.call("HVALS", shard.keys.previews(channel)))
        rows = (row for some in found for row in some[:PREVIEWS_READ_MAX])
        return [preview for row in rows if (preview := _preview(row)) is not None]

    async def drop_preview(self, channel: str, preview: Preview) -> None:
        """Forget what shows a draft: its messages are the reply's, or gone."""
        shard = self._shards.of(preview.key)
        await shard.line.call("HDEL", shard.keys.previews(channel), preview.reply_id)

    # --- named leases

    async def hold(self, name: str, holder: str, *, ttl_s: float) -> bool:
        """Take or renew a named lease (one poller per bot token). False: someone else holds it.

        A holder whose process died on this machine is replaced at once, any other when its time is over."""
        present = await self._hold(name, holder, ttl_s)
        if present is not None and self._process.knows_dead(present):
            present = await self._hold(name, holder, ttl_s, over=present)
        return present is None

    async def release(self, name: str, holder: str) -> None:
        """Let go of the lease, if it is ours."""
        shard = self._shards.named(name)
        await shard.run_script("release", (shard.keys.hold(name),), (self._process.sign(holder),))

    # --- token buckets on Redis's clock, one budget for all processes

    async def take_send_tokens(self, account: str, wishes: Sequence[TokenWish]) -> float:
        """Spend one token of each of these buckets of an account: 0, send now. Else nothing was spent: wait so many
        seconds and ask again."""
        shard = self._shards.named(account)
        keys = [shard.keys.tokens(account, wish.bucket) for wish in wishes]
        return int(await shard.run_script("take_tokens", keys, token_numbers(wishes))) / 1000

    async def pause_bucket(self, account: str, bucket: str, *, for_s: float) -> None:
        """Pause a bucket: a 429 said how long everybody has to wait; a longer pause that runs already stays."""
        shard = self._shards.named(account)
        await shard.run_script("pause_bucket", (shard.keys.tokens(account, bucket),), (int(for_s * 1000),))

    async def _judge(self, channel: str, shard: Shard, own_id: str, attempt: SendAttempt) -> Beginning | None:
        """Run the script for this attempt; with its place, if that is in the same shard."""
        keys, destination, record = shard.keys, attempt.destination, attempt.record
        place_keys, ids, numbers = list[str](), tuple[str, ...](), list[Word]()
        if self._shards.is_one:
            buckets = [keys.tokens(destination.account, wish.bucket) for wish in attempt.wishes]
            sent_key = keys.sent_ids(destination.sent_place)
            place_keys = [sent_key, keys.dead_place(destination.place), keys.unsure(destination.account), *buckets]
            ids, numbers = adopted_ids(attempt), token_numbers(attempt.wishes)
        fields = ledger_fields(record) if record is not None else ()
        arguments: list[Word] = [self._shards.names.channels, own_id, self._consumer(channel), attempt.reply_id]
        arguments += [attempt.id, "1" if attempt.is_first else "", attempt.adopts, len(ids), *ids, *numbers, *fields]
        answer = await shard.run_script(
            "begin_delivery",
            (keys.outbound(channel), keys.ledger(attempt.reply_id), keys.previews(channel), *place_keys),
            arguments,
        )
        if answer is None:
            return None
        has_begun, wait_ms, dead, is_unsure, preview, row = answer
        known = ledger_row(attempt.reply_id, dict(zip(row[::2], row[1::2], strict=True)))
        return Beginning(
            record if has_begun and record is not None else _since_published(own_id, known),
            bool(has_begun),
            wait_ms / 1000,
            dead.decode(),
            bool(is_unsure),
            _preview(preview or None),
            preview,
        )

    async def _begin_apart(
        self, judge: Callable[[SendAttempt], Awaitable[Beginning | None]], attempt: SendAttempt
    ) -> Beginning | None:
        """Begin where the place is in another shard than the reply."""
        record, destination = attempt.record, attempt.destination
        if attempt.is_first or record is None:
            shard, looks = self._place_shard(destination.account), replace(attempt, record=None)
            asks = [
                ("GET", shard.keys.dead_place(destination.place)),
                ("EXISTS", shard.keys.unsure(destination.account)),
            ]
            found, (dead, is_unsure) = await asyncio.gather(judge(looks), shard.line.call_all(asks))
            if found is None or record is None or dead or is_unsure or _is_known(found):
                dead_because = dead.decode() if dead else ""
                told = {"dead_because": dead_because, "is_account_unsure": bool(is_unsure)}
                return None if found is None else replace(found, **told)
        wait_s = await self.take_send_tokens(destination.account, attempt.wishes) if attempt.wishes else 0.0
        if wait_s > 0 and record is not None:
            return Beginning(record, wait_s=wait_s)
        begun = await judge(attempt)
        if begun is not None and begun.has_begun:
            await self._note_sent_apart(SentMessages(destination.sent_place, adopted_ids(attempt)))
        return begun

    async def _end(
        self, channel: str, shard: Shard, own_id: str, record: DeliveryRecord, receipt: bytes, sent: SentMessages | None
    ) -> bool:
        """Run the script that writes down how far it came. Where the messages are remembered in another shard, the row
        says first that they have arrived: a crash in between must leave neither a message that nobody knows, nor one
        that is known and yet looked for."""
        if sent and receipt and not self._shards.is_one:
            if not await self._end(channel, shard, own_id, replace(record, state=DeliveryState.PENDING), b"", sent):
                return False
            sent = None
        keys, ids, names = self._sent_keys(sent), sent.ids if sent else (), self._shards.names
        is_written = await shard.run_script(
            "end_delivery",
            (shard.keys.outbound(channel), shard.keys.ledger(record.reply_id), shard.keys.receipts, *keys),
            [
                *(names.channels, own_id, self._consumer(channel), receipt, names.news("")),
                *(len(ids), *ids, *ledger_fields(record)),
            ],
        )
        if is_written:
            await self._note_sent_apart(sent)
        return bool(is_written)

    def _sent_keys(self, sent: SentMessages | None) -> tuple[str, ...]:
        """Return the key of such messages, if it is in the only shard."""
        return (self._shards.first.keys.sent_ids(sent.place),) if sent and self._shards.is_one else ()

    async def _note_sent_apart(self, sent: SentMessages | None) -> None:
        """Remember messages whose place is in another shard than what was just written."""
        if sent and sent.ids and not self._shards.is_one:
            shard = self._place_shard(sent.place)
            await shard.run_script("note_sent", (shard.keys.sent_ids(sent.place),), sent.ids)

    def _place_shard(self, name: str) -> Shard:
        """Return the shard of what is known of a channel's accounts and places, see `Places`."""
        return self._shards.named(name.partition(":")[0])

    def _consumer(self, channel: str) -> str:
        reader = self._readers.get(channel)
        return reader.consumer if reader else ""

    def _is_over(self, channel: str, shard: Shard, own_id: str) -> None:
        """Forget an entry that has come to its end, or is another process's."""
        if channel in self._readers:
            self._readers[channel].finished(shard, own_id)

    async def _publish(self, number: int, replies: Sequence[Reply]) -> None:
        shard, news = self._shards[number], self._shards.names.news("")
        keys = shard.keys
        calls = [
            shard.call(
                "publish",
                (keys.outbound(reply.address.channel), keys.outbound_channels, keys.ledger(reply.id)),
                (reply.address.channel, keys.published(""), digest(reply.id), bounded(reply), news),
            )
            for reply in replies
        ]
        await shard.line.call_all([call.command for call in calls])

    async def _hold(self, name: str, holder: str, ttl_s: float, *, over: str = "") -> str | None:
        shard = self._shards.named(name)
        arguments = (self._process.sign(holder), int(ttl_s * 1000), over)
        answer = await shard.run_script("hold", (shard.keys.hold(name),), arguments)
        return None if answer is None else answer.decode()

    def _reader(self, channel: str, signed: str) -> GroupReader[Reply]:
        known = self._readers.get(channel)
        if known is None or known.consumer != signed:
            known = self._readers[channel] = GroupReader(
                self._shards,
                lambda keys: keys.outbound(channel),
                group=self._shards.names.channels,
                consumer=signed,
                understand=lambda entry: decode_as(Reply, entry.fields[b"e"]),
                is_sole=True,
            )
        return known


def _since_published(entry_id: str, record: DeliveryRecord) -> DeliveryRecord:
    """Note when the entry was published: a stream's entry ids begin with that time in milliseconds."""
    return replace(record, published_at_ms=int(entry_id.partition("-")[0]))


def _is_known(found: Beginning) -> bool:
    """Tell whether anything was found, so that a first attempt may not begin."""
    return bool(found.preview_row) or found.record != DeliveryRecord(
        found.record.reply_id, DeliveryState.PENDING, published_at_ms=found.record.published_at_ms
    )


def adopted_ids(attempt: SendAttempt) -> tuple[str, ...]:
    """Return the messages of a preview that become the reply's own, to be remembered in its place."""
    if not attempt.adopts or attempt.record is None or not attempt.destination.sent_place:
        return ()
    return tuple(filter(None, attempt.record.shown))


def token_numbers(wishes: Sequence[TokenWish]) -> list[Word]:
    """Return the three numbers of each bucket as the scripts take them."""
    return [number for wish in wishes for number in (wish.per_s, wish.burst, "" if wish.spare is None else wish.spare)]


def _preview(row: bytes | None) -> Preview | None:
    """Read a preview; one that a newer release wrote is left to it."""
    try:
        return None if row is None else decode_as(Preview, row)
    except BadEnvelope:
        return None


async def _heard_in(pool: Pool, pubsub_channel: str, kind: type[_Heard]) -> AsyncIterator[_Heard]:
    """Yield what of this kind is announced in one pub/sub channel."""
    async for heard in subscriptions.messages(pool, pubsub_channel):
        try:
            said = decode(heard.data)
        except BadEnvelope:  # lossy on purpose: of a version we do not read
            continue
        if isinstance(said, kind):
            yield said


def ledger_fields(record: DeliveryRecord) -> tuple[Word, ...]:
    """Return a ledger row as field, value, field, value … as HSET takes them; the id is in the key."""
    return (
        *("state", record.state.value),
        *("attempt", record.attempt),
        *("next_chunk", record.next_chunk),
        *("chunks", record.chunks),
        *("platform_ids", json.dumps(record.platform_ids)),
        *("updated_at_ms", record.updated_at_ms),
        *("reason", record.reason),
        *("placeholder", record.placeholder),
        *("marked", json.dumps(record.marked)),
        *("published_at_ms", record.published_at_ms),
        *("begun_at_ms", record.begun_at_ms),
        *("shown", json.dumps(record.shown)),
    )


def ledger_row(reply_id: str, fields: Mapping[bytes, bytes]) -> DeliveryRecord:
    """Return the ledger row of a reply; a pending one when nothing was written yet."""
    if not fields:
        return DeliveryRecord(reply_id, DeliveryState.PENDING)
    return DeliveryRecord(
        reply_id=reply_id,
        state=DeliveryState(fields[b"state"].decode()),
        attempt=int(fields[b"attempt"]),
        next_chunk=int(fields[b"next_chunk"]),
        chunks=int(fields[b"chunks"]),
        platform_ids=tuple(json.loads(fields[b"platform_ids"])),
        updated_at_ms=int(fields[b"updated_at_ms"]),
        reason=CleanText(fields[b"reason"].decode()),
        placeholder=fields.get(b"placeholder", b"").decode(),
        marked=tuple(json.loads(fields.get(b"marked", b"[]"))),
        published_at_ms=int(fields.get(b"published_at_ms", 0)),
        begun_at_ms=int(fields.get(b"begun_at_ms", 0)),
        shown=tuple(json.loads(fields.get(b"shown", b"[]"))),
    )
