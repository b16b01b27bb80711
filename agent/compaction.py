"""What to summarise, what to keep, and whether a summary is any good. Pure (agent.md section 6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from agent.context import Budget
from agent.limits import TAIL_SHARE_MAX, TAIL_TURNS
from agent.model.client import ModelAnswer, PromptMessage
from agent.tokens import entries_tokens, estimate_tokens
from agent.transcript import said_in, summary_of, turns_of
from gateway.contracts.entries import Entry, Role
from gateway.contracts.messages import CleanText, joined, own_words

_SPEAKERS: Final = {
    Role.USER: own_words("User: "),
    Role.ASSISTANT: own_words("Assistant: "),
    Role.TOOL: own_words("Tool result: "),
}
_CUT_SHORT: Final = frozenset({"length", "max_tokens"})


@dataclass(frozen=True, slots=True)
class Plan:
    """`head` goes into the summary, together with `prior`; from `tail_start_seq` on all stays verbatim."""

    head: tuple[Entry, ...]
    prior: CleanText | None
    tail_start_seq: int


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


def summary_request(plan: Plan, *, focus: CleanText | None = None) -> tuple[PromptMessage, ...]:
    """The whole material as one user message, so that no tool pair can be parted."""
    parts = []
    if plan.prior is not None:
        parts.append(joined(own_words("<earlier-summary>"), plan.prior, own_words("</earlier-summary>"), by="\n"))
    if focus:
        parts.append(joined(own_words("Pay most attention to: "), focus))
    lines = joined(*map(_line, plan.head), by="\n\n")
    parts.append(joined(own_words("<conversation>"), lines, own_words("</conversation>"), by="\n"))
    return (PromptMessage(Role.USER, joined(*parts, by="\n\n")),)


def is_usable(answer: ModelAnswer, plan: Plan) -> bool:
    """False for a summary that is empty, was cut short, or is not smaller than what it replaces."""
    text = answer.text.strip()
    replaced = entries_tokens(plan.head) + estimate_tokens(plan.prior or "")
    return bool(text) and answer.finish_reason not in _CUT_SHORT and estimate_tokens(text) < replaced


def _tail(entries: Sequence[Entry], budget: Budget) -> tuple[Entry, ...]:
    turns = turns_of(entries)
    for count in range(TAIL_TURNS, 1, -1):
        tail = tuple(entry for turn in turns[-count:] for entry in turn)
        if entries_tokens(tail) <= budget.usable * TAIL_SHARE_MAX:
            return tail
    return turns[-1] if turns else ()


def _line(entry: Entry) -> CleanText:
    calls = (joined(own_words("\n[calls a tool with "), call.arguments, own_words("]")) for call in entry.tool_calls)
    return joined(_SPEAKERS[entry.role], entry.text, *calls)
