"""Text as a call brings it: parse mode or entities, checked and made ready to be shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from channels.emulators.telegram.backstage import Backstage
from channels.emulators.telegram.call import Call
from channels.emulators.telegram.errors import bad_request
from channels.emulators.telegram.text.entities import (
    ENTITIES_MAX,
    Entity,
    FormattedText,
    MarkupError,
    utf16_length,
)
from channels.emulators.telegram.text.found import with_found
from channels.emulators.telegram.text.html_mode import parse_html
from channels.emulators.telegram.text.links import checked_link, mentioned_user
from channels.emulators.telegram.text.markdown_v1 import parse_markdown_v1
from channels.emulators.telegram.text.markdown_v2 import parse_markdown_v2
from channels.emulators.telegram.text.tidy import tidy

TEXT_MAX: Final = 4096
CAPTION_MAX: Final = 1024
RAW_BYTES_MAX: Final = 32_768
_MODES: Final[dict[str, Callable[[str], FormattedText]]] = {
    "html": parse_html,
    "markdown": parse_markdown_v1,
    "markdownv2": parse_markdown_v2,
}
_RECOGNISED: Final = frozenset(
    {"mention", "hashtag", "cashtag", "bot_command", "url", "email", "phone_number", "bank_card_number"}
)
_GIVEN: Final = frozenset(
    {
        "bold",
        "italic",
        "underline",
        "strikethrough",
        "spoiler",
        "blockquote",
        "expandable_blockquote",
        "code",
        "pre",
        "text_link",
        "text_mention",
        "custom_emoji",
    }
)


def read_text(backstage: Backstage, call: Call, *, name: str = "text", is_optional: bool = False) -> FormattedText:
    """The text of a message or caption. Raises 400 when it is empty, too long or cannot be parsed."""
    raw = call.text(name)
    if not raw.strip():
        if is_optional:
            return FormattedText()
        raise bad_request("message text is empty")
    if len(raw.encode()) > RAW_BYTES_MAX:
        raise bad_request("text is too long")
    mode, entities = call.text("parse_mode"), _entities(call, "caption_entities" if name == "caption" else "entities")
    if (mode or entities) and backstage.faults.refuse_format > 0:
        backstage.faults.refuse_format -= 1
        raise bad_request("can't parse entities: Can't find end of the entity starting at byte offset 0")
    shown = _tidied(_parsed(raw, mode, entities))
    if not shown.text and not is_optional:
        raise bad_request("text must be non-empty")
    longest = CAPTION_MAX if name == "caption" else TEXT_MAX
    length = utf16_length(shown.text) if backstage.switch("utf16_length") else len(shown.text)
    if length > longest:
        raise bad_request("message caption is too long" if name == "caption" else "message is too long")
    users = backstage.world.users
    known = [each for each in shown.entities if each.type != "text_mention" or each.user_id in users]
    return with_found(FormattedText(shown.text, tuple(known[:ENTITIES_MAX])))


def _parsed(raw: str, mode: str, entities: list[Entity]) -> FormattedText:
    if not mode:
        return FormattedText(raw, tuple(entities))
    parse = _MODES.get(mode.lower())
    if parse is None:
        raise bad_request("unsupported parse_mode")
    try:
        return parse(raw)
    except MarkupError as refused:
        raise bad_request(f"can't parse entities: {refused}") from None


def _tidied(parsed: FormattedText) -> FormattedText:
    try:
        return tidy(parsed)
    except MarkupError as refused:
        what = str(refused)
        raise bad_request(what[0].lower() + what[1:]) from None


def _entities(call: Call, name: str) -> list[Entity]:
    entities = []
    for row in call.rows(name) or []:
        if not isinstance(row, dict):
            raise bad_request("can't parse MessageEntity: expected an object")
        given = Call(call.method, row)
        kind = given.text("type")
        if kind in _RECOGNISED:
            continue  # the server finds these by itself and does not believe anybody else
        if kind not in _GIVEN:
            raise bad_request("can't parse MessageEntity: unsupported entity type")
        entities.append(_entity(given, kind))
    return entities


def _entity(given: Call, kind: str) -> Entity:
    if "offset" not in given.given or "length" not in given.given:
        missing = "length" if "offset" in given.given else "offset"
        raise bad_request(f"can't parse MessageEntity: can't find field \"{missing}\"")
    url, user_id = given.text("url"), 0
    if kind == "text_mention":
        user_id = Call("", given.table("user") or {}).number("id")
    elif kind == "text_link":
        user_id = mentioned_user(url)
        link = checked_link(url)
        if not user_id and link is None:
            raise bad_request(f"entity URL '{url}' is invalid: unsupported URL protocol")
        kind = "text_mention" if user_id else kind
        url = "" if user_id else link or ""
    return Entity(
        kind,
        given.number("offset", -1),
        given.number("length", -1),
        url=url,
        language=given.text("language") if kind == "pre" else "",
        user_id=user_id,
        custom_emoji_id=given.text("custom_emoji_id"),
    )
