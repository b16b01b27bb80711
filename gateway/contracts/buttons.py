"""What stands behind a button under a reply: a command, for one person, once. The platform holds nothing but a token.

Buttons of one group exclude each other: a press of one uses all of them up, under whichever reply they hang. The
answers to questions (`gateway.contracts.questions`) have codes of their own, which people may also write.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import blake2b

from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import CleanText, InboundMessage

_DIGEST_BYTES = 10


@dataclass(frozen=True, slots=True)
class Button:
    """Made with the reply it hangs under, in the same commit. A press by `meant_for` (an owner key) says `command` on
    the lane of `key`, at `address` (or aside, at that of the press), until `expires_at_ms`. `place` and `realm` are
    those of an `InboundMessage`."""

    token: str
    group: str
    reply_id: str
    label: CleanText
    command: CleanText
    meant_for: SessionKey
    key: SessionKey
    address: ReplyAddress
    is_private: bool
    place: tuple[str, ...]
    realm: str
    expires_at_ms: int

    def said_by(self, press: InboundMessage) -> InboundMessage:
        """What the one who pressed says with it. Its id is the same whoever makes it how often, and tells no token."""
        digest = blake2b(self.token.encode(), digest_size=_DIGEST_BYTES).hexdigest()
        return replace(
            press,
            id=f"{self.key.channel}:button:{digest}",
            key=self.key,
            address=press.address if press.is_aside else self.address,
            text=self.command,
            is_private=self.is_private,
            place=self.place,
            realm=self.realm,
            is_nameable=True,
        )


class Standing(StrEnum):
    """What a press came to."""

    TAKEN = "taken"
    """It counts; also when the same press is looked at once more."""
    USED = "used"
    EXPIRED = "expired"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Redeemed:
    """What became of a press. `reply_ids` are all replies under which the buttons of its group hang."""

    standing: Standing
    reply_ids: tuple[str, ...] = ()
