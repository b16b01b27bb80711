"""The delivery ledger's row as fields of a Redis hash, and back. No I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping

from gateway.bus.line import Word
from gateway.contracts.messages import CleanText, DeliveryRecord, DeliveryState


def to_fields(record: DeliveryRecord) -> tuple[Word, ...]:
    """Field, value, field, value … as HSET takes them; the id is in the key."""
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


def from_fields(reply_id: str, fields: Mapping[bytes, bytes]) -> DeliveryRecord:
    """The row of a reply; a pending one when nothing was written yet."""
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
