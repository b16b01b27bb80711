"""Transcripts as hypothesis makes them: user-led turns with tool rounds, some of them broken off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from hypothesis import strategies as st

from gateway.contracts.messages import CleanText
from gateway.contracts.sessions import Entry, EntryKind, Role, ToolCall

texts = st.text(alphabet="abc äж中 \n", min_size=1, max_size=400).map(CleanText)


@st.composite
def turn(draw: Callable[[st.SearchStrategy[object]], object]) -> list[Entry]:
    """One turn: user messages, tool rounds, an answer unless the run was killed."""
    entries = [Entry(Role.USER, CleanText(str(draw(texts)))) for _ in range(int(str(draw(st.integers(1, 2)))))]
    for _ in range(int(str(draw(st.integers(0, 2))))):
        count = int(str(draw(st.integers(1, 3))))
        calls = tuple(ToolCall(f"call_{number}", "recall", CleanText("{}")) for number in range(count))
        entries.append(Entry(Role.ASSISTANT, CleanText(""), tool_calls=calls))
        answered = int(str(draw(st.integers(0, count))))
        entries.extend(Entry(Role.TOOL, CleanText(str(draw(texts))), tool_call_id=call.id) for call in calls[:answered])
    if draw(st.booleans()):
        entries.append(Entry(Role.ASSISTANT, CleanText(str(draw(texts)))))
    return entries


def numbered(turns: Sequence[Sequence[Entry]], first: int = 1) -> tuple[Entry, ...]:
    """The entries of all turns, with the sequence numbers a store gives."""
    flat = [entry for turn_entries in turns for entry in turn_entries]
    return tuple(
        Entry(entry.role, entry.text, seq, EntryKind.MESSAGE, entry.tool_calls, entry.tool_call_id)
        for seq, entry in enumerate(flat, first)
    )


transcripts = st.lists(turn(), min_size=1, max_size=8).map(numbered)


def summarised(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """The same view behind a summary."""
    summary = Entry(Role.ASSISTANT, CleanText("Goal: none."), 10_000, EntryKind.COMPACTION)
    return (summary, *entries)


def rounds_of(codes: list[int]) -> tuple[Entry, ...]:
    """What a running turn has added: rounds of calls, results of any length, notes, what joined. Each code is one
    round, digit by digit: one draw is cheaper than a dozen."""
    entries: list[Entry] = []
    for number, code in enumerate(codes):
        digits = [code >> 2 * at & 3 for at in range(8)]
        names = ["todo_write" if digit == 3 else "recall" for digit in digits[: digits[0] + 1]]
        calls = tuple(ToolCall(f"call_{at}", name, CleanText("{}")) for at, name in enumerate(names))
        entries.append(Entry(Role.ASSISTANT, CleanText(f"round {number}"), tool_calls=calls))
        for call, digit in zip(calls, digits[3:7], strict=False):
            entries.append(Entry(Role.TOOL, CleanText("x" * (3, 400, 401, 5_000)[digit]), tool_call_id=call.id))
        if digits[7] & 1:
            entries.append(Entry(Role.USER, CleanText("a tool failed"), kind=EntryKind.NOTE))
        if digits[7] & 2:
            entries.append(Entry(Role.USER, CleanText(f"and mind {number}")))
    return tuple(entries)


rounds = st.lists(st.integers(0, 2**16 - 1), min_size=1, max_size=14).map(rounds_of)


def told(groups: list[tuple[Entry, ...]]) -> tuple[Entry, ...]:
    """Turns of a user, each a request and its rounds, with sequence numbers."""
    flat = [entry for group in groups for entry in (Entry(Role.USER, CleanText("please")), *group)]
    return tuple(replace(entry, seq=seq) for seq, entry in enumerate(flat, 1))


histories = st.lists(rounds, min_size=1, max_size=6).map(told)
