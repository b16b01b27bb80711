"""The title of a conversation on its way to the place that may bear it. Pure."""

from __future__ import annotations

from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import TITLE_PREFIX, CleanText, InboundMessage, Reply, ReplyKind, own_words


def nameable(message: InboundMessage) -> ReplyAddress | None:
    """Where the conversation of this message may give its place a name, if that has one. Not where others read it and
    the conversation is a person's own in all places: its title may come from his direct messages."""
    is_others = message.key.is_private and not message.is_private
    return message.address if message.is_nameable and not is_others else None


def title_reply(title: CleanText, *, turn_id: str, key: SessionKey, address: ReplyAddress, now_ms: int) -> Reply:
    """What tells the channel; the same for every attempt at the turn that made the title."""
    return Reply(
        id=f"{TITLE_PREFIX}{turn_id}",
        turn_id=turn_id,
        key=key,
        address=address,
        text=own_words(""),
        kind=ReplyKind.TITLE,
        created_at_ms=now_ms,
        title=title,
    )
