"""Every hop of a message with its time, from what SQL and the bus know. Pure but for `hops_of`, which asks them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gateway.contracts.ids import first_id_of
from gateway.contracts.messages import (
    STATUS_PREFIX,
    TITLE_PREFIX,
    DeliveryProgress,
    DeliveryRecord,
    DeliveryState,
    TurnTrace,
)
from gateway.contracts.ports import DeadLetter, WaitingMessage

if TYPE_CHECKING:
    from gateway.bus.operator import Operator
    from gateway.store import Store


_ASIDES: Final = {STATUS_PREFIX: "status line", TITLE_PREFIX: "title"}
ID_SHOWN_CHARS: Final = 120
DEAD_LETTERS_LOOKED_AT: Final = 1_000  # the newest; an older one is listed by `trivet dead`


@dataclass(frozen=True, slots=True)
class Hop:
    """An event on a message's way. `at_ms` is 0 when its time is unknown."""

    at_ms: int
    name: str
    detail: str = ""


async def hops_of(id_: str, store: Store, bus: Operator) -> tuple[Hop, ...]:
    """Find what became of messages and replies, in order: by the reference that a chat shows, or by the id of a
    message, turn, reply or dead letter; by the id of a session or a session key, the newest. Empty when nobody knows
    it."""
    wanted = id_.strip().encode(errors="replace").decode()
    named = await bus.dead_letter(wanted)
    if named is not None and named.message is not None:
        wanted = named.message.id
    turns = await store.turns.trace(wanted)
    hops: list[Hop] = []
    for turn in turns:
        records = await bus.delivery_records(turn.key, [reply.reply_id for reply in turn.replies])
        hops += _of_turn(turn, {record.reply_id: record for record in records})
    messages = [message for turn in turns for message in turn.messages]
    open_ids = {each.message_id for each in messages if each.is_given_up or not each.answered_at_ms}
    first_ids = sorted({first_id_of(each) for each in (wanted, *open_ids)})
    kept = await bus.dead_letters(DEAD_LETTERS_LOOKED_AT)
    letters = [letter for letter in kept if letter.message and first_id_of(letter.message.id) in first_ids]
    if named is not None and named not in letters:
        letters.append(named)
    for letter in letters:
        hops += _of_dead(letter)
    hops += [_of_waiting(message) for message in await bus.waiting(first_ids)]
    return in_order(hops)


def nothing_known(id_: str) -> str:
    """Say that `hops_of` found nothing, and what it looks for."""
    return (
        f"nothing is known of {id_[:ID_SHOWN_CHARS]!r}: it is no reference from a chat, and no id of a message, turn, "
        "reply, session, lane or dead letter that is still kept"
    )


def in_order(hops: Iterable[Hop]) -> tuple[Hop, ...]:
    """Sort the hops by time; a hop without a time keeps its place after the hop before it."""
    placed: list[tuple[int, Hop]] = []
    latest = 0
    for hop in hops:
        latest = hop.at_ms or latest
        placed.append((latest, hop))
    return tuple(hop for _, hop in sorted(placed, key=lambda each: each[0]))


def _of_turn(turn: TurnTrace, records: dict[str, DeliveryRecord]) -> Iterator[Hop]:
    for message in turn.messages:
        if message.taken_at_ms:
            yield Hop(message.taken_at_ms, "taken by a turn", message.message_id)
    if turn.started_at_ms:
        yield Hop(turn.started_at_ms, "turn began", f"{turn.turn_id}, run {turn.runs}, {turn.key}")
    if turn.finished_at_ms:
        trouble = f", error {turn.error_reference}" if turn.error_reference else ""
        yield Hop(turn.finished_at_ms, f"turn {turn.state}", f"{turn.turn_id}{trouble}")
    for message in turn.messages:
        if message.is_given_up:
            trouble = f", error {message.error_reference}" if message.error_reference else ""
            yield Hop(message.answered_at_ms, "given up", f"{message.message_id}{trouble}")
        elif message.answered_at_ms:
            yield Hop(message.answered_at_ms, "answered", message.message_id)
    for reply in turn.replies:
        record = records[reply.reply_id]
        aside = next((word for prefix, word in _ASIDES.items() if reply.reply_id.startswith(prefix)), "")
        yield from _of_aside(aside, reply, record) if aside else _of_reply(reply, record)


def _of_reply(reply: DeliveryProgress, record: DeliveryRecord) -> Iterator[Hop]:
    if reply.created_at_ms:
        yield Hop(reply.created_at_ms, "reply committed", f"{reply.reply_id} for {reply.channel}")
    if record.published_at_ms:
        yield Hop(record.published_at_ms, "published", reply.reply_id)
    if record.begun_at_ms:
        yield Hop(record.begun_at_ms, "sending", f"{reply.reply_id}, attempt {record.attempt + 1}")
    if record.updated_at_ms:
        parts = f"{record.next_chunk} of {record.chunks} messages {' '.join(record.platform_ids)}".rstrip()
        marked = f", {len(record.marked)} marked as perhaps repeated" if record.marked else ""
        reason = f": {record.reason}" if record.reason else ""
        yield Hop(record.updated_at_ms, record.state.value, f"{reply.reply_id}, {parts}{marked}{reason}")
    if reply.state is not DeliveryState.PENDING:
        yield Hop(reply.updated_at_ms, "receipt", f"{reply.reply_id} {reply.state.value}")


def _of_aside(name: str, reply: DeliveryProgress, record: DeliveryRecord) -> Iterator[Hop]:
    """Yield the one hop of a status line or a title, which is no answer: when it was said."""
    reason = f": {record.reason}" if record.reason else ""
    yield Hop(reply.created_at_ms, name, f"{reply.reply_id} {record.state.value}{reason}")


def _of_dead(letter: DeadLetter) -> Iterator[Hop]:
    if letter.message is not None:
        yield Hop(letter.message.received_at_ms, "received", letter.message.id)
    yield Hop(
        letter.died_at_ms, "dead letter", f"{letter.entry_id}, {letter.reason}, {letter.attempts} runs: {letter.error}"
    )


def _of_waiting(message: WaitingMessage) -> Hop:
    name = "in work" if message.is_in_work else "waits in its lane"
    return Hop(message.arrived_at_ms, name, f"{message.message_id}, {message.key}, {message.ahead} before it")
