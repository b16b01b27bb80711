"""Taking turns back, on SQLite and PostgreSQL: out of every view, never out of the transcript."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.sessions import Entry, EntryKind, Role, Session, TurnSaid, Undo
from gateway.store import Store
from tests.contract.store_samples import ANN, ANN_IN_GROUP, BOB, begin, outcome, says, summary, talk
from tests.parts.effects import apply_effects

_users = count(1)


async def undo(store: Store, key: SessionKey, *, turns: int = 1) -> Session:
    """What /undo does."""
    session = await store.sessions.current(key)
    assert session is not None
    newest = await store.transcript.newest_turns(session.id, limit=turns)
    return await apply_effects(store, key, [Undo(newest[-1].first_seq)], now_ms=9_000)


async def texts(store: Store, session: Session) -> list[str]:
    return [entry.text for entry in await store.transcript.view(session.id)]


async def test_the_newest_turns_are_listed_newest_first(store: Store) -> None:
    session, *_ = [await talk(store, ANN, f"q{number}", number=number) for number in range(1, 4)]
    assert await store.transcript.newest_turns(session.id, limit=2) == [
        TurnSaid(5, CleanText("q3")),
        TurnSaid(3, CleanText("q2")),
    ]
    assert await store.transcript.newest_turns(session.id, limit=0) == []


async def test_a_batch_and_what_joined_it_are_one_turn(store: Store) -> None:
    """However many messages it answered, and wherever the model read them."""
    first = await talk(store, ANN, "before", number=1)
    messages = [says(ANN, "one", id_="m1"), says(ANN, "two", id_="m2")]
    start = await begin(store, "t2", messages, fence=2)
    late = says(ANN, "three", id_="m3")
    (joined,) = await store.turns.join(turn_id="t2", key=ANN, fence=2, messages=[late], now_ms=1_600)
    done = outcome(start, "t2", [*messages, late], fence=2)
    steps = (Entry(Role.ASSISTANT, CleanText("wait")), joined, Entry(Role.ASSISTANT, CleanText("fine")))
    await store.turns.commit(replace(done, entries=steps))
    assert [turn.text for turn in await store.transcript.newest_turns(first.id, limit=9)] == ["one", "before"]
    assert await texts(store, await undo(store, ANN)) == ["before", "re: before"]


async def test_what_is_undone_stays_in_the_transcript_and_out_of_the_sums(store: Store) -> None:
    for number in range(1, 4):
        await talk(store, ANN, f"q{number}", number=number)
    session = await undo(store, ANN, turns=2)
    assert await texts(store, session) == ["q1", "re: q1"]
    kept = await store.transcript.page(session.id)
    assert [entry.is_undone for entry in kept] == [False, False, True, True, True, True]
    assert (session.message_count, session.prompt_tokens, session.prompt_seq) == (2, 0, 0)
    later = await talk(store, ANN, "q4", number=4)
    assert (later.message_count, await texts(store, later)) == (4, ["q1", "re: q1", "q4", "re: q4"])


async def test_what_was_spent_stays_spent(store: Store) -> None:
    before = await talk(store, ANN, "q1", number=1)
    after = await undo(store, ANN)
    assert (after.tokens, after.cost_usd) == (before.tokens, before.cost_usd)


async def test_undo_across_a_boundary_restores_the_head(store: Store) -> None:
    """The summary that was made in the turn, or after it, goes with it."""
    session, *_ = [await talk(store, ANN, f"q{number}", number=number) for number in range(1, 4)]
    await store.transcript.append_compaction(session.id, fence=3, key=ANN, entry=summary("so far", tail_start_seq=7))
    assert await texts(store, session) == ["so far"]
    assert await texts(store, await undo(store, ANN)) == ["q1", "re: q1", "q2", "re: q2"]


async def test_undo_past_the_second_boundary_brings_the_first_one_back(store: Store) -> None:
    session = await talk(store, ANN, "q1", number=1)
    await store.transcript.append_compaction(session.id, fence=1, key=ANN, entry=summary("first", tail_start_seq=3))
    await talk(store, ANN, "q2", number=2)
    await store.transcript.append_compaction(session.id, fence=2, key=ANN, entry=summary("second", tail_start_seq=6))
    await talk(store, ANN, "q3", number=3)
    assert await texts(store, await undo(store, ANN)) == ["second"]
    assert await texts(store, await undo(store, ANN)) == ["first"]
    assert await texts(store, await undo(store, ANN)) == []
    assert await store.transcript.newest_turns(session.id, limit=1) == []


async def test_undo_is_of_one_key_and_one_session(store: Store) -> None:
    """The same numbers in another place, or of another person, are nobody's business."""
    for key in (ANN, BOB, ANN_IN_GROUP):
        await talk(store, key, f"{key} speaks", number=1)
    await undo(store, ANN)
    for key in (BOB, ANN_IN_GROUP):
        session = await store.sessions.current(key)
        assert session is not None
        assert await texts(store, session) == [f"{key} speaks", f"re: {key} speaks"]
        assert session.message_count == 2


async def test_an_undone_message_is_answered_for_ever(store: Store) -> None:
    """Delivered once more by its platform, it is neither answered nor stored again."""
    await talk(store, ANN, "q1", number=1)
    await undo(store, ANN)
    again = await begin(store, "later", [says(ANN, "q1", id_=f"{ANN}#1")], fence=2)
    assert again.fresh_ids == frozenset()


SAY, COMPACT, UNDO = "say", "compact", "undo"


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=st.lists(st.sampled_from([SAY, SAY, COMPACT, UNDO]), min_size=1, max_size=14))
async def test_an_undo_is_as_if_the_turn_had_never_been(store: Store, history: list[str]) -> None:
    """The view after any history is the view that the turns and summaries that are left would give."""
    key = SessionKey("telegram", f"undo-{next(_users)}")
    views: list[list[str]] = [[]]  # before each turn that is in force, and now
    session = await talk(store, key, "q0", number=1)
    views.append(await texts(store, session))
    for number, step in enumerate(history, start=2):
        if step == SAY:
            await talk(store, key, f"q{number}", number=number)
            views.append(await texts(store, session))
        elif step == COMPACT:
            last_seq = (await store.transcript.page(session.id))[-1].seq
            said = [turn for turn in range(2, number) if history[turn - 2] == SAY]
            entry = summary(f"summary {number}", tail_start_seq=last_seq + 1)
            await store.transcript.append_compaction(session.id, fence=(said or [1])[-1], key=key, entry=entry)
            views[-1] = await texts(store, session)
        elif len(views) > 1:
            await undo(store, key)
            views.pop()
        assert await texts(store, session) == views[-1]
    kinds = [entry.kind for entry in await store.transcript.view(session.id)]
    assert EntryKind.COMPACTION not in kinds[1:]
