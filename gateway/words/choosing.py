"""Which language somebody is spoken to in. Pure.

What the platform says of a person comes first, then what the script of his words makes certain, then what was last
known where he speaks, then English. The operator's `words.language` stands in for the first at the door.
"""

from __future__ import annotations

from gateway.words.languages import Language, language_named, language_written
from gateway.words.saying import Words


def language_of(tag: str, text: str = "") -> Language | None:
    """What is known of the author of one message; None where that is nothing."""
    return language_named(tag) or language_written(text)


def words_for(tag: str, text: str = "", *, known: str = "") -> Words:
    """The words for whoever wrote `text`. `tag` is what the platform says, `known` what was last known there."""
    return Words(language_of(tag, text) or language_named(known) or Language.EN)
