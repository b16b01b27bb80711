"""What the model sees of any transcript."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from agent.models.transcript import Tone, as_prompt, build_prompt, preamble, with_whole_groups
from agent.tokens import estimate_tokens
from gateway.contracts.messages import literal_text
from gateway.contracts.sessions import Entry, EntryKind, Role
from tests.property.transcripts import summarised, transcripts


@given(transcripts)
def test_tool_pairs_are_never_parted(entries: tuple[Entry, ...]) -> None:
    """Every call is followed by exactly its results, in call order, before anything else is said."""
    whole = with_whole_groups(entries)
    for at, entry in enumerate(whole):
        expected = [call.id for call in entry.tool_calls]
        assert [result.tool_call_id for result in whole[at + 1 : at + 1 + len(expected)]] == expected
    assert sum(len(entry.tool_calls) for entry in whole) == sum(entry.role is Role.TOOL for entry in whole)


@given(transcripts, st.booleans(), st.integers(0, 9))
def test_a_prompt_is_user_led_and_ends_with_the_newest_request(
    entries: tuple[Entry, ...], has_summary: bool, skipped: int
) -> None:
    """Wherever the view begins, the newest request is there, verbatim and last of the user's."""
    newest_at = max(index for index, entry in enumerate(entries) if entry.role is Role.USER)
    entries = entries[min(skipped, newest_at) :]
    view = summarised(entries) if has_summary else entries
    prompt = build_prompt(view)
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
    asked = Entry(Role.USER, literal_text("and now?"))
    note = Entry(Role.USER, preamble(1_800_000_000_000, tone=Tone.ERROR), kind=EntryKind.NOTE)
    sent = (*(summarised(earlier) if has_summary else earlier), asked, note)
    answered = (*sent, Entry(Role.ASSISTANT, literal_text("well")), *later)
    before, after = build_prompt(sent), build_prompt(answered)
    assert after[: len(before)] == before


@given(transcripts)
def test_what_people_said_comes_last_in_their_message(entries: tuple[Entry, ...]) -> None:
    """Our notes stand in front, whenever they were written."""
    asked = Entry(Role.USER, literal_text("and now?"))
    note = Entry(Role.USER, preamble(1_800_000_000_000), kind=EntryKind.NOTE)
    assert build_prompt((*entries, asked, note))[-1].text.endswith("and now?")


@given(transcripts)
def test_prompts_join_neighbouring_user_messages(entries: tuple[Entry, ...]) -> None:
    """Nothing a user said is lost when a batch becomes one message."""
    said = "\n\n".join(message.text for message in as_prompt(entries) if message.role is Role.USER)
    assert all(entry.text in said for entry in entries if entry.role is Role.USER)


@given(transcripts)
def test_nothing_in_view_is_left_out_of_a_prompt(entries: tuple[Entry, ...]) -> None:
    """What is too much is summarised; it never simply vanishes."""
    prompt = build_prompt(entries)
    shown = "\n".join(message.text for message in prompt)
    told = with_whole_groups(entries)
    assert all(entry.text in shown for entry in told)


@given(st.text(alphabet="abc äж中😀\n", max_size=300))
def test_an_estimate_counts_narrow_and_wide_characters(text: str) -> None:
    """Characters / 4, and / 1.5 from the CJK radicals on."""
    wide = sum(ord(char) >= 0x2E80 for char in text)
    exact = (len(text) - wide) / 4 + wide / 1.5
    assert estimate_tokens(text) == (int(exact) + 1 if text else 0)
