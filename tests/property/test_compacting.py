"""What a compaction plans, prunes and asks for, for any transcript."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.limits import OUTPUTS_KEPT, PRUNED_FROM_CHARS, ROUNDS_KEPT_MESSAGES
from agent.models.requests import ModelAnswer, TokenCount
from agent.models.transcript import PromptBudget, as_prompt, build_prompt, is_said, turns_of, with_whole_groups
from agent.runtime.compaction_plan import (
    first_chunk,
    is_usable,
    material,
    plan_compaction,
    plan_rounds,
    prune_output,
    prune_pass,
    pruned,
    size_of,
    without_middle,
)
from agent.tokens import entries_tokens, estimate_tokens
from gateway.contracts.messages import CleanText
from gateway.contracts.sessions import Entry, EntryKind, Role
from tests.property.transcripts import histories, numbered, rounds, summarised, texts, transcripts

pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")
PROTECTED = frozenset({"todo_write"})


# --- the plan


@given(transcripts, st.integers(10, 5_000))
def test_a_compaction_keeps_whole_turns_and_the_newest_one(entries: tuple[Entry, ...], usable: int) -> None:
    """Head and tail are the transcript, cut in front of a user message."""
    plan = plan_compaction(entries, PromptBudget(usable * 2, usable * 2, usable))
    turns = turns_of(entries)
    if plan is None:
        assert len(turns) <= 2
        return
    tail = tuple(entry for entry in entries if entry.seq >= plan.tail_start_seq)
    assert (*plan.head, *tail) == entries
    assert tail[0].role is Role.USER
    kept = turns_of(tail)
    assert turns[-len(kept) :] == kept
    assert len(kept) == 1 or (len(kept) == 2 and entries_tokens(tail) <= usable / 4)


@given(transcripts)
def test_two_turns_stay_as_long_as_they_fit_into_a_quarter(entries: tuple[Entry, ...]) -> None:
    """Exactly a quarter fits; a little less does not, and then the newest turn stays alone."""
    newest = turns_of(entries)[-2:]
    quarter = entries_tokens([entry for turn in newest for entry in turn])
    for usable, kept in ((quarter * 4, newest), (quarter * 4 - 1, newest[-1:])):
        plan = plan_compaction(entries, PromptBudget(usable * 2, usable * 2, usable))
        if plan is not None:
            assert plan.tail_start_seq == kept[0][0].seq


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


@settings(max_examples=30)
@given(rounds)
def test_of_a_running_turn_whole_groups_stay(in_flight: tuple[Entry, ...]) -> None:
    """The last ones, as many as twenty messages hold, and everything that people said."""
    plan = plan_rounds(in_flight)
    if plan is None:
        assert len(in_flight) <= ROUNDS_KEPT_MESSAGES or sum(bool(entry.tool_calls) for entry in in_flight) == 1
        return
    kept = in_flight[plan.kept_from :]
    assert kept[0].role is Role.ASSISTANT
    assert with_whole_groups(kept) == kept
    starts = [index for index, entry in enumerate(in_flight) if entry.role is Role.ASSISTANT]
    assert len(kept) <= ROUNDS_KEPT_MESSAGES or plan.kept_from == starts[-1]
    assert sorted(map(id, (*plan.head, *plan.requests, *kept))) == sorted(map(id, in_flight))
    assert [*filter(is_said, in_flight)] == [*plan.requests, *filter(is_said, kept)]


# --- pruning


@settings(max_examples=30)
@given(histories, st.integers(0, 7))
def test_pruning_spares_the_newest_the_short_and_the_protected(history: tuple[Entry, ...], kept: int) -> None:
    """The calls stay, each with its result, and the more is pruned the smaller it gets."""
    lighter = pruned(history, kept=kept, protected=PROTECTED)
    assert [(e.role, e.tool_calls, e.tool_call_id, e.seq) for e in lighter] == [
        (e.role, e.tool_calls, e.tool_call_id, e.seq) for e in history
    ]
    outputs = [index for index, entry in enumerate(history) if entry.role is Role.TOOL]
    spared = set(outputs[len(outputs) - kept :]) if kept else set()
    for index, (before, after) in enumerate(zip(history, lighter, strict=True)):
        if after != before:
            assert before.role is Role.TOOL
            assert len(before.text) > PRUNED_FROM_CHARS
            assert index not in spared
            assert after.text == f"<output pruned, ~{estimate_tokens(before.text)} tokens>"
    assert entries_tokens(lighter) <= entries_tokens(history)


@settings(max_examples=30)
@given(histories)
def test_pruning_is_idempotent(history: tuple[Entry, ...]) -> None:
    once = pruned(history, protected=PROTECTED)
    assert pruned(once, protected=PROTECTED) == once


@given(texts)
def test_a_pruned_output_is_never_longer(text: CleanText) -> None:
    entry = Entry(Role.TOOL, CleanText(text * 9))
    assert len(prune_output(entry).text) <= len(entry.text)


@settings(max_examples=30)
@given(histories, st.integers(0, 20_000))
def test_a_pass_leaves_the_beginning_as_the_turn_before_saw_it(history: tuple[Entry, ...], threshold: int) -> None:
    """Turn by turn, a prompt changes only at a pass: in between, providers find their prefix again."""
    turns = turns_of(history)
    prompts = []
    for count in range(1, len(turns) + 1):
        view = tuple(entry for turn in turns[:count] for entry in turn)
        done = prune_pass(view, fixed_tokens=0, threshold_tokens=threshold, protected=PROTECTED, counted_seq=0)
        prompts.append(done.view)
    for before, after in pairwise(prompts):
        if after[: len(before)] != before:
            assert entries_tokens(before) + entries_tokens(after[len(before) :]) >= threshold
    for before, after in pairwise(prompts):
        gone = [entry for entry in before if entry.text.startswith("<output pruned")]
        assert all(entry in after for entry in gone)  # what is pruned stays pruned


@settings(max_examples=30)
@given(histories, st.integers(0, 20_000))
def test_what_a_pass_has_saved_is_what_is_missing(history: tuple[Entry, ...], threshold: int) -> None:
    """With nothing counted, all savings are new; with everything counted, none."""
    fresh = prune_pass(history, fixed_tokens=9, threshold_tokens=threshold, protected=PROTECTED, counted_seq=0)
    assert fresh.saved_tokens == entries_tokens(history) - entries_tokens(fresh.view)
    counted = prune_pass(
        history, fixed_tokens=9, threshold_tokens=threshold, protected=PROTECTED, counted_seq=history[-1].seq
    )
    assert (counted.view, counted.saved_tokens) == (fresh.view, 0)


@settings(max_examples=30)
@given(histories)
def test_below_the_threshold_nothing_is_pruned(history: tuple[Entry, ...]) -> None:
    size = entries_tokens(history)
    done = prune_pass(history, fixed_tokens=0, threshold_tokens=size + 1, protected=PROTECTED, counted_seq=0)
    assert done.view == history


@settings(max_examples=30)
@given(histories)
def test_a_full_prompt_keeps_the_newest_outputs(history: tuple[Entry, ...]) -> None:
    """Those that were the newest when the last turn began, and all of that turn."""
    done = prune_pass(history, fixed_tokens=0, threshold_tokens=0, protected=PROTECTED, counted_seq=0)
    last = turns_of(history)[-1]
    before = [entry for entry in history if entry.role is Role.TOOL and entry.seq < last[0].seq]
    assert {entry.seq for entry in done.view if entry not in history}.isdisjoint(
        {entry.seq for entry in (*before[-OUTPUTS_KEPT:], *last)}
    )


# --- the summary


@given(transcripts, st.text(max_size=600), st.sampled_from(["stop", "length", "max_tokens"]))
def test_a_summary_must_be_whole_and_smaller(entries: tuple[Entry, ...], text: str, finish: str) -> None:
    plan = plan_compaction(entries, None)
    assert plan is not None
    answer = ModelAnswer(text, (), finish, TokenCount(1, 1), 0.0, "demo/scripted")
    if is_usable(answer, replaced_tokens=plan.tokens):
        assert finish == "stop"
        summary = Entry(Role.ASSISTANT, CleanText(text.strip()), 9_999, EntryKind.COMPACTION)
        (message,) = build_prompt([summary, Entry(Role.USER, CleanText("and now?"))])
        assert estimate_tokens(message.text) < plan.tokens + estimate_tokens("and now?")


@settings(max_examples=30)
@given(histories, st.integers(8, 3_000))
def test_chunks_hold_everything_in_order_and_fit(history: tuple[Entry, ...], room: int) -> None:
    """A message that is too large for one is split."""
    lines = rest = material(history, CleanText)
    chunks = []
    while rest:
        chunk, rest = first_chunk(rest, room)
        assert chunk
        assert size_of(chunk) <= room
        chunks.append(chunk)
    assert "".join(line for chunk in chunks for line in chunk) == "".join(lines)


@settings(max_examples=30)
@given(histories)
def test_without_its_middle_the_material_is_smaller_until_nothing_is_left(history: tuple[Entry, ...]) -> None:
    """First words and last words stay."""
    lines = material(history, CleanText)
    text = "\n\n".join(lines)
    shorter = without_middle(lines)
    quarter = len(text) // 4
    assert shorter[0] == text[:quarter]
    assert shorter[-1] == text[len(text) - quarter :]
    for _ in range(40):
        lines = without_middle(lines)
    assert size_of(lines) < 64


@settings(max_examples=30)
@given(rounds)
def test_a_prompt_of_pruned_rounds_keeps_its_pairs(in_flight: tuple[Entry, ...]) -> None:
    plan = plan_rounds(in_flight)
    shown = pruned(in_flight[plan.kept_from if plan else 0 :], kept=0)
    messages = as_prompt(shown)
    for at, message in enumerate(messages):
        wanted = [call.id for call in message.tool_calls]
        assert [result.tool_call_id for result in messages[at + 1 : at + 1 + len(wanted)]] == wanted
