"""What takes the place of a question once it is settled: the same words, how it ended, and no buttons."""

from __future__ import annotations

from dataclasses import replace

from agent.questions import ended_text
from gateway.contracts.messages import Reply, ReplyKind
from gateway.contracts.ports import Clock, Scrubber


def amendment(question: Reply, ending: str, scrubber: Scrubber, clock: Clock) -> Reply:
    """One for each question, whoever settles it: its id is known from the question's."""
    return replace(
        question,
        id=f"{question.id}:end",
        text=scrubber.for_chat(str(question.key)).scrub(ended_text(question.text, ending)),
        kind=ReplyKind.NOTICE,
        created_at_ms=clock.now_ms(),
        choices=(),
        amends=question.id,
    )
