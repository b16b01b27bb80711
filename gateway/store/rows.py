"""Rows to values and back: pure. What the database holds was scrubbed before, so its text is `CleanText`."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Row

from gateway.contracts.entries import (
    Entry,
    EntryKind,
    Grant,
    GrantRole,
    Role,
    Session,
    SessionStatus,
    Todo,
    TodoState,
    ToolCall,
    Usage,
)
from gateway.contracts.envelope import address_from_text, address_to_text, files_from_text, files_to_text
from gateway.contracts.ids import SessionKey
from gateway.contracts.memories import Fact, Origin
from gateway.contracts.messages import Choice, CleanText, DeliveryState, Receipt, Reply, ReplyKind, Whereabouts
from gateway.contracts.schedules import Schedule, ScheduleKind, ScheduleState
from gateway.contracts.vectors import Vector

Values = dict[str, Any]
"""Column values by name, as an INSERT takes them."""

_ROLES: Final = {role.value: role for role in Role}
_KINDS: Final = {kind.value: kind for kind in EntryKind}

_FLOAT_BYTES: Final = 4
_ENDS: Final = {state.value: state for state in DeliveryState}
"""What a receipt may say; before one is written, `outbox.state` has a word of its own."""


def to_session(row: Row[Any], *, current_id: str | None, language: str) -> Session:
    """A row of `sessions`; `current_id` is what its lane points to, `language` what its lane knows."""
    return Session(
        id=row.id,
        key=SessionKey.parse(row.key),
        number=row.number or 0,
        title=CleanText(row.title),
        status=SessionStatus(row.status),
        parent_session_id=row.parent_session_id,
        created_at_ms=row.created_at_ms,
        updated_at_ms=row.updated_at_ms,
        message_count=row.message_count,
        tokens=row.tokens,
        cost_usd=float(row.cost_usd),
        is_current=row.id == current_id,
        title_tries=row.title_tries,
        model=row.model,
        profile=row.profile,
        prompt_tokens=row.prompt_tokens,
        prompt_seq=row.prompt_seq,
        channel=row.channel,
        language=language,
    )


def from_entry(entry: Entry, *, session_id: str) -> Values:
    """A row of `entries`."""
    calls = [[call.id, call.name, call.arguments] for call in entry.tool_calls]
    return {
        "session_id": session_id,
        "seq": entry.seq,
        "role": entry.role.value,
        "kind": entry.kind.value,
        "text": entry.text,
        "tool_calls": _json(calls) if calls else None,
        "tool_call_id": entry.tool_call_id,
        "is_error": entry.is_error,
        "tail_start_seq": entry.tail_start_seq,
        "message_id": entry.message_id or None,
        "turn_id": entry.turn_id,
        "created_at_ms": entry.created_at_ms,
        "is_undone": entry.is_undone,
        "author": entry.author,
    }


def to_entry(row: Sequence[Any]) -> Entry:
    """The inverse of `from_entry`, of a row with all columns in their order.

    A history has thousands of them: unpacked like this, one takes a third of the time that names would take.
    """
    _, seq, role, kind, text, calls, call_id, is_error, tail_start_seq, message_id, turn_id, at_ms, is_undone, by = row
    return Entry(
        _ROLES[role],
        CleanText(text),
        seq,
        _KINDS[kind],
        _to_calls(calls) if calls else (),
        call_id,
        is_error,
        tail_start_seq,
        message_id or "",
        turn_id,
        at_ms,
        is_undone,
        by,
    )


def _to_calls(text: str) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(id_, name, CleanText(arguments)) for id_, name, arguments in json.loads(text))


def from_usage(usage: Usage, *, session_id: str, turn_id: str, now_ms: int) -> Values:
    """A row of `usage`; the turn and the time stand in for those the value does not name."""
    return {
        "session_id": session_id,
        "key": str(usage.key),
        "owner": str(usage.key.owner),
        "purpose": usage.purpose.value,
        "model": usage.model,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "cached_tokens": usage.cached_tokens,
        "cost_usd": usage.cost_usd,
        "turn_id": usage.turn_id or turn_id,
        "created_at_ms": usage.created_at_ms or now_ms,
    }


def from_reply(reply: Reply, *, position: int, state: str) -> Values:
    """A row of `outbox`."""
    return {
        "id": reply.id,
        "turn_id": reply.turn_id,
        "key": str(reply.key),
        "position": position,
        "address": address_to_text(reply.address),
        "text": reply.text,
        "kind": reply.kind.value,
        "title": reply.title,
        "choices": _json([[choice.label, choice.command] for choice in reply.choices]) if reply.choices else None,
        "amends": reply.amends,
        "files": files_to_text(reply.files) if reply.files else None,
        "language": reply.language,
        "state": state,
        "created_at_ms": reply.created_at_ms,
        "updated_at_ms": reply.created_at_ms,
    }


def to_reply(row: Row[Any]) -> Reply:
    """The inverse of `from_reply`."""
    return Reply(
        id=row.id,
        turn_id=row.turn_id,
        key=SessionKey.parse(row.key),
        address=address_from_text(row.address),
        text=CleanText(row.text),
        kind=ReplyKind(row.kind),
        created_at_ms=row.created_at_ms,
        title=None if row.title is None else CleanText(row.title),
        choices=tuple(
            Choice(CleanText(label), CleanText(command)) for label, command in json.loads(row.choices or "[]")
        ),
        amends=row.amends,
        files=files_from_text(row.files) if row.files else (),
        language=row.language,
    )


def from_receipt(receipt: Receipt, *, now_ms: int) -> Values:
    """A row of `deliveries`."""
    record = receipt.record
    return {
        "reply_id": record.reply_id,
        "key": str(receipt.key),
        "channel": receipt.channel,
        "state": record.state.value,
        "attempts": record.attempt,
        "chunks": record.chunks,
        "platform_ids": _json(list(record.platform_ids)),
        "reason": record.reason,
        "updated_at_ms": record.updated_at_ms or now_ms,
    }


def to_whereabouts(row: Row[Any]) -> Whereabouts:
    """A row of `outbox` joined with its receipt, which may be missing."""
    return Whereabouts(
        reply_id=row.id,
        turn_id=row.turn_id,
        channel=address_from_text(row.address).channel,
        created_at_ms=row.created_at_ms,
        state=_ENDS.get(row.state, DeliveryState.PENDING),
        chunks_sent=len(json.loads(row.platform_ids)) if row.platform_ids else 0,
        chunks=row.chunks or 0,
        attempts=row.attempts or 0,
        reason=CleanText(row.reason or ""),
        updated_at_ms=row.updated_at_ms,
    )


def receipt_whereabouts(row: Row[Any]) -> Whereabouts:
    """A row of `deliveries` alone: nobody wrote down when the reply was made."""
    return Whereabouts(
        reply_id=row.reply_id,
        turn_id="",
        channel=row.channel,
        created_at_ms=0,
        state=DeliveryState(row.state),
        chunks_sent=len(json.loads(row.platform_ids)),
        chunks=row.chunks,
        attempts=row.attempts,
        reason=CleanText(row.reason),
        updated_at_ms=row.updated_at_ms,
    )


def from_grant(grant: Grant) -> Values:
    """A row of `grants`. A decision is about the user, wherever it was made."""
    return {
        "owner": str(grant.key.owner),
        "role": grant.role.value,
        "granted_by": grant.granted_by,
        "created_at_ms": grant.created_at_ms,
        "reason": grant.reason,
    }


def to_grant(row: Row[Any]) -> Grant:
    """The inverse of `from_grant`."""
    return Grant(
        SessionKey.parse(row.owner), GrantRole(row.role), row.granted_by, row.created_at_ms, CleanText(row.reason)
    )


def to_todo(row: Row[Any]) -> Todo:
    """A row of `todos`."""
    return Todo(row.position, CleanText(row.text), TodoState(row.state))


def to_fact(row: Row[Any]) -> Fact:
    """A row of `facts`."""
    return Fact(
        id=row.id,
        key=SessionKey.parse(row.owner),
        number=row.number,
        text=CleanText(row.text),
        created_at_ms=row.created_at_ms,
        place=row.place,
        origin=Origin(row.origin),
        is_shared=row.is_shared,
    )


def from_vector(vector: Sequence[float]) -> bytes:
    """A vector as `facts.vector` holds it: little-endian 32-bit floats."""
    return struct.pack(f"<{len(vector)}f", *vector)


def to_vector(kept: bytes) -> Vector:
    """The inverse of `from_vector`, up to the precision of a 32-bit float."""
    return struct.unpack(f"<{len(kept) // _FLOAT_BYTES}f", kept)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def from_schedule(schedule: Schedule, *, number: int) -> Values:
    """A new row of `schedules`."""
    return {
        "id": schedule.id,
        "owner": str(schedule.owner),
        "number": number,
        "key": str(schedule.key),
        "address": address_to_text(schedule.address),
        "author_id": schedule.author_id,
        "author_name": schedule.author_name,
        "is_private": schedule.is_private,
        "place": _json(schedule.place),
        "kind": schedule.kind.value,
        "text": schedule.text,
        "recurrence": schedule.recurrence,
        "zone": schedule.zone,
        "state": schedule.state.value,
        "next_due_ms": schedule.next_due_ms,
        "held_until_ms": 0,
        "firings": 0,
        "fired_at_ms": 0,
        "created_at_ms": schedule.created_at_ms,
    }


def to_schedule(row: Row[Any]) -> Schedule:
    """A row of `schedules`."""
    return Schedule(
        id=row.id,
        key=SessionKey.parse(row.key),
        address=address_from_text(row.address),
        author_id=row.author_id,
        author_name=CleanText(row.author_name),
        is_private=row.is_private,
        kind=ScheduleKind(row.kind),
        text=CleanText(row.text),
        recurrence=row.recurrence,
        zone=row.zone,
        next_due_ms=row.next_due_ms,
        created_at_ms=row.created_at_ms,
        number=row.number,
        state=ScheduleState(row.state),
        place=tuple(json.loads(row.place)),
    )
