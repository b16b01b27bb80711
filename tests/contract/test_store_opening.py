"""What a prompt is begun with is read with the begin of its turn, and is what a reading of its own would find."""

from __future__ import annotations

import pytest

from gateway.contracts.messages import CleanText
from gateway.contracts.sessions import PromptQuery, Todo, TodoState
from gateway.store import Store
from tests.contract.store_samples import ANN, says, talk

QUERY = PromptQuery(chars_max=10_000, said="what does my dog eat", facts_max=5, snippets_max=5)


@pytest.fixture
async def known(store: Store) -> Store:
    """Ann has spoken before, in this session, and has a task and a fact."""
    await talk(store, ANN, "hello", number=1)
    await store.transcript.replace_todos(ANN, [Todo(0, CleanText("buy food"), TodoState.PENDING)])
    await store.memories.remember(ANN, CleanText("My dog is called Rex"), now_ms=1)
    return store


async def test_a_turn_begins_with_all_that_its_prompt_needs(known: Store) -> None:
    messages = [says(ANN, QUERY.said, id_="m2")]
    start = await known.turns.begin(turn_id="t2", key=ANN, fence=2, messages=messages, now_ms=1_500, prompt=QUERY)
    assert start.prompt is not None
    assert [entry.text for entry in start.prompt.view.entries] == ["hello", "re: hello", QUERY.said]
    assert [todo.text for todo in start.prompt.todos] == ["buy food"]
    assert [fact.text for fact in start.prompt.recollection.facts] == ["My dog is called Rex"]
    assert await known.transcript.prompt_start(start.session.id, ANN, QUERY) == start.prompt


async def test_nothing_is_read_for_what_was_answered_before(known: Store) -> None:
    messages = [says(ANN, "hello", id_=f"{ANN}#1")]
    start = await known.turns.begin(turn_id="t2", key=ANN, fence=2, messages=messages, now_ms=1_500, prompt=QUERY)
    assert (start.fresh_ids, start.prompt) == (frozenset(), None)


async def test_memory_is_not_asked_where_nothing_was_said(known: Store) -> None:
    messages = [says(ANN, "my dog", id_="m2")]
    start = await known.turns.begin(
        turn_id="t2", key=ANN, fence=2, messages=messages, now_ms=1_500, prompt=PromptQuery(10_000)
    )
    assert start.prompt is not None
    assert start.prompt.recollection.facts == ()
