"""From the JSON of a message request to a draft, with Discord's limits and its error for each. Pure."""

from __future__ import annotations

from typing import Final

from channels.emulators.discord.content import Mentions, allowed, mentions_in
from channels.emulators.discord.errors import empty_message, invalid_form
from channels.emulators.discord.posting import Draft, unchanged
from channels.emulators.discord.world import File, Message, MessageFlag, MessageKind
from channels.emulators.traffic import Json

CONTENT_MAX: Final = 2000  # Unicode code points
EMBEDS_MAX: Final = 10
EMBED_CHARS_MAX: Final = 6000  # over all embeds of a message
NONCE_MAX: Final = 25
V2_TEXT_MAX: Final = 4000
ROWS_MAX: Final = 5
_TEXT_DISPLAY: Final = 10  # component type
_EMBED_LIMITS: Final = {"title": 256, "description": 4096}
_MAY_SET: Final = MessageFlag.SUPPRESS_EMBEDS | MessageFlag.SILENT | MessageFlag.COMPONENTS_V2 | MessageFlag.EPHEMERAL


def new_draft(body: Json, files: tuple[File, ...], *, reply_to: Message | None, strips: bool) -> Draft:
    """Raises `Refused`: 50006 for nothing to show, 50035 for a field that breaks its limit."""
    content = _content(body.get("content"), strips=strips)
    flags = int(body.get("flags") or 0) & _MAY_SET
    nonce = _nonce(body.get("nonce"))
    embeds, components = _embeds(body.get("embeds")), _components(body.get("components"), flags)
    if flags & MessageFlag.COMPONENTS_V2 and (content or embeds):
        raise invalid_form("content", "MESSAGE_CANNOT_USE_LEGACY_FIELDS_WITH_COMPONENTS_V2", "Not with components v2.")
    draft = Draft(
        content=content,
        mentions=_mentions(content, body.get("allowed_mentions"), reply_to),
        files=files,
        embeds=embeds,
        components=components,
        flags=flags,
        tts=bool(body.get("tts")),
        nonce=nonce,
        reply_to=reply_to,
    )
    if draft.is_empty and not body.get("sticker_ids") and not body.get("poll"):
        raise empty_message()
    return draft


def edited_draft(
    message: Message, body: Json, files: tuple[File, ...], *, reply_to: Message | None, strips: bool
) -> Draft:
    """The message with the fields of `body` in place; what `body` does not name stays."""
    kept = unchanged(message)
    flags = message.flags
    if body.get("flags") is not None:
        flags = flags & ~MessageFlag.SUPPRESS_EMBEDS | int(body["flags"]) & MessageFlag.SUPPRESS_EMBEDS
    content = _content(body["content"], strips=strips) if "content" in body else kept.content
    named = body.get("attachments")
    kept_files = kept.files if named is None else tuple(f for f in kept.files if str(f.id) in _ids(named))
    return Draft(
        content=content,
        mentions=_mentions(content, body.get("allowed_mentions"), reply_to) if "content" in body else kept.mentions,
        files=kept_files + files,
        embeds=_embeds(body["embeds"]) if "embeds" in body else kept.embeds,
        components=_components(body["components"], flags) if "components" in body else kept.components,
        flags=flags,
    )


def _ids(attachments: list[Json]) -> set[str]:
    return {str(item.get("id")) for item in attachments}


def _mentions(content: str, permit: Json | None, reply_to: Message | None) -> Mentions:
    replied_to = reply_to.author.id if reply_to else None
    return allowed(mentions_in(content), permit, replied_to=replied_to)


def _content(value: object, *, strips: bool) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        value = str(value)  # Discord takes numbers for text
    content: str = value.strip() if strips else value
    if len(content) > CONTENT_MAX:
        raise invalid_form("content", "BASE_TYPE_MAX_LENGTH", f"Must be {CONTENT_MAX} or fewer in length.")
    return content


def _nonce(value: object) -> str | None:
    if value is None:
        return None
    if len(str(value)) > NONCE_MAX:
        raise invalid_form("nonce", "BASE_TYPE_MAX_LENGTH", f"Must be {NONCE_MAX} or fewer in length.")
    return str(value)


def _embeds(value: list[Json] | None) -> tuple[Json, ...]:
    embeds = tuple(value or ())
    if len(embeds) > EMBEDS_MAX:
        raise invalid_form("embeds", "BASE_TYPE_MAX_LENGTH", f"Must be {EMBEDS_MAX} or fewer in length.")
    total = 0
    for number, embed in enumerate(embeds):
        for name, limit in _EMBED_LIMITS.items():
            if len(str(embed.get(name) or "")) > limit:
                raise invalid_form(
                    f"embeds.{number}.{name}", "BASE_TYPE_MAX_LENGTH", f"Must be {limit} or fewer in length."
                )
        total += _embed_chars(embed)
    if total > EMBED_CHARS_MAX:
        raise invalid_form("embeds", "MAX_EMBED_SIZE_EXCEEDED", f"Embed size exceeds maximum size of {EMBED_CHARS_MAX}")
    return embeds


def _embed_chars(embed: Json) -> int:
    texts = [embed.get("title"), embed.get("description")]
    texts += [(embed.get("footer") or {}).get("text"), (embed.get("author") or {}).get("name")]
    texts += [part for item in embed.get("fields") or [] for part in (item.get("name"), item.get("value"))]
    return sum(len(str(text or "")) for text in texts)


def _components(value: list[Json] | None, flags: int) -> tuple[Json, ...]:
    components = tuple(value or ())
    if flags & MessageFlag.COMPONENTS_V2:
        if sum(_v2_chars(component) for component in components) > V2_TEXT_MAX:
            raise invalid_form("components", "COMPONENT_MAX_TEXT_LENGTH", f"Must be {V2_TEXT_MAX} or fewer in length.")
    elif len(components) > ROWS_MAX:
        raise invalid_form("components", "BASE_TYPE_BAD_LENGTH", f"Must be between 1 and {ROWS_MAX} in length.")
    return components


def _v2_chars(component: Json) -> int:
    own = len(str(component.get("content") or "")) if component.get("type") == _TEXT_DISPLAY else 0
    return own + sum(_v2_chars(inner) for inner in component.get("components") or [])


def is_system(message: Message) -> bool:
    """Nobody can reply to what the system said."""
    return message.kind not in (MessageKind.DEFAULT, MessageKind.REPLY, MessageKind.COMMAND_ANSWER)
