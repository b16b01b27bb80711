"""What a compaction would summarise and what it leaves verbatim. Pure (agent.md section 6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent.context import Budget
from agent.limits import ROUNDS_KEPT_MESSAGES, TAIL_SHARE_MAX, TAIL_TURNS
from agent.tokens import entries_tokens, estimate_tokens
from agent.transcript import is_said, said_in, summary_of, turns_of
from gateway.contracts.entries import Entry, Role
from gateway.contracts.messages import CleanText


@dataclass(frozen=True, slots=True)
class Plan:
    """`head` goes into the summary, together with `prior`; from `tail_start_seq` on all stays verbatim."""

    head: tuple[Entry, ...]
    prior: CleanText | None
    tail_start_seq: int

    @property
    def tokens(self) -> int:
        """About the size of what the summary replaces."""
        return entries_tokens(self.head) + estimate_tokens(self.prior or "")


def plan_compaction(view: Sequence[Entry], budget: Budget | None) -> Plan | None:
    """What a compaction of `view` would do; None when there is nothing to summarise.

    With a budget the last two user-led turns stay, if they fit into a quarter of it, else the last one:
    never less, so the newest request is always verbatim. Without one (manual) nothing stays.
    """
    entries = said_in(view)
    tail = _tail(entries, budget) if budget is not None else ()
    head = entries[: len(entries) - len(tail)]
    if not head:
        return None
    return Plan(head, summary_of(view), tail[0].seq if tail else head[-1].seq + 1)


def _tail(entries: Sequence[Entry], budget: Budget) -> tuple[Entry, ...]:
    turns = turns_of(entries)
    for count in range(TAIL_TURNS, 1, -1):
        tail = tuple(entry for turn in turns[-count:] for entry in turn)
        if entries_tokens(tail) <= budget.usable * TAIL_SHARE_MAX:
            return tail
    return turns[-1] if turns else ()


@dataclass(frozen=True, slots=True)
class RoundsPlan:
    """A running turn: `head` goes into a summary that lives as long as the turn, `requests` (what its user said
    in between) and everything from index `kept_from` on stay verbatim."""

    head: tuple[Entry, ...]
    requests: tuple[Entry, ...]
    kept_from: int


def plan_rounds(in_flight: Sequence[Entry]) -> RoundsPlan | None:
    """Keep the last messages of a running turn, beginning with a whole group of calls and results.

    None when nothing stands before them. Only what the model said begins a group: its results, the notes
    on them and what joined belong to it.
    """
    starts = [index for index, entry in enumerate(in_flight) if entry.role is Role.ASSISTANT]
    fitting = [start for start in starts if len(in_flight) - start <= ROUNDS_KEPT_MESSAGES]
    kept_from = min(fitting, default=starts[-1] if starts else 0)
    if kept_from == 0:
        return None
    before = in_flight[:kept_from]
    requests = tuple(entry for entry in before if is_said(entry))
    return RoundsPlan(tuple(entry for entry in before if not is_said(entry)), requests, kept_from)
