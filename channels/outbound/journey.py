"""How far one chunk came, and what follows from a platform's refusal. No I/O."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from gateway.contracts.errors import (
    AddressDead,
    AddressMoved,
    DeliveryError,
    FormatRefused,
    OutcomeUnknown,
    RateLimited,
)
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import DeliveryState
from gateway.limits import DELIVERY_ATTEMPTS_MAX

RETRY_DELAYS_S: Final = (1.0, 2.0, 4.0, 8.0, 15.0, 15.0, 30.0, 30.0, 60.0, 60.0, 120.0, 300.0, 600.0)
"""Someone is waiting, so the first minute has six attempts; all together outlast an outage of twenty minutes."""
YOUNG_S: Final = 1_200.0  # no reply is given up before: platforms and processes may be away for so long
YOUNG_DELAY_MAX_S: Final = 60.0  # attempts that deaths of ours have spent must not make its reader wait
RATE_LIMITS_MAX: Final = 200  # a 429 is flow control, no failure; yet a bucket that never opens must end
MOVES_MAX: Final = 3  # a chat that moves more often is a loop


@dataclass(frozen=True, slots=True)
class Journey:
    """How far one chunk came: where it goes, in which form, after how much trouble.

    `is_unsure`: an earlier attempt may have arrived. `is_careful`: sends of this account get lost now, so
    the chunk goes out in a way that can be repeated, where the platform has one. `carries_file`: what goes out is
    a file; one that is refused is stood in for by a sentence.
    """

    address: ReplyAddress
    attempt: int = 0
    is_plain: bool = False
    is_unsure: bool = False
    is_careful: bool = False
    carries_file: bool = False
    rate_limits: int = 0
    moves: int = 0

    def next_chunk(self) -> Journey:
        """The chunk arrived; the next one starts with the same address and the same caution."""
        return replace(self, is_plain=False, is_unsure=False, carries_file=False, rate_limits=0)


@dataclass(frozen=True, slots=True)
class Again:
    """Send the chunk again as `journey` says, after `wait_s`; the ledger says `state` meanwhile.

    A platform's own `retry_after_s` is exact; a back-off of ours gets jitter.
    """

    journey: Journey
    wait_s: float
    state: DeliveryState
    is_exact: bool = False


@dataclass(frozen=True, slots=True)
class GiveUp:
    """This reply cannot be delivered, for a reason fit for the operator."""

    reason: str


def next_move(error: DeliveryError, journey: Journey, *, is_young: bool = False) -> Again | GiveUp:
    """What follows from a platform's refusal. Pure; without jitter.

    Nobody gives up a reply that `is_young`: processes that die spend its attempts faster than an outage ends.
    """
    match error:
        case RateLimited():
            waited = replace(journey, rate_limits=journey.rate_limits + 1)
            if waited.rate_limits >= RATE_LIMITS_MAX:
                return GiveUp(f"rate limited {waited.rate_limits} times in a row")
            return Again(waited, error.retry_after_s, DeliveryState.RETRY, is_exact=True)
        case AddressMoved():
            moved = replace(journey, address=error.address, moves=journey.moves + 1)
            return GiveUp("the chat keeps moving") if moved.moves > MOVES_MAX else _at_once(moved)
        case FormatRefused() | AddressDead() if journey.carries_file:
            # Its text has just been taken here. If the place is dead by now, the sentence will meet that.
            return _at_once(replace(journey, carries_file=False))
        case FormatRefused():
            if journey.is_plain:
                return GiveUp(f"refused even as plain text: {error}")
            return _at_once(replace(journey, is_plain=True))
        case AddressDead():
            return GiveUp(str(error))
        case OutcomeUnknown():
            unsure = replace(journey, is_unsure=True, is_careful=True)
            return _later(unsure, error, DeliveryState.UNKNOWN, is_young=is_young)
        case _:
            return _later(journey, error, DeliveryState.RETRY, is_young=is_young)


def _at_once(journey: Journey) -> Again:
    return Again(journey, 0.0, DeliveryState.RETRY)


def _later(journey: Journey, error: DeliveryError, state: DeliveryState, *, is_young: bool) -> Again | GiveUp:
    tried = replace(journey, attempt=journey.attempt + 1)
    if tried.attempt >= DELIVERY_ATTEMPTS_MAX and not is_young:
        return GiveUp(f"gave up after {tried.attempt} attempts: {error}")
    delay_s = RETRY_DELAYS_S[min(tried.attempt, len(RETRY_DELAYS_S)) - 1]
    return Again(tried, min(delay_s, YOUNG_DELAY_MAX_S) if is_young else delay_s, state)
