"""Make an `Incoming` of a raw Bot API update, or say why it is none. Never raise on any JSON. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from channels.core.message import (
    OWN_QUOTE_CHARS_MAX,
    TARGETS_KEPT,
    Addressing,
    FileReference,
    Ignored,
    IgnoreReason,
    Incoming,
    Migrated,
    Raw,
    RawQuote,
    canonical,
    fields_of,
    integer,
    mapping,
    mappings,
    target_fields,
    text,
    without,
)
from channels.markdown.chunk import utf16_units
from gateway.contracts.commands import find_command
from gateway.contracts.errors import BadEnvelope
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import AttachmentKind, ControlKind, QuoteKind

# Where a Telegram answer goes: the part of a `ReplyAddress` that only this channel reads.


@dataclass(frozen=True, slots=True)
class TelegramTarget:
    """The arguments of sendMessage. `message_thread_id` is a topic's, never 1 (General refuses it);
    `reply_to_message_id` is the message to quote, `answered_message_id` the one that is answered, quoted or not: our
    own message gets a higher id. A topic that `is_unnamed` has no name that somebody chose: the bot may name it."""

    chat_id: int
    message_thread_id: int | None = None
    direct_messages_topic_id: int | None = None
    reply_to_message_id: int | None = None
    answered_message_id: int | None = None
    is_unnamed: bool = False

    @property
    def lane(self) -> str:
        """Order is kept within `<chat>` or `<chat>/<topic>`; Telegram paces by what is before the slash."""
        topic = self.message_thread_id or self.direct_messages_topic_id
        return f"{self.chat_id}/{topic}" if topic else str(self.chat_id)

    @property
    def is_nameable(self) -> bool:
        """Tell whether the place can have a name: topics have names, people name chats."""
        return self.message_thread_id is not None


def make_target(target: TelegramTarget) -> str:
    """Write canonical JSON."""
    return canonical(fields_of(target))


@lru_cache(maxsize=TARGETS_KEPT)
def parse_target(target: str) -> TelegramTarget:
    """Read what `make_target` wrote. Raises `BadEnvelope`."""
    fields = target_fields(target)
    chat_id = integer(fields.get("chat_id"))
    if chat_id is None:
        raise BadEnvelope("a Telegram target without chat_id")
    return TelegramTarget(
        chat_id=chat_id,
        message_thread_id=integer(fields.get("message_thread_id")),
        direct_messages_topic_id=integer(fields.get("direct_messages_topic_id")),
        reply_to_message_id=integer(fields.get("reply_to_message_id")),
        answered_message_id=integer(fields.get("answered_message_id")),
        is_unnamed=fields.get("is_unnamed") is True,
    )


def relocated(address: ReplyAddress, chat_id: int) -> ReplyAddress:
    """Return the same place under the chat's other id, where its messages have other numbers."""
    target = replace(parse_target(address.target), chat_id=chat_id, reply_to_message_id=None, answered_message_id=None)
    return replace(address, lane=target.lane, target=make_target(target))


# The files of a message of the Bot API, by their ids. Never raises on any JSON. Pure.

_FILES: Final = {
    "voice": (AttachmentKind.VOICE, "audio/ogg", "voice.ogg"),
    "audio": (AttachmentKind.AUDIO, "audio/mpeg", "audio.mp3"),
    "video": (AttachmentKind.VIDEO, "video/mp4", "video.mp4"),
    "video_note": (AttachmentKind.VIDEO, "video/mp4", "video-note.mp4"),
    "animation": (AttachmentKind.VIDEO, "video/mp4", "animation.mp4"),
    "document": (AttachmentKind.DOCUMENT, "application/octet-stream", "document"),
}


def attachments(message: Raw) -> Iterator[FileReference]:
    """Yield the files of a message, or of an external reply's account of one. A moving sticker is only what its emoji
    says."""
    photos = mappings(message.get("photo"))
    if photos:  # the same picture in several sizes, the largest last
        yield from _file(photos[-1], AttachmentKind.IMAGE, "image/jpeg", "photo.jpg")
    sticker = mapping(message.get("sticker"))
    if sticker and not sticker.get("is_animated") and not sticker.get("is_video"):
        yield from _file(sticker, AttachmentKind.IMAGE, "image/webp", "sticker.webp")
    for field, (kind, media_type, name) in _FILES.items():
        if field == "document" and "animation" in message:
            continue  # an animation fills both
        yield from _file(mapping(message.get(field)), kind, media_type, name)


def _file(raw: Raw, kind: AttachmentKind, media_type: str, name: str) -> Iterator[FileReference]:
    file_id = text(raw.get("file_id"))
    if not file_id:
        return
    said = text(raw.get("mime_type")) or media_type
    is_picture = kind is AttachmentKind.DOCUMENT and said.startswith("image/")
    yield FileReference(
        kind=AttachmentKind.IMAGE if is_picture else kind,
        reference=file_id,
        name=text(raw.get("file_name")) or name,
        media_type=said,
        size_bytes=integer(raw.get("file_size")),
    )


# The meaning of a message without text: a place, a contact, a poll, a rich text. In words, for the model.
#
# Service messages have none of these, and neither does a file, which comes along as one. Never raises on any JSON.
# Pure.

DEGREES_MAX: Final = 180
RICH_NESTING_MAX: Final = 32  # twice what Telegram allows; deeper is nothing that it made


def spoken(message: Raw) -> str:
    """Describe the content of a message in words; empty for a message that shows nothing of these kinds. Works on an
    external reply as well."""
    for field, telling in _TELLING.items():
        shown = mapping(message.get(field))
        if shown:
            return telling(shown)
    return ""


def _location(location: Raw) -> str:
    return f"[A location: {_coordinates(location)}]"


def _venue(venue: Raw) -> str:
    where = (text(venue.get("title")), text(venue.get("address")), _coordinates(mapping(venue.get("location"))))
    return f"[A place: {', '.join(filter(None, where))}]"


def _coordinates(location: Raw) -> str:
    angles = [location.get("latitude"), location.get("longitude")]
    known = [angle for angle in angles if isinstance(angle, int | float) and abs(angle) <= DEGREES_MAX]
    return ", ".join(f"{angle:.6f}" for angle in known) if len(known) == len(angles) else "somewhere"


def _contact(contact: Raw) -> str:
    name = " ".join(filter(None, (text(contact.get("first_name")), text(contact.get("last_name")))))
    return f"[A contact: {', '.join(filter(None, (name, text(contact.get('phone_number')))))}]"


def _poll(poll: Raw) -> str:
    options = (
        f"- {text(option.get('text'))} ({integer(option.get('voter_count')) or 0})"
        for option in mappings(poll.get("options"))
    )
    return "\n".join([f"[A poll, with the votes so far: {text(poll.get('question'))}]", *options])


def _checklist(checklist: Raw) -> str:
    tasks = (
        f"- [{'x' if task.get('completion_date') else ' '}] {text(task.get('text'))}"
        for task in mappings(checklist.get("tasks"))
    )
    return "\n".join([f"[A checklist: {text(checklist.get('title'))}]", *tasks])


def _dice(dice: Raw) -> str:
    return f"[{text(dice.get('emoji')) or 'A die'} shows {integer(dice.get('value')) or 0}]"


def _game(game: Raw) -> str:
    return f"[A game: {text(game.get('title'))}]"


def _rich(rich: Raw) -> str:
    """Write one line for each block of a rich message."""
    return "\n".join(filter(None, ("".join(_strings(block, 0)) for block in mappings(rich.get("blocks")))))


def _strings(value: object, depth: int) -> Iterator[str]:
    """Yield the strings of a rich text, which is a string, an array of them, or an object around them, of which there
    are many kinds."""
    if depth > RICH_NESTING_MAX:
        return
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each, depth + 1)
    elif isinstance(value, Mapping):
        for name, each in value.items():
            if name == "text" or isinstance(each, list | Mapping):
                yield from _strings(each, depth + 1)


_TELLING: Final[Mapping[str, Callable[[Raw], str]]] = {
    "rich_message": _rich,
    "venue": _venue,  # fills `location` as well
    "location": _location,
    "contact": _contact,
    "poll": _poll,
    "checklist": _checklist,
    "dice": _dice,
    "game": _game,
    "story": lambda story: "[A story, which cannot be opened here]",
    "paid_media": lambda media: "[Media behind a payment, which cannot be opened here]",
}


# The context of a message of the Bot API: the message it answers, the part its author marked, the message passed on.
#
# Never raises on any JSON. Pure.


def quotes(message: Raw, *, own_id: int) -> Iterator[RawQuote]:
    """Quote the message that a message answers, unless it is a forward. Our own words right before it are left out: it
    answers them anyway."""
    answered, external = mapping(message.get("reply_to_message")), mapping(message.get("external_reply"))
    marked = text(mapping(message.get("quote")).get("text"))
    if answered and not _is_known(message, answered, own_id):
        is_ours = integer(mapping(answered.get("from")).get("id")) == own_id
        said = words(answered)[:OWN_QUOTE_CHARS_MAX] if is_ours else words(answered)
        yield from _quote(QuoteKind.REPLY, sender_name(answered), said, answered)
    if external:
        kind = QuoteKind.EXCERPT if marked else QuoteKind.REPLY
        said = marked or spoken(external)
        yield from _quote(kind, origin_name(mapping(external.get("origin"))), said, external)
    elif marked and marked != words(answered):
        yield RawQuote(QuoteKind.EXCERPT, sender_name(answered), marked)


def forwarded(message: Raw, *, author_id: int) -> RawQuote | None:
    """Quote the whole message, if it is somebody else's that its author passes on. Authors who forward a message of
    their own say it once more."""
    origin = mapping(message.get("forward_origin"))
    if not origin or integer(mapping(origin.get("sender_user")).get("id")) == author_id:
        return None
    return next(_quote(QuoteKind.FORWARD, origin_name(origin), words(message), message), None)


def words(message: Raw) -> str:
    """Return text or caption; a sticker says its emoji, and a message without words is described in our own."""
    said = text(message.get("text")) or text(message.get("caption"))
    return said or text(mapping(message.get("sticker")).get("emoji")) or spoken(message)


def user_name(user: Raw) -> str:
    """Return a person's name."""
    names = (text(user.get("first_name")), text(user.get("last_name")))
    return " ".join(filter(None, names)) or text(user.get("username"))


def sender_name(message: Raw) -> str:
    """Name the sender of a message: a person, or the chat that somebody speaks for."""
    chat = mapping(message.get("sender_chat"))
    return text(message.get("author_signature")) or text(chat.get("title")) or user_name(mapping(message.get("from")))


def origin_name(origin: Raw) -> str:
    """Name the source of a MessageOrigin: a user, one who hides, a chat or a channel."""
    chat = mapping(origin.get("sender_chat")) or mapping(origin.get("chat"))
    return (
        user_name(mapping(origin.get("sender_user")))
        or text(origin.get("sender_user_name"))
        or text(chat.get("title"))
        or text(origin.get("author_signature"))
    )


def _is_known(message: Raw, answered: Raw, own_id: int) -> bool:
    """Tell whether the reply needs no quote: the client fills in a topic's creation when its user replied to
    nothing."""
    if "forum_topic_created" in answered:
        return True
    is_ours = integer(mapping(answered.get("from")).get("id")) == own_id
    number, before = integer(message.get("message_id")), integer(answered.get("message_id"))
    return is_ours and number is not None and before == number - 1


def _quote(kind: QuoteKind, author_name: str, said: str, holder: Raw) -> Iterator[RawQuote]:
    files = tuple(attachments(holder))
    if said.strip() or files:
        yield RawQuote(kind, author_name, said, files)


TEXT_UNITS_SPLIT: Final = 4096  # where a sender's client cuts a long text in two
GENERAL_TOPIC: Final = 1  # has an id that sendMessage refuses: it is the chat itself
# Accounts that stand in for a chat: linked channel, anonymous admin, "send as channel" (Bot API).
STAND_INS: Final = frozenset({777000, 1087968824, 136817688})

_MESSAGE_KINDS: Final = ("message", "channel_post")
_EDIT_KINDS: Final = ("edited_message", "edited_channel_post")


@dataclass(frozen=True, slots=True)
class TelegramIdentity:
    """Our identity, from getMe. `channel` is the first part of session keys, `bots` are other bots that we hear."""

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
        return Ignored(IgnoreReason.NOT_AN_EDIT)  # a shared live location has moved
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
    """Return the migration of a chat: both service messages say the same thing, one in each chat."""
    new, old = integer(message.get("migrate_to_chat_id")), integer(message.get("migrate_from_chat_id"))
    if new is not None:
        return Migrated(str(chat_id), str(new))
    return None if old is None else Migrated(str(old), str(chat_id))


def _author(message: Raw, chat: Raw, me: TelegramIdentity) -> _Author | Ignored:
    """Return the person, or the chat that somebody speaks for: stand-in accounts are not people."""
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
    """Yield the entities of text or caption. Offsets count UTF-16 units; ranges outside the text are left out."""
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
    """Return the bot that a command names: empty for none, None if the entity is no command."""
    return entity.covered.partition("@")[2].lower() if entity.kind == "bot_command" else None


def _own_mentions(entities: tuple[_Entity, ...], me: TelegramIdentity) -> Iterator[tuple[int, int]]:
    for entity in entities:
        if _is_own_mention(entity, me):
            yield entity.start, entity.end
        elif _command_bot(entity) and _command_bot(entity) == me.username.lower():
            yield entity.end - len(me.username) - 1, entity.end


def _is_for_other_bot(entities: tuple[_Entity, ...], me: TelegramIdentity) -> bool:
    """Tell whether the text begins with `/cmd@SomeoneElse`."""
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
    """Return the target of a message. Outside topics, `message_thread_id` names a chain of replies, which is
    no place."""
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
    """Tell whether nobody chose the topic's name. The client adds the creation of a topic to a message that answers
    nothing in it, which says who chose the name: nobody, where a person wrote into the chat with the bot and the client
    made a topic of it; or we."""
    creation = mapping(message.get("reply_to_message"))
    created = mapping(creation.get("forum_topic_created"))
    if is_private:
        return created.get("is_name_implicit") is True
    return bool(created) and integer(mapping(creation.get("from")).get("id")) == me.bot_id


def place_of(target: TelegramTarget, *, is_private: bool) -> tuple[str, ...]:
    """Return the place of a target as a session key has it."""
    topic = target.message_thread_id or target.direct_messages_topic_id
    if topic is not None:
        return str(target.chat_id), str(topic)
    return () if is_private else (str(target.chat_id),)


# A callback query becomes the press of a button, or the reason why it does not. Never raises on any JSON.
#
# The person who pressed is in `from`, which Telegram fills in; the button's data is only a claim. A press belongs to
# the person, not to the chat: its place is empty. The button under a draft has no data: it says /stop, to the
# conversation in which the draft grows.

STOPPED: Final = "stopped_message_generation"
_STOP: Final = f"/{ControlKind.STOP.value}"
_QUERY: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


def query_id_of(update: object) -> str:
    """Return the id under which a press has to be answered; empty for an update that is no press."""
    found = text(mapping(mapping(update).get("callback_query")).get("id"))
    return found if _QUERY.fullmatch(found) else ""


def normalize_press(update: object, me: TelegramIdentity) -> Incoming | Ignored:
    """Read one callback query. Its message may be one that the bot cannot see any more; that changes nothing."""
    query = mapping(mapping(update).get("callback_query"))
    query_id, person = query_id_of(update), mapping(query.get("from"))
    user_id = integer(person.get("id"))
    if not query_id or user_id is None:
        return Ignored(IgnoreReason.MALFORMED)
    if person.get("is_bot") is True:
        return Ignored(IgnoreReason.BOT)
    message = mapping(query.get("message"))
    chat_id = integer(mapping(message.get("chat")).get("id"))
    target = TelegramTarget(user_id if chat_id is None else chat_id)
    data = text(query.get("data"))
    return Incoming(
        id=f"{me.channel}:{me.bot_id}:press:{query_id}",
        channel=me.channel,
        account=str(me.bot_id),
        user_id=str(user_id),
        author_name=user_name(person) or str(user_id),
        place=(),
        is_private=True,
        addressing=Addressing.COMMAND,
        text=data,
        address=ReplyAddress(me.channel, target.lane, make_target(target)),
        command=find_command(data),
        language=text(person.get("language_code")),
    )


def normalize_stop(update: object, me: TelegramIdentity) -> Incoming | None:
    """Return a /stop if somebody stopped the draft on the screen; None for any other update. Drafts are shown in
    private chats only, which have the id of the person."""
    stopped = mapping(mapping(update).get(STOPPED))
    chat = mapping(stopped.get("chat"))
    user_id, update_id = integer(chat.get("id")), integer(mapping(update).get("update_id"))
    if user_id is None or update_id is None or user_id <= 0:
        return None
    target = TelegramTarget(user_id, message_thread_id=integer(stopped.get("message_thread_id")))
    return Incoming(
        id=f"{me.channel}:{me.bot_id}:stop:{user_id}:{update_id}",
        channel=me.channel,
        account=str(me.bot_id),
        user_id=str(user_id),
        author_name=user_name(chat) or str(user_id),
        place=place_of(target, is_private=True),
        is_private=True,
        addressing=Addressing.COMMAND,
        text=_STOP,
        address=ReplyAddress(me.channel, target.lane, make_target(target)),
        command=find_command(_STOP),
    )
