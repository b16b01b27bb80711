"""The messages that showed the draft of a reply become the reply's own, when its delivery begins.

The ledger knows them from before they were begun (`Preview`). From the first note on that a reply's page gets, the
page does; then the preview is forgotten, and nobody can begin another for the same reply. One message may have been on
its way when a process died: it is found first, or begun once more where that cannot show it twice.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final

from channels.adapter import AnyChunk, ChannelAdapter, SupportsLookup, SupportsPlaceholders, SupportsStreaming
from channels.backoff import jittered
from channels.outbound.choices import rendered
from channels.outbound.page import Page
from channels.patience import Patience
from channels.text.unfinished import as_if_closed
from gateway.bus.deliveries import Deliveries
from gateway.bus.places import Places
from gateway.contracts.errors import (
    AddressMoved,
    CredentialsRejected,
    DeliveryError,
    OutcomeUnknown,
    RateLimited,
    SendFailed,
    Untraceable,
)
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import DeliveryState, Preview

log = logging.getLogger(__name__)

SETTLE_DELAYS_S: Final = (1.0, 2.0, 4.0, 8.0)  # then the answer goes out all the same


class Adopting:
    """For the replies of one channel. Waits for the bus; raises `Abandoned`, `TakenOver`, `CredentialsRejected`."""

    def __init__(self, adapter: ChannelAdapter, bus: Deliveries, places: Places, patience: Patience) -> None:
        self._adapter = adapter
        self._streaming = adapter if isinstance(adapter, SupportsStreaming) else None
        self._asking = adapter if isinstance(adapter, SupportsLookup) else None
        self._editing = adapter if isinstance(adapter, SupportsPlaceholders) else None
        self._bus = bus
        self._places = places
        self._patience = patience

    async def adopt(self, page: Page, address: ReplyAddress) -> None:
        """Write down on the page what shows the draft of its reply."""
        if self._streaming is None or page.record.updated_at_ms:
            return
        reply, channel = page.reply, self._adapter.name
        preview = await self._patience.with_bus(lambda: self._bus.preview(channel, reply.key, reply.id))
        if preview is None:
            return
        lost = await self.settled(preview, address) if preview.opening else None
        shown = (*preview.messages, *((lost,) if lost else ()))
        page.record = replace(page.record, shown=shown)
        await page.note(DeliveryState.PENDING)
        if self._editing is not None:
            place = self._editing.place(address)
            await self._patience.with_bus(lambda: self._places.note_sent(place, shown))
        await self._patience.with_bus(lambda: self._bus.drop_preview(channel, preview))

    async def settled(self, preview: Preview, address: ReplyAddress) -> str | None:
        """The id of the message that was being begun; None if it is not there, or nobody can say, which is counted."""
        found = await self._found(preview, address)
        if found is None:
            log.warning("%s: the draft of %s may be seen beside it", self._adapter.name, preview.reply_id)
            await self._patience.with_bus(lambda: self._places.count_ambiguous(self._adapter.name))
        return found

    async def _found(self, preview: Preview, address: ReplyAddress) -> str | None:
        streaming = self._streaming
        chunks = await rendered(self._adapter, preview.opening, as_if_closed)
        if streaming is None or len(chunks) <= len(preview.messages):
            return None
        chunk = chunks[len(preview.messages)]
        for delay_s in SETTLE_DELAYS_S:
            try:
                return await self._find(streaming, preview, address, chunk)
            except RateLimited as error:
                await self._patience.wait(error.retry_after_s)
            except (SendFailed, OutcomeUnknown):
                await self._patience.back_off(jittered(delay_s))
            except AddressMoved as error:
                address = error.address
            except CredentialsRejected:
                raise
            except DeliveryError as error:
                log.info("%s: what showed %s is not to be had: %s", self._adapter.name, preview.reply_id, error)
                return None
        return None

    async def _find(
        self, streaming: SupportsStreaming, preview: Preview, address: ReplyAddress, chunk: AnyChunk
    ) -> str | None:
        send_id, since_ms = f"{preview.reply_id}:{len(preview.messages)}", preview.begun_at_ms
        if self._asking is not None:
            try:
                ids = await self._asking.find_sent(address, chunk, send_id=send_id, since_ms=since_ms)
            except Untraceable:
                return None
            return ids[-1] if ids else await streaming.begin_stream(address, chunk, send_id=send_id)
        if self._editing is None:
            return None
        place = self._editing.place(address)
        noted = await self._patience.with_bus(lambda: self._places.sent_lately(place))
        after = preview.messages[-1] if preview.messages else ""
        return await self._editing.find_lost(address, chunk, after=after, known=noted | {*preview.messages})
