"""Every hop of one message with its time, from what SQL and the bus know. Pure but for the two questions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gateway.contracts.messages import STATUS_PREFIX, TITLE_PREFIX, DeliveryRecord, TurnTrace, Whereabouts
from gateway.contracts.ports import DeadLetter, OperatorBus, Store

_ASIDES: Final = {STATUS_PREFIX: "status line", TITLE_PREFIX: "title"}
DEAD_LETTERS_LOOKED_AT: Final = 1_000  # the newest; an older one is listed by `trivet dead`


@dataclass(frozen=True, slots=True)
class Hop:
    """Something that happened. `at_ms` is 0 when only that it happened is known."""

    at_ms: int
    name: str
    detail: str = ""


async def hops_of(id_: str, store: Store, bus: OperatorBus) -> tuple[Hop, ...]:
    """What became of a message, by its own id, its turn's or its reply's; in order, empty when nobody knows it."""
    turn = await store.trace(id_)
    if turn is not None:
        records = await bus.delivery_records(turn.key, [reply.reply_id for reply in turn.replies])
        return in_order(_of_turn(turn, {record.reply_id: record for record in records}))
    letters = await bus.dead_letters(DEAD_LETTERS_LOOKED_AT)
    return in_order(
        hop for letter in letters if letter.message and letter.message.id == id_ for hop in _of_dead(letter)
    )


def in_order(hops: Iterator[Hop]) -> tuple[Hop, ...]:
    """By time; what has none keeps its place behind what came before it."""
    placed: list[tuple[int, Hop]] = []
    latest = 0
    for hop in hops:
        latest = hop.at_ms or latest
        placed.append((latest, hop))
    return tuple(hop for _, hop in sorted(placed, key=lambda each: each[0]))


def _of_turn(turn: TurnTrace, records: dict[str, DeliveryRecord]) -> Iterator[Hop]:
    for message in turn.messages:
        yield Hop(message.taken_at_ms, "taken by a turn", message.message_id)
    yield Hop(turn.started_at_ms, "turn began", f"{turn.turn_id}, run {turn.runs}, {turn.key}")
    if turn.finished_at_ms:
        trouble = f", error {turn.error_reference}" if turn.error_reference else ""
        yield Hop(turn.finished_at_ms, f"turn {turn.state}", f"{turn.turn_id}{trouble}")
    for message in turn.messages:
        if message.answered_at_ms:
            yield Hop(message.answered_at_ms, "answered", message.message_id)
    for reply in turn.replies:
        record = records[reply.reply_id]
        aside = next((word for prefix, word in _ASIDES.items() if reply.reply_id.startswith(prefix)), "")
        yield from _of_aside(aside, reply, record) if aside else _of_reply(reply, record)


def _of_reply(reply: Whereabouts, record: DeliveryRecord) -> Iterator[Hop]:
    yield Hop(reply.created_at_ms, "reply committed", f"{reply.reply_id} for {reply.channel}")
    if record.published_at_ms:
        yield Hop(record.published_at_ms, "published", reply.reply_id)
    if record.begun_at_ms:
        yield Hop(record.begun_at_ms, "sending", f"{reply.reply_id}, {record.attempt + 1} attempts")
    if record.updated_at_ms:
        parts = f"{record.next_chunk} of {record.chunks} messages {' '.join(record.platform_ids)}".rstrip()
        marked = f", {len(record.marked)} marked as perhaps repeated" if record.marked else ""
        reason = f": {record.reason}" if record.reason else ""
        yield Hop(record.updated_at_ms, record.state.value, f"{reply.reply_id}, {parts}{marked}{reason}")
    if reply.chunks:
        yield Hop(reply.updated_at_ms, "receipt", f"{reply.reply_id} {reply.state.value}")


def _of_aside(name: str, reply: Whereabouts, record: DeliveryRecord) -> Iterator[Hop]:
    """A status line or a title is no answer: one hop, when it was said."""
    reason = f": {record.reason}" if record.reason else ""
    yield Hop(reply.created_at_ms, name, f"{reply.reply_id} {record.state.value}{reason}")


def _of_dead(letter: DeadLetter) -> Iterator[Hop]:
    if letter.message is not None:
        yield Hop(letter.message.received_at_ms, "received", letter.message.id)
    yield Hop(
        letter.died_at_ms, "dead letter", f"{letter.entry_id}, {letter.reason}, {letter.attempts} runs: {letter.error}"
    )
