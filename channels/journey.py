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
RATE_LIMITS_MAX: Final = 200  # a 429 is flow control, no failure; yet a bucket that never opens must end
MOVES_MAX: Final = 3  # a chat that moves more often is a loop


@dataclass(frozen=True, slots=True)
class Journey:
    """How far one chunk came: where it goes, in which form, after how much trouble.

    `is_unsure`: an earlier attempt may have arrived. `is_careful`: sends of this account get lost now, so
    the chunk goes out in a way that can be repeated, where the platform has one.
    """

    address: ReplyAddress
    attempt: int = 0
    is_plain: bool = False
    is_unsure: bool = False
    is_careful: bool = False
    rate_limits: int = 0
    moves: int = 0

    def next_chunk(self) -> Journey:
        """The chunk arrived; the next one starts with the same address and the same caution."""
        return replace(self, is_plain=False, is_unsure=False, rate_limits=0)


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


def next_move(error: DeliveryError, journey: Journey) -> Again | GiveUp:
    """What follows from a platform's refusal. Pure; without jitter."""
    match error:
        case RateLimited():
            waited = replace(journey, rate_limits=journey.rate_limits + 1)
            if waited.rate_limits >= RATE_LIMITS_MAX:
                return GiveUp(f"rate limited {waited.rate_limits} times in a row")
            return Again(waited, error.retry_after_s, DeliveryState.RETRY, is_exact=True)
        case AddressMoved():
            moved = replace(journey, address=error.address, moves=journey.moves + 1)
            return GiveUp("the chat keeps moving") if moved.moves > MOVES_MAX else _at_once(moved)
        case FormatRefused():
            if journey.is_plain:
                return GiveUp(f"refused even as plain text: {error}")
            return _at_once(replace(journey, is_plain=True))
        case AddressDead():
            return GiveUp(str(error))
        case OutcomeUnknown():
            return _later(replace(journey, is_unsure=True, is_careful=True), error, DeliveryState.UNKNOWN)
        case _:
            return _later(journey, error, DeliveryState.RETRY)


def _at_once(journey: Journey) -> Again:
    return Again(journey, 0.0, DeliveryState.RETRY)


def _later(journey: Journey, error: DeliveryError, state: DeliveryState) -> Again | GiveUp:
    tried = replace(journey, attempt=journey.attempt + 1)
    if tried.attempt >= DELIVERY_ATTEMPTS_MAX:
        return GiveUp(f"gave up after {tried.attempt} attempts: {error}")
    return Again(tried, RETRY_DELAYS_S[min(tried.attempt, len(RETRY_DELAYS_S)) - 1], state)
