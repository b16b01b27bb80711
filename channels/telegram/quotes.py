"""What comes along with a message of the Bot API: what it answers, the part its author marked, what he passes on.

Never raises on any JSON. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from channels.normalized import OWN_QUOTE_CHARS_MAX, RawQuote
from channels.raw import Raw, integer, mapping, text
from channels.telegram.attached import attachments
from channels.telegram.wordless import spoken
from gateway.contracts.messages import QuoteKind


def quotes(message: Raw, *, own_id: int) -> Iterator[RawQuote]:
    """Of a message that is no forward. What we said ourselves right before it is what it answers anyway."""
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
    """The whole message, if it is somebody else's that its author passes on. His own words he says once more."""
    origin = mapping(message.get("forward_origin"))
    if not origin or integer(mapping(origin.get("sender_user")).get("id")) == author_id:
        return None
    return next(_quote(QuoteKind.FORWARD, origin_name(origin), words(message), message), None)


def words(message: Raw) -> str:
    """Text or caption; a sticker says its emoji, and what has no words is told in some of ours."""
    said = text(message.get("text")) or text(message.get("caption"))
    return said or text(mapping(message.get("sticker")).get("emoji")) or spoken(message)


def user_name(user: Raw) -> str:
    """What a person is called."""
    names = (text(user.get("first_name")), text(user.get("last_name")))
    return " ".join(filter(None, names)) or text(user.get("username"))


def sender_name(message: Raw) -> str:
    """Whoever wrote a message: a person, or the chat that somebody speaks for."""
    chat = mapping(message.get("sender_chat"))
    return text(message.get("author_signature")) or text(chat.get("title")) or user_name(mapping(message.get("from")))


def origin_name(origin: Raw) -> str:
    """Of a MessageOrigin: a user, one who hides, a chat or a channel."""
    chat = mapping(origin.get("sender_chat")) or mapping(origin.get("chat"))
    return (
        user_name(mapping(origin.get("sender_user")))
        or text(origin.get("sender_user_name"))
        or text(chat.get("title"))
        or text(origin.get("author_signature"))
    )


def _is_known(message: Raw, answered: Raw, own_id: int) -> bool:
    """The client fills in a topic's creation when its user replied to nothing."""
    if "forum_topic_created" in answered:
        return True
    is_ours = integer(mapping(answered.get("from")).get("id")) == own_id
    number, before = integer(message.get("message_id")), integer(answered.get("message_id"))
    return is_ours and number is not None and before == number - 1


def _quote(kind: QuoteKind, author_name: str, said: str, holder: Raw) -> Iterator[RawQuote]:
    files = tuple(attachments(holder))
    if said.strip() or files:
        yield RawQuote(kind, author_name, said, files)
