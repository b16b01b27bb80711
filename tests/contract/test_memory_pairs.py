"""The fact that a question needs is told, and hardly ever another: a part of `python -m tests.bench.memory`."""

from __future__ import annotations

from collections import Counter

import pytest

from agent.limits import MEMORY_KNOWN_TOKENS_MAX
from gateway.store import Store
from tests.bench.memory.questions import LANGUAGES, Desk, Sets

SETS = Sets.read()


def test_the_sets_are_what_they_are_said_to_be() -> None:
    """Enough pairs in each language, no pair in both sets, and enough other facts for everybody."""
    assert len(SETS.pairs) >= 120
    assert len(SETS.apart) >= 60
    assert set(Counter(pair.fact.language for pair in SETS.pairs).values()) == {len(SETS.pairs) // len(LANGUAGES)}
    assert not {pair.fact.text for pair in SETS.pairs} & {pair.fact.text for pair in SETS.apart}
    example = [pair.question for pair in SETS.pairs if pair.fact.text == "I am vegetarian and allergic to peanuts."]
    assert example == ["what should I cook tonight?"]
    assert all(len(SETS.beside(pair.fact.language, pair.fact.matter)) >= 60 for pair in (*SETS.pairs, *SETS.apart))


async def test_of_twenty_facts_the_one_that_matters_is_told(sqlite_store: Store) -> None:
    """Without an embedding model, however the question is worded."""
    told = await Desk(sqlite_store, SETS).ask((*SETS.pairs[::5], *SETS.apart[::4]), 20)
    assert sum(each.has_fact for each in told) >= 0.95 * len(told)
    assert max(each.tokens for each in told) <= MEMORY_KNOWN_TOKENS_MAX


@pytest.mark.long
async def test_of_sixty_facts_hardly_ever_another_is_told(sqlite_store: Store) -> None:
    """Beyond those that are always told."""
    desk = Desk(sqlite_store, SETS)
    told = [*await desk.ask((*SETS.pairs[::8], *SETS.apart[::8]), 60), *await desk.ask_unrelated(60)]
    assert sum(each.has_another for each in told) <= 0.1 * len(told)
    assert all(each.tokens <= MEMORY_KNOWN_TOKENS_MAX for each in told)


@pytest.mark.long
async def test_a_fact_that_was_kept_with_words_of_later_questions_is_told_in_them(sqlite_store: Store) -> None:
    told = await Desk(sqlite_store, SETS, has_words=True).ask((*SETS.pairs[::5], *SETS.apart[::5]), 60)
    assert sum(each.has_fact for each in told) >= 0.85 * len(told)
