"""Text as the Bot API sees it: plain characters, and entities that count UTF-16 units."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final
from urllib.parse import parse_qs, urlsplit

# --- entities and the arithmetic of UTF-16 offsets


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


class EntityError(ValueError):
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
    """Count the UTF-16 units of `text`: two for each character beyond the basic plane."""
    return len(text) + sum(character > "\uffff" for character in text)


def utf16_cut(text: str, offset: int, length: int) -> str:
    """Cut out the part of `text` at these UTF-16 units."""
    return text.encode("utf-16-le")[2 * offset : 2 * (offset + length)].decode("utf-16-le", "replace")


def in_order(entities: list[Entity]) -> list[Entity]:
    """Sort outer before inner, earlier before later."""
    return sorted(entities, key=lambda entity: (entity.offset, -entity.length, _OUTER_FIRST.get(entity.type, _FOUND)))


# --- which addresses the server accepts as the target of a link


_SCHEME: Final = re.compile(r"^([a-z][a-z0-9+.-]*):", re.IGNORECASE)
_WEB: Final = frozenset({"http", "https", "ftp", "tonsite"})
_APP: Final = frozenset({"tg", "ton"})


def checked_link(url: str) -> str | None:
    """Return the address as the server keeps it, or None when it would not link there.

    A bare domain gets `http://`, a bare host a trailing slash; a host needs a dot; `javascript:` and
    other schemes are no links at all.
    """
    url = url.strip()
    if not url or any(character.isspace() for character in url):
        return None
    named = _SCHEME.match(url)
    if named and named[1].lower() in _APP:
        return url
    if named is None or "." in named[1]:
        url = f"http://{url}"
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return None
    if parts.scheme.lower() not in _WEB or not ("." in host.strip(".") or ":" in host):
        return None
    return url if parts.path or parts.query or parts.fragment else f"{url}/"


def mentioned_user(url: str) -> int:
    """Return the user id of a `tg://user?id=…` link, 0 for any other."""
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        return 0
    if parts.scheme.lower() != "tg" or parts.netloc != "user":
        return 0
    given = parse_qs(parts.query).get("id", [""])[0]
    return int(given) if given.isdecimal() else 0


# --- what the server does to any text: check ranges, settle nesting, clean and trim


_RANGE_MAX: Final = 1_000_000
_DROPPED: Final = frozenset("\r\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u0333\u033f\u030a")
_BLANK: Final = " \n"
_KEEPS_BLANKS: Final = CODE | {"text_link", "text_mention"}


def tidy(given: FormattedText) -> FormattedText:
    """Return the text as it will be shown. May come out empty. Raises `EntityError` for impossible entities."""
    for entity in given.entities:
        if not 0 <= entity.offset <= _RANGE_MAX:
            raise EntityError(f"Receive an entity with incorrect offset {entity.offset}")
        if not 0 <= entity.length <= _RANGE_MAX:
            raise EntityError(f"Receive an entity with incorrect length {entity.length}")
    entities = nested([entity for entity in given.entities if entity.length])
    return _trimmed(*_cleaned(given.text, entities))


def nested(entities: list[Entity]) -> list[Entity]:
    """Keep entities that nest as the rules allow.

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
    """Find where a style holds, with what overlaps or touches made one."""
    runs: list[tuple[int, int]] = []
    for entity in (each for each in entities if each.type == style):
        if runs and entity.offset <= runs[-1][1]:
            runs[-1] = (runs[-1][0], max(runs[-1][1], entity.end))
        else:
            runs.append((entity.offset, entity.end))
    return runs


def _cleaned(text: str, entities: list[Entity]) -> tuple[str, list[Entity]]:
    """Turn control characters into spaces or drop them; entity ranges follow, and must meet whole characters."""
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
            raise EntityError(f"Entity begins after the end of the text at UTF-16 offset {entity.offset}")
        if entity.end > before:
            raise EntityError(
                f"Entity beginning at UTF-16 offset {entity.offset} "
                f"ends after the end of the text at UTF-16 offset {entity.end}"
            )
        if entity.offset not in moved:
            place = _byte_offset(text, entity.offset)
            raise EntityError(f"Entity begins in a middle of a UTF-16 symbol at byte offset {place}")
        if entity.end not in moved:
            place = _byte_offset(text, entity.end)
            raise EntityError(
                f"Entity beginning at UTF-16 offset {entity.offset} "
                f"ends in a middle of a UTF-16 symbol at byte offset {place}"
            )
        start = moved[entity.offset]
        cleaned.append(replace(entity, offset=start, length=moved[entity.end] - start))
    return "".join(kept), [entity for entity in cleaned if entity.length]


def _byte_offset(text: str, inside: int) -> int:
    """Return where the character after the one that `inside` falls into begins, in bytes."""
    units = 0
    for index, character in enumerate(text):
        units += utf16_length(character)
        if units > inside:
            return len(text[: index + 1].encode())
    return len(text.encode())


def _trimmed(text: str, entities: list[Entity]) -> FormattedText:
    """Trim white space from both ends, but not from inside an entity that begins with it and may keep it."""
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


# --- what the server recognises by itself: mentions, commands, tags, addresses


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
    """Add everything recognised to `given` where nothing solid is already."""
    solid = [entity for entity in given.entities if entity.type not in SPLITTABLE and "quote" not in entity.type]
    found: list[Entity] = []
    for kind, pattern in _RULES:
        for match in pattern.finditer(given.text):
            offset = utf16_length(given.text[: match.start()])
            entity = Entity(kind, offset, utf16_length(match[0]))
            if not any(each.offset < entity.end and entity.offset < each.end for each in [*solid, *found]):
                found.append(entity)
    return FormattedText(given.text, tuple(nested([*given.entities, *found])))


# --- a message as a client shows it, in HTML that is safe to put on a page


_TAGS: Final = {
    "bold": "strong",
    "italic": "em",
    "underline": "u",
    "strikethrough": "s",
    "code": "code",
    "blockquote": "blockquote",
}
_BEFORE_BLOCK: Final = re.compile(r"\n(<(?:pre|blockquote)[ >])")
_AFTER_BLOCK: Final = re.compile(r"(</(?:pre|blockquote)>)\n")
_OPENABLE: Final = ("http://", "https://")


def to_html(given: FormattedText) -> str:
    """Write nested tags for the entities; everything else escaped. Line breaks stay line breaks.

    A block ends its line by itself, so one line break on either side of it is taken as said.
    """
    shown = _between(given.text, in_order(list(given.entities)), 0, utf16_length(given.text))
    return _AFTER_BLOCK.sub(r"\1", _BEFORE_BLOCK.sub(r"\1", shown))


def _between(text: str, entities: list[Entity], start: int, end: int) -> str:
    shown = []
    at = start
    while entities:
        first = entities[0]
        inner = [each for each in entities[1:] if each.offset < first.end]
        entities = entities[1 + len(inner) :]
        stop = min(first.end, end)
        if first.offset < at:
            continue
        shown.append(html.escape(utf16_cut(text, at, first.offset - at)))
        shown.append(_wrapped(first, text, _between(text, inner, first.offset, stop)))
        at = stop
    shown.append(html.escape(utf16_cut(text, at, end - at)))
    return "".join(shown)


def _wrapped(entity: Entity, text: str, inner: str) -> str:
    if entity.type in _TAGS:
        tag = _TAGS[entity.type]
        return f"<{tag}>{inner}</{tag}>"
    if entity.type == "expandable_blockquote":
        return f'<blockquote class="expandable">{inner}</blockquote>'
    if entity.type == "pre":
        label = f' data-language="{html.escape(entity.language)}"' if entity.language else ""
        return f"<pre{label}><code>{inner}</code></pre>"
    if entity.type == "spoiler":
        return f'<span class="spoiler" tabindex="0">{inner}</span>'
    if entity.type in {"text_link", "url"}:
        url = entity.url or utf16_cut(text, entity.offset, entity.length)
        if not url.startswith(_OPENABLE):
            url = f"http://{url}" if "://" not in url else ""
        if url:
            return f'<a href="{html.escape(url)}" target="_blank" rel="noopener noreferrer">{inner}</a>'
    return f'<span class="{html.escape(entity.type)}">{inner}</span>'
