"""The view of any history is what its definition says, whatever was compacted when."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import update

from gateway.contracts.ids import SessionKey
from gateway.contracts.sessions import Entry, EntryKind, PromptQuery, Session
from gateway.store import Store, transcript
from gateway.store.tables import entries
from tests.contract.store_samples import SHARED_GROUP, summary, talk

_users = count(1)

TURN = st.just(None)
COMPACTION_KEEPING = st.integers(min_value=0, max_value=12)
"""How many of the newest entries a compaction leaves in view."""


def in_view(transcript: list[Entry]) -> list[Entry]:
    """The definition: the newest compaction, then every other entry from its `tail_start_seq` on."""
    compactions = [entry for entry in transcript if entry.kind is EntryKind.COMPACTION]
    start = compactions[-1].tail_start_seq if compactions else 0
    tail = [entry for entry in transcript if entry.kind is EntryKind.MESSAGE and entry.seq >= start]
    return [*compactions[-1:], *tail]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=st.lists(st.one_of(TURN, COMPACTION_KEEPING), min_size=1, max_size=12))
async def test_the_view_is_the_newest_compaction_and_its_tail(store: Store, history: list[int | None]) -> None:
    key = SessionKey("telegram", f"view-{next(_users)}")
    session = await talk(store, key, "first", number=1)
    for number, kept in enumerate(history, start=2):
        if kept is None:
            await talk(store, key, f"q{number}", number=number)
        else:
            last_seq = (await store.transcript.page(session.id))[-1].seq
            fence = 1 + max((n for n, step in enumerate(history[: number - 2], start=1) if step is None), default=0)
            tail = max(1, last_seq - kept + 1)
            await store.transcript.append_compaction(
                session.id, fence=fence, key=key, entry=summary("so far", tail_start_seq=tail)
            )
    transcript = list(await store.transcript.page(session.id))
    assert [entry.seq for entry in transcript] == list(range(1, len(transcript) + 1))
    assert list(await store.transcript.view(session.id)) == in_view(transcript)
    counted = await store.sessions.by_id(session.id)
    assert counted is not None
    assert counted.message_count == sum(entry.kind is EntryKind.MESSAGE for entry in transcript)


# --- long conversations, of which a process knows what it has read


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a page held ten entries, of which the last four are always read."""
    monkeypatch.setattr("gateway.store.transcript.VIEW_PAGE_ENTRIES", 10)
    monkeypatch.setattr("gateway.store.transcript._BACKWARDS", transcript._BACKWARDS.limit(10))
    monkeypatch.setattr("gateway.store.transcript.NEWEST_ENTRIES", 4)


async def talked(store: Store, first: int, last: int) -> Session:
    """So many turns of two entries each."""
    sessions = [await talk(store, SHARED_GROUP, f"word {number}", number=number) for number in range(first, last)]
    return sessions[-1]


async def changed(store: Store, which: Any, **values: object) -> None:
    """Change entries as some part of the store would."""
    await store.database.write(lambda connection: connection.execute(update(entries).where(which).values(**values)))


async def agreed(store: Store, session_id: str, *, chars_max: int = 10_000) -> list[str]:
    """The texts that a process which knows the conversation shows; they are those that a new process would read."""
    shown = (await store.transcript.prompt_start(session_id, SHARED_GROUP, PromptQuery(chars_max))).view
    whole = await store.transcript.view(session_id)
    assert list(shown.entries) == list(whole)[-len(shown.entries) :]
    assert not shown.is_whole or len(shown.entries) == len(whole)
    assert sum(len(entry.text) for entry in shown.entries) >= min(chars_max, sum(len(entry.text) for entry in whole))
    return [entry.text for entry in shown.entries]


@pytest.mark.usefixtures("small")
async def test_a_history_that_is_known_is_not_read_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    session = await talked(store, 1, 30)
    assert len(await agreed(store, session.id)) == 58
    await talked(store, 30, 32)
    rows: list[int] = []
    to_entry = transcript.to_entry

    def counted(row: Any) -> Entry:
        rows.append(row[1])
        return to_entry(row)

    monkeypatch.setattr(transcript, "to_entry", counted)
    start = await store.transcript.prompt_start(session.id, SHARED_GROUP, PromptQuery(10_000))
    assert len(start.view.entries) == 62
    assert sorted(rows) == list(range(55, 63))


@pytest.mark.usefixtures("small")
async def test_what_is_known_follows_every_change(store: Store) -> None:
    """Undoing far back, erasing an author, a compaction, and one that is undone."""
    session = await talked(store, 1, 30)
    await agreed(store, session.id)
    await talked(store, 30, 31)
    await changed(store, entries.c.seq == 7, is_undone=True)
    assert "Ann: word 4" not in await agreed(store, session.id)
    await changed(store, entries.c.seq == 9, author="")
    assert "Ann: word 5" in await agreed(store, session.id)
    await talked(store, 31, 33)
    await store.transcript.append_compaction(
        session.id, fence=32, key=SHARED_GROUP, entry=summary("so far", tail_start_seq=31)
    )
    assert (await agreed(store, session.id))[:2] == ["so far", "Ann: word 16"]
    await talked(store, 33, 34)
    assert (await agreed(store, session.id))[:2] == ["so far", "Ann: word 16"]
    await changed(store, entries.c.kind == "compaction", is_undone=True)
    assert (await agreed(store, session.id))[0] == "Ann: word 1"


@pytest.mark.usefixtures("small")
async def test_a_view_stays_as_small_as_it_is_asked_for(store: Store) -> None:
    session = await talked(store, 1, 30)
    for number in range(30, 60):
        await talked(store, number, number + 1)
        shown = await agreed(store, session.id, chars_max=300)
        assert sum(map(len, shown)) < 300 + 10 * 12
