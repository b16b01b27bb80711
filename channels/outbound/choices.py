"""What a reply is sent as: its chunks, with its choices under the last one, or the one chunk that amends another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from channels.adapter import AnyChunk, ChannelAdapter, SupportsChoices, SupportsSilence
from gateway.contracts.messages import CleanText, Reply, ReplyKind
from gateway.limits import RENDERED_AT_ONCE_CHARS_MAX


def _as_it_is(text: CleanText) -> CleanText:
    return text


_renderers: Final = ThreadPoolExecutor(1, thread_name_prefix="rendering")
"""One of the process, as there is one interpreter: two would only take turns with each other and with the loop."""


async def rendered(
    adapter: ChannelAdapter, text: CleanText, shape: Callable[[CleanText], CleanText] = _as_it_is
) -> Sequence[AnyChunk]:
    """`adapter.chunks` of a text that is shaped before, beside the event loop where it is long."""

    def render() -> Sequence[AnyChunk]:
        return adapter.chunks(shape(text))

    if len(text) <= RENDERED_AT_ONCE_CHARS_MAX:
        return render()
    return await asyncio.get_running_loop().run_in_executor(_renderers, render)


async def chunks_of(reply: Reply, adapter: ChannelAdapter) -> Sequence[AnyChunk]:
    """In order. Where there are no buttons the text names the words that answer; an amendment says nothing new
    there, and is not sent, nor is a status line, which would stand there unchanged for ever."""
    chunks = await rendered(adapter, reply.text)
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
