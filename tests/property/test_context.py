"""What the model sees of any transcript."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from agent.context import build_prompt, preamble
from agent.tokens import estimate_tokens
from agent.transcript import as_prompt, turns_of, with_whole_groups
from gateway.contracts.entries import Entry, Role
from gateway.contracts.messages import own_words
from tests.property.transcripts import numbered, summarised, transcripts

_NOW = preamble(1_800_000_000_000)


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
    prompt = build_prompt(view, preamble=_NOW)
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
    before = build_prompt(entries, preamble=_NOW)
    after = build_prompt(longer, preamble=_NOW)
    at = max(index for index, message in enumerate(before) if message.role is Role.USER)
    assert after[:at] == before[:at]


@given(transcripts)
def test_prompts_join_neighbouring_user_messages(entries: tuple[Entry, ...]) -> None:
    """Nothing a user said is lost when a batch becomes one message."""
    said = "\n\n".join(message.text for message in as_prompt(entries) if message.role is Role.USER)
    assert all(entry.text in said for entry in entries if entry.role is Role.USER)


@given(transcripts)
def test_nothing_in_view_is_left_out_of_a_prompt(entries: tuple[Entry, ...]) -> None:
    """What is too much is summarised; it never simply vanishes."""
    prompt = build_prompt(entries, preamble=_NOW)
    shown = "\n".join(message.text for message in prompt)
    told = with_whole_groups(entries)
    assert all(entry.text in shown for entry in told)


@given(st.text(alphabet="abc äж中😀\n", max_size=300))
def test_an_estimate_counts_narrow_and_wide_characters(text: str) -> None:
    """Characters / 4, and / 1.5 from the CJK radicals on."""
    wide = sum(ord(char) >= 0x2E80 for char in text)
    exact = (len(text) - wide) / 4 + wide / 1.5
    assert estimate_tokens(text) == (int(exact) + 1 if text else 0)
