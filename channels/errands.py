"""Small works that nobody waits for, such as the answer to a press: held while they run, their failures logged."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final

log = logging.getLogger(__name__)

ERRANDS_MAX: Final = 256  # at once; each is a press of a button, and answers within seconds


class Errands:
    """Those of one adapter."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, errand: Coroutine[Any, Any, None]) -> None:
        """Run it beside everything else; when there are too many, not at all."""
        if len(self._tasks) >= ERRANDS_MAX:
            errand.close()
            log.warning("%s: too many errands at once, one is left undone", self._name)
            return
        task = asyncio.create_task(self._run(errand), name=f"{self._name}-errand")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def end(self) -> None:
        """Cancel what runs."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, errand: Coroutine[Any, Any, None]) -> None:
        try:
            await errand
        except Exception as error:  # noqa: BLE001 - named boundary, adapter callback: nobody waits for it
            log.info("%s: an errand failed: %s", self._name, type(error).__name__)
