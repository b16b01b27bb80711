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
_KEEPS_BLANKS: Final = CODE | {"text_link", "text_mention"}


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
    """Entities that only nest as the rules allow.

    Links, code and the like overlap nothing of their kind, the first one stays; quotes hold them whole or not
    at all. Styles are merged per type, cut wherever something else begins or ends, and absent from code.
    """
    entities = in_order(entities)
    quotes = _apart([each for each in entities if each.type in QUOTES])
    others = _apart([each for each in entities if each.type not in QUOTES | SPLITTABLE])
    whole = [each for each in others if all(_is_clear_of(each, quote) for quote in quotes)]
    return in_order([*quotes, *whole, *_split(entities, [*quotes, *whole])])


def _apart(entities: list[Entity]) -> list[Entity]:
    kept: list[Entity] = []
    for entity in entities:
        if not kept or kept[-1].end <= entity.offset:
            kept.append(entity)
    return kept


def _is_clear_of(entity: Entity, quote: Entity) -> bool:
    is_outside = entity.end <= quote.offset or quote.end <= entity.offset
    return is_outside or (quote.offset <= entity.offset and entity.end <= quote.end)


def _split(entities: list[Entity], solid: list[Entity]) -> list[Entity]:
    runs = [(style, *run) for style in sorted(SPLITTABLE) for run in _runs(entities, style)]
    edges = sorted({start for _, start, _ in runs} | {edge for each in solid for edge in (each.offset, each.end)})
    code = [each for each in solid if each.type in CODE]
    pieces = []
    for style, start, end in runs:
        stops = [start, *(edge for edge in edges if start < edge < end), end]
        for first, last in pairwise(stops):
            if not any(each.offset <= first and last <= each.end for each in code):
                pieces.append(Entity(style, first, last - first))
    return pieces


def _runs(entities: list[Entity], style: str) -> list[tuple[int, int]]:
    """Where a style holds, with what overlaps or touches made one."""
    runs: list[tuple[int, int]] = []
    for entity in (each for each in entities if each.type == style):
        if runs and entity.offset <= runs[-1][1]:
            runs[-1] = (runs[-1][0], max(runs[-1][1], entity.end))
        else:
            runs.append((entity.offset, entity.end))
    return runs


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
    """White space goes from both ends, but not from inside an entity that begins with it and may keep it."""
    units = text.encode("utf-16-le")

    def is_blank(unit: int) -> bool:
        return units[2 * unit : 2 * unit + 2] in (b" \0", b"\n\0")

    body_end = utf16_length(text.rstrip(_BLANK))
    kept = []
    for entity in entities:
        start, end = entity.offset, min(entity.end, body_end)
        while entity.type not in _KEEPS_BLANKS and start < end and is_blank(start):
            start += 1
        if start < end:
            kept.append(replace(entity, offset=start, length=end - start))
    text = text.rstrip(_BLANK)
    lead = len(text) - len(text.lstrip(_BLANK))
    lead = min([lead, *(entity.offset for entity in kept)])
    shifted = [replace(entity, offset=entity.offset - lead) for entity in kept]
    return FormattedText(text[lead:], tuple(in_order(shifted)))
