"""Facts, on SQLite and PostgreSQL: kept once, found in many languages, and by nobody but their owner."""

from __future__ import annotations

import asyncio
from math import sqrt

import pytest

from gateway.contracts.errors import MemoryFull
from gateway.contracts.ids import SessionKey
from gateway.contracts.memory import Embedding, Fact, Origin, Remembered
from gateway.contracts.messages import CleanText
from gateway.limits import FACTS_MAX
from gateway.store import Store
from gateway.store.tables import facts
from tests.contract.store_samples import ANN, ANN_IN_GROUP, BOB, SHARED_GROUP, talk


async def remember(store: Store, owner: SessionKey, *texts: str) -> None:
    for moment, text in enumerate(texts):
        await store.memories.remember(owner, CleanText(text), now_ms=moment)


async def remembered(store: Store, owner: SessionKey, text: str) -> Fact:
    return (await store.memories.remember(owner, CleanText(text), now_ms=200)).fact


async def test_a_fact_is_returned_as_it_was_kept(store: Store) -> None:
    fact = (await store.memories.remember(ANN, CleanText("My dog's name is Rex"), now_ms=7)).fact
    assert (fact.key, fact.text, fact.created_at_ms) == (ANN, "My dog's name is Rex", 7)
    assert await store.memories.recall(ANN, "dog", limit=5) == [fact]


async def test_a_fact_told_twice_is_one_fact(store: Store) -> None:
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


async def test_facts_are_found_in_the_languages_people_write(store: Store) -> None:
    await remember(store, ANN, *ANSWERS.values())
    assert {question: (await store.memories.recall(ANN, question, limit=3))[0].text for question in ANSWERS} == ANSWERS


async def test_the_best_match_comes_first(store: Store) -> None:
    await remember(store, ANN, "The car is red", "The dog is red", "The dog is brown and the car is fast")
    texts = [fact.text for fact in await store.memories.recall(ANN, "which colour has the red dog", limit=2)]
    assert texts[0] == "The dog is red"
    assert len(texts) == 2


async def test_the_exact_word_beats_its_relative(store: Store) -> None:
    await remember(store, ANN, "She is a teacher", "Teach me to sail")
    assert (await store.memories.recall(ANN, "teach", limit=5))[0].text == "Teach me to sail"


async def test_no_question_gives_the_newest(store: Store) -> None:
    await remember(store, ANN, "one", "two", "three")
    assert [fact.text for fact in await store.memories.recall(ANN, "  ", limit=2)] == ["three", "two"]


async def test_nothing_that_matches_is_nothing(store: Store) -> None:
    await remember(store, ANN, "one", "two")
    assert await store.memories.recall(ANN, "submarine", limit=5) == []
    assert await store.memories.recall(ANN, "?!", limit=5) == []
    assert await store.memories.recall(ANN, "one", limit=0) == []


async def test_facts_are_private(store: Store) -> None:
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


async def test_a_question_is_never_read_as_syntax(store: Store) -> None:
    """It finds what its words find, or nothing; it never fails and never changes whose facts are searched."""
    await remember(store, ANN, "my dog and my cat")
    await remember(store, BOB, "his dog and his cat")
    for question in ATTEMPTS:
        found = [fact.text for fact in await store.memories.recall(ANN, question, limit=9)]
        assert found == (["my dog and my cat"] if "dog" in question else []), question


async def test_a_very_long_fact_is_kept_and_found(store: Store) -> None:
    text = "needle " + " ".join(f"w{number}" for number in range(20_000)) + " " + "x" * 10_000
    fact = (await store.memories.remember(ANN, CleanText(text), now_ms=1)).fact
    assert await store.memories.recall(ANN, "needles", limit=1) == [fact]


async def test_strange_but_legal_owners_are_kept_apart(store: Store) -> None:
    quoted, other = SessionKey("cli", 'a"b'), SessionKey("cli", "a'b")
    await remember(store, quoted, "double")
    await remember(store, other, "single")
    assert [fact.text for fact in await store.memories.recall(quoted, "double single", limit=9)] == ["double"]
    assert [fact.text for fact in await store.memories.recall(other, "double single", limit=9)] == ["single"]


# --- where a fact may be read

CHANNEL, THREAD = SessionKey("slack", "U2", ("C1",)), SessionKey("slack", "U2", ("C1", "17.01"))
OTHER_CHANNEL = SessionKey("slack", "U2", ("C2",))


async def facts_of(store: Store, key: SessionKey) -> list[str]:
    return [fact.text for fact in await store.memories.recall(key, "", limit=600)]


async def test_a_fact_is_read_in_its_place_and_by_its_owner_in_private(store: Store) -> None:
    """And in threads inside of that place: who reads the thread reads the channel. Not the other way round."""
    await remember(store, BOB, "told in private")
    await remember(store, CHANNEL, "told in the channel")
    await remember(store, THREAD, "told in the thread")
    assert sorted(await facts_of(store, BOB)) == ["told in private", "told in the channel", "told in the thread"]
    assert sorted(await facts_of(store, THREAD)) == ["told in the channel", "told in the thread"]
    assert await facts_of(store, CHANNEL) == ["told in the channel"]
    assert await facts_of(store, OTHER_CHANNEL) == []


async def test_a_place_whose_name_begins_like_anothers_is_another(store: Store) -> None:
    await remember(store, SessionKey("telegram", "1", ("-1001",)), "told in a longer place")
    assert await facts_of(store, ANN_IN_GROUP) == []


async def test_its_owner_may_let_a_fact_be_read_everywhere(store: Store) -> None:
    fact = (await store.memories.remember(BOB, CleanText("told in private"), now_ms=1)).fact
    shared = await store.memories.share(BOB, fact.number, is_shared=True)
    assert shared is not None
    assert shared.is_shared
    assert await facts_of(store, OTHER_CHANNEL) == ["told in private"]
    assert await facts_of(store, ANN) == []
    await store.memories.share(BOB, fact.number, is_shared=False)
    assert await facts_of(store, OTHER_CHANNEL) == []
    assert await store.memories.share(OTHER_CHANNEL, fact.number, is_shared=True) is None
    assert await store.memories.share(ANN, fact.number, is_shared=True) is None


async def test_forgetting_reaches_what_may_be_read_there_and_no_more(store: Store) -> None:
    await remember(store, BOB, "told in private")
    await remember(store, CHANNEL, "told in the channel")
    assert await store.memories.forget(CHANNEL, [1, 2, 2, 99, -1]) != []
    assert await facts_of(store, BOB) == ["told in private"]
    assert await store.memories.forget(ANN, [1]) == []
    await remember(store, CHANNEL, "told in the channel")
    assert await store.memories.forget_all(CHANNEL) == 1
    assert await store.memories.forget_all(ANN) == 0
    assert await facts_of(store, BOB) == ["told in private"]


# --- two wordings of one fact


async def test_the_newest_wording_of_a_fact_stays(store: Store) -> None:
    first = (await store.memories.remember(ANN, CleanText("i like tea"), now_ms=1)).fact
    second = (await store.memories.remember(ANN, CleanText("I like  tea."), now_ms=2)).fact
    assert (second.id, second.number, second.text) == (first.id, first.number, "I like  tea.")
    assert await facts_of(store, ANN) == ["I like  tea."]


async def test_a_wording_never_changes_its_place(store: Store) -> None:
    """What is said in private must not come into a group with the row of a fact from there."""
    await remember(store, ANN_IN_GROUP, "i like tea")
    await remember(store, ANN, "I LIKE TEA (never tell the others)", "I LIKE TEA")
    assert await facts_of(store, ANN_IN_GROUP) == ["i like tea"]
    assert len(await store.memories.recall(ANN, "tea", limit=9)) == 2, "the same words are told once"


async def test_a_model_never_rewords_what_somebody_told(store: Store) -> None:
    await remember(store, ANN, "I like tea")
    await store.memories.remember(ANN, CleanText("i like tea"), now_ms=5, origin=Origin.GATHERED)
    assert await facts_of(store, ANN) == ["I like tea"]
    await store.memories.remember(BOB, CleanText("i like milk"), now_ms=5, origin=Origin.GATHERED)
    told = (await store.memories.remember(BOB, CleanText("I like milk"), now_ms=6)).fact
    assert (told.text, told.origin) == ("I like milk", Origin.TOLD)


async def test_facts_told_at_once_have_numbers_of_their_own(store: Store) -> None:
    """A round of tools runs in parallel, and so do the lanes of one user."""
    await talk(store, ANN, "hello", number=1)
    await talk(store, ANN_IN_GROUP, "hello", number=1)
    keys = [ANN, ANN_IN_GROUP] * 6
    kept = await asyncio.gather(
        *(store.memories.remember(key, CleanText(f"fact number {at}"), now_ms=at) for at, key in enumerate(keys))
    )
    assert sorted(remembered.fact.number for remembered in kept) == list(range(1, len(keys) + 1))


# --- one fact in place of others


async def replace(store: Store, key: SessionKey, text: str, *numbers: int) -> Remembered:
    return await store.memories.remember(key, CleanText(text), now_ms=100, instead_of=numbers)


async def test_a_fact_takes_the_place_of_those_it_replaces(store: Store) -> None:
    """With the number of the first of them, and with what they said; a number that nobody has changes nothing."""
    await remember(store, ANN, "I live in Lisbon", "My favourite town is Lisbon", "I drive a van")
    kept = await replace(store, ANN, "I live in Porto", 2, 1, 99)
    assert [fact.number for fact in kept.replaced] == [1, 2]
    assert (kept.fact.number, kept.fact.former) == (1, "I live in Lisbon\nMy favourite town is Lisbon")
    assert await facts_of(store, ANN) == ["I live in Porto", "I drive a van"]
    assert await store.memories.recall(ANN, "favourite", limit=9) == []
    assert (await replace(store, ANN, "I keep bees", 99)).replaced == ()
    assert (await remembered(store, ANN, "I sail")).number == 5


async def test_a_fact_that_is_replaced_again_after_a_crash_still_tells_what_it_replaced(store: Store) -> None:
    await remember(store, ANN, "I live in Lisbon")
    await replace(store, ANN, "I live in Porto", 1)
    kept = await replace(store, ANN, "I live in Porto", 1)
    assert (kept.fact.number, kept.fact.former) == (1, "I live in Lisbon")


async def test_a_fact_that_is_known_already_may_replace_another(store: Store) -> None:
    """What somebody told stays in its words when a model finds it again, and tells what it replaced."""
    await remember(store, ANN, "I live in Lisbon", "I live in Porto")
    kept = await store.memories.remember(
        ANN, CleanText("i live in porto"), now_ms=9, origin=Origin.GATHERED, instead_of=[1]
    )
    assert (kept.fact.number, kept.fact.former) == (2, "I live in Lisbon")
    assert len(await facts_of(store, ANN)) == 1


async def test_nobody_replaces_what_he_may_not_read(store: Store) -> None:
    await remember(store, BOB, "told in private")
    await remember(store, CHANNEL, "told in the channel")
    for stranger in (ANN, CHANNEL, OTHER_CHANNEL):
        assert (await replace(store, stranger, f"something of {stranger}", 1)).replaced == ()
    assert {"told in private", "told in the channel"} < set(await facts_of(store, BOB))


async def test_what_replaces_a_fact_is_read_where_it_was_said_alone(store: Store) -> None:
    """Whoever could read the old one: what is said in private stays there."""
    await remember(store, CHANNEL, "I sit in room 12")
    await remember(store, BOB, "I like tea")
    await store.memories.share(BOB, 2, is_shared=True)
    await replace(store, BOB, "I am on sick leave", 1)
    await replace(store, BOB, "I like whisky", 2)
    assert await facts_of(store, CHANNEL) == []
    assert sorted(await facts_of(store, BOB)) == ["I am on sick leave", "I like whisky"]


# --- what is always known


async def known(store: Store, key: SessionKey, limit: int) -> list[str]:
    found = await store.memories.recollect(key, "", but_session_id="", known_max=limit, facts_max=5, snippets_max=5)
    return [fact.text for fact in found.known]


async def test_the_newest_and_the_most_used_facts_are_known(store: Store) -> None:
    await remember(store, ANN, *(f"fact number {number}" for number in range(20)))
    await remember(store, BOB, "his own")
    assert len(await known(store, ANN, 99)) == 20
    assert await known(store, ANN, 3) == [f"fact number {number}" for number in (19, 18, 17)]
    first, second = [(await store.memories.recall(ANN, f"number {number}", limit=1))[0] for number in (0, 1)]
    await store.memories.use(ANN, [first.id, second.id])
    await store.memories.use(ANN, [first.id])
    assert await known(store, ANN, 4) == ["fact number 19", "fact number 0", "fact number 18", "fact number 1"]
    assert await known(store, ANN, 0) == []
    assert await known(store, ANN_IN_GROUP, 9) == []


async def test_nobody_counts_the_use_of_what_he_may_not_read(store: Store) -> None:
    await remember(store, ANN, *(f"fact number {number}" for number in range(5)))
    oldest = (await store.memories.recall(ANN, "number 0", limit=1))[0]
    await store.memories.use(BOB, [oldest.id])
    await store.memories.use(ANN_IN_GROUP, [oldest.id])
    assert "fact number 0" not in await known(store, ANN, 3)


async def test_what_a_model_gathered_is_known_after_what_somebody_told(store: Store) -> None:
    await remember(store, ANN, "told")
    for number in range(5):
        text = CleanText(f"gathered number {number}")
        await store.memories.remember(ANN, text, now_ms=50 + number, origin=Origin.GATHERED)
    assert await known(store, ANN, 2) == ["told", "gathered number 4"]


# --- how many


async def fill(store: Store, *, gathered: int) -> None:
    """Write as many facts of Ann as are kept, past everything of ours: it takes a second otherwise."""
    rows = [
        {
            "owner": str(ANN),
            "number": number,
            "text": f"number {number}",
            "terms": f"number {number}",
            "origin": Origin.GATHERED.value if number <= gathered else Origin.TOLD.value,
            "created_at_ms": number,
            "told_at_ms": number,
        }
        for number in range(1, FACTS_MAX + 1)
    ]
    await store.database.write(lambda connection: connection.execute(facts.insert(), rows))


async def test_what_a_model_gathered_makes_room_the_oldest_first(store: Store) -> None:
    await fill(store, gathered=2)
    kept = await store.memories.remember(ANN, CleanText("one more"), now_ms=9_999)
    assert kept.dropped is not None
    assert kept.dropped.text == "number 1"
    assert kept.fact.number == FACTS_MAX + 1
    assert len(await facts_of(store, ANN)) == FACTS_MAX


async def test_what_somebody_told_makes_no_room(store: Store) -> None:
    """It is said that memory is full, also where others have room; a known fact may still be reworded."""
    await fill(store, gathered=0)
    for key in (ANN, ANN_IN_GROUP):
        with pytest.raises(MemoryFull):
            await store.memories.remember(key, CleanText("one more"), now_ms=9_999)
    await store.memories.remember(ANN, CleanText("Number 7."), now_ms=9_999)
    assert (await facts_of(store, ANN))[0] == "Number 7."
    await remember(store, BOB, "his own")


# --- by meaning


def near(*vector: float, model: str = "m") -> Embedding:
    return Embedding(model, vector)


async def test_facts_are_found_by_meaning_where_no_word_is_shared(store: Store) -> None:
    memories = store.memories
    await memories.remember(ANN, CleanText("I am allergic to nuts"), now_ms=1, embedding=near(1.0, 0.1))
    await memories.remember(ANN, CleanText("I drive a van"), now_ms=2, embedding=near(0.0, 3.0))
    await memories.remember(BOB, CleanText("I hate almonds"), now_ms=3, embedding=near(1.0, 0.0))
    found = await memories.recall(ANN, "what may be in the cake", limit=5, near=near(2.0, 0.0))
    assert [fact.text for fact in found] == ["I am allergic to nuts"]
    assert await memories.recall(ANN_IN_GROUP, "cake", limit=5, near=near(2.0, 0.0)) == []
    assert await memories.recall(ANN, "cake", limit=5, near=near(2.0, 0.0, model="another")) == []
    assert await memories.recall(ANN, "cake", limit=5, near=near(2.0, 0.0, 7.0)) == [], "another size"


async def test_a_prompt_gets_what_stands_out_on_any_models_scale(store: Store) -> None:
    """One model puts everything between 0.75 and 0.85, another what belongs together at 0.2."""
    for owner, related, other in ((ANN, 0.9, 0.8), (BOB, 0.2, 0.05)):
        for number in range(14):
            text, vector = CleanText(f"box {number} is shut"), near(other + 0.001 * number, 1.0)
            await store.memories.remember(owner, text, now_ms=number, embedding=vector)
        await store.memories.remember(owner, CleanText("I hate nuts"), now_ms=20, embedding=near(related, 1.0))
        assert await found_for(store, owner, "bake me a cake", near(1.0, 0.0)) == ["I hate nuts"]
        assert "box 3 is shut" in await found_for(store, owner, "bake me 3 cakes", near(1.0, 0.0))


async def found_for(store: Store, owner: SessionKey, said: str, asked: Embedding | None = None) -> list[str]:
    """What a prompt would hold beside what is always known."""
    found = await store.memories.recollect(
        owner, said, but_session_id="", known_max=0, facts_max=5, snippets_max=5, near=asked
    )
    return [fact.text for fact in found.facts]


async def test_a_prompt_gets_what_shares_as_much_as_the_best(store: Store) -> None:
    await remember(store, ANN, "my dog eats fish", "my dog sleeps", "my neighbour is a dog walker", "I like tea")
    assert await found_for(store, ANN, "what does my dog eat") == ["my dog eats fish"]
    assert len(await found_for(store, ANN, "about the dog")) == 3
    assert len(await store.memories.recall(ANN, "what does my dog eat", limit=9)) == 3, "who asks for them gets all"


async def test_a_fact_is_found_by_the_words_it_helps_with(store: Store) -> None:
    """They stay with it when it is told again, and go with it when it is replaced."""
    kept = await store.memories.remember(ANN, CleanText("I am vegetarian"), now_ms=1, helps_with="cook dinner")
    assert await found_for(store, ANN, "what should I cook tonight?") == ["I am vegetarian"]
    again = await store.memories.remember(ANN, CleanText("I am vegetarian."), now_ms=2)
    assert (again.fact.number, again.fact.helps_with) == (kept.fact.number, "cook dinner")
    assert await found_for(store, ANN, "what should I cook tonight?") == ["I am vegetarian."]
    await replace(store, ANN, "I eat everything", 1)
    assert await found_for(store, ANN, "what should I cook tonight?") == []


async def test_words_and_meaning_together_are_best(store: Store) -> None:
    memories = store.memories
    await memories.remember(ANN, CleanText("the dog sleeps"), now_ms=1, embedding=near(0.0, 1.0))
    await memories.remember(ANN, CleanText("Rex eats meat"), now_ms=2, embedding=near(1.0, 0.5))
    await memories.remember(ANN, CleanText("the dog eats meat"), now_ms=3, embedding=near(1.0, 0.1))
    found = await memories.recall(ANN, "dog food", limit=3, near=near(1.0, 0.0))
    assert found[0].text == "the dog eats meat"
    assert len(found) == 3


async def test_what_a_model_finds_the_same_is_one_fact(store: Store) -> None:
    memories = store.memories
    await memories.remember(ANN, CleanText("I cannot stand coffee"), now_ms=1, embedding=near(1.0, 0.01))
    await memories.remember(ANN, CleanText("coffee is not for me"), now_ms=2, embedding=near(1.0, 0.0))
    assert await facts_of(store, ANN) == ["coffee is not for me"]
    await memories.remember(ANN, CleanText("the code is 11"), now_ms=3, embedding=near(0.0, 1.0))
    await memories.remember(ANN, CleanText("the code is 12"), now_ms=4, embedding=near(0.0, 1.0))
    assert len(await facts_of(store, ANN)) == 3, "numbers are never the same"


@pytest.mark.parametrize(("cosine", "facts"), [(0.951, 1), (0.949, 2)])
async def test_facts_are_the_same_from_a_cosine_of_95_percent_on(store: Store, cosine: float, facts: int) -> None:
    memories, aside = store.memories, near(cosine, sqrt(1 - cosine**2))
    await memories.remember(ANN, CleanText("I cannot stand coffee"), now_ms=1, embedding=near(1.0, 0.0))
    await memories.remember(ANN, CleanText("espresso is not for me"), now_ms=2, embedding=aside)
    assert len(await facts_of(store, ANN)) == facts


async def test_facts_that_a_model_has_not_seen_are_told(store: Store) -> None:
    memories = store.memories
    await remember(store, ANN, "one", "two")
    assert not await memories.has_vectors(ANN, "m")
    unseen = await memories.without_vector(ANN, "m", limit=9)
    assert [fact.text for fact in unseen] == ["two", "one"]
    await memories.put_vectors(BOB, "m", {unseen[0].id: (1.0, 0.0)})
    assert not await memories.has_vectors(ANN, "m"), "not by somebody else"
    await memories.put_vectors(ANN, "m", {unseen[0].id: (1.0, 0.0)})
    assert await memories.has_vectors(ANN, "m")
    assert not await memories.has_vectors(ANN_IN_GROUP, "m")
    assert [fact.text for fact in await memories.without_vector(ANN, "m", limit=9)] == ["one"]
