"""The shelf of the answer cache, on SQLite and PostgreSQL: only one's own, only for a while, only so many."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from gateway.contracts.budgets import Amounts, Caps, Reservation
from gateway.contracts.ids import SessionKey
from gateway.contracts.memory import CachedQuestion, Embedding
from gateway.contracts.messages import CleanText
from gateway.store import Store
from tests.contract.store_samples import ANN, ANN_IN_GROUP, BOB, SHARED_GROUP

NOW_MS: Final = 1_000_000
TTL_S: Final = 100
MEANING: Final = Embedding("m", (1.0, 0.0))
QUESTION: Final = CachedQuestion(ANN, "circumstances", "asked", "guard", "words", embedding=MEANING)


async def keep(
    store: Store, question: CachedQuestion, text: str, *, now_ms: int = NOW_MS, owner_max: int = 99, all_max: int = 99
) -> None:
    await store.answers.put(
        question,
        CleanText(text),
        recalled="r",
        now_ms=now_ms,
        ttl_s=TTL_S,
        owner_max=owner_max,
        all_max=all_max,
    )


async def found(store: Store, question: CachedQuestion, *, now_ms: int = NOW_MS) -> str | None:
    kept = await store.answers.find(question, now_ms=now_ms)
    return None if kept is None else kept.text


async def like(store: Store, question: CachedQuestion) -> list[str]:
    return [kept.text for kept in await store.answers.like(question, now_ms=NOW_MS, limit=9)]


async def test_an_answer_is_found_as_it_was_kept(store: Store) -> None:
    await keep(store, QUESTION, "old")
    await keep(store, QUESTION, "new\x00")
    kept = await store.answers.find(QUESTION, now_ms=NOW_MS)
    assert kept is not None
    assert (kept.text, kept.recalled, kept.embedding) == ("new\ufffd", "r", MEANING)


@pytest.mark.parametrize("stranger", [BOB, ANN_IN_GROUP, SHARED_GROUP, SessionKey("telegram", "12")])
async def test_nobody_else_finds_it_nor_the_same_user_elsewhere(store: Store, stranger: SessionKey) -> None:
    await keep(store, QUESTION, "mine")
    theirs = replace(QUESTION, key=stranger)
    assert await found(store, theirs) is None
    assert await like(store, replace(theirs, asked="a", words="w")) == []
    kept = await store.answers.find(QUESTION, now_ms=NOW_MS)
    assert kept is not None
    await store.answers.use(theirs, kept.id, now_ms=NOW_MS + 1)
    assert await store.answers.forget(stranger.owner) == (1 if stranger is ANN_IN_GROUP else 0)


async def test_other_circumstances_are_another_question(store: Store) -> None:
    await keep(store, QUESTION, "mine")
    assert await found(store, replace(QUESTION, circumstances="others")) is None
    assert await like(store, replace(QUESTION, circumstances="others", words="w")) == []


async def test_an_answer_lives_as_long_as_it_may_however_often_it_is_given(store: Store) -> None:
    await keep(store, QUESTION, "mine")
    kept = await store.answers.find(QUESTION, now_ms=NOW_MS)
    assert kept is not None
    await store.answers.use(QUESTION, kept.id, now_ms=NOW_MS + TTL_S * 1000 - 1)
    assert await found(store, QUESTION, now_ms=NOW_MS + TTL_S * 1000 - 1) == "mine"
    assert await found(store, QUESTION, now_ms=NOW_MS + TTL_S * 1000) is None


async def test_like_ones_share_guard_and_model_and_are_not_the_same_words(store: Store) -> None:
    await keep(store, QUESTION, "mine")
    other = replace(QUESTION, asked="other", words="other")
    assert await like(store, other) == ["mine"]
    assert await like(store, replace(other, words=QUESTION.words)) == []
    assert await like(store, replace(other, guard="other")) == []
    assert await like(store, replace(other, embedding=Embedding("another", (1.0, 0.0)))) == []
    assert await like(store, replace(other, embedding=None)) == []


async def test_of_an_owner_those_are_kept_that_were_used_last(store: Store) -> None:
    questions = [replace(QUESTION, asked=f"q{number}") for number in range(4)]
    await keep(store, replace(QUESTION, key=BOB), "his")
    for number, question in enumerate(questions[:3]):
        await keep(store, question, f"a{number}", now_ms=NOW_MS + number)
    first = await store.answers.find(questions[0], now_ms=NOW_MS)
    assert first is not None
    await store.answers.use(questions[0], first.id, now_ms=NOW_MS + 10)
    await keep(store, questions[3], "a3", now_ms=NOW_MS + 11, owner_max=3)
    assert [await found(store, question) for question in questions] == ["a0", None, "a2", "a3"]
    assert await found(store, replace(QUESTION, key=BOB)) == "his"


async def test_of_all_no_more_are_kept_than_there_is_room_for(store: Store) -> None:
    for number in range(5):
        await keep(store, replace(QUESTION, key=SessionKey("telegram", f"{number}")), f"a{number}", all_max=3)
    answers = [await found(store, replace(QUESTION, key=SessionKey("telegram", f"{number}"))) for number in range(5)]
    assert answers == [None, None, "a2", "a3", "a4"]


async def test_what_has_expired_goes(store: Store) -> None:
    await keep(store, QUESTION, "mine")
    await keep(store, replace(QUESTION, asked="later"), "later", now_ms=NOW_MS + TTL_S * 1000)
    assert await store.answers.forget(ANN) == 1


async def test_forgetting_takes_all_of_an_owner(store: Store) -> None:
    await keep(store, QUESTION, "mine")
    await keep(store, replace(QUESTION, key=ANN_IN_GROUP), "mine, too")
    await keep(store, replace(QUESTION, key=BOB), "his")
    assert await store.answers.forget(ANN) == 2
    assert await found(store, QUESTION) is None
    assert await found(store, replace(QUESTION, key=BOB)) == "his"


async def test_erasing_a_person_takes_the_answers_and_the_spending_along(store: Store) -> None:
    """And nothing of anybody else's, nor the pot's."""
    await keep(store, QUESTION, "mine")
    await keep(store, replace(QUESTION, key=BOB), "his")
    for owner in (ANN, BOB):
        claim = Reservation(f"r-{owner}", owner, 0, 10, 0, NOW_MS + 1, f"t-{owner}", begins_turn=True)
        await store.spending.reserve(claim, own=Caps(turns=9), pot=Caps(tokens=99), now_ms=NOW_MS)
    erased = await store.people.erase(ANN)
    assert {name: erased[name] for name in ("answers", "spending", "reservations", "counted_turns")} == {
        "answers": 1,
        "spending": 1,
        "reservations": 1,
        "counted_turns": 1,
    }
    assert await store.spending.spent(ANN, 0, now_ms=NOW_MS) is None
    assert await store.spending.spent(BOB, 0, now_ms=NOW_MS) == Amounts(tokens=10, turns=1)
    assert await found(store, replace(QUESTION, key=BOB)) == "his"
