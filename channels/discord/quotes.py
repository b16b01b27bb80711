"""What was said in a thread, as context for who is called into it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from channels.discord.normalize import PERSONS_TYPES, DiscordMessage, DiscordQuoted, quoted_as
from channels.normalized import RawQuote
from gateway.contracts.messages import QuoteKind

THREAD_STARTER: Final = 21  # the first message of a thread: it is empty, and points at the one that was there before
_SPOKEN: Final = PERSONS_TYPES | {20, 23}  # the answers of bots to commands, too


def said(thread: Iterable[DiscordMessage]) -> Iterator[RawQuote]:
    """What these messages say, whoever wrote them. What is of the system says nothing."""
    for message in thread:
        if message.type == THREAD_STARTER and message.answered is not None:
            yield from quoted_as(QuoteKind.THREAD, message.answered, message)
        elif message.type in _SPOKEN:
            for quoted in (_whole(message), *message.forwarded):
                yield from quoted_as(QuoteKind.THREAD, quoted, message, author=message.author_name)


def _whole(message: DiscordMessage) -> DiscordQuoted:
    return DiscordQuoted(
        channel_id=message.channel_id,
        message_id=message.id,
        content=message.content,
        author_id=message.author_id,
        author_name=message.author_name,
        files=message.files,
        user_names=message.user_names,
    )
