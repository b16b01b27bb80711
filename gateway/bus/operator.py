"""The operator's questions to the bus, and the processes' reports about themselves: numbers, dead letters, troubles."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from gateway import limits
from gateway.bus.client import PipelinedConnection, Refused
from gateway.bus.deliveries import ledger_row
from gateway.bus.keys import lane_handle
from gateway.bus.scripts import Command
from gateway.bus.shards import NotSigned, Shard, Shards
from gateway.contracts import ports
from gateway.contracts.envelope import decode_as, encode, inbound_prefix
from gateway.contracts.errors import BadEnvelope
from gateway.contracts.ids import SessionKey, retry_id_of
from gateway.contracts.messages import DeliveryRecord, InboundMessage

_ENTRY_ID: Final = re.compile(r"[0-9]{1,19}-[0-9]{1,19}")
_LANES_SEARCHED: Final = 50  # in one script: a thousand messages at most, some megabytes
_UNDER_WAY: Final = "already in progress"
_SUMMED: Final = ("queued", "ready", "running", "delayed", "dead_letters")
_REWRITES_TRIED_MAX: Final = 50
_REWRITE_PAUSE_S: Final = 0.2  # a rewrite takes some milliseconds, and of a full queue less than a second


class Operator:
    """Figures are sums over all shards, and none are given while a shard is away. Counts, what is told of models, and
    how much waited before are in the first shard. Raises `BusUnavailable`."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards

    # --- how much there is

    async def figures(self) -> ports.QueueFigures:
        """Return the state of the bus at one moment. `queued` counts every message not yet answered."""
        found = await self._shards.ask_all(_figures_of)
        pending: Counter[str] = Counter()
        for figures in found:
            pending.update(figures.outbound_pending)
        return ports.QueueFigures(
            **{name: sum(getattr(figures, name) for figures in found) for name in _SUMMED},
            workers_alive=max(figures.workers_alive for figures in found),  # each is known to every shard
            outbound_pending=dict(pending),
            channels_connected={name: state for figures in found for name, state in figures.channels_connected.items()},
            ambiguous_sends={name: count for figures in found for name, count in figures.ambiguous_sends.items()},
            oldest_wait_ms=max(figures.oldest_wait_ms for figures in found),
        )

    async def note_queue(self, figures: ports.QueueFigures) -> None:
        """Keep how much waits now, unless another process has kept it just before."""
        first = self._shards.first
        await first.run_script("note_queue", (first.keys.queue_past,), (figures.queued, figures.oldest_wait_ms))

    async def queue_past(self) -> Sequence[ports.QueueMoment]:
        """Return what `note_queue` kept, oldest first."""
        rows = await self._shards.first.line.call("XRANGE", self._shards.first.keys.queue_past, "-", "+")
        return [
            ports.QueueMoment(int(entry_id.partition(b"-")[0]), int(fields[b"queued"]), int(fields[b"oldest_ms"]))
            for entry_id, fields in rows
        ]

    async def waiting(self, message_ids: Sequence[str]) -> Sequence[ports.WaitingMessage]:
        """Find messages in their lanes by the ids they came with, also those that are tried again; some lanes at a
        time: no step holds the bus for long. One whose lane is given from hand to hand meanwhile is found all the same:
        its mailbox stays where it is."""
        if not message_ids:
            return ()
        found = await self._shards.ask_all(lambda shard: _waiting_in(shard, message_ids))
        return [message for group in found for message in group]

    async def delivery_records(self, key: SessionKey, reply_ids: Sequence[str]) -> Sequence[DeliveryRecord]:
        """Return what the ledger says of replies of a key, for as long as it lives; PENDING when it says nothing."""
        shard = self._shards.of(key)
        rows = await shard.line.call_all([("HGETALL", shard.keys.ledger(reply_id)) for reply_id in reply_ids])
        return [ledger_row(reply_id, row) for reply_id, row in zip(reply_ids, rows, strict=True)]

    # --- dead letters

    async def dead_letters(self, limit: int) -> Sequence[ports.DeadLetter]:
        """Return the newest dead letters, newest first."""
        groups = await self._shards.ask_all(lambda shard: _dead_letters_in(shard, limit))
        letters = [
            replace(letter, entry_id=self._shards.sign(shard, letter.entry_id))
            for shard, group in zip(self._shards, groups, strict=True)
            for letter in group
        ]
        if self._shards.is_one:  # in the order of their ids, which is finer than that of their times
            return letters
        return sorted(letters, key=lambda letter: letter.died_at_ms, reverse=True)[:limit]

    async def dead_letter(self, entry_id: str) -> ports.DeadLetter | None:
        """Return one dead letter; None for an id that is unknown or malformed."""
        try:
            shard, own_id = self._shards.signed(entry_id)
        except NotSigned:
            return None
        if not _ENTRY_ID.fullmatch(own_id):
            return None
        rows = await shard.line.call("XRANGE", shard.keys.dead_letters, own_id, own_id)
        return replace(_dead_letter(own_id, rows[0][1]), entry_id=entry_id) if rows else None

    async def retry_dead(self, entry_id: str) -> bool:
        """Put a dead message back on its lane, after what waits there, once, whatever its limits. False: it is no dead
        message."""
        letter = await self.dead_letter(entry_id)
        if letter is None or letter.message is None:
            return False
        shard, own_id = self._shards.signed(entry_id)
        again = replace(letter.message, id=retry_id_of(letter.message.id))  # its own id is answered, with an apology
        arguments = (own_id, lane_handle(again.key), encode(again))
        return bool(await shard.run_script("retry_dead", (shard.keys.dead_letters, shard.keys.untold), arguments))

    async def drop_dead(self, entry_id: str) -> bool:
        """Forget a dead letter. False: there is none with this id."""
        if not await self.dead_letter(entry_id):
            return False
        shard, own_id = self._shards.signed(entry_id)
        return bool(await shard.line.call("XDEL", shard.keys.dead_letters, own_id))

    async def forget(self, owner: SessionKey) -> int:
        """Drop name, log lines and dead letters of an owner; return how many letters there were. What a server wrote
        down of messages that are on the bus no more, whosesoever, is on no disk from then on. It looks everywhere: what
        somebody said in a shared place is with the place."""
        await self._shards.first.line.call("HDEL", self._shards.first.keys.names, str(owner))
        first, key = self._shards.first, self._shards.first.keys.logs
        named = re.compile(rf"(?<!\w){re.escape(str(owner))}(?!\w)".encode())
        rows = await first.line.call("XRANGE", key, "-", "+")
        own = [entry_id for entry_id, fields in rows if named.search(fields[b"text"])]
        await first.line.call_all([("XDEL", key, entry_id) for entry_id in own])
        return sum(await self._shards.ask_all(lambda shard: _forget_in(shard, owner)))

    # --- reports

    async def report_channel(self, channel: str, state: str, *, ttl_s: float) -> None:
        """Note how a channel is (`connected`, or a plain reason); forgotten after `ttl_s`."""
        shard = self._shards.named(channel)
        await shard.run_script("report_channel", (shard.keys.channel_reports,), (channel, state, int(ttl_s * 1000)))

    async def report_models(self, news: Mapping[str, ports.ModelTrouble | None]) -> None:
        """Note what became of the newest call of each of these models; None: it answered."""
        first = self._shards.first
        key = first.keys.model_troubles
        commands: list[Command] = [
            ("HDEL", key, model) if trouble is None else ("HSET", key, model, _trouble_text(trouble))
            for model, trouble in news.items()
        ]
        await first.line.call_all([*commands, ("EXPIRE", key, limits.MODEL_TROUBLES_TTL_S)])

    async def model_troubles(self) -> Sequence[ports.ModelTrouble]:
        """Return the models that do not answer, by name, but for faults that only a newer release knows."""
        rows = await self._shards.first.line.call("HGETALL", self._shards.first.keys.model_troubles)
        found = (_trouble(model.decode(), text) for model, text in sorted(rows.items()))
        return [trouble for trouble in found if trouble is not None]

    async def add_counts(self, counts: Mapping[str, int]) -> None:
        """Add to what is counted over all processes, for /metrics and for the last day. A connection that breaks may
        count twice."""
        first = self._shards.first
        flat = [word for field, number in counts.items() for word in (field, number)]
        await first.run_script("add_counts", (first.keys.tally, first.keys.tally_slot("")), flat)

    async def counts(self) -> Mapping[str, int]:
        """Return all that was counted since this bus was new."""
        rows = await self._shards.first.line.call("HGETALL", self._shards.first.keys.tally)
        return _counts(rows)

    async def counts_past(self, *, now_ms: int) -> Sequence[ports.CountedSpan]:
        """Return what was counted in each TALLY_SLOT_S of the last TALLY_PAST_S, oldest first, empty ones too; the last
        one is not over yet."""
        first, slot_ms = self._shards.first, limits.TALLY_SLOT_S * 1000
        newest = now_ms // slot_ms
        numbers = range(newest - limits.TALLY_PAST_S // limits.TALLY_SLOT_S + 1, newest + 1)
        rows = await first.line.call_all([("HGETALL", first.keys.tally_slot(number)) for number in numbers])
        return [ports.CountedSpan(number * slot_ms, _counts(row)) for number, row in zip(numbers, rows, strict=True)]

    # --- logs

    async def add_lines(self, lines: Sequence[ports.LogLine]) -> None:
        """Add lines of a process's log, which were scrubbed when they were written."""
        first, key = self._shards.first, self._shards.first.keys.logs
        newest: Command = ("XADD", key, "MAXLEN", "~", limits.LOG_LINES_KEPT, "*")
        adding: list[Command] = [
            (*newest, "at", line.at_ms, "level", line.level, "text", line.text[: limits.LOG_LINE_CHARS_MAX])
            for line in lines
        ]
        await first.line.call_all([*adding, ("EXPIRE", key, limits.LOG_LINES_KEPT_S)])

    async def log_lines(self, limit: int) -> Sequence[ports.LogLine]:
        """Return the newest lines that are kept, newest first."""
        rows = await self._shards.first.line.call("XREVRANGE", self._shards.first.keys.logs, "+", "-", "COUNT", limit)
        return [
            ports.LogLine(int(fields[b"at"]), fields[b"level"].decode(), fields[b"text"].decode("utf-8", "replace"))
            for _, fields in rows
        ]

    # --- people

    async def note_names(self, names: Mapping[SessionKey, str]) -> None:
        """Keep what people call themselves, for the operator's lists."""
        first = self._shards.first
        await first.line.call_all([("HSET", first.keys.names, str(owner), name) for owner, name in names.items()])

    async def names(self) -> Mapping[SessionKey, str]:
        """Return the names of all people who have spoken."""
        rows = await self._shards.first.line.call("HGETALL", self._shards.first.keys.names)
        return {SessionKey.parse(owner.decode()): name.decode() for owner, name in rows.items()}

    async def ping(self) -> None:
        """Raise `BusUnavailable` unless every shard is served."""
        await self._shards.ask_all(lambda shard: shard.line.call("PING"))


async def _figures_of(shard: Shard) -> ports.QueueFigures:
    keys = shard.keys
    counted = (
        keys.total,
        keys.ready,
        keys.own,
        keys.delay,
        keys.dead_letters,
        keys.workers,
        keys.outbound_channels,
        keys.channel_reports,
    )
    figures, ambiguous = await shard.line.call_all(
        [shard.call("figures", counted, (keys.outbound(""), keys.mailbox(""))).command, ("HGETALL", keys.ambiguous)]
    )
    queued, ready, running, delayed, dead, workers, pending, states, oldest_ms = figures
    return ports.QueueFigures(
        *(queued, ready, running, delayed, dead, workers),
        {name.decode(): count for name, count in _pairs(pending)},
        {name.decode(): state.decode() for name, state in _pairs(states)},
        {name.decode(): int(count) for name, count in ambiguous.items()},
        oldest_ms,
    )


async def _waiting_in(shard: Shard, message_ids: Sequence[str]) -> list[ports.WaitingMessage]:
    identities = [inbound_prefix(message_id) for message_id in message_ids]
    lanes = await shard.run_script("list_lanes")
    found: list[ports.WaitingMessage] = []
    for start in range(0, len(lanes), _LANES_SEARCHED):
        some = lanes[start : start + _LANES_SEARCHED]
        rows = await shard.run_script("find_waiting", arguments=(len(identities), *identities, *some))
        for lane, which, suffix, ahead, is_in_work, arrived_at_ms in rows:
            message_id, key = message_ids[which - 1] + suffix.decode(), SessionKey.parse(lane.decode())
            found.append(ports.WaitingMessage(message_id, key, arrived_at_ms, ahead, bool(is_in_work)))
    return found


async def _dead_letters_in(shard: Shard, limit: int) -> list[ports.DeadLetter]:
    rows = await shard.line.call("XREVRANGE", shard.keys.dead_letters, "+", "-", "COUNT", limit)
    return [_dead_letter(entry_id.decode(), fields) for entry_id, fields in rows]


async def _forget_in(shard: Shard, owner: SessionKey) -> int:
    letters = await _dead_letters_in(shard, limits.DEAD_LETTERS_MAX)
    own = [letter.entry_id for letter in letters if letter.message and owner in _owners(letter.message)]
    dropped = await shard.line.call_all([("XDEL", shard.keys.dead_letters, entry_id) for entry_id in own])
    await _rewrite_log(shard.line)
    return sum(dropped)


async def _rewrite_log(line: PipelinedConnection) -> None:
    """Make a server's append-only file forget: rewritten, it holds what is in the server now, and nothing of what was.

    The server does so while it works. A rewrite that is under way
    began before what has to be forgotten was changed: another one follows it. Raises `BusError`."""
    facts = await line.call("INFO", "persistence")
    if not int(facts.get("aof_enabled", 0)):
        return
    for _ in range(_REWRITES_TRIED_MAX):
        try:
            await line.call("BGREWRITEAOF")
            return
        except Refused as refused:
            if _UNDER_WAY not in str(refused):
                raise
        await asyncio.sleep(_REWRITE_PAUSE_S)


def _owners(message: InboundMessage) -> tuple[SessionKey, SessionKey]:
    """Return the owner of the author, and the owner of the lane."""
    return message.author, message.key.owner


def _dead_letter(entry_id: str, fields: Mapping[bytes, bytes]) -> ports.DeadLetter:
    try:
        message = decode_as(InboundMessage, fields[b"e"])
    except BadEnvelope:
        message = None
    return ports.DeadLetter(
        entry_id=entry_id,
        died_at_ms=int(entry_id.partition("-")[0]),
        reason=fields[b"reason"].decode(),
        attempts=int(fields[b"attempts"]),
        error=fields[b"error"].decode(),
        message=message,
    )


def _trouble_text(trouble: ports.ModelTrouble) -> str:
    return json.dumps({"provider": trouble.provider, "fault": trouble.fault, "at_ms": trouble.at_ms})


def _trouble(model: str, text: bytes) -> ports.ModelTrouble | None:
    said: Mapping[str, Any] = json.loads(text)
    if said["fault"] not in set(ports.ModelFault):
        return None
    return ports.ModelTrouble(model, said["provider"], ports.ModelFault(said["fault"]), said["at_ms"])


def _counts(row: Mapping[bytes, bytes]) -> Mapping[str, int]:
    return {field.decode(): int(number) for field, number in row.items()}


def _pairs(flat: Sequence[Any]) -> list[tuple[Any, Any]]:
    return list(zip(flat[::2], flat[1::2], strict=True))
