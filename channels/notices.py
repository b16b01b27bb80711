"""The sentences that the channels role says by itself, without a turn. CommonMark, without filler. Pure."""

from __future__ import annotations

from typing import Final

from gateway.contracts.messages import CleanText, joined, own_words
from gateway.limits import LANE_MESSAGES_MAX, PAIRING_TTL_S

LANE_FULL: Final = (
    f"You have {LANE_MESSAGES_MAX} messages waiting for an answer, so I did not take this one. "
    "Please send it again when I have caught up, or say /stop to drop what waits."
)
QUEUE_FULL: Final = (
    "I have more to answer than I can take in at the moment. Your message is not lost: I take it up as soon as "
    "there is room, so there is no need to send it again."
)
STRANGER_IN_GROUP: Final = (
    "I do not know you yet. Write me a direct message, and I will tell you how an admin can let you in."
)
TOO_MANY_STRANGERS: Final = (
    "I do not know you yet, and too many people are waiting to be let in. Please try again later."
)
UNDELETED: Final = (
    "A message of yours held a secret, and I could not delete it here. "
    "Please delete it yourself, and replace the secret."
)
NOT_IN_USE: Final = "This button is no longer in use."
NOT_FOR_STRANGERS: Final = "I do not know you yet, so you cannot answer this."
NOT_NOW: Final = "I cannot take this now. Please press again in a moment."
CLOSED: Final = "I only talk to people whom an admin has let in."


WITHDRAWN: Final = own_words("(No answer came of this.)")
_FILE_NOT_SENT: Final = own_words("This file belongs to my answer, but it could not be sent here:")
_CODE: Final = own_words("`")


def file_not_sent(name: CleanText) -> CleanText:
    """What stands in for a file that the platform does not take."""
    return joined(_FILE_NOT_SENT, joined(_CODE, name, _CODE), by=" ")


def pairing(code: str) -> str:
    """What a stranger is told in a direct message."""
    return (
        f"I do not know you yet. Give this code to an admin, who can let you in with it: **{code}** "
        f"(valid for {PAIRING_TTL_S // 3600} hour)."
    )
