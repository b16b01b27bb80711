"""Plans what a compaction prunes, summarises and leaves verbatim; writes the request for a summary. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import Final

from agent.limits import OUTPUTS_KEPT, PRUNED_FROM_CHARS, ROUNDS_KEPT_MESSAGES, TAIL_SHARE_MAX, TAIL_TURNS
from agent.models.requests import ModelAnswer, PromptMessage, StopReason
from agent.models.transcript import PromptBudget, is_said, said_in, summary_of, turns_of
from agent.tokens import entries_tokens, entry_tokens, estimate_tokens, stand_in
from gateway.contracts.messages import CleanText, joined, literal_text, portion
from gateway.contracts.sessions import Entry, EntryKind, Role


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """`head` goes into the summary, together with `prior`; from `tail_start_seq` on all stays verbatim."""

    head: tuple[Entry, ...]
    prior: CleanText | None
    tail_start_seq: int

    @property
    def tokens(self) -> int:
        """Estimate the size of what the summary replaces, in tokens."""
        return entries_tokens(self.head) + estimate_tokens(self.prior or "")


def plan_compaction(view: Sequence[Entry], budget: PromptBudget | None) -> CompactionPlan | None:
    """Plan a compaction of `view`; None when there is nothing to summarise.

    With a budget the last two user-led turns stay, if they fit into a quarter of it, else the last one: never less, so
    the newest request is always verbatim. Without one (manual) nothing stays."""
    entries = said_in(view)
    tail = _tail(entries, budget) if budget is not None else ()
    head = entries[: len(entries) - len(tail)]
    if not head:
        return None
    return CompactionPlan(head, summary_of(view), tail[0].seq if tail else head[-1].seq + 1)


def _tail(entries: Sequence[Entry], budget: PromptBudget) -> tuple[Entry, ...]:
    turns = turns_of(entries)
    for count in range(TAIL_TURNS, 1, -1):
        tail = tuple(entry for turn in turns[-count:] for entry in turn)
        if entries_tokens(tail) <= budget.usable * TAIL_SHARE_MAX:
            return tail
    return turns[-1] if turns else ()


@dataclass(frozen=True, slots=True)
class RoundsPlan:
    """A running turn: `head` goes into a summary that lives as long as the turn; `requests` (what it began with, and
    what its user said in between) and everything from index `kept_from` on stay verbatim."""

    head: tuple[Entry, ...]
    requests: tuple[Entry, ...]
    kept_from: int


def plan_rounds(in_flight: Sequence[Entry]) -> RoundsPlan | None:
    """Keep the last messages of a running turn, beginning with a whole group of calls and results.

    None when no round is before them. Only what the model said begins a group: its results, the notes on
    them and what joined belong to it."""
    starts = [index for index, entry in enumerate(in_flight) if entry.role is Role.ASSISTANT]
    fitting = [start for start in starts if len(in_flight) - start <= ROUNDS_KEPT_MESSAGES]
    kept_from = min(fitting, default=starts[-1] if starts else 0)
    if not starts or kept_from == starts[0]:
        return None
    rounds = in_flight[starts[0] : kept_from]
    requests = (*in_flight[: starts[0]], *filter(is_said, rounds))
    return RoundsPlan(tuple(entry for entry in rounds if not is_said(entry)), requests, kept_from)


# Old tool outputs give way to a line that says how much stood there; the calls stay. Pure (agent.md section 6).


@dataclass(frozen=True, slots=True)
class Pruned:
    """A view with old outputs pruned. `saved_tokens` is by how much the prompt became smaller since it was last
    counted."""

    view: tuple[Entry, ...]
    saved_tokens: int


def pruned(entries: Sequence[Entry], *, kept: int = OUTPUTS_KEPT, protected: Set[str] = frozenset()) -> list[Entry]:
    """Prune the long outputs, except the newest `kept` and those of protected tools. Idempotent."""
    outputs = [index for index, entry in enumerate(entries) if entry.role is Role.TOOL]
    old = frozenset(outputs[: max(len(outputs) - kept, 0)])
    names = _tool_names(entries)
    return [
        prune_output(entry) if index in old and name not in protected else entry
        for index, (entry, name) in enumerate(zip(entries, names, strict=True))
    ]


def prune_output(entry: Entry) -> Entry:
    """Remove the output from a tool's result, if it is long."""
    return entry if len(entry.text) <= PRUNED_FROM_CHARS else replace(entry, text=CleanText(stand_in(entry.text)))


def prune_pass(
    view: Sequence[Entry], *, fixed_tokens: int, threshold_tokens: float, protected: Set[str], counted_seq: int
) -> Pruned:
    """Prune the view as the passes of its turns have left it.

    At the beginning of each turn whose prompt reaches the threshold, one pass prunes what is old by then. All passes
    are made again from the transcript, always with the same outcome, so that nothing has to be stored and the beginning
    of the prompt changes with a new pass only. `counted_seq` is the last entry of the prompt that the provider has
    counted; passes after it have saved what that count still holds."""
    if all(entry.role is not Role.TOOL for entry in view):
        return Pruned(tuple(view), 0)
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
    """List for each entry the tool whose result it is; empty for others. Call ids repeat between turns."""
    return list(_named(entries))


def _named(entries: Sequence[Entry]) -> Iterator[str]:
    called: dict[str, str] = {}
    for entry in entries:
        called.update((call.id, call.name) for call in entry.tool_calls)
        yield called.get(entry.tool_call_id, "") if entry.role is Role.TOOL else ""


# What the summarising model is given, in pieces that fit, and whether its summary is any good. Pure.


_SPEAKERS: Final = {
    Role.USER: literal_text("User: "),
    Role.ASSISTANT: literal_text("Assistant: "),
    Role.TOOL: literal_text("Tool result: "),
}
_LEFT_OUT: Final = literal_text("[… the middle of the conversation was left out here: it was too long …]")
_TOKENS_PER_WORD: Final = 2  # paths and identifiers have more than prose
_FRAME_TOKENS: Final = 40
"""Of the marks and headings around material, and around a summary in a prompt."""


def material(entries: Iterable[Entry], scrub: Callable[[str], CleanText]) -> tuple[CleanText, ...]:
    """Write entries as a text to read, one piece each: a tool call and its results are plain words here, so that a
    provider cannot refuse them when they are separated. Notes are left out, because nobody said them."""
    return tuple(_line(entry, scrub) for entry in entries if entry.kind is not EntryKind.NOTE)


def summary_request(
    lines: Sequence[CleanText], *, length: CleanText, prior: CleanText | None = None, focus: CleanText | None = None
) -> tuple[PromptMessage, ...]:
    """Build the request: the material as one user message, after the summary of what came before it; `length` says how
    long a new one may be."""
    parts = []
    if prior is not None:
        parts.append(joined(literal_text("<earlier-summary>"), prior, literal_text("</earlier-summary>"), by="\n"))
    if focus:
        parts.append(joined(literal_text("Pay most attention to: "), focus))
    conversation = joined(*lines, by="\n\n")
    parts.append(joined(literal_text("<conversation>"), conversation, literal_text("</conversation>"), by="\n"))
    parts.append(length)
    return (PromptMessage(Role.USER, joined(*parts, by="\n\n")),)


def length_note(tokens: int) -> str:
    """Tell the model how long its summary may be."""
    return f"Write at most {max(tokens // _TOKENS_PER_WORD, 1)} words: what is longer is cut off and lost."


def material_room(
    planned: int, answer_max: int, *, system: CleanText, prior: CleanText | None = None, focus: CleanText | None = None
) -> int:
    """Compute how many tokens of material fit into one call that is planned to take so many in all, of a model
    which may answer with `answer_max`."""
    around = estimate_tokens(system) + estimate_tokens(prior or "") + estimate_tokens(focus or "") + _FRAME_TOKENS
    return planned - answer_max - around


def bounded(tokens: int, planned: int) -> int:
    """Limit the tokens of an answer to a quarter of what the call may take, which matters only for a very small
    window."""
    return min(tokens, planned // 4)


def size_of(lines: Sequence[CleanText]) -> int:
    """Estimate the tokens of some material."""
    return sum(map(_size, lines))


def first_chunk(lines: Sequence[CleanText], room: int) -> tuple[tuple[CleanText, ...], tuple[CleanText, ...]]:
    """Split off as much from the beginning as fits into `room` tokens, and return it with the rest. A line that alone
    is too large is split; the chunk is never empty as long as there are lines."""
    if lines and _size(lines[0]) > room and len(lines[0]) > 1:
        lines = (*_halves(lines[0]), *lines[1:])
        return first_chunk(lines, room)
    count, left = 0, room
    while count < len(lines) and (count == 0 or _size(lines[count]) <= left):
        left -= _size(lines[count])
        count += 1
    return tuple(lines[:count]), tuple(lines[count:])


def without_middle(lines: Sequence[CleanText]) -> tuple[CleanText, ...]:
    """Keep the first and the last quarter of the material."""
    text = joined(*lines, by="\n\n")
    quarter = len(text) // 4
    return (portion(text, 0, quarter), _LEFT_OUT, portion(text, len(text) - quarter, len(text)))


def is_usable(answer: ModelAnswer, *, replaced_tokens: int) -> bool:
    """Tell whether a summary is usable: not empty, not cut short, and smaller than what it replaces."""
    text = answer.text.strip()
    size = estimate_tokens(text) + _FRAME_TOKENS
    return bool(text) and answer.ending is StopReason.OWN and size < replaced_tokens


def _size(line: CleanText) -> int:
    return estimate_tokens(line) + 1  # the blank line after it


def _halves(line: CleanText) -> tuple[CleanText, CleanText]:
    middle = len(line) // 2
    return portion(line, 0, middle), portion(line, middle, len(line))


def _line(entry: Entry, scrub: Callable[[str], CleanText]) -> CleanText:
    calls = (
        joined(literal_text("\n[calls "), scrub(call.name), literal_text(" with "), call.arguments, literal_text("]"))
        for call in entry.tool_calls
    )
    return joined(_SPEAKERS[entry.role], entry.text, *calls)
