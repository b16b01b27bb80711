"""Old tool outputs give way to a line that says how much stood there; the calls stay. Pure (agent.md section 6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace

from agent.compacting.standing_in import stand_in
from agent.limits import OUTPUTS_KEPT, PRUNED_FROM_CHARS
from agent.tokens import entries_tokens, entry_tokens
from agent.transcript import said_in, turns_of
from gateway.contracts.entries import Entry, Role
from gateway.contracts.messages import CleanText


@dataclass(frozen=True, slots=True)
class Pruned:
    """A view with old outputs pruned. `saved_tokens` is by how much the prompt became smaller since it was last
    counted."""

    view: tuple[Entry, ...]
    saved_tokens: int


def pruned(entries: Sequence[Entry], *, kept: int = OUTPUTS_KEPT, protected: Set[str] = frozenset()) -> list[Entry]:
    """The long outputs pruned, except the newest `kept` and those of protected tools. Idempotent."""
    outputs = [index for index, entry in enumerate(entries) if entry.role is Role.TOOL]
    old = frozenset(outputs[: max(len(outputs) - kept, 0)])
    names = _tool_names(entries)
    return [
        prune_output(entry) if index in old and name not in protected else entry
        for index, (entry, name) in enumerate(zip(entries, names, strict=True))
    ]


def prune_output(entry: Entry) -> Entry:
    """A tool's result without its output, if that is long."""
    return entry if len(entry.text) <= PRUNED_FROM_CHARS else replace(entry, text=CleanText(stand_in(entry.text)))


def prune_pass(
    view: Sequence[Entry], *, fixed_tokens: int, threshold_tokens: float, protected: Set[str], counted_seq: int
) -> Pruned:
    """The view as the passes of its turns have left it.

    At the beginning of each turn whose prompt reaches the threshold, one pass prunes what is old by then. All
    passes are made again from the transcript, always with the same outcome, so that nothing has to be stored and
    the beginning of the prompt changes with a new pass only. `counted_seq` is the last entry of the prompt that
    the provider has counted; passes after it have saved what that count still holds.
    """
    said = list(said_in(view))
    summary = list(view[: len(view) - len(said)])
    names = _tool_names(said)
    outputs: list[int] = []
    size, saved, at, first_kept = fixed_tokens + entries_tokens(summary), 0, 0, 0
    for turn in turns_of(said):
        size += entries_tokens(turn)
        if size >= threshold_tokens:
            is_new = turn[0].seq > counted_seq
            while first_kept < len(outputs) - OUTPUTS_KEPT:
                index = outputs[first_kept]
                first_kept += 1
                if names[index] not in protected:
                    lighter = prune_output(said[index])
                    less = entry_tokens(said[index]) - entry_tokens(lighter)
                    said[index] = lighter
                    size -= less
                    saved += less if is_new else 0
        outputs.extend(index for index, entry in enumerate(turn, at) if entry.role is Role.TOOL)
        at += len(turn)
    return Pruned((*summary, *said), saved)


def _tool_names(entries: Sequence[Entry]) -> list[str]:
    """For each entry the tool whose result it is; empty for others. Call ids repeat between turns."""
    return list(_named(entries))


def _named(entries: Sequence[Entry]) -> Iterator[str]:
    called: dict[str, str] = {}
    for entry in entries:
        called.update((call.id, call.name) for call in entry.tool_calls)
        yield called.get(entry.tool_call_id, "") if entry.role is Role.TOOL else ""
