"""A raw Bot API update becomes an `Incoming`, or the reason why it does not. Never raises on any JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from channels.normalized import Addressing, Ignored, IgnoreReason, Incoming, Migrated, without
from channels.raw import Raw, integer, mapping, mappings, text
from channels.telegram.address import TelegramTarget, make_target
from channels.telegram.attached import attachments
from channels.telegram.quotes import forwarded, quotes, user_name, words
from channels.text.graphemes import utf16_units
from gateway.contracts.commands import find_command
from gateway.contracts.ids import ReplyAddress

TEXT_UNITS_SPLIT: Final = 4096  # where a sender's client cuts a long text in two
GENERAL_TOPIC: Final = 1  # has an id that sendMessage refuses: it is the chat itself
# Accounts that stand in for a chat: linked channel, anonymous admin, "send as channel" (Bot API).
STAND_INS: Final = frozenset({777000, 1087968824, 136817688})

_MESSAGE_KINDS: Final = ("message", "channel_post")
_EDIT_KINDS: Final = ("edited_message", "edited_channel_post")


@dataclass(frozen=True, slots=True)
class TelegramIdentity:
    """Who we are, from getMe. `channel` is the first part of session keys, `bots` are other bots that we hear."""

    bot_id: int
    username: str
    channel: str = "telegram"
    bots: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Author:
    id: int
    name: str
    language: str = ""
    is_bot: bool = False


@dataclass(frozen=True, slots=True)
class _Entity:
    """A marked range in code points, with the text it covers."""

    kind: str
    start: int
    end: int
    covered: str
    user_id: int | None


def normalize(update: object, me: TelegramIdentity) -> Incoming | Ignored | Migrated:
    """Read one element of getUpdates."""
    for kind in (*_MESSAGE_KINDS, *_EDIT_KINDS):
        message = mapping(mapping(update).get(kind))
        if message:
            return _message(message, me, is_edit=kind in _EDIT_KINDS)
    return Ignored(IgnoreReason.UNSUPPORTED)


def _message(message: Raw, me: TelegramIdentity, *, is_edit: bool) -> Incoming | Ignored | Migrated:
    chat = mapping(message.get("chat"))
    chat_id, message_id = integer(chat.get("id")), integer(message.get("message_id"))
    if chat_id is None or message_id is None:
        return Ignored(IgnoreReason.MALFORMED)
    if moved := _migration(message, chat_id):
        return moved
    author = _author(message, chat, me)
    if isinstance(author, Ignored):
        return author
    is_private = chat.get("type") == "private"
    if is_edit and integer(mapping(message.get("location")).get("live_period")):
        return Ignored(IgnoreReason.NOT_AN_EDIT)  # somebody who shares where he is has moved
    content, files = words(message), tuple(attachments(message))
    if not content.strip() and not files:
        return Ignored(IgnoreReason.UNSUPPORTED)
    passed_on = forwarded(message, author_id=author.id)
    entities = () if passed_on else tuple(_entities(content, message))
    if not is_private and _is_for_other_bot(entities, me):
        return Ignored(IgnoreReason.OTHER_BOT)
    target = _target(message, me, chat_id, message_id, is_private=is_private)
    said = "" if passed_on else without(content, _own_mentions(entities, me)) or content
    edited_s = integer(message.get("edit_date")) if is_edit else None
    sent_s = integer(message.get("date")) or 0
    return Incoming(
        id=f"{me.channel}:{me.bot_id}:{chat_id}:{message_id}",
        channel=me.channel,
        account=str(me.bot_id),
        user_id=str(author.id),
        author_name=author.name,
        place=place_of(target, is_private=is_private),
        is_private=is_private,
        addressing=Addressing.PRIVATE if is_private else _addressing(message, entities, me),
        text=said,
        address=ReplyAddress(me.channel, target.lane, make_target(target)),
        sent_at_ms=sent_s * 1000,
        edited_at_ms=(edited_s or sent_s) * 1000 if is_edit else None,
        attachments=() if passed_on else files,
        command=find_command(said),
        album_id=text(message.get("media_group_id")),
        may_continue=utf16_units(text(message.get("text"))) >= TEXT_UNITS_SPLIT,
        language=author.language,
        is_bot=author.is_bot,
        quotes=(passed_on,) if passed_on else tuple(quotes(message, own_id=me.bot_id)),
        is_nameable=target.is_nameable,
    )


def _migration(message: Raw, chat_id: int) -> Migrated | None:
    """Both service messages say the same thing, one in each chat."""
    new, old = integer(message.get("migrate_to_chat_id")), integer(message.get("migrate_from_chat_id"))
    if new is not None:
        return Migrated(str(chat_id), str(new))
    return None if old is None else Migrated(str(old), str(chat_id))


def _author(message: Raw, chat: Raw, me: TelegramIdentity) -> _Author | Ignored:
    """The person, or the chat that somebody speaks for: stand-in accounts are not people."""
    if message.get("is_automatic_forward") is True:
        return Ignored(IgnoreReason.AUTOMATIC_FORWARD)
    sender, sender_chat = mapping(message.get("from")), mapping(message.get("sender_chat"))
    sender_id = integer(sender.get("id"))
    if sender_id is None or sender_id in STAND_INS:
        chat_id = integer((sender_chat or chat).get("id"))
        if chat_id is None or (sender_id is not None and not sender_chat):
            return Ignored(IgnoreReason.MALFORMED)
        title = text((sender_chat or chat).get("title")) or str(chat_id)
        return _Author(chat_id, text(message.get("author_signature")) or title)
    if sender_id == me.bot_id:
        return Ignored(IgnoreReason.OWN)
    is_bot = sender.get("is_bot") is True
    if is_bot and str(sender_id) not in me.bots:
        return Ignored(IgnoreReason.BOT)
    language = text(sender.get("language_code"))
    return _Author(sender_id, user_name(sender) or str(sender_id), language, is_bot=is_bot)


def _entities(content: str, message: Raw) -> Iterator[_Entity]:
    """Of text or caption. Offsets count UTF-16 units; ranges outside the text are left out."""
    raw = message.get("entities" if text(message.get("text")) else "caption_entities")
    data = content.encode("utf-16-le", "surrogatepass")
    for entity in mappings(raw):
        offset, length = integer(entity.get("offset")), integer(entity.get("length"))
        if offset is None or length is None or offset < 0 or length <= 0 or 2 * (offset + length) > len(data):
            continue
        start = len(data[: 2 * offset].decode("utf-16-le", "surrogatepass"))
        covered = data[2 * offset : 2 * (offset + length)].decode("utf-16-le", "surrogatepass")
        user_id = integer(mapping(entity.get("user")).get("id"))
        yield _Entity(text(entity.get("type")), start, start + len(covered), covered, user_id)


def _is_own_mention(entity: _Entity, me: TelegramIdentity) -> bool:
    if entity.kind == "mention":
        return bool(me.username) and entity.covered.lower() == f"@{me.username}".lower()
    return entity.kind == "text_mention" and entity.user_id == me.bot_id


def _command_bot(entity: _Entity) -> str | None:
    """The bot a command names: empty for none, None if the entity is no command."""
    return entity.covered.partition("@")[2].lower() if entity.kind == "bot_command" else None


def _own_mentions(entities: tuple[_Entity, ...], me: TelegramIdentity) -> Iterator[tuple[int, int]]:
    for entity in entities:
        if _is_own_mention(entity, me):
            yield entity.start, entity.end
        elif _command_bot(entity) and _command_bot(entity) == me.username.lower():
            yield entity.end - len(me.username) - 1, entity.end


def _is_for_other_bot(entities: tuple[_Entity, ...], me: TelegramIdentity) -> bool:
    """The text begins with `/cmd@SomeoneElse`."""
    first = next((entity for entity in entities if entity.start == 0 and entity.kind == "bot_command"), None)
    return first is not None and bool(_command_bot(first)) and _command_bot(first) != me.username.lower()


def _addressing(message: Raw, entities: tuple[_Entity, ...], me: TelegramIdentity) -> Addressing:
    if any(_is_own_mention(entity, me) for entity in entities):
        return Addressing.MENTION
    for entity in entities:
        bot = _command_bot(entity)
        if bot == me.username.lower() or (bot == "" and entity.start == 0):
            return Addressing.COMMAND
    answered = mapping(message.get("reply_to_message"))
    # In a topic, the client fills in the topic's creation when the user replied to nothing.
    if integer(mapping(answered.get("from")).get("id")) == me.bot_id and "forum_topic_created" not in answered:
        return Addressing.REPLY
    return Addressing.NOT_ADDRESSED


def _target(message: Raw, me: TelegramIdentity, chat_id: int, message_id: int, *, is_private: bool) -> TelegramTarget:
    """Outside topics, `message_thread_id` names a chain of replies, which is no place."""
    thread_id = integer(message.get("message_thread_id")) if message.get("is_topic_message") is True else None
    return TelegramTarget(
        chat_id=chat_id,
        message_thread_id=None if thread_id == GENERAL_TOPIC else thread_id,
        direct_messages_topic_id=integer(mapping(message.get("direct_messages_topic")).get("topic_id")),
        reply_to_message_id=None if is_private else message_id,
        answered_message_id=message_id,
        is_unnamed=thread_id not in (None, GENERAL_TOPIC) and _is_unnamed(message, me, is_private=is_private),
    )


def _is_unnamed(message: Raw, me: TelegramIdentity, *, is_private: bool) -> bool:
    """The client puts the creation of a topic beside what answers nothing in it, which says who chose the name: nobody,
    where a person wrote into his chat with the bot and the client made a topic of it; or we."""
    creation = mapping(message.get("reply_to_message"))
    created = mapping(creation.get("forum_topic_created"))
    if is_private:
        return created.get("is_name_implicit") is True
    return bool(created) and integer(mapping(creation.get("from")).get("id")) == me.bot_id


def place_of(target: TelegramTarget, *, is_private: bool) -> tuple[str, ...]:
    """What a session key says of it."""
    topic = target.message_thread_id or target.direct_messages_topic_id
    if topic is not None:
        return str(target.chat_id), str(topic)
    return () if is_private else (str(target.chat_id),)
