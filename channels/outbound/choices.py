"""What a reply is sent as: its chunks, with its choices under the last one, or the one chunk that amends another."""

from __future__ import annotations

from collections.abc import Sequence

from channels.adapter import AnyChunk, ChannelAdapter, SupportsChoices, SupportsSilence
from gateway.contracts.messages import Reply, ReplyKind


def chunks_of(reply: Reply, adapter: ChannelAdapter) -> Sequence[AnyChunk]:
    """In order. Where there are no buttons the text names the words that answer; an amendment says nothing new
    there, and is not sent, nor is a status line, which would stand there unchanged for ever."""
    chunks = adapter.chunks(reply.text)
    if not isinstance(adapter, SupportsChoices):
        return () if reply.amends or reply.kind is ReplyKind.STATUS else chunks
    if reply.kind is ReplyKind.STATUS and isinstance(adapter, SupportsSilence):
        chunks = tuple(map(adapter.silent, chunks))
    if reply.amends:
        return chunks[-1:]
    if not reply.choices:
        return chunks
    *before, last = chunks
    return (*before, adapter.offering(last, reply.choices))
