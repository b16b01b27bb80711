"""What happened, counted: turns, model calls, how long things took.

Each process keeps its counts in memory and adds them to those on the bus every few seconds, so that no message pays for
them and one /metrics tells of all processes. On the bus a count is a field of one hash: the metric, its labels, and for
a duration the bucket it fell into (`le`) or the sum in milliseconds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from gateway.contracts.ports import ModelTrouble

_SEPARATOR: Final = "\x1f"
_SUM_MS: Final = "ms"
_BOUNDS_S: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_BUCKETS: Final = (*map(str, _BOUNDS_S), "+Inf")
_UNUSABLE: Final = "trivet_model_unusable"


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

_TABLE: Final = (TURNS, MODEL_OUTCOMES, MODEL_SECONDS, QUEUE_SECONDS, ANSWER_SECONDS, DELIVERY_SECONDS)


class Tally:
    """The counts of this process that the bus does not have yet."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, what: Counted, *labels: str) -> None:
        """One more, with these values of its labels."""
        self._counts[_field(what, *labels)] += 1

    def time(self, what: Timed, ms: float, *labels: str) -> None:
        """One more, which took that long; never less than nothing, whatever the clocks of two machines say."""
        taken_ms = max(ms, 0.0)
        self._counts[_field(what, *labels, _BUCKETS[bisect_left(_BOUNDS_S, taken_ms / 1000)])] += 1
        self._counts[_field(what, *labels, _SUM_MS)] += round(taken_ms)

    def take(self) -> Mapping[str, int]:
        """Hand over what has gathered, and begin anew."""
        counts, self._counts = self._counts, Counter()
        return counts

    def give_back(self, counts: Mapping[str, int]) -> None:
        """Keep what nobody took for the next time."""
        self._counts.update(counts)


def tally_families(
    counts: Mapping[str, int], troubles: Iterable[ModelTrouble], *, clean: Callable[[str], str]
) -> Iterator[Metric]:
    """Those counts as Prometheus has them, and which models do not answer. What a newer release counts is left out."""
    found: dict[str, dict[tuple[str, ...], int]] = {}
    for field, number in counts.items():
        name, *labels = field.split(_SEPARATOR)
        found.setdefault(name, {})[tuple(labels)] = number
    for what in _TABLE:
        rows = found.get(what.name, {})
        yield _histogram(what, rows, clean) if isinstance(what, Timed) else _counter(what, rows, clean)
    unusable = GaugeMetricFamily(
        _UNUSABLE, "1 while a model does not answer for want of a key or of credit.", labels=["model", "fault"]
    )
    for trouble in troubles:
        unusable.add_metric([clean(trouble.model), trouble.fault.value], 1)
    yield unusable


def _counter(what: Counted, rows: Mapping[tuple[str, ...], int], clean: Callable[[str], str]) -> Metric:
    family = CounterMetricFamily(what.name, what.meaning, labels=what.labels)
    for labels, number in sorted(rows.items()):
        family.add_metric([*map(clean, labels)], number)
    return family


def _histogram(what: Timed, rows: Mapping[tuple[str, ...], int], clean: Callable[[str], str]) -> Metric:
    family = HistogramMetricFamily(what.name, what.meaning, labels=what.labels)
    for labels in sorted({row[:-1] for row in rows}):
        total, buckets = 0, []
        for bucket in _BUCKETS:
            total += rows.get((*labels, bucket), 0)
            buckets.append((bucket, total))
        family.add_metric([*map(clean, labels)], buckets, rows.get((*labels, _SUM_MS), 0) / 1000)
    return family


def _field(what: Counted, *labels: str) -> str:
    return _SEPARATOR.join((what.name, *labels))
