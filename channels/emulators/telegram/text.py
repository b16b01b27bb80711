"""Text as the Bot API sees it: plain characters, and entities that count UTF-16 units."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlsplit

# --- entities and the arithmetic of UTF-16 offsets


STYLES: Final = frozenset({"bold", "italic", "underline", "strikethrough", "spoiler"})
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
    other schemes are no links at all."""
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


# --- what the server does to any text: check ranges, clean and trim; entities are to nest, as ours do


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
    return _trimmed(*_cleaned(given.text, [entity for entity in given.entities if entity.length]))


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
            raise EntityError(f"Entity at UTF-16 offset {entity.offset} ends after the end of the text")
        if not {entity.offset, entity.end} <= moved.keys():
            raise EntityError(f"Entity at UTF-16 offset {entity.offset} begins or ends in a middle of a UTF-16 symbol")
        start = moved[entity.offset]
        cleaned.append(replace(entity, offset=start, length=moved[entity.end] - start))
    return "".join(kept), [entity for entity in cleaned if entity.length]


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
    solid = [entity for entity in given.entities if entity.type not in STYLES and "quote" not in entity.type]
    found: list[Entity] = []
    for kind, pattern in _RULES:
        for match in pattern.finditer(given.text):
            offset = utf16_length(given.text[: match.start()])
            entity = Entity(kind, offset, utf16_length(match[0]))
            if not any(each.offset < entity.end and entity.offset < each.end for each in [*solid, *found]):
                found.append(entity)
    return FormattedText(given.text, tuple(in_order([*given.entities, *found])))


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

    A block ends its line by itself, so one line break on either side of it is taken as said."""
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
