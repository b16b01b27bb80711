"""What the operator asks the bus, and what channels report about themselves."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from gateway.bus import ledger
from gateway.bus.forgetting import rewrite_log
from gateway.bus.keys import ShardKeys, lane_handle
from gateway.bus.lanescripts import LaneScripts
from gateway.bus.line import Command, Line
from gateway.bus.scripts import script
from gateway.contracts.envelope import decode_inbound, encode, inbound_prefix
from gateway.contracts.errors import BadEnvelope
from gateway.contracts.ids import SessionKey, retry_id_of
from gateway.contracts.messages import DeliveryRecord, InboundMessage
from gateway.contracts.ports import DeadLetter, ModelFault, ModelTrouble, QueueFigures, QueueMoment, WaitingMessage
from gateway.limits import DEAD_LETTERS_MAX, MODEL_TROUBLES_TTL_S

_ENTRY_ID: Final = re.compile(r"[0-9]{1,19}-[0-9]{1,19}")
_LANES_SEARCHED: Final = 50  # in one script: a thousand messages at most, some megabytes


class Operator:
    """`gateway.contracts.ports.OperatorBus`."""

    def __init__(self, line: Line, keys: ShardKeys, scripts: LaneScripts) -> None:
        self._line = line
        self._keys = keys
        self._scripts = scripts

    async def figures(self) -> QueueFigures:
        """The state of the bus at one moment. `queued` counts every message not yet answered."""
        keys = self._keys
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
        figures, ambiguous = await self._line.call_all(
            [
                self._line.command(script("figures"), counted, (keys.outbound(""), keys.mailbox(""))),
                ("HGETALL", keys.ambiguous),
            ]
        )
        queued, ready, running, delayed, dead, workers, pending, states, oldest_ms = figures
        return QueueFigures(
            queued=queued,
            ready=ready,
            running=running,
            delayed=delayed,
            dead_letters=dead,
            workers_alive=workers,
            outbound_pending={name.decode(): count for name, count in _pairs(pending)},
            channels_connected={name.decode(): state.decode() for name, state in _pairs(states)},
            ambiguous_sends={name.decode(): int(count) for name, count in ambiguous.items()},
            oldest_wait_ms=oldest_ms,
        )

    async def note_queue(self, figures: QueueFigures) -> None:
        """Keep how much waits now, unless another process has kept it just before."""
        noted = (figures.queued, figures.oldest_wait_ms)
        await self._line.run(script("note_queue"), (self._keys.queue_past,), noted)

    async def queue_past(self) -> Sequence[QueueMoment]:
        """What `note_queue` kept, oldest first."""
        rows = await self._line.call("XRANGE", self._keys.queue_past, "-", "+")
        return [
            QueueMoment(int(entry_id.partition(b"-")[0]), int(fields[b"queued"]), int(fields[b"oldest_ms"]))
            for entry_id, fields in rows
        ]

    async def lane_depth(self, key: SessionKey) -> tuple[int, bool]:
        """Messages waiting in a lane, and whether a turn runs."""
        lane = str(key)
        length, owner = await self._line.call_all(
            [("LLEN", self._keys.mailbox(lane)), ("HGET", self._keys.own, lane)],
        )
        in_work = int(owner.rpartition(b"|")[2]) if owner else 0
        return max(0, length - in_work), owner is not None

    async def is_in_work(self, key: SessionKey, fence: int) -> bool:
        """Whether the turn with this fencing token still owns the lane."""
        owner = await self._line.call("HGET", self._keys.own, str(key))
        return owner is not None and int(owner.split(b"|")[-2]) == fence

    async def stop(self, key: SessionKey) -> None:
        """End the running turn of a lane and drop what waits in it."""
        await self._scripts.run("stop", arguments=(lane_handle(key),))

    async def delivery_records(self, key: SessionKey, reply_ids: Sequence[str]) -> Sequence[DeliveryRecord]:
        """What the ledger says of replies of a key; PENDING when it says nothing."""
        rows = await self._line.call_all([("HGETALL", self._keys.ledger(reply_id)) for reply_id in reply_ids])
        return [ledger.from_fields(reply_id, row) for reply_id, row in zip(reply_ids, rows, strict=True)]

    async def dead_letters(self, limit: int) -> Sequence[DeadLetter]:
        """The newest dead letters, newest first."""
        rows = await self._line.call("XREVRANGE", self._keys.dead_letters, "+", "-", "COUNT", limit)
        return [_dead_letter(entry_id.decode(), fields) for entry_id, fields in rows]

    async def dead_letter(self, entry_id: str) -> DeadLetter | None:
        """One dead letter; None for an id that is unknown or malformed."""
        if not _ENTRY_ID.fullmatch(entry_id):
            return None
        rows = await self._line.call("XRANGE", self._keys.dead_letters, entry_id, entry_id)
        return _dead_letter(entry_id, rows[0][1]) if rows else None

    async def waiting(self, message_ids: Sequence[str]) -> Sequence[WaitingMessage]:
        """Find messages in their lanes by the ids they came with, some lanes at a time: no step holds the bus for long.
        One whose lane is given from hand to hand meanwhile is found all the same: its mailbox stays where it is."""
        if not message_ids:
            return ()
        identities = [inbound_prefix(message_id) for message_id in message_ids]
        lanes = await self._scripts.run("list_lanes")
        found: list[WaitingMessage] = []
        for start in range(0, len(lanes), _LANES_SEARCHED):
            some = lanes[start : start + _LANES_SEARCHED]
            rows = await self._scripts.run("find_waiting", arguments=(len(identities), *identities, *some))
            for lane, which, suffix, ahead, is_in_work, arrived_at_ms in rows:
                message_id, key = message_ids[which - 1] + suffix.decode(), SessionKey.parse(lane.decode())
                found.append(WaitingMessage(message_id, key, arrived_at_ms, ahead, bool(is_in_work)))
        return found

    async def retry_dead(self, entry_id: str) -> bool:
        """Put a dead message back on its lane, once, whatever its limits. False: it is no dead message."""
        letter = await self.dead_letter(entry_id)
        if letter is None or letter.message is None:
            return False
        again = replace(letter.message, id=retry_id_of(letter.message.id))  # its own id is answered, with an apology
        arguments = (entry_id, lane_handle(again.key), encode(again))
        return bool(await self._scripts.run("retry_dead", (self._keys.dead_letters, self._keys.untold), arguments))

    async def drop_dead(self, entry_id: str) -> bool:
        """Forget a dead letter. False: there is none with this id."""
        if not await self.dead_letter(entry_id):
            return False
        return bool(await self._line.call("XDEL", self._keys.dead_letters, entry_id))

    async def forget(self, owner: SessionKey) -> int:
        """Drop the dead letters of an owner, then have the log forget what is here no more."""
        letters = await self.dead_letters(DEAD_LETTERS_MAX)
        own = [letter.entry_id for letter in letters if letter.message and owner in _owners(letter.message)]
        dropped = await self._line.call_all([("XDEL", self._keys.dead_letters, entry_id) for entry_id in own])
        await rewrite_log(self._line)
        return sum(dropped)

    async def report_channel(self, channel: str, state: str, *, ttl_s: float) -> None:
        """A channel says how it is (`connected`, or a plain reason); forgotten after `ttl_s`."""
        await self._line.run(
            script("report_channel"),
            (self._keys.channel_reports,),
            (channel, state, int(ttl_s * 1000)),
        )

    async def report_models(self, news: Mapping[str, ModelTrouble | None]) -> None:
        """What became of the newest call of each of these models; None: it answered."""
        key = self._keys.model_troubles
        commands: list[Command] = [
            ("HDEL", key, model) if trouble is None else ("HSET", key, model, _trouble_text(trouble))
            for model, trouble in news.items()
        ]
        await self._line.call_all([*commands, ("EXPIRE", key, MODEL_TROUBLES_TTL_S)])

    async def model_troubles(self) -> Sequence[ModelTrouble]:
        """The models that do not answer, by name, but for faults that only a newer release knows."""
        rows = await self._line.call("HGETALL", self._keys.model_troubles)
        found = (_trouble(model.decode(), text) for model, text in sorted(rows.items()))
        return [trouble for trouble in found if trouble is not None]

    async def add_counts(self, counts: Mapping[str, int]) -> None:
        """Add to what is counted over all processes. A connection that breaks may count twice."""
        await self._line.call_all([("HINCRBY", self._keys.tally, field, number) for field, number in counts.items()])

    async def counts(self) -> Mapping[str, int]:
        """All that was counted since this bus was new."""
        rows = await self._line.call("HGETALL", self._keys.tally)
        return {field.decode(): int(number) for field, number in rows.items()}

    async def ping(self) -> None:
        """Raises `BusUnavailable` unless Redis answers."""
        await self._line.call("PING")


def _owners(message: InboundMessage) -> tuple[SessionKey, SessionKey]:
    """Who wrote it, and whose the lane is."""
    return message.author, message.key.owner


def _dead_letter(entry_id: str, fields: Mapping[bytes, bytes]) -> DeadLetter:
    try:
        message = decode_inbound(fields[b"e"])
    except BadEnvelope:
        message = None
    return DeadLetter(
        entry_id=entry_id,
        died_at_ms=int(entry_id.partition("-")[0]),
        reason=fields[b"reason"].decode(),
        attempts=int(fields[b"attempts"]),
        error=fields[b"error"].decode(),
        message=message,
    )


def _trouble_text(trouble: ModelTrouble) -> str:
    return json.dumps({"provider": trouble.provider, "fault": trouble.fault, "at_ms": trouble.at_ms})


def _trouble(model: str, text: bytes) -> ModelTrouble | None:
    said: Mapping[str, Any] = json.loads(text)
    if said["fault"] not in set(ModelFault):
        return None
    return ModelTrouble(model, said["provider"], ModelFault(said["fault"]), said["at_ms"])


def _pairs(flat: Sequence[Any]) -> list[tuple[Any, Any]]:
    return list(zip(flat[::2], flat[1::2], strict=True))
