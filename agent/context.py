"""The model's view of a session: which part of the transcript, in which form. Pure.

system prompt (byte-stable inside a session)
[history, oldest first, bounded by tokens, always user-led; the summary folded into its first message]
the newest user message, with a preamble of what changes from turn to turn
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from agent.limits import RESERVE_TOKENS_MAX, UNKNOWN_WINDOW_TOKENS
from agent.model.client import ModelFacts, PromptMessage
from agent.tokens import entries_tokens, estimate_tokens
from agent.transcript import as_prompt, said_in, summary_of, turns_of
from gateway.contracts.entries import Entry, Role, Session
from gateway.contracts.messages import CleanText, joined, own_words

_OUTPUT_SHARE_UNKNOWN: Final = 4  # a model whose output limit is unknown: leave a quarter of its window
_OUTPUT_SHARE_MAX: Final = 2  # never more than half, however much a model may write


@dataclass(frozen=True, slots=True)
class Budget:
    """Tokens of one prompt: `window` is the model's, `usable` what a prompt may fill."""

    window: int
    usable: int


def budget_of(facts: ModelFacts, *, window_override: int = 0) -> Budget:
    """`usable = window - min(20 000, the model's output limit)`, and never below half of the window."""
    window = window_override or facts.context_window or UNKNOWN_WINDOW_TOKENS
    output = facts.output_max or window // _OUTPUT_SHARE_UNKNOWN
    return Budget(window, window - min(RESERVE_TOKENS_MAX, output, window // _OUTPUT_SHARE_MAX))


def next_prompt_tokens(system: str, view: Sequence[Entry], session: Session) -> int:
    """The size of the next prompt: the provider's count of the last one plus an estimate of what came
    after it; where nothing was counted (or a compaction made the count void), an estimate of it all."""
    newest_seq = view[0].seq if summary_of(view) is not None else 0
    if session.prompt_tokens and session.prompt_seq > newest_seq:
        added = [entry for entry in view if entry.seq > session.prompt_seq]
        return session.prompt_tokens + entries_tokens(added)
    return estimate_tokens(system) + entries_tokens(view)


def build_prompt(view: Sequence[Entry], *, tokens_max: int, preamble: CleanText) -> tuple[PromptMessage, ...]:
    """History that fits into `tokens_max`, whole turns, newest kept; the newest request always verbatim.

    The summary is folded into the first user message, the preamble into the last: the prompt is always
    user-led and its beginning stays the same from turn to turn.
    """
    summary = summary_of(view)
    room = tokens_max - estimate_tokens(preamble) - estimate_tokens(summary or "")
    kept = _newest_that_fit(said_in(view), room)
    messages = list(as_prompt(kept))
    while messages and messages[0].role is not Role.USER:
        messages.pop(0)
    if summary is not None:
        messages = _fold(messages, 0, joined(own_words("<summary>\n"), summary, own_words("\n</summary>")))
    last = max((at for at, message in enumerate(messages) if message.role is Role.USER), default=0)
    return tuple(_fold(messages, last, preamble))


def preamble(now_ms: int, *, memory: CleanText | None = None) -> CleanText:
    """What changes from turn to turn and so may not stand in the system prompt: the time, and a block of
    `memory` that says of itself that it is data."""
    moment = datetime.fromtimestamp(now_ms / 1000, UTC)
    parts = [memory] if memory else []
    return joined(*parts, CleanText(f"<now>\n{moment:%A %Y-%m-%d %H:%M} UTC\n</now>"), by="\n\n")


def _newest_that_fit(entries: Sequence[Entry], room: int) -> tuple[Entry, ...]:
    kept: list[tuple[Entry, ...]] = []
    for turn in reversed(turns_of(entries)):
        room -= entries_tokens(turn)
        if kept and room < 0:
            break
        kept.append(turn)
    return tuple(entry for turn in reversed(kept) for entry in turn)


def _fold(messages: list[PromptMessage], at: int, text: CleanText) -> list[PromptMessage]:
    """Put `text` in front of the user message at `at`, or make one of it if there is none."""
    if not messages:
        return [PromptMessage(Role.USER, text)]
    folded = replace(messages[at], text=joined(text, messages[at].text, by="\n\n"))
    return [*messages[:at], folded, *messages[at + 1 :]]
