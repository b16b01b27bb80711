"""Hands over the files that turns ask for: fetched from the platform, freed of secrets, lent over the bus.

Text is looked through here, so that the secrets in it never get further than this process. Whoever asked hears
that somebody is at it until it has the file or knows why not.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Final

from channels.adapter import SupportsDownloads
from channels.backoff import Backoff
from gateway.bus.files import Files
from gateway.contracts.errors import BusUnavailable, DeliveryError, FileRefused, RateLimited
from gateway.contracts.ports import FetchedFile, Scrubber, WantedAttachment
from gateway.limits import (
    ATTACHMENT_BEAT_S,
    ATTACHMENT_FETCH_S,
    ATTACHMENTS_AT_ONCE,
    SCRUBBED_FILE_BYTES_MAX,
)
from gateway.scrub.files import without_secrets
from gateway.scrub.readable import is_text
from gateway.words import sentence

log = logging.getLogger(__name__)

NOT_NOW: Final = sentence("its platform does not hand it out at the moment")
LONG_TEXT: Final = f"it is a text of more than {SCRUBBED_FILE_BYTES_MAX // 1_000_000} MB"
UNSEARCHED: Final = sentence("it could not be looked through for secrets in time")

_WAIT_S: Final = 5.0
_TRIES: Final = 4
_RETRY_FIRST_S: Final = 0.5
_RETRY_CAP_S: Final = 10.0


class Fetching:
    """The files of one channel, ATTACHMENTS_AT_ONCE at a time."""

    def __init__(self, adapter: SupportsDownloads, bus: Files, scrubber: Scrubber, *, delay_scale: float = 1.0) -> None:
        """`delay_scale` shortens the waits of tests."""
        self._adapter = adapter
        self._bus = bus
        self._scrubber = scrubber
        self._delay_scale = delay_scale

    async def run(self) -> None:
        """Until cancelled. Who is not connected leaves the wishes to others."""
        async with asyncio.TaskGroup() as group:
            for _ in range(ATTACHMENTS_AT_ONCE):
                group.create_task(self._attend())

    async def _attend(self) -> None:
        backoff = Backoff(_RETRY_FIRST_S, _RETRY_CAP_S)
        while True:
            await self._adapter.until_ready()
            try:
                await self.serve(wait_s=_WAIT_S)
                backoff.reset()
            except BusUnavailable as error:
                log.warning("%s: no files while the bus is away: %s", self._adapter.name, error)
                await asyncio.sleep(backoff.next_s())

    async def serve(self, *, wait_s: float) -> bool:
        """Answer one wish, if there is one within `wait_s`. Raises `BusUnavailable`."""
        wanted = await self._bus.wanted_attachment(self._adapter.name, wait_s=wait_s)
        if wanted is None:
            return False
        try:
            async with self._at_it(wanted):
                file = await self._fetched(wanted)
        except FileRefused as error:
            log.info("%s: a file cannot be had: %s", self._adapter.name, error)
            await self._bus.refuse_attachment(wanted, reason=str(error))
        else:
            if not await self._bus.put_attachment(wanted, file):
                log.info("%s: nobody takes a file that was asked for", self._adapter.name)
        return True

    @contextlib.asynccontextmanager
    async def _at_it(self, wanted: WantedAttachment) -> AsyncIterator[None]:
        beating = asyncio.create_task(self._beat(wanted), name=f"{self._adapter.name}-at-it")
        try:
            yield
        finally:
            beating.cancel()
            await asyncio.wait([beating])

    async def _beat(self, wanted: WantedAttachment) -> None:
        while True:
            with contextlib.suppress(BusUnavailable):
                await self._bus.note_fetching(wanted)
            await asyncio.sleep(ATTACHMENT_BEAT_S)

    async def _fetched(self, wanted: WantedAttachment) -> FetchedFile:
        """The file as it may leave this process. Raises `FileRefused`."""
        try:
            async with asyncio.timeout(ATTACHMENT_FETCH_S):
                file = await self._downloaded(wanted)
        except TimeoutError:
            raise FileRefused(NOT_NOW) from None
        scrubber = self._scrubber.for_chat(str(wanted.key))
        content = await _clean(file.content, scrubber)
        return FetchedFile(scrubber.scrub(file.name), scrubber.scrub(file.media_type), content)

    async def _downloaded(self, wanted: WantedAttachment) -> FetchedFile:
        """A download changes nothing, so it is tried again, whatever became of the last one."""
        backoff = Backoff(_RETRY_FIRST_S, _RETRY_CAP_S)
        for _ in range(_TRIES):
            try:
                return await self._adapter.fetch(wanted.reference, bytes_max=wanted.bytes_max)
            except FileRefused:
                raise
            except DeliveryError as error:
                log.info("%s: a file is not to be had yet: %s", self._adapter.name, error)
                wait_s = error.retry_after_s if isinstance(error, RateLimited) else backoff.next_s()
            except Exception as error:  # noqa: BLE001 - named boundary, adapter callback; its text may hold an address
                log.warning("%s: fetching a file failed: %s", self._adapter.name, type(error).__name__)
                wait_s = backoff.next_s()
            await asyncio.sleep(wait_s * self._delay_scale)
        raise FileRefused(NOT_NOW)


async def _clean(content: bytes, scrubber: Scrubber) -> bytes:
    """Without secrets, where it is text: nobody can look into anything else."""
    if not is_text(content):
        return content
    if len(content) > SCRUBBED_FILE_BYTES_MAX:
        raise FileRefused(LONG_TEXT)
    clean = await without_secrets(content, scrubber)
    if clean is None:
        raise FileRefused(UNSEARCHED)
    return clean
