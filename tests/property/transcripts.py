"""Transcripts as hypothesis makes them: user-led turns with tool rounds, some of them broken off."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import strategies as st

from gateway.contracts.entries import Entry, EntryKind, Role, ToolCall
from gateway.contracts.messages import CleanText

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
