"""A message as a Telegram client would show it, in HTML that is safe to put on a page."""

from __future__ import annotations

import html
import re
from typing import Final

from channels.emulators.telegram.text.entities import Entity, FormattedText, in_order, utf16_cut, utf16_length

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
    """Nested tags for the entities; everything else escaped. Line breaks stay line breaks.

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
