"""What takes the place of a question once it is settled: the same words, how it ended, and no buttons."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from agent.questions import ended_text
from gateway.contracts.messages import Reply, ReplyKind
from gateway.contracts.ports import Clock, Scrubber
from gateway.contracts.questions import PutQuestion
from gateway.words import Words, words_for


def amendments(
    question: PutQuestion, ending: Callable[[Words], str], scrubber: Scrubber, clock: Clock
) -> tuple[Reply, ...]:
    """Return one for each reply of the question, whoever settles it: its id is known from the reply's."""
    return tuple(
        replace(
            reply,
            id=f"{reply.id}:end",
            text=scrubber.for_chat(str(question.key)).scrub(ended_text(reply.text, ending(words_for(reply.language)))),
            kind=ReplyKind.NOTICE,
            created_at_ms=clock.now_ms(),
            choices=(),
            amends=reply.id,
        )
        for reply in question.replies
    )
