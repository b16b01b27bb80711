"""What happened in a process, counted: turns, model calls, how long things took.

Each process keeps its counts in memory and adds them to those on the bus every few seconds, so that no message pays
for them and one /metrics tells of all processes. On the bus a count is a field of one hash: the metric, its labels,
and for a duration the bucket it fell into (`le`) or the sum in milliseconds. A new metric is a row of `COUNTS`; what
bus and SQL know without being told is measured in `gateway.ops.admin.health`."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from gateway.contracts.errors import BusError

SEPARATOR: Final = "\x1f"
SUM_MS: Final = "ms"
_BOUNDS_S: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
BUCKETS: Final = (*map(str, _BOUNDS_S), "+Inf")


@dataclass(frozen=True, slots=True)
class Counted:
    """A metric that counts: a name for ever, what it counts, by which labels it is split."""

    name: str
    meaning: str
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Timed(Counted):
    """A metric that measures how long something took."""


TURNS: Final = Counted("trivet_turns", "Turns that were committed.", ("outcome",))
MODEL_OUTCOMES: Final = Counted(
    "trivet_model_outcomes", "How calls of models ended, repeated tries counted as one call.", ("model", "outcome")
)
MODEL_SECONDS: Final = Timed("trivet_model_seconds", "How long calls of models took, that were answered.", ("model",))
QUEUE_SECONDS: Final = Timed("trivet_queue_wait_seconds", "From a message to the beginning of its turn.")
ANSWER_SECONDS: Final = Timed("trivet_answer_seconds", "From a message to its committed answer.")
DELIVERY_SECONDS: Final = Timed("trivet_delivery_seconds", "From a published answer to its last part on the platform.")
HOOK_FAILURES: Final = Counted(
    "trivet_hook_failures", "Calls of plug-ins' hooks that raised or took too long.", ("hook",)
)

COUNTS: Final = (TURNS, MODEL_OUTCOMES, MODEL_SECONDS, QUEUE_SECONDS, ANSWER_SECONDS, DELIVERY_SECONDS, HOOK_FAILURES)


class Tally:
    """The counts of this process that the bus does not have yet."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, what: Counted, *labels: str) -> None:
        """Count one more, with these values of its labels."""
        self._counts[_field(what, *labels)] += 1

    def time(self, what: Timed, ms: float, *labels: str) -> None:
        """Count one more that took that long; never less than 0, whatever the clocks of two machines say."""
        taken_ms = max(ms, 0.0)
        self._counts[_field(what, *labels, BUCKETS[bisect_left(_BOUNDS_S, taken_ms / 1000)])] += 1
        self._counts[_field(what, *labels, SUM_MS)] += round(taken_ms)

    def take(self) -> Mapping[str, int]:
        """Hand over what has gathered, and begin anew."""
        counts, self._counts = self._counts, Counter()
        return counts

    async def hand_over(self, add: Callable[[Mapping[str, int]], Awaitable[None]]) -> None:
        """Hand what has gathered to the bus by `add`; what it does not take stays for the next time. Raises
        `BusError`."""
        counts = self.take()
        try:
            if counts:
                await add(counts)
        except BusError:
            self.give_back(counts)
            raise

    def give_back(self, counts: Mapping[str, int]) -> None:
        """Keep what nobody took for the next time."""
        self._counts.update(counts)


def counted(counts: Mapping[str, int], what: Counted, *labels: str | None) -> int:
    """Sum what was counted with these values of its first labels; None is any value."""
    return sum(
        number
        for field, number in counts.items()
        for name, *found in (field.split(SEPARATOR),)
        if name == what.name and all(wanted in (None, label) for wanted, label in zip(labels, found, strict=False))
    )


def label_values(counts: Mapping[str, int], what: Counted) -> frozenset[str]:
    """Return the values of the first label of what was counted."""
    return frozenset(field.split(SEPARATOR)[1] for field in counts if field.startswith(f"{what.name}{SEPARATOR}"))


def quantile_ms(counts: Mapping[str, int], what: Timed, share: float, *labels: str) -> float | None:
    """Estimate how long `share` of them took at most, as Prometheus does: within a bucket they are spread evenly. None
    where nothing was timed; what took longer than every bound counts as the last bound."""
    buckets = [counted(counts, what, *labels, bucket) for bucket in BUCKETS]
    rank, below, floor_s = share * sum(buckets), 0, 0.0
    for count, bound_s in zip(buckets, _BOUNDS_S, strict=False):
        if count and below + count >= rank:
            return 1000 * (floor_s + (bound_s - floor_s) * (rank - below) / count)
        below, floor_s = below + count, bound_s
    return 1000 * floor_s if buckets[-1] else None


def _field(what: Counted, *labels: str) -> str:
    return SEPARATOR.join((what.name, *labels))
