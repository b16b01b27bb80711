"""The model's view and the plan of a compaction, for any transcript."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from agent.compaction import is_usable, plan_compaction
from agent.context import Budget, build_prompt, preamble
from agent.model.client import ModelAnswer, TokenCount
from agent.tokens import entries_tokens, estimate_tokens
from agent.transcript import as_prompt, turns_of, with_whole_groups
from gateway.contracts.entries import Entry, EntryKind, Role
from gateway.contracts.messages import own_words
from tests.property.transcripts import numbered, transcripts

_NOW = preamble(1_800_000_000_000)


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
    prompt = build_prompt(view, tokens_max=room, preamble=_NOW)
    newest = next(entry for entry in reversed(entries) if entry.role is Role.USER)
    asked = [message for message in prompt if message.role is Role.USER]
    assert prompt[0].role is Role.USER
    assert newest.text in asked[-1].text
    assert "<now>" in asked[-1].text
    assert has_summary == ("<summary>" in prompt[0].text)
    assert all(first.role is not Role.USER or second.role is not Role.USER for first, second in pairwise(prompt))


@given(transcripts)
def test_the_beginning_of_a_prompt_stays_as_it_is(entries: tuple[Entry, ...]) -> None:
    """A further turn changes nothing before the last request: providers cache by prefix."""
    last = turns_of(entries)[-1]
    if last[-1].role is Role.USER:
        return
    longer = (*entries, *numbered([[Entry(Role.USER, own_words("and now?"))]], entries[-1].seq + 1))
    before = build_prompt(entries, tokens_max=10**9, preamble=_NOW)
    after = build_prompt(longer, tokens_max=10**9, preamble=_NOW)
    at = max(index for index, message in enumerate(before) if message.role is Role.USER)
    assert after[:at] == before[:at]


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
