"""Entities, and the arithmetic of UTF-16 offsets they are measured in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SPLITTABLE: Final = frozenset({"bold", "italic", "underline", "strikethrough", "spoiler"})
QUOTES: Final = frozenset({"blockquote", "expandable_blockquote"})
CODE: Final = frozenset({"pre", "code"})
_OUTER_FIRST: Final = {
    "blockquote": 0,
    "expandable_blockquote": 0,
    "pre": 1,
    "code": 2,
    "text_link": 3,
    "text_mention": 3,
    "bold": 5,
    "italic": 6,
    "underline": 7,
    "strikethrough": 8,
    "spoiler": 9,
    "custom_emoji": 10,
}
_FOUND: Final = 4  # what the server recognised by itself goes inside links and around styles
ENTITIES_MAX: Final = 100  # more are ignored without a word, says the documentation


class MarkupError(ValueError):
    """Text or entities that the API refuses; the message is the server's own."""


@dataclass(frozen=True, slots=True)
class Entity:
    """A styled or meaningful range. `offset` and `length` count UTF-16 units."""

    type: str
    offset: int
    length: int
    url: str = ""
    language: str = ""
    user_id: int = 0
    custom_emoji_id: str = ""

    @property
    def end(self) -> int:
        return self.offset + self.length


@dataclass(frozen=True, slots=True)
class FormattedText:
    text: str = ""
    entities: tuple[Entity, ...] = ()


def utf16_length(text: str) -> int:
    """How many UTF-16 units `text` has: two for each character beyond the basic plane."""
    return len(text) + sum(character > "\uffff" for character in text)


def utf16_cut(text: str, offset: int, length: int) -> str:
    """The part of `text` at these UTF-16 units."""
    return text.encode("utf-16-le")[2 * offset : 2 * (offset + length)].decode("utf-16-le", "replace")


def in_order(entities: list[Entity]) -> list[Entity]:
    """Outer before inner, earlier before later."""
    return sorted(entities, key=lambda entity: (entity.offset, -entity.length, _OUTER_FIRST.get(entity.type, _FOUND)))
