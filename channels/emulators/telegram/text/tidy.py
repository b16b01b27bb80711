"""What the server does to any text before it is kept: checks ranges, settles nesting, cleans and trims."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Final

from channels.emulators.telegram.text.entities import (
    CODE,
    QUOTES,
    SPLITTABLE,
    Entity,
    FormattedText,
    MarkupError,
    in_order,
    utf16_length,
)

_RANGE_MAX: Final = 1_000_000
_DROPPED: Final = frozenset("\r\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u0333\u033f\u030a")
_BLANK: Final = " \n"


def tidy(given: FormattedText) -> FormattedText:
    """The text as it will be shown. May come out empty. Raises `MarkupError` for impossible entities."""
    for entity in given.entities:
        if not 0 <= entity.offset <= _RANGE_MAX:
            raise MarkupError(f"Receive an entity with incorrect offset {entity.offset}")
        if not 0 <= entity.length <= _RANGE_MAX:
            raise MarkupError(f"Receive an entity with incorrect length {entity.length}")
    entities = nested([entity for entity in given.entities if entity.length])
    return _trimmed(*_cleaned(given.text, entities))


def nested(entities: list[Entity]) -> list[Entity]:
    """Entities that only nest as the rules allow: styles are split or dropped where they would not."""
    entities = in_order(entities)
    if _is_nested(entities):
        return entities
    solid: list[Entity] = []
    for entity in entities:
        if entity.type not in SPLITTABLE and not any(_clash(kept, entity) for kept in solid):
            solid.append(entity)
    return in_order([*solid, *_split(entities, solid)])


def _is_nested(entities: list[Entity]) -> bool:
    around: list[Entity] = []
    for entity in entities:
        while around and around[-1].end <= entity.offset:
            around.pop()
        for outer in around:
            if entity.end > outer.end or outer.type in CODE or outer.type == entity.type:
                return False
            if entity.type not in SPLITTABLE and outer.type not in SPLITTABLE and outer.type not in QUOTES:
                return False
            if entity.type in QUOTES and outer.type in QUOTES:
                return False
        around.append(entity)
    return True


def _clash(kept: Entity, entity: Entity) -> bool:
    if kept.end <= entity.offset or entity.end <= kept.offset:
        return False
    holds = kept.type in QUOTES and entity.type not in QUOTES and entity.end <= kept.end
    return not holds


def _split(entities: list[Entity], solid: list[Entity]) -> list[Entity]:
    """Styles, merged per type, cut at the edges of solid entities and absent from code."""
    pieces = []
    for style in sorted(SPLITTABLE):
        runs: list[tuple[int, int]] = []
        for entity in (each for each in entities if each.type == style):
            if runs and entity.offset <= runs[-1][1]:
                runs[-1] = (runs[-1][0], max(runs[-1][1], entity.end))
            else:
                runs.append((entity.offset, entity.end))
        for start, end in runs:
            edges = {edge for each in solid for edge in (each.offset, each.end) if start < edge < end}
            stops = [start, *sorted(edges), end]
            for first, last in pairwise(stops):
                if not any(each.type in CODE and each.offset <= first and last <= each.end for each in solid):
                    pieces.append(Entity(style, first, last - first))
    return pieces


def _cleaned(text: str, entities: list[Entity]) -> tuple[str, list[Entity]]:
    """Control characters become spaces or vanish; entity ranges follow, and must meet whole characters."""
    kept: list[str] = []
    moved: dict[int, int] = {}
    before, after = 0, 0
    for character in text:
        moved[before] = after
        before += utf16_length(character)
        if character in _DROPPED:
            continue
        kept.append(" " if character < " " and character != "\n" else character)
        after += utf16_length(character)
    moved[before] = after
    cleaned = []
    for entity in entities:
        if entity.offset > before:
            raise MarkupError(f"Entity begins after the end of the text at UTF-16 offset {entity.offset}")
        if entity.end > before:
            raise MarkupError(
                f"Entity beginning at UTF-16 offset {entity.offset} "
                f"ends after the end of the text at UTF-16 offset {entity.end}"
            )
        if entity.offset not in moved:
            place = _byte_offset(text, entity.offset)
            raise MarkupError(f"Entity begins in a middle of a UTF-16 symbol at byte offset {place}")
        if entity.end not in moved:
            place = _byte_offset(text, entity.end)
            raise MarkupError(
                f"Entity beginning at UTF-16 offset {entity.offset} "
                f"ends in a middle of a UTF-16 symbol at byte offset {place}"
            )
        start = moved[entity.offset]
        cleaned.append(replace(entity, offset=start, length=moved[entity.end] - start))
    return "".join(kept), [entity for entity in cleaned if entity.length]


def _byte_offset(text: str, inside: int) -> int:
    """Where the character after the one that `inside` falls into begins, in bytes."""
    units = 0
    for index, character in enumerate(text):
        units += utf16_length(character)
        if units > inside:
            return len(text[: index + 1].encode())
    return len(text.encode())


def _trimmed(text: str, entities: list[Entity]) -> FormattedText:
    units = text.encode("utf-16-le")

    def is_blank(unit: int) -> bool:
        return units[2 * unit : 2 * unit + 2] in (b" \0", b"\n\0")

    body_end = utf16_length(text.rstrip(_BLANK))
    kept = []
    for entity in entities:
        start, end = entity.offset, min(entity.end, body_end)
        while start < end and is_blank(start):
            start += 1
        if start < end:
            kept.append(replace(entity, offset=start, length=end - start))
    text = text.rstrip(_BLANK)
    lead = utf16_length(text) - utf16_length(text.lstrip(_BLANK))
    shifted = [replace(entity, offset=entity.offset - lead) for entity in kept]
    return FormattedText(text.lstrip(_BLANK), tuple(in_order(shifted)))
