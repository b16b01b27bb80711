"""What a reply is sent as: its chunks, with its choices under the last one, or the one chunk that amends another."""

from __future__ import annotations

from collections.abc import Sequence

from channels.adapter import AnyChunk, ChannelAdapter, SupportsChoices
from gateway.contracts.messages import Reply


def chunks_of(reply: Reply, adapter: ChannelAdapter) -> Sequence[AnyChunk]:
    """In order. Where there are no buttons the text names the words that answer; an amendment says nothing new
    there, and is not sent."""
    chunks = adapter.chunks(reply.text)
    if not isinstance(adapter, SupportsChoices):
        return () if reply.amends else chunks
    if reply.amends:
        return chunks[-1:]
    if not reply.choices:
        return chunks
    *before, last = chunks
    return (*before, adapter.offering(last, reply.choices))
