"""The answer of a running turn, told to the channel now and then: lossy, paced, in nobody's way.

What is told has passed the scrubber's stream, which holds back whatever may still become a secret.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import structlog

from agent.limits import DRAFT_CHARS_MAX, DRAFT_EVERY_S
from gateway.bus.deliveries import Deliveries
from gateway.contracts.errors import BusError
from gateway.contracts.messages import CleanText, Draft

_log = structlog.get_logger(__name__)


@contextmanager
def showing(
    bus: Deliveries, blank: Draft, text: Callable[[], CleanText], *, every_s: float = DRAFT_EVERY_S
) -> Iterator[None]:
    """Tell what `text` says every `every_s` while the block lasts, as the draft that `blank` is without its text."""
    telling = asyncio.create_task(_tell(bus, blank, text, every_s))
    try:
        yield
    finally:
        telling.cancel()


async def _tell(bus: Deliveries, blank: Draft, text: Callable[[], CleanText], every_s: float) -> None:
    told = blank.text
    while True:
        await asyncio.sleep(every_s)
        said = text()
        if len(said) > DRAFT_CHARS_MAX:
            return
        if said in ("", told):
            continue
        try:
            await bus.show_draft(replace(blank, text=said))
            told = said
        except BusError as error:  # the next one says it all
            _log.debug("draft.untold", reason=str(error))
