"""What the server recognises in plain text by itself: mentions, commands, tags, addresses."""

from __future__ import annotations

import re
from typing import Final

from channels.emulators.telegram.text.entities import SPLITTABLE, Entity, FormattedText, utf16_length
from channels.emulators.telegram.text.tidy import nested

_TLDS: Final = "com|org|net|io|dev|app|ai|me|de|uk|fr|ru|eu|info|example|test|md|py"
_RULES: Final = (
    ("mention", re.compile(r"(?<![\w@/])@([A-Za-z0-9_]{2,32})\b")),
    ("bot_command", re.compile(r"(?<![\w/<>])/[A-Za-z0-9_]{1,64}(?:@[A-Za-z0-9_]{3,32})?(?![\w/<>])")),
    ("email", re.compile(r"\b[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}\b")),
    ("url", re.compile(r"(?:https?|tg|ftp)://[^\s<>\"]+[^\s<>\".,:;!?)\]'»]", re.IGNORECASE)),
    ("url", re.compile(rf"(?<![\w@./-])(?:[a-z0-9-]+\.)+(?:{_TLDS})\b(?:/[^\s<>\"]*[\w/])?", re.IGNORECASE)),
    ("hashtag", re.compile(r"(?<![\w#&])#(?!\d+\b)\w{1,256}")),
    ("cashtag", re.compile(r"(?<![\w$])\$[A-Z]{3,8}(?!\w)")),
)


def with_found(given: FormattedText) -> FormattedText:
    """`given` with everything recognised added where nothing solid stands already."""
    solid = [entity for entity in given.entities if entity.type not in SPLITTABLE and "quote" not in entity.type]
    found: list[Entity] = []
    for kind, pattern in _RULES:
        for match in pattern.finditer(given.text):
            offset = utf16_length(given.text[: match.start()])
            entity = Entity(kind, offset, utf16_length(match[0]))
            if not any(each.offset < entity.end and entity.offset < each.end for each in [*solid, *found]):
                found.append(entity)
    return FormattedText(given.text, tuple(nested([*given.entities, *found])))
