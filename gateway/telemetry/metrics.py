"""Metrics: what was counted and timed (`tally.py`), what the bus and SQL know, and how it becomes Prometheus text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from gateway.contracts.budgets import UsageSum
from gateway.contracts.ports import ModelTrouble, QueueFigures
from gateway.contracts.sessions import UsagePurpose
from gateway.telemetry.tally import BUCKETS, COUNTS, SEPARATOR, SUM_MS, Counted, Timed

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST


@dataclass(frozen=True, slots=True)
class GaugeRow:
    """One row of the table: a name for ever, what it counts, by which label it is split."""

    name: str
    meaning: str
    label: str = ""

    def of(self, value: float) -> Metric:
        """Return the gauge with its one value."""
        return GaugeMetricFamily(self.name, self.meaning, value=value)

    def by_label(self, values: Mapping[str, float]) -> Metric:
        """Return the gauge with one value for each value of its label."""
        family = GaugeMetricFamily(self.name, self.meaning, labels=[self.label])
        for name, value in sorted(values.items()):
            family.add_metric([name], value)
        return family


@dataclass(frozen=True, slots=True)
class BusCounterRow:
    """Names a figure of the bus that only grows; Prometheus adds `_total` to the name."""

    name: str
    meaning: str
    label: str

    def by_label(self, values: Mapping[str, float]) -> Metric:
        """Return the counter with one value for each value of its label."""
        family = CounterMetricFamily(self.name, self.meaning, labels=[self.label])
        for name, value in sorted(values.items()):
            family.add_metric([name], value)
        return family


QUEUE_MESSAGES: Final = GaugeRow("trivet_queue_messages", "Messages that wait for an answer, running turns included.")
QUEUE_AGE: Final = GaugeRow(
    "trivet_queue_age_seconds", "How long the oldest message has waited, of the lanes that are next; 0 if none waits."
)
LANES_READY: Final = GaugeRow("trivet_lanes_ready", "Lanes that wait for a free agent worker.")
LANES_RUNNING: Final = GaugeRow("trivet_lanes_running", "Lanes in which a turn runs.")
LANES_DELAYED: Final = GaugeRow(
    "trivet_lanes_delayed", "Lanes that wait for a moment to come: a retry, a settling time."
)
DEAD_LETTERS: Final = GaugeRow("trivet_dead_letters", "Messages that could not be answered and were put aside.")
AGENT_WORKERS: Final = GaugeRow("trivet_agent_workers", "Agent processes that are alive.")
REPLIES_UNSENT: Final = GaugeRow(
    "trivet_replies_unsent", "Committed replies that a channel has not sent yet.", "channel"
)
CHANNEL_CONNECTED: Final = GaugeRow(
    "trivet_channel_connected", "1 while the channel is connected to its platform.", "channel"
)
OUTBOX_AMBIGUOUS: Final = BusCounterRow(
    "trivet_outbox_ambiguous",
    "Messages sent again although an earlier attempt may have arrived.",
    "channel",
)
BUS_UP: Final = GaugeRow("trivet_bus_up", "1 while the bus answers; without it the other figures are missing.")
DATABASE_UP: Final = GaugeRow("trivet_database_up", "1 while the database answers and its schema is ours.")

GAUGES: Final = (
    QUEUE_MESSAGES,
    QUEUE_AGE,
    LANES_READY,
    LANES_RUNNING,
    LANES_DELAYED,
    DEAD_LETTERS,
    AGENT_WORKERS,
    REPLIES_UNSENT,
    CHANNEL_CONNECTED,
    OUTBOX_AMBIGUOUS,
    BUS_UP,
    DATABASE_UP,
)


def exposition(
    figures: QueueFigures | None,
    *,
    channels: Iterable[str],
    database_up: bool,
    version: str,
    more: Iterable[Metric] = (),
) -> bytes:
    """Write Prometheus text. `figures` is None when the bus does not answer; `channels` are those configured."""
    registry = CollectorRegistry()
    registry.register(_Snapshot((*_of_trivet(database_up, version), *_of_bus(figures, channels), *more)))
    return generate_latest(registry)


class _Snapshot(Collector):
    """Values read once, before the text is made."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = tuple(families)

    def collect(self) -> Iterator[Metric]:
        yield from self._families


def _of_trivet(database_up: bool, version: str) -> Iterator[Metric]:
    yield InfoMetricFamily("trivet_build", "Which Trivet this is.", value={"version": version})
    yield DATABASE_UP.of(database_up)


def _of_bus(figures: QueueFigures | None, channels: Iterable[str]) -> Iterator[Metric]:
    yield BUS_UP.of(figures is not None)
    if figures is None:
        return
    yield QUEUE_MESSAGES.of(figures.queued)
    yield QUEUE_AGE.of(figures.oldest_wait_ms / 1000)
    yield LANES_READY.of(figures.ready)
    yield LANES_RUNNING.of(figures.running)
    yield LANES_DELAYED.of(figures.delayed)
    yield DEAD_LETTERS.of(figures.dead_letters)
    yield AGENT_WORKERS.of(figures.workers_alive)
    yield REPLIES_UNSENT.by_label(figures.outbound_pending)
    yield OUTBOX_AMBIGUOUS.by_label(dict.fromkeys(channels, 0) | figures.ambiguous_sends)
    states = dict.fromkeys(channels, "") | figures.channels_connected
    yield CHANNEL_CONNECTED.by_label({name: state == "connected" for name, state in states.items()})


# The counts of `tally.py`, and which models do not answer.


_UNUSABLE: Final = "trivet_model_unusable"


def tally_families(
    counts: Mapping[str, int], troubles: Iterable[ModelTrouble], *, clean: Callable[[str], str]
) -> Iterator[Metric]:
    """Yield those counts as Prometheus has them, and the models that do not answer. Counts of a newer release are left
    out."""
    found: dict[str, dict[tuple[str, ...], int]] = {}
    for field, number in counts.items():
        name, *labels = field.split(SEPARATOR)
        found.setdefault(name, {})[tuple(labels)] = number
    for what in COUNTS:
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
        for bucket in BUCKETS:
            total += rows.get((*labels, bucket), 0)
            buckets.append((bucket, total))
        family.add_metric([*map(clean, labels)], buckets, rows.get((*labels, SUM_MS), 0) / 1000)
    return family


# Usage as Prometheus sees it: what was spent today, by purpose and model.
#
# The counters begin anew with each UTC day, as Prometheus expects of a process that was started again: `rate()` and
# `increase()` know how to read that. So a scrape sums one day and not the whole ledger.


MODELS_SHOWN_MAX: Final = 20  # each is a label value, and every label value costs memory for ever
LABEL_CHARS_MAX: Final = 80
OTHERS: Final = "other"

Sums = Mapping[tuple[UsagePurpose, str], UsageSum]
_LABELS: Final = ("purpose", "model")


@dataclass(frozen=True, slots=True)
class _Row:
    """One row of the table of names."""

    name: str
    meaning: str
    of: Callable[[UsageSum], float]


USAGE_TABLE: Final = (
    _Row("trivet_model_calls", "Calls of models.", lambda found: found.calls),
    _Row("trivet_model_prompt_tokens", "Tokens in, cached ones included.", lambda found: found.prompt_tokens),
    _Row("trivet_model_completion_tokens", "Tokens out.", lambda found: found.completion_tokens),
    _Row("trivet_model_cached_tokens", "Tokens in that a prompt cache had.", lambda found: found.cached_tokens),
    _Row("trivet_model_cost_usd", "What models cost, in US dollars.", lambda found: found.cost_usd),
)

HIT_RATIO: Final = "trivet_model_cache_hit_ratio"
"""A sudden fall means that prompts do not begin any more as the ones before them did."""


def usage_families(sums: Sums, *, clean: Callable[[str], str]) -> Iterator[Metric]:
    """Yield the counters, and how well prompt caches work. `clean` makes a model's name fit to be shown; all but the
    busiest share one label.
    """
    shown = _bounded(sums, clean)
    for row in USAGE_TABLE:
        family = CounterMetricFamily(row.name, row.meaning, labels=_LABELS)
        for (purpose, model), found in sorted(shown.items()):
            family.add_metric([purpose.value, model], row.of(found))
        yield family
    yield _hit_ratio(shown)


def _hit_ratio(sums: Sums) -> Metric:
    ratio = GaugeMetricFamily(HIT_RATIO, "Share of today's tokens in that a prompt cache had, 0 to 1.", labels=_LABELS)
    for (purpose, model), found in sorted(sums.items()):
        if found.prompt_tokens:
            ratio.add_metric([purpose.value, model], found.cached_tokens / found.prompt_tokens)
    return ratio


def _bounded(sums: Sums, clean: Callable[[str], str]) -> Sums:
    tokens: dict[str, int] = {}
    for (_, model), found in sums.items():
        tokens[model] = tokens.get(model, 0) + found.tokens
    busiest = sorted(tokens, key=lambda model: (-tokens[model], model))[:MODELS_SHOWN_MAX]
    names = {model: clean(model)[:LABEL_CHARS_MAX] for model in busiest}
    bounded: dict[tuple[UsagePurpose, str], UsageSum] = {}
    for (purpose, model), found in sums.items():
        label = purpose, names.get(model, OTHERS)
        bounded[label] = bounded.get(label, UsageSum()) + found
    return bounded
