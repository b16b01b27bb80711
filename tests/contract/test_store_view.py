"""The view of any history is what its definition says, whatever was compacted when."""

from __future__ import annotations

from itertools import count

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.contracts.ids import SessionKey
from gateway.contracts.sessions import Entry, EntryKind
from gateway.store import Store
from tests.contract.store_samples import summary, talk

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
