"""What was said in earlier sessions, and what memory has to go through, on SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from gateway.contracts.ids import SessionKey
from gateway.contracts.memory import Boundary, Embedding, Snippet, Vector
from gateway.contracts.messages import CleanText
from gateway.contracts.sessions import Effect, EntryKind, OpenSession, ResumeSession, Role, Session, TurnState
from gateway.limits import BOUNDARIES_KEPT_H, PASSAGES_INDEXED_AT_ONCE
from gateway.store import Store
from gateway.store.tables import entries
from tests.contract.store_samples import (
    ANN,
    ANN_IN_GROUP,
    BOB,
    SHARED_GROUP,
    answer,
    begin,
    outcome,
    says,
    summary,
    talk,
)
from tests.contract.test_store_facts import ATTEMPTS
from tests.parts.effects import apply_effects

CLAIM_MS = 60_000


async def leave(store: Store, key: SessionKey, *, now_ms: int = 5_000) -> Session:
    """/new, and memory goes through all that is due."""
    session = await apply_effects(store, key, [OpenSession()], now_ms=now_ms)
    while (boundary := await claim(store, key, now_ms=now_ms)) is not None:
        await store.memories.index(boundary)
        await store.memories.finish_boundary(boundary, now_ms=now_ms)
    return session


async def claim(store: Store, key: SessionKey | None = ANN, *, now_ms: int = 5_000) -> Boundary | None:
    return await store.memories.claim_boundary(key, now_ms=now_ms, for_ms=CLAIM_MS)


async def found(
    store: Store, key: SessionKey, said: str, *, limit: int = 5, near: Embedding | None = None
) -> list[Snippet]:
    current = await store.sessions.current(key)
    recollection = await store.memories.recollect(
        key, said, but_session_id=current.id if current else "", known_max=0, facts_max=5, snippets_max=limit, near=near
    )
    return list(recollection.snippets)


async def words(store: Store, key: SessionKey, said: str) -> list[str]:
    """What the user himself said."""
    return [snippet.text for snippet in await found(store, key, said) if snippet.role is Role.USER]


async def ended(store: Store, key: SessionKey, number: int, *effects: Effect) -> bool:
    """One more turn of the key; whether its commit tells of anything to go through."""
    said, turn_id = [says(key, "on", id_=f"{key}#{number}")], f"turn-{key}-{number}"
    start = await begin(store, turn_id, said, fence=number)
    return (await store.turns.commit(outcome(start, turn_id, said, fence=number, effects=effects))).has_boundary


async def test_a_commit_tells_whether_anything_of_its_key_is_to_be_gone_through(store: Store) -> None:
    """What the turn itself has left, and one before it; nothing of somebody else's."""
    assert not await ended(store, ANN, 1)
    assert await ended(store, ANN, 2, OpenSession())
    assert await ended(store, ANN, 3)
    assert not await ended(store, BOB, 1)
    boundary = await claim(store)
    assert boundary is not None
    await store.memories.finish_boundary(boundary, now_ms=6_000)
    assert not await ended(store, ANN, 4)


# --- finding


async def test_what_was_said_in_an_earlier_session_is_found(store: Store) -> None:
    first = await talk(store, ANN, "the boiler man comes on Thursday", number=1)
    assert await words(store, ANN, "boiler") == [], "the current session stands in the prompt"
    await leave(store, ANN)
    snippets = await found(store, ANN, "What was it with the boiler?")
    assert {(snippet.session_id, snippet.role, snippet.text) for snippet in snippets} == {
        (first.id, Role.USER, "the boiler man comes on Thursday"),
        (first.id, Role.ASSISTANT, "re: the boiler man comes on Thursday"),
    }
    assert await words(store, ANN, "what was it, when is it, who are you?") == [], "words of every sentence"


async def test_what_was_said_belongs_to_its_key(store: Store) -> None:
    """Not to its owner: what was said in a direct message is found in no group, and the other way round."""
    for key in (ANN, ANN_IN_GROUP, BOB, SHARED_GROUP):
        await talk(store, key, f"the canary of {key}", number=1)
    for key in (ANN, ANN_IN_GROUP, BOB, SHARED_GROUP):
        await leave(store, key)
    for key in (ANN, ANN_IN_GROUP, BOB, SHARED_GROUP):
        assert [text.removeprefix("Ann: ") for text in await words(store, key, "canary")] == [f"the canary of {key}"]
    for stranger in (
        SessionKey("telegram", "12"),
        SessionKey("telegram", "1", ("-1001",)),
        SessionKey("telegram", "-1"),
    ):
        assert await words(store, stranger, "canary telegram 1 100") == []


async def test_a_message_is_never_read_as_syntax(store: Store) -> None:
    """It finds what its words find, or nothing; it never fails and never changes whose words are searched."""
    await talk(store, ANN, "my dog and my cat", number=1)
    await talk(store, BOB, "his dog and his cat", number=1)
    await leave(store, ANN)
    await leave(store, BOB)
    for said in ATTEMPTS:
        assert await words(store, ANN, said) == (["my dog and my cat"] if "dog" in said else []), said


async def test_only_what_people_and_the_assistant_said_is_found(store: Store) -> None:
    """No tool results, notes or summaries, and nothing that was undone, before or after it was indexed."""
    message = says(ANN, "needle of the user", id_="m1")
    start = await begin(store, "t1", [message])
    said = [
        answer("needle of the assistant"),
        answer("needle that was undone"),
        replace(answer("needle of a tool"), role=Role.TOOL),
        replace(answer("needle of a note"), role=Role.USER, kind=EntryKind.NOTE),
    ]
    await store.turns.commit(replace(outcome(start, "t1", [message]), entries=tuple(said)))
    await store.transcript.append_compaction(
        start.session.id, fence=1, key=ANN, entry=summary("needle of a summary", tail_start_seq=2)
    )
    await leave(store, ANN)
    undo = entries.update().where(entries.c.text == "needle that was undone").values(is_undone=True)
    await store.database.write(lambda connection: connection.execute(undo))
    texts = sorted(snippet.text for snippet in await found(store, ANN, "needle"))
    assert texts == ["needle of the assistant", "needle of the user"]


async def test_what_was_said_twice_is_told_once_and_the_best_comes_first(store: Store) -> None:
    for number, text in enumerate(("the red car", "The red car!", "the red bicycle is fast", "a blue car")):
        await talk(store, ANN, text, number=number)
    await leave(store, ANN)
    assert (await words(store, ANN, "which bicycle is red"))[0] == "the red bicycle is fast"
    assert len([text for text in await words(store, ANN, "red car") if "ed car" in text]) == 1
    assert len(await found(store, ANN, "red car bicycle fine", limit=2)) == 2
    assert await found(store, ANN, "red", limit=0) == []


async def test_a_long_session_is_indexed_page_by_page_and_again_without_harm(store: Store) -> None:
    start = await begin(store, "t1", [says(ANN, "first", id_="m1")])
    many = tuple(answer(f"needle{number}") for number in range(2 * PASSAGES_INDEXED_AT_ONCE + 3))
    await store.turns.commit(
        replace(outcome(start, "t1", [says(ANN, "first", id_="m1")]), entries=many, state=TurnState.DONE)
    )
    await apply_effects(store, ANN, [OpenSession()], now_ms=5_000)
    boundary = await claim(store)
    assert boundary is not None
    assert boundary == Boundary(start.session.id, ANN, 0, len(many) + 1)
    await asyncio.gather(store.memories.index(boundary), store.memories.index(boundary))
    assert [snippet.text for snippet in await found(store, ANN, many[-1].text)] == [many[-1].text]


async def embed(store: Store, boundary: Boundary, vector_of: Callable[[str], Vector]) -> list[str]:
    """Have a model see what was said in a boundary, and return what it has seen."""
    texts = await store.memories.passages_without_vector(boundary, "m", after_id=0, limit=99)
    vectors = {id_: vector_of(text) for id_, text in texts.items()}
    await store.memories.put_passage_vectors(boundary.key, "m", vectors)
    return list(texts.values())


async def test_what_stands_out_by_its_meaning_is_found(store: Store) -> None:
    """What is too short to mean anything is not embedded; nobody else finds it, nor another model."""
    for number in range(1, 13):
        await talk(store, ANN, f"the invoice of month {number} is paid", number=number)
    await talk(store, ANN, "never give me almonds or walnuts", number=13)
    await talk(store, ANN, "ok then", number=14)
    await apply_effects(store, ANN, [OpenSession()], now_ms=5_000)
    boundary = await claim(store)
    assert boundary is not None
    await store.memories.index(boundary)
    assert not await store.memories.has_vectors(ANN, "m")
    seen = await embed(store, boundary, lambda text: (1.0, 0.1) if text.startswith("never") else (0.1, 1.0))
    assert "never give me almonds or walnuts" in seen
    assert "ok then" not in seen
    assert await embed(store, boundary, lambda _text: (1.0, 0.0)) == [], "each is seen once"
    assert await store.memories.has_vectors(ANN, "m")
    asked = Embedding("m", (2.0, 0.0))
    assert [snippet.text for snippet in await found(store, ANN, "bake me a cake", near=asked)] == [
        "never give me almonds or walnuts"
    ]
    assert await found(store, ANN, "bake me a cake", near=Embedding("another", (2.0, 0.0))) == []
    assert await found(store, ANN, "bake me a cake", near=Embedding("m", (2.0, 0.0, 1.0))) == []
    for stranger in (BOB, ANN_IN_GROUP, SHARED_GROUP):
        assert await found(store, stranger, "bake me a cake", near=asked) == []
        assert not await store.memories.has_vectors(stranger, "m")
    await store.memories.forget_all(ANN)
    assert not await store.memories.has_vectors(ANN, "m")


async def test_facts_and_earlier_words_come_together(store: Store) -> None:
    await talk(store, ANN, "the dog ate the cake", number=1)
    await leave(store, ANN)
    await store.memories.remember(ANN, CleanText("My dog is called Rex"), now_ms=1)
    recollection = await store.memories.recollect(
        ANN, "dogs", but_session_id="", known_max=0, facts_max=5, snippets_max=5
    )
    assert [fact.text for fact in recollection.facts] == ["My dog is called Rex"]
    assert "the dog ate the cake" in [snippet.text for snippet in recollection.snippets]


async def test_forgetting_everything_empties_the_index(store: Store) -> None:
    """In a direct message of all that was said, in a group of what was said there; what waits is skipped."""
    for key in (ANN, ANN_IN_GROUP, BOB):
        await talk(store, key, "the canary sings", number=1)
        await leave(store, key)
        await talk(store, key, "the canary sleeps", number=2)
        await apply_effects(store, key, [OpenSession()], now_ms=6_000)
    await store.memories.forget_all(ANN_IN_GROUP)
    assert await claim(store, ANN_IN_GROUP, now_ms=7_000) is None
    assert await words(store, ANN_IN_GROUP, "canary") == []
    assert await words(store, ANN, "canary") == ["the canary sings"]
    await store.memories.forget_all(ANN)
    assert await claim(store, ANN, now_ms=7_000) is None
    assert await words(store, ANN, "canary") == []
    assert await words(store, BOB, "canary") == ["the canary sings"]
    assert await claim(store, BOB, now_ms=7_000) is not None


# --- boundaries


async def test_each_end_of_a_view_is_gone_through_once(store: Store) -> None:
    """A compaction covers what it condensed, the end of the session the rest; nothing is covered twice or missed."""
    session = await talk(store, ANN, "one", number=1)
    await talk(store, ANN, "two", number=2)
    await store.transcript.append_compaction(session.id, fence=2, key=ANN, entry=summary("so far", tail_start_seq=3))
    await store.transcript.append_compaction(session.id, fence=2, key=ANN, entry=summary("so far", tail_start_seq=3))
    first = await claim(store)
    assert first == Boundary(session.id, ANN, 0, 2)
    await store.memories.finish_boundary(first, now_ms=5_001)
    assert await claim(store) is None
    await apply_effects(store, ANN, [OpenSession()], now_ms=5_002)
    assert await claim(store, now_ms=5_003) == Boundary(session.id, ANN, 2, 6)
    assert await claim(store, now_ms=5_003) is None


async def test_an_empty_session_leaves_no_boundary(store: Store) -> None:
    await apply_effects(store, ANN, [OpenSession(), OpenSession()], now_ms=5_000)
    assert await claim(store, now_ms=5_001) is None


async def test_of_many_who_come_at_once_one_gets_it(store: Store) -> None:
    await talk(store, ANN, "one", number=1)
    await apply_effects(store, ANN, [OpenSession()], now_ms=5_000)
    claimed = await asyncio.gather(*(claim(store, now_ms=5_001) for _ in range(8)))
    assert len([boundary for boundary in claimed if boundary]) == 1


async def test_what_a_dead_process_left_is_tried_once_more(store: Store) -> None:
    await talk(store, ANN, "one", number=1)
    await apply_effects(store, ANN, [OpenSession()], now_ms=5_000)
    assert await claim(store, BOB, now_ms=5_001) is None, "not by another key"
    assert await claim(store, None, now_ms=5_001) is not None
    assert await claim(store, None, now_ms=5_001 + CLAIM_MS) is None, "still in work"
    assert await claim(store, None, now_ms=5_002 + CLAIM_MS) is not None
    assert await claim(store, None, now_ms=9_999 + 2 * CLAIM_MS) is None, "it kills whoever touches it"


async def test_what_was_left_long_ago_is_let_be(store: Store) -> None:
    """Memory that is switched on after a year does not read that year."""
    await talk(store, ANN, "one", number=1)
    await apply_effects(store, ANN, [OpenSession()], now_ms=5_000)
    assert await claim(store, None, now_ms=5_001 + BOUNDARIES_KEPT_H * 3_600_000) is None


async def test_what_was_resumed_is_gone_through_from_where_it_was_left(store: Store) -> None:
    first = await talk(store, ANN, "one", number=1)
    await leave(store, ANN)
    await apply_effects(store, ANN, [ResumeSession(first.number)], now_ms=6_000)
    await talk(store, ANN, "two", number=2)
    await apply_effects(store, ANN, [OpenSession()], now_ms=7_000)
    assert await claim(store, now_ms=7_001) == Boundary(first.id, ANN, 2, 4)
