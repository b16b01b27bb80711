"""The first half of a secret goes from all that was stored of it, once the second is there; SQLite and PostgreSQL."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gateway.contracts.answers import Question
from gateway.contracts.entries import Entry, Role, ToolCall
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText, InboundMessage, Mend, mark_of
from gateway.contracts.subagents import TaskState
from gateway.store import SqlStore
from gateway.store.mending import PIECE_CHARS_MIN, without
from tests.contract.store_samples import ANN, BOB, begin, outcome, reply, says
from tests.contract.subtask_samples import asked, ending, wake_of
from tests.scrubbing import draw

HALF = draw("ghp_<base62:20>", seed=61)
STAND_IN = CleanText("[redacted:github#a1b2c3]")
TORN = f"my key: {HALF}"


def mending(key: SessionKey, *, of: str, id_: str = "m2", text: str = "and the rest") -> InboundMessage:
    """The message that brought the second half."""
    return replace(says(key, text, id_=id_), mends=(Mend(of, len(HALF), mark_of(HALF, of), STAND_IN),))


async def answered(store: SqlStore, key: SessionKey, id_: str, *, turn_id: str) -> None:
    """Somebody said the half, and the model quoted it, whole and in part."""
    message = says(key, TORN, id_=id_)
    start = await begin(store, turn_id, [message])
    done = outcome(start, turn_id, [message], text=f"`{HALF}` is no whole key; it begins with {HALF[:12]}")
    await store.commit_turn(
        replace(done, outbox=(reply(key, f"you said {HALF}", id_=f"{turn_id}:0", turn_id=turn_id),))
    )


async def texts(store: SqlStore, key: SessionKey) -> str:
    """All that is kept of an owner."""
    return (await store.people.export(key, clean=CleanText)).decode()


async def test_the_half_goes_from_transcript_answer_and_outbox(store: SqlStore) -> None:
    await answered(store, ANN, "m1", turn_id="t1")
    await begin(store, "t2", [mending(ANN, of="m1")], fence=2)
    session = await store.current_session(ANN)
    assert session is not None
    said = [entry.text for entry in await store.transcript(session.id)]
    assert said == [
        f"my key: {STAND_IN}",
        f"`{STAND_IN}` is no whole key; it begins with {STAND_IN}",
        "and the rest",
    ]
    assert HALF[:PIECE_CHARS_MIN] not in await texts(store, ANN)


async def test_it_goes_from_facts_titles_and_cached_answers_and_is_found_by_no_search(store: SqlStore) -> None:
    await answered(store, ANN, "m1", turn_id="t1")
    session = await store.current_session(ANN)
    assert session is not None
    assert await store.set_title_if_untitled(session.id, CleanText(f"About {HALF[:14]}"), made_of=CleanText(TORN))
    question = Question(ANN, "circumstances", "asked", "guard", "words")
    await store.answers.put(
        question, CleanText(f"it is {HALF}"), recalled="r", now_ms=9_000, ttl_s=9, owner_max=9, all_max=9
    )
    await begin(store, "t2", [mending(ANN, of="m1")], fence=2)
    assert HALF[:PIECE_CHARS_MIN] not in await texts(store, ANN)
    kept = await store.answers.find(question, now_ms=9_001)
    assert kept is not None
    assert kept.text == f"it is {STAND_IN}"


async def test_a_title_that_was_being_made_of_the_half_comes_too_late(store: SqlStore) -> None:
    await answered(store, ANN, "m1", turn_id="t1")
    start = await begin(store, "t2", [mending(ANN, of="m1")], fence=2)
    assert not await store.set_title_if_untitled(start.session.id, CleanText(f"About {HALF}"), made_of=CleanText(TORN))
    assert HALF[:PIECE_CHARS_MIN] not in await texts(store, ANN)


async def test_nobody_elses_words_are_touched(store: SqlStore) -> None:
    await answered(store, ANN, "m1", turn_id="t1")
    await answered(store, BOB, "b1", turn_id="b1")
    await begin(store, "t2", [mending(ANN, of="m1")], fence=2)
    assert HALF in await texts(store, BOB)


async def test_it_is_done_once_and_does_no_harm_twice(store: SqlStore) -> None:
    await answered(store, ANN, "m1", turn_id="t1")
    await begin(store, "t2", [mending(ANN, of="m1")], fence=2)
    once = await texts(store, ANN)
    await begin(store, "t2", [mending(ANN, of="m1")], fence=3)
    assert (await texts(store, ANN)).count(STAND_IN) == once.count(STAND_IN)


async def test_what_was_changed_meanwhile_or_never_stored_is_left_alone(store: SqlStore) -> None:
    await begin(store, "t1", [says(ANN, "something else altogether, and long", id_="m1")])
    await begin(store, "t2", [mending(ANN, of="m1"), mending(ANN, of="m9", id_="m3")], fence=2)
    assert STAND_IN not in await texts(store, ANN)


async def test_a_message_that_joins_a_running_turn_mends_what_that_turn_stored(store: SqlStore) -> None:
    await begin(store, "t1", [says(ANN, TORN, id_="m1")])
    await store.join_turn(turn_id="t1", key=ANN, fence=1, messages=[mending(ANN, of="m1")], now_ms=2_000)
    session = await store.current_session(ANN)
    assert session is not None
    assert [entry.text for entry in await store.transcript(session.id)] == [f"my key: {STAND_IN}", "and the rest"]


@given(st.text(max_size=40), st.integers(0, len(HALF) - PIECE_CHARS_MIN), st.text(max_size=40))
def test_every_piece_that_says_something_is_taken_out(before: str, start: int, after: str) -> None:
    piece = HALF[start:]
    shown = without(f"{before} {piece} {after}", HALF, STAND_IN)
    assert not any(HALF[at : at + PIECE_CHARS_MIN] in shown for at in range(len(HALF) - PIECE_CHARS_MIN + 1))
    assert shown == f"{before} {STAND_IN} {after}"


@given(st.text(max_size=200))
def test_other_texts_are_as_they_were(text: str) -> None:
    assert without(text, HALF, STAND_IN) == text


async def test_the_half_goes_from_sub_agents_tasks_and_transcripts(store: SqlStore) -> None:
    """From the prompt and the answer, from what the child said and did, and from the title of its session."""
    await answered(store, ANN, "m1", turn_id="t1")
    session = await store.current_session(ANN)
    assert session is not None
    task = asked(session, "k1", at_ms=2_000)
    quoted = replace(task, prompt=CleanText(f"use {HALF}"), label=CleanText(f"with {HALF[:12]}"))
    await store.tasks.open(quoted, wake=wake_of(ANN))
    called = Entry(Role.ASSISTANT, CleanText(HALF), tool_calls=(ToolCall("c", "shell", CleanText(f'"{HALF}"')),))
    await store.tasks.record("k1", entries=[called], usage=())
    await store.tasks.finish("k1", ending(TaskState.FAILED, result=f"{HALF} is no key"))
    await begin(store, "t2", [mending(ANN, of="m1")], fence=2)
    assert HALF[:PIECE_CHARS_MIN] not in await texts(store, ANN)
    mended = await store.tasks.task("k1")
    assert mended is not None
    assert (mended.prompt, mended.result) == (f"use {STAND_IN}", f"{STAND_IN} is no key")
