"""The table of metric names, and how the figures of the bus become Prometheus text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from gateway.contracts.ports import QueueFigures

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST


@dataclass(frozen=True, slots=True)
class Gauge:
    """One row of the table: a name for ever, what it counts, by which label it is split."""

    name: str
    meaning: str
    label: str = ""

    def of(self, value: float) -> Metric:
        """The gauge with its one value."""
        return GaugeMetricFamily(self.name, self.meaning, value=value)

    def by_label(self, values: Mapping[str, float]) -> Metric:
        """The gauge with one value for each value of its label."""
        family = GaugeMetricFamily(self.name, self.meaning, labels=[self.label])
        for name, value in sorted(values.items()):
            family.add_metric([name], value)
        return family


@dataclass(frozen=True, slots=True)
class Counter:
    """The same for what only grows; Prometheus puts `_total` behind the name."""

    name: str
    meaning: str
    label: str

    def by_label(self, values: Mapping[str, float]) -> Metric:
        """The counter with one value for each value of its label."""
        family = CounterMetricFamily(self.name, self.meaning, labels=[self.label])
        for name, value in sorted(values.items()):
            family.add_metric([name], value)
        return family


QUEUE_MESSAGES: Final = Gauge("trivet_queue_messages", "Messages that wait for an answer, running turns included.")
QUEUE_AGE: Final = Gauge(
    "trivet_queue_age_seconds", "How long the oldest message has waited, of the lanes that are next; 0 if none waits."
)
LANES_READY: Final = Gauge("trivet_lanes_ready", "Lanes that wait for a free agent worker.")
LANES_RUNNING: Final = Gauge("trivet_lanes_running", "Lanes in which a turn runs.")
LANES_DELAYED: Final = Gauge("trivet_lanes_delayed", "Lanes that wait for a moment to come: a retry, a settling time.")
DEAD_LETTERS: Final = Gauge("trivet_dead_letters", "Messages that could not be answered and were put aside.")
AGENT_WORKERS: Final = Gauge("trivet_agent_workers", "Agent processes that are alive.")
REPLIES_UNSENT: Final = Gauge("trivet_replies_unsent", "Committed replies that a channel has not sent yet.", "channel")
CHANNEL_CONNECTED: Final = Gauge(
    "trivet_channel_connected", "1 while the channel is connected to its platform.", "channel"
)
OUTBOX_AMBIGUOUS: Final = Counter(
    "trivet_outbox_ambiguous",
    "Messages sent again although an earlier attempt may have arrived.",
    "channel",
)
BUS_UP: Final = Gauge("trivet_bus_up", "1 while the bus answers; without it the other figures are missing.")
DATABASE_UP: Final = Gauge("trivet_database_up", "1 while the database answers and its schema is ours.")

TABLE: Final = (
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
    """Prometheus text. `figures` is None when the bus does not answer; `channels` are those configured."""
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
