"""The waits that keep us under a platform's limits, and the memory of places that refuse us.

The rates are rows in each platform's own `limits.py`; here is only who goes first. Answers wait for their tokens.
Calls that may be left out (edits of a growing answer, then typing indicators) spend only what answers leave over."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeVar
from weakref import WeakValueDictionary

from channels.core.adapter import ChannelAdapter, SendBudget, StreamCadence, SupportsMoves, SupportsPlaceholders
from gateway.bus.deliveries import Deliveries
from gateway.bus.places import Places
from gateway.contracts.errors import AddressDead, AddressMoved, DeliveryError, OutcomeUnknown, RateLimited
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.ports import TokenWish
from gateway.scrub import Scrubber
from gateway.tasks import RetryPolicy, retry_until_available, wait_at_most

log = logging.getLogger(__name__)


class Urgency(Enum):
    """The order of calls when a bucket is nearly empty. The value is the share that a call leaves in the bucket."""

    ANSWER = None
    """Never waits for the others: only for what answers have spent."""
    EDIT = 0.25
    """Of a growing answer or a status line: still made where an indicator is left out."""
    INDICATOR = 0.5


def token_wishes(budgets: Sequence[SendBudget], urgency: Urgency) -> tuple[TokenWish, ...]:
    """Return a token of each of these buckets, as the bus is asked for it."""
    share = urgency.value
    return tuple(
        TokenWish(budget.bucket, budget.per_s, budget.burst, None if share is None else budget.burst * share)
        for budget in budgets
    )


class Pacer:
    """Asks the buckets of one account for calls that may be left out. Raises `BusUnavailable`."""

    def __init__(self, bus: Deliveries, adapter: ChannelAdapter) -> None:
        self._bus = bus
        self._adapter = adapter

    async def may_spend(self, budgets: Sequence[SendBudget], urgency: Urgency) -> bool:
        """Spend one token of each bucket if enough are left over; False: leave it out, nobody will miss it."""
        wishes = token_wishes(budgets, urgency)
        return not wishes or await self._bus.take_send_tokens(self._adapter.account, wishes) == 0

    async def pause(self, budgets: Sequence[SendBudget], *, for_s: float) -> None:
        """Pause all messages to this place for the time that the platform named."""
        if budgets:
            await self._bus.pause_bucket(self._adapter.account, budgets[0].bucket, for_s=for_s)


# How fast a growing answer is shown in one place: slower after each 429, then gradually as fast as before. No I/O.

SLOWNESS_MAX: Final = 16.0  # a minute in a group of Telegram: after so many refusals silence is better
CALM_CALLS: Final = 8  # that went well in a row before it is worth trying to be twice as fast


@dataclass(frozen=True, slots=True)
class StreamPace:
    """The pace of a stream: `slowness` times the platform's interval; `calm` calls went well since that changed."""

    slowness: float = 1.0
    calm: int = 0

    def interval_s(self, cadence: StreamCadence) -> float:
        """Return the least time between two calls."""
        return cadence.every_s * self.slowness

    def refused(self) -> StreamPace:
        """Return the pace after the platform said that it was too much."""
        return StreamPace(min(self.slowness * 2, SLOWNESS_MAX))

    def taken(self) -> StreamPace:
        """Return the pace after a call went well."""
        if self.calm + 1 < CALM_CALLS or self.slowness <= 1.0:
            return StreamPace(self.slowness, self.calm + 1)
        return StreamPace(max(1.0, self.slowness / 2))


# One at a time in each lane: an answer and a draft never call a platform at the same time for the same place. Otherwise
# a search for a lost message could find one that has just been begun there.


@dataclass(slots=True, weakref_slot=True)
class LaneLock:
    """The lock of one lane, which exists as long as somebody uses it. Drafts wait until `free_at_s` by the loop's
    clock, and none begins before the `replies` that are taken and not finished."""

    one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock)
    pace: StreamPace = field(default_factory=StreamPace)
    free_at_s: float = float("-inf")
    replies: int = 0


class LaneLocks:
    """The locks of the lanes of one channel."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, LaneLock] = WeakValueDictionary()
        self.is_placing = False
        """Replies are taken that are not in their lanes yet."""

    def of(self, lane: str) -> LaneLock:
        """Return the lane's lock, the same for all who ask while anybody holds it."""
        return self._locks.setdefault(lane, LaneLock())


# The effect of a platform's refusal on all other sends to the same place, or of the account.

REFUSALS_MAX: Final = 1_000  # within REFUSALS_WINDOW_S; at ten times as many Discord shuts out the whole machine
REFUSED_PAUSE_S: Final = 60.0


def place_of(adapter: ChannelAdapter, address: ReplyAddress) -> str:
    """Return the name under which it is remembered that an address takes nothing any more."""
    return f"{adapter.account}:{address.lane}"


class DeliveryHealth:
    """The lessons of failed sends about the places of one account. Waits for the bus."""

    def __init__(
        self, adapter: ChannelAdapter, places: Places, pacer: Pacer, backoff: BackoffTimer, scrubber: Scrubber
    ) -> None:
        self._adapter = adapter
        self._places = places
        self._pacer = pacer
        self._backoff = backoff
        self._scrubber = scrubber

    async def learn(self, error: DeliveryError, address: ReplyAddress) -> None:
        """Learn from a send to `address` that was refused, or got lost."""
        adapter, places, with_bus = self._adapter, self._places, self._backoff.with_bus
        match error:
            case RateLimited():
                await self._pause(address, error.retry_after_s, is_global=error.is_global)
            case AddressMoved() if isinstance(adapter, SupportsMoves):
                old, new = adapter.chat_of(address), adapter.chat_of(error.address)
                log.info("%s: chat %s is %s now", adapter.name, old, new)
                await with_bus(lambda: places.note_move(adapter.name, old, new))
            case AddressDead():
                reason = self._scrubber.scrub(str(error))
                met = await with_bus(
                    lambda: places.mark_dead(adapter.account, place_of(adapter, address), reason=reason)
                )
                if met >= REFUSALS_MAX:
                    log.error("%s: %d places refused us lately, so sends pause", adapter.name, met)
                    await self._pause(address, REFUSED_PAUSE_S, is_global=True)
            case OutcomeUnknown() if isinstance(adapter, SupportsPlaceholders):
                await with_bus(lambda: places.mark_unsure(adapter.account))
            case _:
                pass

    async def _pause(self, address: ReplyAddress, for_s: float, *, is_global: bool) -> None:
        budgets = self._adapter.budgets(address)
        await self._backoff.with_bus(lambda: self._pacer.pause(budgets[-1:] if is_global else budgets, for_s=for_s))


# Waits that end when the process stops: for a retry, for a rate limit, for the bus.

BUS_RETRY_FIRST_S: Final = 0.2
BUS_RETRY_CAP_S: Final = 5.0

_POLICY: Final = RetryPolicy(first_s=BUS_RETRY_FIRST_S, cap_s=BUS_RETRY_CAP_S)
_T = TypeVar("_T")


class Abandoned(Exception):
    """The process is stopping while this reply waits; the stream still has it."""


class BackoffTimer:
    """The waits of one channel's deliveries. `scale` shortens back-offs for tests, never what a platform asked for."""

    def __init__(self, *, scale: float = 1.0) -> None:
        self._scale = scale
        self._stopping = asyncio.Event()

    def end(self) -> None:
        """Raise `Abandoned` from now on instead of any wait."""
        self._stopping.set()

    def chosen_s(self, delay_s: float) -> float:
        """Scale a wait by our own choice: tests shorten it."""
        return delay_s * self._scale

    async def back_off(self, delay_s: float) -> None:
        """Wait by our own choice."""
        await self.wait(self.chosen_s(delay_s))

    async def wait(self, delay_s: float) -> None:
        """Sleep unless the process stops first."""
        if delay_s <= 0:
            return
        if self._stopping.is_set() or await wait_at_most(self._stopping, delay_s):
            raise Abandoned

    async def with_bus(self, call: Callable[[], Awaitable[_T]]) -> _T:
        """Make a call to the bus and wait for the bus as long as it takes: nothing may be sent that the ledger does not
        know."""
        return await retry_until_available(call, _POLICY, wait=self.wait)
