"""What the store does for /retry, /resume and /model, on SQLite and PostgreSQL."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.contracts.errors import Fenced, StoreError
from gateway.contracts.messages import CleanText
from gateway.contracts.sessions import (
    Entry,
    EntryKind,
    OpenSession,
    ResumeSession,
    Role,
    SessionStatus,
    SetModel,
    ToolCall,
    TurnStart,
    Undo,
)
from gateway.store import Store
from tests.contract.store_samples import ANN, BOB, answer, begin, outcome, says, summary, talk
from tests.parts.effects import apply_effects


async def view_of(store: Store, session_id: str) -> list[str]:
    return [entry.text for entry in await store.transcript.view(session_id)]


async def test_a_retake_keeps_the_users_words_and_hides_everything_since(store: Store) -> None:
    """Calls, results, notes, the answer: out of view, still on record; what was before stays."""
    session = await talk(store, ANN, "first", number=1)
    messages = [says(ANN, "second", id_="m2"), says(ANN, "and third", id_="m3")]
    start = await begin(store, "t2", messages, fence=2)
    entries = (
        Entry(Role.ASSISTANT, CleanText(""), tool_calls=(ToolCall("c", "todo_read", CleanText("{}")),)),
        Entry(Role.TOOL, CleanText("no tasks"), tool_call_id="c", is_error=True),
        Entry(Role.USER, CleanText("find the cause"), kind=EntryKind.NOTE),
        answer("done"),
    )
    await store.turns.commit(replace(outcome(start, "t2", messages, fence=2), entries=entries))
    said = await store.transcript.take_for_retry(session.id, fence=2, key=ANN)
    assert [entry.text for entry in said] == ["second", "and third"]
    assert await view_of(store, session.id) == ["first", "re: first", "second", "and third"]
    assert [entry.is_undone for entry in await store.transcript.page(session.id)] == [False] * 4 + [True] * 4


async def test_a_retake_can_be_repeated(store: Store) -> None:
    """A worker that died behind it finds the same words again, also when another turn answered them since."""
    session = await talk(store, ANN, "first", number=1)
    once = await store.transcript.take_for_retry(session.id, fence=1, key=ANN)
    assert await store.transcript.take_for_retry(session.id, fence=1, key=ANN) == once
    command = [says(ANN, "/retry", id_="m2")]
    start = await store.turns.begin(turn_id="t2", key=ANN, fence=2, messages=command, now_ms=1, is_said=False)
    await store.turns.commit(outcome(start, "t2", command, fence=2, text="another"))
    assert await view_of(store, session.id) == ["first", "another"]
    assert await store.transcript.take_for_retry(session.id, fence=2, key=ANN) == once
    assert await view_of(store, session.id) == ["first"]


async def test_an_answer_that_was_taken_back_counts_as_no_message(store: Store) -> None:
    """Answered once more and undone, a conversation is as empty as it looks."""
    session = await talk(store, ANN, "first", number=1)
    await store.transcript.take_for_retry(session.id, fence=1, key=ANN)
    command = [says(ANN, "/retry", id_="m2")]
    start = await store.turns.begin(turn_id="t2", key=ANN, fence=2, messages=command, now_ms=1, is_said=False)
    assert start.session.message_count == 1
    assert (await store.turns.commit(outcome(start, "t2", command, fence=2, text="another"))).session.message_count == 2
    assert (await apply_effects(store, ANN, [Undo(1)], now_ms=9_000)).message_count == 0


async def test_a_retake_takes_a_later_summary_back(store: Store) -> None:
    session = await talk(store, ANN, "first", number=1)
    await store.transcript.append_compaction(session.id, fence=1, key=ANN, entry=summary("it began", tail_start_seq=3))
    assert await view_of(store, session.id) == ["it began"]
    await store.transcript.take_for_retry(session.id, fence=1, key=ANN)
    assert await view_of(store, session.id) == ["first"]


async def test_a_stale_worker_retakes_nothing(store: Store) -> None:
    session = await talk(store, ANN, "first", number=1)
    await begin(store, "t2", [says(ANN, "second", id_="m2")], fence=5)
    with pytest.raises(Fenced):
        await store.transcript.take_for_retry(session.id, fence=1, key=ANN)


async def test_of_an_empty_session_nothing_is_retaken(store: Store) -> None:
    session = await talk(store, ANN, "first", number=1)
    fresh = await apply_effects(store, ANN, [OpenSession()], now_ms=9)
    assert fresh.id != session.id
    assert await store.transcript.take_for_retry(fresh.id, fence=1, key=ANN) == []


async def test_a_resumed_session_is_the_current_one_again(store: Store) -> None:
    """The one before is closed; what is said next stands behind what was said then."""
    first = await talk(store, ANN, "first", number=1)
    second = await apply_effects(store, ANN, [OpenSession()], now_ms=9)
    resumed = await apply_effects(store, ANN, [ResumeSession(1)], now_ms=10)
    assert (resumed.id, resumed.status, resumed.is_current) == (first.id, SessionStatus.ACTIVE, True)
    left = await store.sessions.by_id(second.id)
    assert left is not None
    assert (left.status, left.is_current) == (SessionStatus.CLOSED, False)
    await talk(store, ANN, "again", number=2)
    assert await view_of(store, first.id) == ["first", "re: first", "again", "re: again"]


async def test_a_new_session_after_a_resume_counts_on(store: Store) -> None:
    await talk(store, ANN, "first", number=1)
    await apply_effects(store, ANN, [OpenSession(), ResumeSession(1)], now_ms=9)
    assert (await apply_effects(store, ANN, [OpenSession()], now_ms=10)).number == 3


async def test_nobody_resumes_a_session_that_is_not_there_or_not_theirs(store: Store) -> None:
    """The whole change is refused, and the current session stays open."""
    await talk(store, ANN, "first", number=1)
    await apply_effects(store, ANN, [OpenSession()], now_ms=9)
    bobs = await talk(store, BOB, "mine", number=1)
    with pytest.raises(StoreError):
        await apply_effects(store, BOB, [ResumeSession(2)], now_ms=10)
    current = await store.sessions.current(BOB)
    assert current is not None
    assert (current.id, current.status) == (bobs.id, SessionStatus.ACTIVE)
    assert await store.sessions.numbered(BOB, 2) is None
    found = await store.sessions.numbered(ANN, 2)
    assert found is not None
    assert (found.key, found.number, found.is_current) == (ANN, 2, True)


async def test_a_model_belongs_to_its_session(store: Store) -> None:
    """The next session begins with the configured one."""
    await talk(store, ANN, "first", number=1)
    assert (await apply_effects(store, ANN, [SetModel("openai/gpt-4o")], now_ms=9)).model == "openai/gpt-4o"
    assert (await apply_effects(store, ANN, [OpenSession()], now_ms=10)).model == ""
    assert (await apply_effects(store, ANN, [ResumeSession(1)], now_ms=11)).model == "openai/gpt-4o"
    assert (await apply_effects(store, ANN, [SetModel("")], now_ms=12)).model == ""


async def test_what_a_command_made_the_user_say_is_in_the_transcript_once(store: Store) -> None:
    """A command that goes on as a conversation stores its words; the run after a crash begins without them."""
    session = await talk(store, ANN, "first", number=1)
    command = [says(ANN, "/plan a trip", id_="m2")]
    said = [replace(command[0], text=CleanText("Plan a trip."))]

    async def run(fence: int) -> TurnStart:
        start = await store.turns.begin(turn_id="t2", key=ANN, fence=fence, messages=command, now_ms=1, is_said=False)
        assert await view_of(store, session.id) == ["first", "re: first"]
        await store.turns.join(turn_id="t2", key=ANN, fence=fence, messages=said, now_ms=1)
        assert await view_of(store, session.id) == ["first", "re: first", "Plan a trip."]
        return start

    await run(fence=2)
    start = await run(fence=3)
    await store.turns.commit(outcome(start, "t2", command, fence=3))
    assert await view_of(store, session.id) == ["first", "re: first", "Plan a trip.", "fine"]
    again = await store.turns.begin(turn_id="t2", key=ANN, fence=4, messages=command, now_ms=1, is_said=False)
    assert again.fresh_ids == frozenset()
