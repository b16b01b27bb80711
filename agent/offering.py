"""Buttons under a reply that say commands: what stands on them, and what stands behind them.

Who has no buttons writes the same command: the text that they hang under names it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from agent.limits import BUTTON_LABEL_CHARS_MAX, BUTTON_TOKEN_CHARS, BUTTON_TTL_S, BUTTONS_MAX
from gateway.contracts.buttons import Button
from gateway.contracts.errors import ContextTooLong, ModelError
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import Choice, CleanText, InboundMessage, Reply, clipped, joined, own_words
from gateway.contracts.ports import Clock
from gateway.words import Words, sentence

Clean = Callable[[str], CleanText]
_PRESS: Final = own_words("/press")
_RETRY: Final = sentence("Try again")


@dataclass(frozen=True, slots=True)
class Offer:
    """One button: what stands on it, and the command that it says."""

    label: str
    command: str


@dataclass(frozen=True, slots=True)
class Meant:
    """For whom buttons are (an owner key), and where what they say is said. `group` excludes each other, empty for
    those of one reply."""

    person: SessionKey
    is_private: bool
    place: tuple[str, ...] = ()
    realm: str = ""
    group: str = ""

    @classmethod
    def for_author(cls, message: InboundMessage) -> Meant:
        """For whoever wrote it, where it was written."""
        return cls(message.author, message.is_private, message.place, message.realm)


def offering(
    reply: Reply, offers: Sequence[Offer], meant: Meant, clean: Clean, clock: Clock, *, ttl_s: int = BUTTON_TTL_S
) -> tuple[Reply, tuple[Button, ...]]:
    """The reply with its buttons, and what is to be committed with it."""
    buttons = tuple(
        Button(
            token=clock.code(BUTTON_TOKEN_CHARS),
            group=meant.group or reply.id,
            reply_id=reply.id,
            label=clipped(clean(" ".join(offer.label.split())), BUTTON_LABEL_CHARS_MAX),
            command=clean(offer.command),
            meant_for=meant.person,
            key=reply.key,
            address=reply.address,
            is_private=meant.is_private,
            place=meant.place,
            realm=meant.realm,
            expires_at_ms=reply.created_at_ms + ttl_s * 1000,
        )
        for offer in offers[:BUTTONS_MAX]
    )
    choices = tuple(Choice(button.label, joined(_PRESS, clean(button.token), by=" ")) for button in buttons)
    return replace(reply, choices=(*reply.choices, *choices)), buttons


def retry_offers(error: Exception, turn_id: str, words: Words) -> tuple[Offer, ...]:
    """The button under a turn that failed: that very turn is taken once more, as long as nothing followed it. None
    where that would fail again."""
    if isinstance(error, ContextTooLong) or (isinstance(error, ModelError) and error.needs_operator):
        return ()
    return (Offer(words.say(_RETRY), f"/retry {turn_id}"),)
