"""Facts, on SQLite and PostgreSQL: kept once, found in many languages, and by nobody but their owner."""

from __future__ import annotations

from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText
from gateway.store import SqlStore
from tests.contract.store_samples import ANN, ANN_IN_GROUP, BOB, SHARED_GROUP


async def remember(store: SqlStore, owner: SessionKey, *texts: str) -> None:
    for moment, text in enumerate(texts):
        await store.memories.remember(owner, CleanText(text), now_ms=moment)


async def test_a_fact_is_returned_as_it_was_kept(store: SqlStore) -> None:
    fact = (await store.memories.remember(ANN, CleanText("My dog's name is Rex"), now_ms=7)).fact
    assert (fact.key, fact.text, fact.created_at_ms) == (ANN, "My dog's name is Rex", 7)
    assert await store.memories.recall(ANN, "dog", limit=5) == [fact]


async def test_a_fact_told_twice_is_one_fact(store: SqlStore) -> None:
    """A turn that is run again after a crash runs its tools again."""
    first = await store.memories.remember(ANN, CleanText("Rex is a dog"), now_ms=1)
    assert await store.memories.remember(ANN, CleanText("Rex is a dog"), now_ms=2) == first
    assert (await store.memories.remember(BOB, CleanText("Rex is a dog"), now_ms=3)).fact.id != first.fact.id


ANSWERS = {
    "dogs": "My dog is called Rex",
    "DOG": "My dog is called Rex",
    "rex": "My dog is called Rex",
    "what is the birthday of my sister": "My sister's birthday is in May",
    "собака": "Мою собаку зовут Рекс",
    "кошки": "Моя кошка любит рыбу",
    "еж": "Ёж живёт в саду",
    "北京": "我住在北京市",
    "猫": "我的猫叫咪咪",
    "寿司": "私は寿司が好きです",
    "김치": "김치를 좋아해요",
    "cafe": "We meet at Café Müller",
    "4711": "The door code is 4711",
    "47110": "The old door code was 47110",
}
"""What a question finds first, among all of these."""


async def test_facts_are_found_in_the_languages_people_write(store: SqlStore) -> None:
    await remember(store, ANN, *ANSWERS.values())
    assert {question: (await store.memories.recall(ANN, question, limit=3))[0].text for question in ANSWERS} == ANSWERS


async def test_the_best_match_comes_first(store: SqlStore) -> None:
    await remember(store, ANN, "The car is red", "The dog is red", "The dog is brown and the car is fast")
    texts = [fact.text for fact in await store.memories.recall(ANN, "which colour has the red dog", limit=2)]
    assert texts[0] == "The dog is red"
    assert len(texts) == 2


async def test_the_exact_word_beats_its_relative(store: SqlStore) -> None:
    await remember(store, ANN, "She is a teacher", "Teach me to sail")
    assert (await store.memories.recall(ANN, "teach", limit=5))[0].text == "Teach me to sail"


async def test_no_question_gives_the_newest(store: SqlStore) -> None:
    await remember(store, ANN, "one", "two", "three")
    assert [fact.text for fact in await store.memories.recall(ANN, "  ", limit=2)] == ["three", "two"]


async def test_nothing_that_matches_is_nothing(store: SqlStore) -> None:
    await remember(store, ANN, "one", "two")
    assert await store.memories.recall(ANN, "submarine", limit=5) == []
    assert await store.memories.recall(ANN, "?!", limit=5) == []
    assert await store.memories.recall(ANN, "one", limit=0) == []


async def test_facts_are_private(store: SqlStore) -> None:
    """Not even a key that begins like another's, or a place of the same user, sees them."""
    await remember(store, ANN, "the secret is 42")
    for stranger in (BOB, ANN_IN_GROUP, SHARED_GROUP, SessionKey("telegram", "12"), SessionKey("telegram", "1-1")):
        for question in ("secret", "", "the", "telegram 1", "telegram"):
            assert await store.memories.recall(stranger, question, limit=9) == []


ATTEMPTS = (
    'dog" OR owner : "telegram',
    "dog AND NOT cat",
    "NEAR(dog cat, 2)",
    "dog* ^dog {terms} : x",
    "(((",
    "'dog' & | ! <-> \\",
    "terms:dog",
    '"',
    "'; DROP TABLE facts; --",
    "\x00 dog",
    "\ud83d dog",
    "%dog_",
    "dog " * 5_000,
    "d" * 100_000,
    " ".join(f"word{number}" for number in range(5_000)),
)


async def test_a_question_is_never_read_as_syntax(store: SqlStore) -> None:
    """It finds what its words find, or nothing; it never fails and never changes whose facts are searched."""
    await remember(store, ANN, "my dog and my cat")
    await remember(store, BOB, "his dog and his cat")
    for question in ATTEMPTS:
        found = [fact.text for fact in await store.memories.recall(ANN, question, limit=9)]
        assert found == (["my dog and my cat"] if "dog" in question else []), question


async def test_a_very_long_fact_is_kept_and_found(store: SqlStore) -> None:
    text = "needle " + " ".join(f"w{number}" for number in range(20_000)) + " " + "x" * 10_000
    fact = (await store.memories.remember(ANN, CleanText(text), now_ms=1)).fact
    assert await store.memories.recall(ANN, "needles", limit=1) == [fact]


async def test_strange_but_legal_owners_are_kept_apart(store: SqlStore) -> None:
    quoted, other = SessionKey("cli", 'a"b'), SessionKey("cli", "a'b")
    await remember(store, quoted, "double")
    await remember(store, other, "single")
    assert [fact.text for fact in await store.memories.recall(quoted, "double single", limit=9)] == ["double"]
    assert [fact.text for fact in await store.memories.recall(other, "double single", limit=9)] == ["single"]
