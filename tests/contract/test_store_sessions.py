"""Sessions, titles, sums and lists, on SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.contracts.errors import Fenced, StoreError
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.sessions import Effect, OpenSession, Session, SessionStatus, SetProfile, SetTitle, UsagePurpose
from gateway.store import Store
from tests.contract.store_samples import ANN, ANN_IN_GROUP, BOB, bare, begin, call, outcome, says, summary, talk
from tests.parts.effects import apply_effects


async def test_a_stranger_has_no_session(store: Store) -> None:
    assert await store.sessions.current(ANN) is None
    assert await store.sessions.by_id("01ARZ3NDEKTSV4RRFFQ69G5FAV") is None
    assert await store.sessions.page(key=ANN) == []
    assert await store.transcript.view("01ARZ3NDEKTSV4RRFFQ69G5FAV") == []


async def test_new_closes_the_session_and_opens_the_next(store: Store) -> None:
    first = await talk(store, ANN, "hello", number=1)
    second = await apply_effects(store, ANN, [OpenSession()], now_ms=5_000)
    assert (second.number, second.is_current, second.message_count, second.created_at_ms) == (2, True, 0, 5_000)
    closed = await store.sessions.by_id(first.id)
    assert closed is not None
    assert (closed.status, closed.is_current) == (SessionStatus.CLOSED, False)
    assert await store.sessions.current(ANN) == second
    third = await talk(store, ANN, "again", number=2)
    assert third.id == second.id
    assert [entry.text for entry in await store.transcript.view(third.id)] == ["again", "re: again"]


async def test_an_effect_on_a_stranger_opens_the_first_session(store: Store) -> None:
    session = await apply_effects(store, ANN, [SetTitle(CleanText("Plans"))], now_ms=5_000)
    assert (session.number, session.title, session.is_current) == (1, "Plans", True)
    assert (await begin(store, "t1", [says(ANN, "hello", id_="m1")])).session.id == session.id


async def test_many_new_at_once_count_without_gaps(store: Store) -> None:
    await asyncio.gather(*(apply_effects(store, ANN, [OpenSession()], now_ms=n) for n in range(8)))
    sessions = await store.sessions.page(key=ANN)
    assert sorted(session.number for session in sessions) == list(range(1, 10))
    assert [session.number for session in sessions if session.is_current] == [9]
    assert [session.number for session in sessions if session.status is SessionStatus.ACTIVE] == [9]


# --- titles


async def test_the_titler_names_an_untitled_session_once(store: Store) -> None:
    session = await talk(store, ANN, "hello", number=1)
    said = CleanText("hello")
    assert await store.transcript.set_title_if_untitled(session.id, CleanText("Greetings"), made_of=said)
    assert not await store.transcript.set_title_if_untitled(session.id, CleanText("Other"), made_of=said)
    named = await store.sessions.current(ANN)
    assert named is not None
    assert named.title == "Greetings"


async def claimed(store: Store, session: Session, *, now_ms: int = 1_000) -> bool:
    return await store.sessions.claim_title(session.id, tries_max=3, held_ms=20_000, now_ms=now_ms)


async def test_the_users_title_always_wins(store: Store) -> None:
    session = await talk(store, ANN, "hello", number=1)
    assert await claimed(store, session)
    await apply_effects(store, ANN, [SetTitle(CleanText("Mine"))], now_ms=5_000)
    assert not await store.transcript.set_title_if_untitled(
        session.id, CleanText("Model's"), made_of=CleanText("hello")
    )
    await store.sessions.release_title(session.id)
    assert not await claimed(store, session)
    await apply_effects(store, ANN, [SetTitle(CleanText("Mine, too"))], now_ms=5_001)
    named = await store.sessions.by_id(session.id)
    assert named is not None
    assert (named.title, named.title_tries) == ("Mine, too", 1)


async def test_of_many_workers_at_once_one_pays_for_a_title(store: Store) -> None:
    session = await talk(store, ANN, "hello", number=1)
    won = await asyncio.gather(*(claimed(store, session) for _ in range(10)))
    assert sum(won) == 1
    counted = await store.sessions.by_id(session.id)
    assert counted is not None
    assert counted.title_tries == 1


async def test_a_title_is_tried_again_once_the_try_is_over_or_its_worker_counts_as_dead(store: Store) -> None:
    """And three times at most."""
    session = await talk(store, ANN, "hello", number=1)
    assert await claimed(store, session)
    assert not await claimed(store, session, now_ms=20_999)
    assert await claimed(store, session, now_ms=21_000)
    await store.sessions.release_title(session.id)
    assert await claimed(store, session, now_ms=21_001)
    await store.sessions.release_title(session.id)
    assert not await claimed(store, session, now_ms=900_000)


async def test_the_first_words_of_a_session_are_those_of_a_person_that_still_stand(store: Store) -> None:
    assert await store.transcript.first_said("nowhere") is None
    session = await talk(store, ANN, " ", number=1)
    assert await store.transcript.first_said(session.id) is None
    await talk(store, ANN, "plan a trip", number=2)
    await talk(store, BOB, "something else", number=3)
    await talk(store, ANN, "to Rome", number=4)
    assert await store.transcript.first_said(session.id) == "plan a trip"


async def test_a_profile_is_chosen_for_the_current_session_only(store: Store) -> None:
    session = await talk(store, ANN, "hello", number=1)
    await talk(store, BOB, "hello", number=2)
    changed = await apply_effects(store, ANN, [SetProfile("writer")], now_ms=5_000)
    assert (changed.id, changed.profile) == (session.id, "writer")
    assert (await apply_effects(store, BOB, [], now_ms=5_000)).profile == ""
    assert (await apply_effects(store, ANN, [OpenSession()], now_ms=5_001)).profile == ""


# --- sums


async def test_titles_and_compactions_are_charged_to_the_session(store: Store) -> None:
    session = await talk(store, ANN, "hello", number=1)
    title = call(ANN, 30, 5, 0.25)
    await store.sessions.charge([title, title], session_id=session.id)
    charged = await store.sessions.by_id(session.id)
    assert charged is not None
    assert (charged.tokens, charged.cost_usd) == (70, 0.5)
    assert title.purpose is UsagePurpose.TURN


async def test_charging_nothing_or_nobody(store: Store) -> None:
    await store.sessions.charge([], session_id="nobody")
    with pytest.raises(StoreError):
        await store.sessions.charge([call(ANN, 1, 1, 0.0)], session_id="nobody")


async def test_charges_made_at_once_all_count(store: Store) -> None:
    session = await talk(store, ANN, "hello", number=1)
    await asyncio.gather(*(store.sessions.charge([call(ANN, 1, 1, 0.5)], session_id=session.id) for _ in range(10)))
    charged = await store.sessions.by_id(session.id)
    assert charged is not None
    assert (charged.tokens, charged.cost_usd) == (20, 5.0)


# --- lists


async def test_lists_are_newest_first_and_pages_do_not_overlap(store: Store) -> None:
    for now_ms in (1_000, 2_000, 2_000, 3_000, 3_000):
        await apply_effects(store, ANN, [OpenSession()], now_ms=now_ms)
    await talk(store, BOB, "hello", number=1)
    everything = await store.sessions.page()
    assert [s.created_at_ms for s in everything] == sorted((s.created_at_ms for s in everything), reverse=True)
    paged = [s for offset in (0, 3, 6) for s in await store.sessions.page(limit=3, offset=offset)]
    assert paged == everything
    assert len({session.id for session in everything}) == 7
    assert [session.number for session in await store.sessions.page(key=ANN)] == [6, 5, 4, 3, 2, 1]


async def test_talking_does_not_move_a_session_between_pages(store: Store) -> None:
    old = await talk(store, ANN, "hello", number=1)
    await apply_effects(store, BOB, [OpenSession()], now_ms=9_000)
    before = [session.id for session in await store.sessions.page()]
    await talk(store, ANN, "again", number=2)
    assert [session.id for session in await store.sessions.page()] == before
    assert before[-1] == old.id


async def test_a_list_by_key_shows_that_key_only(store: Store) -> None:
    await talk(store, ANN, "hello", number=1)
    await talk(store, ANN_IN_GROUP, "hello", number=1)
    await talk(store, BOB, "hello", number=1)
    for key in (ANN, ANN_IN_GROUP, BOB):
        assert [session.key for session in await store.sessions.page(key=key)] == [key]


async def test_an_absurd_page_is_empty(store: Store) -> None:
    await talk(store, ANN, "hello", number=1)
    assert await store.sessions.page(limit=0) == []
    assert await store.sessions.page(limit=-1) == []
    assert await store.sessions.page(offset=100) == []
    assert len(await store.sessions.page(offset=-5)) == 1


# --- transcripts


async def test_a_transcript_is_read_page_by_page(store: Store) -> None:
    session, *_ = [await talk(store, ANN, f"q{number}", number=number) for number in range(1, 4)]
    first = await store.transcript.page(session.id, limit=4)
    rest = await store.transcript.page(session.id, after_seq=first[-1].seq, limit=4)
    assert [entry.text for entry in (*first, *rest)] == ["q1", "re: q1", "q2", "re: q2", "q3", "re: q3"]
    assert await store.transcript.page(session.id, after_seq=6) == []
    assert await store.transcript.page(session.id, after_seq=2**53) == []


async def test_a_transcript_is_read_from_its_end_too(store: Store) -> None:
    session, *_ = [await talk(store, ANN, f"q{number}", number=number) for number in range(1, 4)]
    last = await store.transcript.page(session.id, before_seq=2**53, limit=4)
    assert [entry.text for entry in last] == ["q2", "re: q2", "q3", "re: q3"]
    assert [entry.text for entry in await store.transcript.page(session.id, before_seq=last[0].seq, limit=4)] == [
        "q1",
        "re: q1",
    ]
    between = await store.transcript.page(session.id, after_seq=1, before_seq=5, limit=2)
    assert [entry.seq for entry in between] == [3, 4]
    assert await store.transcript.page(session.id, before_seq=1) == []


async def test_a_compaction_hides_what_it_sums_up_and_deletes_nothing(store: Store) -> None:
    session, *_ = [await talk(store, ANN, f"q{number}", number=number) for number in range(1, 4)]
    wanted = summary("we spoke of q1 and q2", tail_start_seq=5)
    stored = await store.transcript.append_compaction(session.id, fence=3, key=ANN, entry=wanted)
    assert (bare(stored), stored.seq) == (wanted, 7)
    assert [entry.text for entry in await store.transcript.view(session.id)] == [
        "we spoke of q1 and q2",
        "q3",
        "re: q3",
    ]
    assert len(await store.transcript.page(session.id)) == 7
    after = await talk(store, ANN, "q4", number=4)
    assert after.message_count == 8
    assert [entry.text for entry in await store.transcript.view(session.id)][-2:] == ["q4", "re: q4"]


async def test_the_newest_of_several_compactions_counts(store: Store) -> None:
    session = await talk(store, ANN, "q1", number=1)
    await store.transcript.append_compaction(session.id, fence=1, key=ANN, entry=summary("old", tail_start_seq=1))
    await talk(store, ANN, "q2", number=2)
    await store.transcript.append_compaction(session.id, fence=2, key=ANN, entry=summary("new", tail_start_seq=7))
    assert [entry.text for entry in await store.transcript.view(session.id)] == ["new"]


async def test_a_fenced_compaction_is_not_written(store: Store) -> None:
    session = await talk(store, ANN, "q1", number=1, fence=5)
    with pytest.raises(Fenced):
        await store.transcript.append_compaction(session.id, fence=4, key=ANN, entry=summary("late", tail_start_seq=3))
    assert len(await store.transcript.page(session.id)) == 2


async def test_a_compaction_into_a_session_of_somebody_else_is_refused(store: Store) -> None:
    await talk(store, ANN, "q1", number=1)
    foreign = await talk(store, BOB, "private", number=1)
    with pytest.raises(StoreError):
        await store.transcript.append_compaction(foreign.id, fence=1, key=ANN, entry=summary("mine", tail_start_seq=3))
    assert len(await store.transcript.page(foreign.id)) == 2


async def test_a_turn_may_be_compacted_while_it_runs(store: Store) -> None:
    messages = [says(ANN, "long story", id_="m1")]
    start = await begin(store, "t1", messages, fence=3)
    await store.transcript.append_compaction(
        start.session.id, fence=3, key=ANN, entry=summary("before", tail_start_seq=1)
    )
    session = (await store.turns.commit(outcome(start, "t1", messages, fence=3))).session
    assert [entry.text for entry in await store.transcript.view(session.id)] == ["before", "long story", "fine"]


# --- languages


async def test_a_lane_remembers_what_was_last_known_of_its_language(store: Store) -> None:
    """Over messages that show nothing and over a new conversation; another lane knows nothing of it."""

    async def spoken(key: SessionKey, number: int, language: str, *effects: Effect) -> Session:
        said = [replace(says(key, "hello", id_=f"{key}:{number}"), language=language)]
        start = await begin(store, f"{key}:t{number}", said, fence=number)
        await store.turns.commit(outcome(start, f"{key}:t{number}", said, fence=number, effects=effects))
        return start.session

    assert (await spoken(ANN, 1, "ru")).language == "ru"
    assert (await spoken(ANN, 2, "", OpenSession())).language == "ru"
    current = await store.sessions.current(ANN)
    assert current is not None
    assert (current.number, current.language) == (2, "ru")
    assert (await spoken(ANN, 3, "de")).language == "de"
    assert (await spoken(BOB, 1, "")).language == ""
