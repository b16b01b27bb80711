"""The sentences that the channels role says by itself, without a turn. CommonMark. Pure."""

from __future__ import annotations

import math
from typing import Final

from gateway.contracts.messages import CleanText
from gateway.i18n import Sentence, Words, sentence
from gateway.limits import PAIRING_TTL_S

QUEUE_FULL: Final = sentence(
    "I have more to answer than I can take in at the moment. Your message is not lost: I take it up as soon as "
    "there is room, so there is no need to send it again."
)
STRANGER_IN_GROUP: Final = sentence(
    "I do not know you yet. Write me a direct message, and I will tell you how an admin can let you in."
)
TOO_MANY_STRANGERS: Final = sentence(
    "I do not know you yet, and too many people are waiting to be let in. Please try again later."
)
UNDELETED: Final = sentence(
    "A message of yours held a secret, and I could not delete it here. "
    "Please delete it yourself, and replace the secret."
)
STOP: Final = sentence("Stop")
NOT_YOURS_TO_STOP: Final = sentence("Only the person it is for, or an admin, can stop this answer.")
WITHDRAWN: Final = sentence("No answer came of this.")
NOT_IN_USE: Final = sentence("This button is no longer in use.")
NOT_FOR_STRANGERS: Final = sentence("I do not know you yet, so you cannot answer this.")
NOT_NOW: Final = sentence("I cannot take this now. Please try again in a moment.")
NOT_FOR_ME: Final = sentence("I do not answer this.")
CLOSED: Final = sentence("I only talk to people whom an admin has let in.")
WHOLE_ANSWER: Final = sentence("My answer is long. This file holds all of it.")
WHOLE_QUESTION: Final = sentence("My question is long. This file holds all that I would do.")
WRITES_TOO_FAST: Final = sentence(
    "You write faster than I may listen, so I did not take your last message. Please send it again in {time}."
)
COMMANDS_TOO_FAST: Final = sentence(
    "You give commands faster than I may take them, so I did not take this one. Please try again in {time}."
)
NOT_HERE: Final = sentence("I may not answer you here. In a direct message you may ask me.")
WELCOME: Final = sentence(
    "You have been let in: write to me as you would to a person. /help says what else I understand."
)


def lane_full(messages_max: int, words: Words) -> CleanText:
    """Say that the lane is full, to a person who writes faster than the answers come."""
    return words.say(
        "You have {count} messages waiting for an answer, so I did not take this one. "
        "Please send it again when I have caught up, or say /stop to drop what waits.",
        count=messages_max,
    )


def too_fast(told: Sentence, wait_s: float, words: Words) -> CleanText:
    """Say how long to wait, to a person who writes, gives commands or presses buttons faster than the limit allows."""
    return words.say(told, time=words.count("{count} second", "{count} seconds", max(1, math.ceil(wait_s))))


def file_not_sent(name: CleanText, words: Words) -> CleanText:
    """Return the sentence that takes the place of a file that the platform does not take."""
    return words.say("This file belongs to my answer, but it could not be sent here: `{name}`", name=name)


def pairing(code: str, words: Words) -> str:
    """Tell a stranger in a direct message how to pair."""
    return words.say(
        "I do not know you yet. Give this code to an admin, who can let you in with it: **{code}** (valid for {time}).",
        code=code,
        time=words.count("{count} hour", "{count} hours", PAIRING_TTL_S // 3600),
    )


def still_waiting(code: str, waited_ms: int, left_ms: int, words: Words) -> str:
    """Tell a stranger who writes again that nothing was decided yet."""
    return words.say(
        "Your request has been waiting for {waited}, and nobody has let you in yet. An admin can, with this code, for "
        "{left} more: **{code}**. Until then I do not answer.",
        code=code,
        waited=_minutes(waited_ms, words),
        left=_minutes(left_ms, words),
    )


def _minutes(duration_ms: int, words: Words) -> CleanText:
    return words.count("{count} minute", "{count} minutes", max(1, round(duration_ms / 60_000)))
