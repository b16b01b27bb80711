"""The fact that a question needs is told, and hardly ever another: a part of `python -m tests.bench.memory`."""

from __future__ import annotations

from collections import Counter

import pytest

from agent.limits import MEMORY_KNOWN_TOKENS_MAX
from gateway.store import Store
from tests.bench.memory.questions import LANGUAGES, SETS, Desk, Sets, Told

ALL = Sets.read()


async def told_of(store: Store, facts_count: int, *, every: int, has_words: bool = False) -> list[Told]:
    desk = Desk(store, has_words)
    await desk.tell(ALL.people(facts_count)[::every])
    return await desk.ask()


def share_of_found(told: list[Told]) -> float:
    needing = [each for each in told if each.question.fact]
    return sum(each.has_fact for each in needing) / len(needing)


def test_the_sets_are_what_they_are_said_to_be() -> None:
    """Enough pairs, as many in each language, and no fact in two sets."""
    facts = {name: [one.fact for one in ALL.questions if one.set == name and one.fact] for name in SETS}
    assert {name: len(those) for name, those in facts.items()} == {"pairs": 125, "apart": 60, "blind": 40}
    for those in facts.values():
        assert set(Counter(fact.language for fact in those).values()) == {len(those) // len(LANGUAGES)}
    assert len({fact.text for those in facts.values() for fact in those}) == sum(map(len, facts.values()))
    example = [
        one.text for one in ALL.questions if one.fact and one.fact.text == "I am vegetarian and allergic to peanuts."
    ]
    assert example == ["what should I cook tonight?"]


async def test_of_sixty_facts_the_one_that_matters_is_told(sqlite_store: Store) -> None:
    """Without an embedding model, however the question is worded; and none but those that are always told."""
    told = await told_of(sqlite_store, 60, every=8)
    assert share_of_found(told) >= 0.95
    assert not any(each.has_another for each in told)
    assert max(each.tokens[0] for each in told) <= MEMORY_KNOWN_TOKENS_MAX


@pytest.mark.long
async def test_of_a_hundred_and_twenty_facts_hardly_ever_another_is_told(sqlite_store: Store) -> None:
    """A fact that was kept with words of later questions is found by them."""
    told = await told_of(sqlite_store, 120, every=3, has_words=True)
    assert share_of_found(told) >= 0.85
    assert sum(each.has_another for each in told) <= 0.15 * len(told)
