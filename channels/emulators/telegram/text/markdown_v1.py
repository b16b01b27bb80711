"""parse_mode=Markdown, the legacy mode: no nesting, no underline, and almost any stray marker is an error."""

from __future__ import annotations

from typing import Final

from channels.emulators.telegram.text.entities import Entity, FormattedText, MarkupError, utf16_length
from channels.emulators.telegram.text.links import checked_link, mentioned_user

_MARKERS: Final = {"_": "italic", "*": "bold", "`": "code", "[": "text_link"}


def parse_markdown_v1(text: str) -> FormattedText:
    """Plain text and entities. Raises `MarkupError`."""
    plain = ""
    entities: list[Entity] = []
    at = 0
    while at < len(text):
        if text[at] == "\\" and text[at + 1 : at + 2] in ("_", "*", "`", "["):
            plain += text[at + 1]
            at += 2
        elif text[at] not in _MARKERS:
            plain += text[at]
            at += 1
        else:
            inner, entity, at = _entity_at(text, at, utf16_length(plain))
            plain += inner
            if entity is not None and entity.length:
                entities.append(entity)
    return FormattedText(plain, tuple(entities))


def _entity_at(text: str, at: int, offset: int) -> tuple[str, Entity | None, int]:
    """The inner text, its entity and where the source goes on."""
    is_pre = text.startswith("```", at)
    marker = "```" if is_pre else text[at]
    closing = "]" if marker == "[" else marker
    inside = at + len(marker)
    end = text.find(closing, inside)
    if end < 0:
        started = len(text[:at].encode())
        raise MarkupError(f"Can't find end of the entity starting at byte offset {started}")
    inner, after = text[inside:end], end + len(closing)
    if is_pre:
        first, line_break, rest = inner.partition("\n")
        language = first if line_break and first and not first.isspace() else ""
        inner = rest if line_break and (language or not first) else inner
        return inner, Entity("pre", offset, utf16_length(inner), language=language), after
    if marker != "[":
        return inner, Entity(_MARKERS[marker], offset, utf16_length(inner)), after
    url = inner
    if text[after : after + 1] == "(":
        closed = text.find(")", after)
        closed = len(text) if closed < 0 else closed
        url, after = text[after + 1 : closed], closed + 1
    if user_id := mentioned_user(url):
        return inner, Entity("text_mention", offset, utf16_length(inner), user_id=user_id), after
    link = checked_link(url)
    return inner, Entity("text_link", offset, utf16_length(inner), url=link) if link else None, after
