"""Words of others that come along with a message: what its author passes on, and what was said in the thread. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from channels.normalized import RawQuote
from channels.raw import Raw, mapping, mappings, text
from channels.slack.references import references
from channels.slack.rich_text import said_in
from channels.slack.wording import mentioned, readable
from gateway.contracts.messages import QuoteKind

_SPOKEN: Final = frozenset({"", "file_share", "thread_broadcast", "me_message", "bot_message"})


def forwarded(event: Raw, names: Mapping[str, str]) -> Iterator[RawQuote]:
    """Messages of Slack that the author shared, or whose address he wrote. A preview of a page is none."""
    for shared in mappings(event.get("attachments")):
        if _is_message(shared):
            author = names.get(text(shared.get("author_id"))) or text(shared.get("author_name"))
            words = readable(text(shared.get("text")) or text(shared.get("fallback")), names)
            files = tuple(references(shared))
            if words.strip() or files:
                yield RawQuote(QuoteKind.FORWARD, author or text(shared.get("author_subname")), words, files)


def said_before(thread: Iterable[Raw], ts: str, names: Mapping[str, str], *, quotes_max: int) -> tuple[RawQuote, ...]:
    """What was said in a thread before the message `ts`, oldest first: its root, and the newest of the others."""
    spoken = [quote for message in thread if _key(message) < _order(ts) for quote in _spoken(message, names)]
    return (*spoken[:1], *spoken[1:][-(quotes_max - 1) :])


def people_in(event: Raw) -> Iterator[str]:
    """The ids of those who wrote a message, are named in it, or are passed on."""
    yield from filter(None, (text(event.get("user")), *mentioned(said_in(event))))
    for shared in mappings(event.get("attachments")):
        yield from filter(None, (text(shared.get("author_id")),))


def _is_message(shared: Raw) -> bool:
    if shared.get("is_share") is True or shared.get("is_msg_unfurl") is True:
        return True
    return bool(shared.get("from_url") and shared.get("author_id") and shared.get("channel_id"))


def _spoken(message: Raw, names: Mapping[str, str]) -> Iterator[RawQuote]:
    if text(message.get("subtype")) not in _SPOKEN or message.get("hidden") is True:
        return
    words, files = readable(said_in(message), names), tuple(references(message))
    if not words.strip():
        words = "\n".join(readable(text(part.get("fallback")), names) for part in mappings(message.get("attachments")))
    if words.strip() or files:
        yield RawQuote(QuoteKind.THREAD, _author(message, names), words, files)


def _author(message: Raw, names: Mapping[str, str]) -> str:
    user, profile = text(message.get("user")), mapping(message.get("bot_profile"))
    return text(profile.get("name")) or names.get(user) or text(message.get("username")) or user


def _key(message: Raw) -> tuple[int, int]:
    return _order(text(message.get("ts")))


def _order(ts: str) -> tuple[int, int]:
    """A timestamp as something to compare; what is none comes last."""
    seconds, _, fraction = ts.partition(".")
    is_one = seconds.isascii() and seconds.isdigit() and fraction.isascii() and (fraction.isdigit() or not fraction)
    return (int(seconds), int(fraction or 0)) if is_one and len(ts) <= 32 else (2**63, 0)
