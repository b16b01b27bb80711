"""Short ways to say what the store's suites are about: people, messages, turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Select

from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import (
    CleanText,
    DeliveryRecord,
    DeliveryState,
    InboundMessage,
    Receipt,
    Reply,
    ReplyKind,
)
from gateway.contracts.sessions import (
    Effect,
    Entry,
    EntryKind,
    Role,
    Session,
    TurnCommit,
    TurnStart,
    TurnState,
    Usage,
    UsagePurpose,
)
from gateway.store import Store
from gateway.store.engine import open_database

ANN = SessionKey("telegram", "1")
BOB = SessionKey("slack", "U2")
ANN_IN_GROUP = SessionKey("telegram", "1", ("-100",))
SHARED_GROUP = SessionKey("telegram", "", ("-100",))

CHAT = ReplyAddress("telegram", "telegram:1", '{"chat":1}')


def says(key: SessionKey, text: str, *, id_: str, author: str = "Ann") -> InboundMessage:
    """One message of `key`."""
    return InboundMessage(
        id=id_,
        key=key,
        address=CHAT,
        text=CleanText(text),
        author_id=key.user or "77",
        author_name=CleanText(author),
        is_private=key.is_private,
        sent_at_ms=1_000,
        received_at_ms=1_001,
    )


def note(text: str) -> Entry:
    """What the gateway told the model."""
    return Entry(Role.USER, CleanText(text), kind=EntryKind.NOTE)


def answer(text: str) -> Entry:
    """What the assistant said."""
    return Entry(Role.ASSISTANT, CleanText(text))


def summary(text: str, *, tail_start_seq: int) -> Entry:
    """What a compactor wrote."""
    return Entry(Role.ASSISTANT, CleanText(text), kind=EntryKind.COMPACTION, tail_start_seq=tail_start_seq)


def reply(key: SessionKey, text: str, *, id_: str, turn_id: str = "", created_at_ms: int = 2_000) -> Reply:
    """A committed answer."""
    return Reply(id_, turn_id, key, CHAT, CleanText(text), ReplyKind.ANSWER, created_at_ms)


def call(key: SessionKey, tokens_in: int, tokens_out: int, cost_usd: float) -> Usage:
    """One paid model call."""
    return Usage(key, UsagePurpose.TURN, "demo/scripted", tokens_in, tokens_out, 0, cost_usd)


def ended(reply_id: str, state: DeliveryState, *, key: SessionKey = ANN, at_ms: int = 3_000) -> Receipt:
    """How the delivery of a reply ended."""
    record = DeliveryRecord(reply_id, state, attempt=1, chunks=1, platform_ids=("55",), updated_at_ms=at_ms)
    return Receipt(record, key, key.platform)


async def begin(
    store: Store,
    turn_id: str,
    messages: Sequence[InboundMessage],
    *,
    fence: int = 1,
    key: SessionKey | None = None,
    is_said: bool = True,
    now_ms: int = 1_500,
    idle_since_ms: int = 0,
) -> TurnStart:
    """Begin a turn for the lane of the first message."""
    return await store.turns.begin(
        turn_id=turn_id,
        key=key or messages[0].key,
        fence=fence,
        messages=messages,
        now_ms=now_ms,
        is_said=is_said,
        idle_since_ms=idle_since_ms,
    )


def outcome(
    start: TurnStart,
    turn_id: str,
    messages: Sequence[InboundMessage],
    *,
    fence: int = 1,
    text: str = "fine",
    effects: tuple[Effect, ...] = (),
    usage: tuple[Usage, ...] = (),
    state: TurnState = TurnState.DONE,
) -> TurnCommit:
    """The commit of a plain turn: one answer, in the transcript and in the outbox."""
    key = start.session.key
    return TurnCommit(
        turn_id=turn_id,
        session_id=start.session.id,
        key=key,
        fence=fence,
        state=state,
        consumed=tuple(message.id for message in messages),
        entries=(answer(text),),
        usage=usage,
        outbox=(reply(key, text, id_=f"{turn_id}:0", turn_id=turn_id),),
        effects=effects,
        finished_at_ms=2_000,
    )


async def talk(store: Store, key: SessionKey, text: str, *, number: int, fence: int | None = None) -> Session:
    """One whole turn: `text` and its answer."""
    messages = [says(key, text, id_=f"{key}#{number}")]
    turn_id = f"turn-{key}-{number}"
    start = await begin(store, turn_id, messages, fence=fence or number)
    done = outcome(start, turn_id, messages, fence=fence or number, text=f"re: {text}")
    return (await store.turns.commit(done)).session


async def unsent(store: Store) -> list[Reply]:
    """Every reply without a receipt, oldest first; the relay would now leave them alone for a while."""
    return list(await store.outbox.take_stale(after_ms=0, limit=99))


def bare(entry: Entry) -> Entry:
    """An entry without what the store added."""
    return replace(entry, seq=0, turn_id="", created_at_ms=0, message_id="")


async def rows(url: str, query: Select[Any]) -> list[tuple[Any, ...]]:
    """What the tables really hold, where the store has no word for it yet."""
    database = open_database(url, busy_timeout_s=5.0)
    try:
        return await database.read(lambda connection: [tuple(row) for row in connection.execute(query)])
    finally:
        await database.close()
