"""Committed replies on their way to the platforms, and what is known of the places they go to."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import (
    DeliveryRecord,
    Reply,
)


@dataclass(frozen=True, slots=True)
class PendingReply:
    """A reply taken from the outbound stream, with the ledger's word on it."""

    entry_id: str
    reply: Reply
    record: DeliveryRecord


@dataclass(frozen=True, slots=True)
class WantedFile:
    """A committed file that a channel is about to send: `Reply.files[position]`."""

    key: SessionKey
    reply_id: str
    position: int


@dataclass(frozen=True, slots=True)
class TokenWish:
    """A token of a bucket that gains `per_s`, up to `burst`. What may be left undone asks with `spare`, the tokens that
    must remain for what may not."""

    bucket: str
    per_s: float
    burst: int
    spare: float = 0


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is known of an address before something is sent to it."""

    dead_because: str = ""
    is_account_unsure: bool = False
