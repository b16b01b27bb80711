"""Which language somebody is spoken to in. Pure.

What the platform says of a person comes first, then what the script of his words makes certain, then what was last
known where he speaks, then English. The operator's `words.language` stands in for the first, at the door.
"""

from __future__ import annotations

from gateway.contracts.messages import InboundMessage
from gateway.contracts.schedules import is_firing
from gateway.contracts.subagents import is_wake
from gateway.words.languages import Language, language_named, language_written
from gateway.words.saying import Words


def words_for(tag: str, text: str = "", *, known: str = "") -> Words:
    """The words for whoever wrote `text`. `tag` is what the platform says, `known` what was last known there."""
    return Words(language_named(tag) or language_written(text) or language_named(known) or Language.EN)


def language_of(message: InboundMessage) -> Language | None:
    """What one message shows of its author's language; None for nothing. What a schedule or the end of a sub-agent
    sent is nobody's words."""
    text = "" if is_firing(message) or is_wake(message) else message.text
    return language_named(message.language) or language_written(text)
