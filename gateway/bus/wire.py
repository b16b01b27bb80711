"""Envelopes on their way into Redis: bounded before anything is sent."""

from __future__ import annotations

from gateway.contracts.envelope import Wire, encode
from gateway.contracts.errors import BusError
from gateway.contracts.messages import Reply
from gateway.limits import ENVELOPE_BYTES_MAX, REPLY_ENVELOPE_BYTES_MAX


def bounded(value: Wire) -> bytes:
    """The envelope of a value. Raises `BusError` for one that the bus does not carry."""
    envelope = encode(value)
    limit = REPLY_ENVELOPE_BYTES_MAX if isinstance(value, Reply) else ENVELOPE_BYTES_MAX
    if len(envelope) > limit:
        raise BusError(f"an envelope of {len(envelope)} bytes is over the bus's limit of {limit}")
    return envelope
