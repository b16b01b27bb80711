"""The model's view of a session: which part of the transcript, in which form. Pure.

system prompt (byte-stable inside a session)
[history, oldest first, always user-led; the summary folded into its first message]
the newest user message, with a preamble of what changes from turn to turn

Providers keep what they have read of a prompt and charge a tenth for it, as long as the next prompt begins
with the same bytes. So a preamble is stored with its turn, as a note, and stands in every later prompt where
it stood in the first: a preamble that only the newest message had would void all that came after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from agent.limits import IMAGE_TOKENS, RESERVE_TOKENS_MAX, UNKNOWN_WINDOW_TOKENS
from agent.model.client import ModelFacts, PromptMessage
from agent.tokens import entries_tokens
from agent.tone import TONE_HINTS, Tone
from agent.transcript import as_prompt, said_in, shown_images, summary_of
from gateway.contracts.entries import Entry, Role, Session
from gateway.contracts.messages import CleanText, joined, own_words

_OUTPUT_SHARE_UNKNOWN: Final = 4  # a model whose output limit is unknown: leave a quarter of its window
_BEFORE: Final = own_words("(The conversation began before this.)")
_OUTPUT_SHARE_MAX: Final = 2  # never more than half, however much a model may write


@dataclass(frozen=True, slots=True)
class Budget:
    """Tokens of one prompt: `window` is the model's, `usable` what a prompt may fill, `an_image` what each image that
    is shown takes of it: nothing where the model sees none."""

    window: int
    usable: int
    an_image: int = 0


def budget_of(facts: ModelFacts, *, window_override: int = 0) -> Budget:
    """`usable = window - min(20 000, the model's output limit)`, and never below half of the window."""
    window = window_override or facts.context_window or UNKNOWN_WINDOW_TOKENS
    output = facts.output_max or window // _OUTPUT_SHARE_UNKNOWN
    usable = window - min(RESERVE_TOKENS_MAX, output, window // _OUTPUT_SHARE_MAX)
    return Budget(window, usable, IMAGE_TOKENS if facts.sees else 0)


def next_prompt_tokens(fixed_tokens: int, view: Sequence[Entry], session: Session, *, an_image: int = 0) -> int:
    """The size of the next prompt: the provider's count of the last one plus an estimate of what came
    after it; where nothing was counted (or a compaction made the count void), an estimate of it all.
    `fixed_tokens` are the system prompt and the tools, which every count holds; each image shown takes `an_image`."""
    newest_seq = view[0].seq if summary_of(view) is not None else 0
    if session.prompt_tokens and session.prompt_seq > newest_seq:
        added = [entry for entry in view if entry.seq > session.prompt_seq]
        return session.prompt_tokens + entries_tokens(added) + an_image * len(shown_images(added))
    return fixed_tokens + entries_tokens(view) + an_image * len(shown_images(view))


def build_prompt(entries: Sequence[Entry]) -> tuple[PromptMessage, ...]:
    """A view, and what the turn has left behind so far, as a prompt; the summary folded into its first message.

    All of it: what is in view is never left out of a prompt. Always user-led, and the next one begins as it does.
    """
    summary = summary_of(entries)
    messages = list(as_prompt(said_in(entries)))
    if not messages or messages[0].role is not Role.USER:
        messages.insert(0, PromptMessage(Role.USER, _BEFORE))
    if summary is not None:
        folded = joined(own_words("<summary>\n"), summary, own_words("\n</summary>\n\n"), messages[0].text)
        messages[0] = replace(messages[0], text=folded)
    return tuple(messages)


def preamble(
    now_ms: int,
    *,
    tone: Tone = Tone.NONE,
    memory: CleanText | None = None,
    lost: CleanText | None = None,
    unseen: CleanText | None = None,
) -> CleanText:
    """What changes from turn to turn and so may not stand in the system prompt: the time, how the person
    sounds, a block of `memory` that says of itself that it is data, what is `lost` of an earlier attempt, and that an
    image is `unseen`."""
    moment = datetime.fromtimestamp(now_ms / 1000, UTC)
    parts = [memory] if memory else []
    if tone is not Tone.NONE:
        parts.append(joined(own_words("<tone>\n"), TONE_HINTS[tone], own_words("\n</tone>")))
    if lost:
        parts.append(joined(own_words("<interrupted>\n"), lost, own_words("\n</interrupted>")))
    if unseen:
        parts.append(joined(own_words("<unseen>\n"), unseen, own_words("\n</unseen>")))
    return joined(*parts, CleanText(f"<now>\n{moment:%A %Y-%m-%d %H:%M} UTC\n</now>"), by="\n\n")
