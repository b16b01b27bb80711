"""Puts the bytes of committed files from SQL on the bus, whenever a channel is about to send one.

Every agent process has a file server; each wish is read by one of them. One that dies on the way is no loss:
the channel asks again.
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from gateway.bus.files import Files
from gateway.contracts.errors import BusError, StoreError
from gateway.store import Store

_log = structlog.get_logger(__name__)
_WAIT_S: Final = 5.0
_RETRY_S: Final = 1.0


class FileServer:
    """Serves one wish at a time."""

    def __init__(self, files: Files, store: Store) -> None:
        self._files = files
        self._store = store

    async def serve(self) -> None:
        """Serve until cancelled."""
        while True:
            try:
                await self.answer_one(wait_s=_WAIT_S)
            except (BusError, StoreError) as error:
                _log.warning("files.not_served", reason=str(error))
                await asyncio.sleep(_RETRY_S)

    async def answer_one(self, *, wait_s: float) -> bool:
        """Answer one wish, if there is one within `wait_s`. What is not kept any more is answered with nothing."""
        wanted = await self._files.wanted_file(wait_s=wait_s)
        if wanted is None:
            return False
        content = await self._store.outbox.file_content(wanted.key, wanted.reply_id, wanted.position)
        await self._files.put_file(wanted, content or b"")
        return True
