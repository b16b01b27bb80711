"""The model's view and the plan of a compaction, for any transcript."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from agent.compaction import is_usable, plan_compaction
from agent.context import Budget, build_prompt, preamble
from agent.model.client import ModelAnswer, TokenCount
from agent.tokens import entries_tokens, estimate_tokens
from agent.tone import Tone
from agent.transcript import as_prompt, turns_of, with_whole_groups
from gateway.contracts.entries import Entry, EntryKind, Role
from gateway.contracts.messages import own_words
from tests.property.transcripts import numbered, transcripts


def summarised(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """The same view behind a summary."""
    summary = Entry(Role.ASSISTANT, own_words("Goal: none."), 10_000, EntryKind.COMPACTION)
    return (summary, *entries)


@given(transcripts)
def test_tool_pairs_are_never_parted(entries: tuple[Entry, ...]) -> None:
    """Every call is followed by exactly its results, in call order, before anything else is said."""
    whole = with_whole_groups(entries)
    for at, entry in enumerate(whole):
        expected = [call.id for call in entry.tool_calls]
        assert [result.tool_call_id for result in whole[at + 1 : at + 1 + len(expected)]] == expected
    assert sum(len(entry.tool_calls) for entry in whole) == sum(entry.role is Role.TOOL for entry in whole)


@given(transcripts, st.integers(1, 2_000), st.booleans())
def test_a_prompt_is_user_led_and_ends_with_the_newest_request(
    entries: tuple[Entry, ...], room: int, has_summary: bool
) -> None:
    """However little room there is, the newest request is there, verbatim and last of the user's."""
    view = summarised(entries) if has_summary else entries
    prompt = build_prompt(view, tokens_max=room)
    newest = next(entry for entry in reversed(entries) if entry.role is Role.USER)
    asked = [message for message in prompt if message.role is Role.USER]
    assert prompt[0].role is Role.USER
    assert newest.text in asked[-1].text
    assert has_summary == ("<summary>" in prompt[0].text)
    assert all(first.role is not Role.USER or second.role is not Role.USER for first, second in pairwise(prompt))


@given(transcripts, transcripts, st.booleans())
def test_a_prompt_begins_with_all_of_the_one_before(
    earlier: tuple[Entry, ...], later: tuple[Entry, ...], has_summary: bool
) -> None:
    """Providers cache by prefix: whatever follows a prompt leaves it as it was, preamble and all."""
    asked = Entry(Role.USER, own_words("and now?"))
    note = Entry(Role.USER, preamble(1_800_000_000_000, tone=Tone.ERROR), kind=EntryKind.NOTE)
    sent = (*(summarised(earlier) if has_summary else earlier), asked, note)
    answered = (*sent, Entry(Role.ASSISTANT, own_words("well")), *later)
    before, after = build_prompt(sent), build_prompt(answered)
    assert after[: len(before)] == before


@given(transcripts)
def test_what_people_said_comes_last_in_their_message(entries: tuple[Entry, ...]) -> None:
    """Our notes stand in front, whenever they were written."""
    asked = Entry(Role.USER, own_words("and now?"))
    note = Entry(Role.USER, preamble(1_800_000_000_000), kind=EntryKind.NOTE)
    assert build_prompt((*entries, asked, note))[-1].text.endswith("and now?")


@given(transcripts, st.integers(10, 5_000))
def test_a_compaction_keeps_whole_turns_and_the_newest_one(entries: tuple[Entry, ...], usable: int) -> None:
    """Head and tail are the transcript, cut in front of a user message."""
    plan = plan_compaction(entries, Budget(usable * 2, usable))
    turns = turns_of(entries)
    if plan is None:
        assert len(turns) <= 2
        return
    tail = tuple(entry for entry in entries if entry.seq >= plan.tail_start_seq)
    assert (*plan.head, *tail) == entries
    assert tail[0].role is Role.USER
    assert turns[-1] == turns_of(tail)[-1]


@given(transcripts)
def test_a_manual_compaction_keeps_no_tail(entries: tuple[Entry, ...]) -> None:
    plan = plan_compaction(entries, None)
    assert plan is not None
    assert plan.head == entries
    assert plan.tail_start_seq > entries[-1].seq


@given(transcripts, transcripts)
def test_a_second_compaction_reads_only_what_came_after_the_first(
    first: tuple[Entry, ...], second: tuple[Entry, ...]
) -> None:
    later = numbered([second], first[-1].seq + 2)
    plan = plan_compaction(summarised(later), None)
    assert plan is not None
    assert plan.head == later
    assert plan.prior == "Goal: none."


@given(transcripts, st.text(max_size=600), st.sampled_from(["stop", "length"]))
def test_a_summary_must_be_whole_and_smaller(entries: tuple[Entry, ...], text: str, finish: str) -> None:
    plan = plan_compaction(entries, None)
    assert plan is not None
    answer = ModelAnswer(text, (), finish, TokenCount(1, 1), 0.0, "demo/scripted")
    if is_usable(answer, plan):
        assert finish == "stop"
        assert 0 < estimate_tokens(text.strip()) < entries_tokens(plan.head)


@given(transcripts)
def test_prompts_join_neighbouring_user_messages(entries: tuple[Entry, ...]) -> None:
    """Nothing a user said is lost when a batch becomes one message."""
    said = "\n\n".join(message.text for message in as_prompt(entries) if message.role is Role.USER)
    assert all(entry.text in said for entry in entries if entry.role is Role.USER)
