"""Keeps what a child says and costs, in order and beside its work: nothing waits for the database, nothing is lost.
What it does meanwhile goes along.

A database that goes away in the middle of a write has it or has it not. So entries have numbers here already, and each
model call is written with the entry of its answer: what is written again is known by its numbers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from itertools import count

import structlog

from agent.limits import COMMIT_PATIENCE_S
from gateway.contracts.entries import Entry, Usage
from gateway.contracts.errors import StoreError
from gateway.contracts.ports import SubTaskBook
from gateway.contracts.subagents import Doing
from gateway.retry import RetryPolicy, retry_until_available

_log = structlog.get_logger(__name__)


class Scribe:
    """Writes for one task."""

    def __init__(self, book: SubTaskBook, task_id: str) -> None:
        self._book = book
        self._task_id = task_id
        self._numbers = count(1)
        self._entries: list[Entry] = []
        self._usage: list[Usage] = []
        self._doing: Doing | None = None
        self._shown: Doing | None = None
        self._writing: asyncio.Task[None] | None = None

    def note(self, entry: Entry, *, usage: Sequence[Usage] = (), doing: Doing) -> None:
        """Have this written behind what was noted before, and with it what the child does now."""
        self._entries.append(replace(entry, seq=next(self._numbers)))
        self._usage += usage
        self._doing = doing
        self._begin()

    def show(self, doing: Doing) -> None:
        """Have only this written: where nothing is said for a while."""
        self._doing = doing
        self._begin()

    def _begin(self) -> None:
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())

    async def finish(self) -> None:
        """Return when everything is written. Whoever stops waiting stops no writing."""
        if self._writing is not None:
            await asyncio.shield(self._writing)

    async def _write(self) -> None:
        while self._entries or self._doing != self._shown:
            entries, usage, doing = tuple(self._entries), tuple(self._usage), self._doing
            self._entries.clear()
            self._usage.clear()
            self._shown = doing
            try:
                await retry_until_available(
                    lambda: self._book.record(self._task_id, entries=entries, usage=usage, doing=doing),  # noqa: B023 - called at once
                    RetryPolicy(for_s=COMMIT_PATIENCE_S),
                )
            except StoreError as error:
                _log.error("subagent.not_recorded", task=self._task_id, calls=len(usage), reason=str(error))
