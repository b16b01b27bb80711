"""What it costs the store to open a turn in a conversation of ten thousand messages."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from agent.limits import VIEW_CHARS_PER_TOKEN
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import CleanText, InboundMessage
from gateway.contracts.sessions import Entry, EntryKind, PromptQuery, Role, TurnCommit, TurnState
from gateway.store import Store, open_store
from tests.bench.databases import DATABASES
from tests.bench.figures import Figure, Findings, percentile
from tests.bench.sizes import Size

KEY: Final = SessionKey("telegram", "1")
WINDOWS: Final = {"32k": 24_576, "200k": 180_000}
"""Usable tokens of the demo model and of a frontier model."""
_TEXT: Final = CleanText("What people say in a chat has about this many characters, and sometimes a few more.")
_AT_ONCE: Final = 500


async def history(size: Size) -> Findings:
    """With everything in view, then behind a compaction that left the last exchanges there."""
    figures: list[Figure] = []
    for kind, opened in DATABASES.items():
        async with opened() as database:
            store = open_store(database.url)
            try:
                figures += await _of_store(store, kind, size)
            finally:
                await store.close()
    return Findings(tuple(figures))


async def _of_store(store: Store, kind: str, size: Size) -> list[Figure]:
    turns = _Turns(store)
    session_id = await turns.fill(size.history)
    what = f"{size.history:,} messages, {kind}"
    figures = []
    for window, usable in WINDOWS.items():
        chars = usable * VIEW_CHARS_PER_TOKEN
        found = await store.transcript.newest_view(session_id, chars_max=chars)
        part = "whole view" if found.is_whole else "the rest is read to be summarised"
        note = f"{len(found.entries):,} messages read, {part}"
        for_the_first_time = partial(store.transcript.newest_view, session_id, chars_max=chars)
        took_ms = await turns.opened(size.opened, for_the_first_time)
        figures.append(
            _figure(f"open a turn, {what}, window of {window}, in a process new to it", took_ms, note, aim="")
        )
        again = partial(store.transcript.prompt_start, session_id, KEY, PromptQuery(chars))
        await again()
        took_ms = await turns.opened(size.opened, again)
        figures.append(_figure(f"open a turn, {what}, window of {window}", took_ms, "what is new is read"))
    took_ms = await turns.opened(size.opened, partial(store.transcript.view, session_id))
    figures.append(_figure(f"open a turn, {what}, all of them read", took_ms, "before a first summary, once", aim=""))
    await turns.compact(session_id)
    chars = WINDOWS["200k"] * VIEW_CHARS_PER_TOKEN
    took_ms = await turns.opened(size.opened, partial(store.transcript.newest_view, session_id, chars_max=chars))
    figures.append(_figure(f"open a turn, {what}, compacted", took_ms, "a summary and four messages in view"))
    return figures


def _figure(what: str, took_ms: list[float], note: str, aim: str = "history") -> Figure:
    return Figure(what, percentile(took_ms, 50), "ms", aim=aim, note=f"p95 {percentile(took_ms, 95):.1f}; {note}")


class _Turns:
    """Turns of one lane, each under the fence of its own claim."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._number = 0

    async def fill(self, messages: int) -> str:
        """Say so much; the id of the session."""
        session_id = ""
        for _ in range(messages // _AT_ONCE):
            turn_id, session_id = await self._begin()
            said = [Entry(role, _TEXT) for role in (Role.ASSISTANT, Role.USER) * (_AT_ONCE // 2)]
            await self._commit(turn_id, session_id, tuple(said[: _AT_ONCE - 1]))
        return session_id

    async def opened(self, times: int, read: Callable[[], Awaitable[object]]) -> list[float]:
        """Open a turn as an agent does, so many times: milliseconds of each."""
        took_ms = []
        for _ in range(times):
            began_s = time.perf_counter()
            turn_id, session_id = await self._begin()
            await read()
            took_ms.append(1000 * (time.perf_counter() - began_s))
            await self._commit(turn_id, session_id, ())
        return took_ms

    async def compact(self, session_id: str) -> None:
        """As the compactor stores it."""
        last_seq = (await self._store.transcript.view(session_id))[-1].seq
        summary = Entry(
            Role.ASSISTANT, CleanText("Goal: none."), kind=EntryKind.COMPACTION, tail_start_seq=last_seq - 3
        )
        await self._store.transcript.append_compaction(session_id, fence=self._number, key=KEY, entry=summary)

    async def _begin(self) -> tuple[str, str]:
        self._number += 1
        message = InboundMessage(
            id=f"telegram:bot:1:{self._number}",
            key=KEY,
            address=ReplyAddress("telegram", "1", "{}"),
            text=_TEXT,
            author_id="1",
            author_name=CleanText("Ann"),
            is_private=True,
            sent_at_ms=1,
            received_at_ms=1,
        )
        turn_id = f"turn-{self._number}"
        start = await self._store.turns.begin(
            turn_id=turn_id, key=KEY, fence=self._number, messages=[message], now_ms=self._number
        )
        return turn_id, start.session.id

    async def _commit(self, turn_id: str, session_id: str, entries: tuple[Entry, ...]) -> None:
        consumed = (f"telegram:bot:1:{self._number}",)
        await self._store.turns.commit(
            TurnCommit(
                turn_id, session_id, KEY, self._number, TurnState.DONE, consumed, entries, finished_at_ms=self._number
            )
        )
