"""What came along with a message is told in its entry, under the fence, and as often as the turn is taken."""

from __future__ import annotations

import pytest

from gateway.contracts.context_blocks import words_in
from gateway.contracts.errors import Fenced
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText
from gateway.store import Store
from tests.parts.agents import message

ANN = SessionKey.parse("telegram:1")
TOLD = CleanText('<context>\n<image path="inbox/a.png" type="image/png" size="1 KB"/>\n</context>\n\nlook')


async def begun(store: Store, fence: int = 1) -> str:
    start = await store.turns.begin(turn_id="t1", key=ANN, fence=fence, messages=[LOOK], now_ms=1_000)
    return start.session.id


LOOK = message("look")


async def test_the_entry_says_what_came_along(store: Store) -> None:
    """Its words are still found: for the title, and for whoever takes the turn back."""
    session_id = await begun(store)
    await store.turns.replace_texts(turn_id="t1", key=ANN, fence=1, texts={LOOK.id: TOLD})
    (entry,) = await store.transcript.page(session_id)
    assert entry.text == TOLD
    assert await store.transcript.first_said(session_id) == "look"
    (turn,) = await store.transcript.newest_turns(session_id, limit=1)
    assert turn.text == "look"


async def test_a_turn_that_is_taken_again_finds_the_words_and_tells_them_anew(store: Store) -> None:
    session_id = await begun(store)
    await store.turns.replace_texts(turn_id="t1", key=ANN, fence=1, texts={LOOK.id: TOLD})
    await begun(store, fence=2)
    assert [entry.text for entry in await store.transcript.page(session_id)] == ["look"]
    await store.turns.replace_texts(turn_id="t1", key=ANN, fence=2, texts={LOOK.id: TOLD})
    (entry,) = await store.transcript.page(session_id)
    assert words_in(entry.text) == "look"
    session = await store.sessions.by_id(session_id)
    assert session is not None
    assert session.message_count == 1


async def test_whoever_lost_the_lane_tells_nothing(store: Store) -> None:
    session_id = await begun(store)
    await begun(store, fence=2)
    with pytest.raises(Fenced):
        await store.turns.replace_texts(turn_id="t1", key=ANN, fence=1, texts={LOOK.id: TOLD})
    assert [entry.text for entry in await store.transcript.page(session_id)] == ["look"]


async def test_a_title_may_be_made_while_it_is_told(store: Store) -> None:
    """The words are the same, whatever stands in front of them."""
    session_id = await begun(store)
    made_of = await store.transcript.first_said(session_id)
    assert made_of is not None
    await store.turns.replace_texts(turn_id="t1", key=ANN, fence=1, texts={LOOK.id: TOLD})
    assert await store.transcript.set_title_if_untitled(session_id, CleanText("A look"), made_of=made_of)


async def test_files_alone_are_no_first_words(store: Store) -> None:
    session_id = await begun(store)
    await store.turns.replace_texts(
        turn_id="t1", key=ANN, fence=1, texts={LOOK.id: CleanText(TOLD.removesuffix("\n\nlook"))}
    )
    assert await store.transcript.first_said(session_id) is None
