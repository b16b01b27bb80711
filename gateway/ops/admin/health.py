"""The health and the load of the installation: readiness, metrics, and the overview with its last day."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Final, Generic, TypeVar

from fastapi import APIRouter, Query
from fastapi.responses import Response
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
from pydantic import BaseModel, Field
from starlette import status

from gateway.bus.operator import Operator
from gateway.config import LogLevel
from gateway.contracts.budgets import DAY_MS, Period, UsageSum, day_begins_ms, day_of
from gateway.contracts.errors import BusError, StoreError
from gateway.contracts.ports import Clock, CountedSpan, ModelFault, ModelTrouble, QueueFigures
from gateway.contracts.sessions import UsagePurpose
from gateway.limits import LOG_LINES_KEPT, TALLY_SLOT_S
from gateway.ops.admin.views import ApiView, Moment, QueueMomentView, QueueView, Readiness, moment
from gateway.scrub import Scrubber
from gateway.store import Store
from gateway.telemetry.metrics import (
    ANSWER_SECONDS,
    BUCKETS,
    COUNTS,
    MODEL_OUTCOMES,
    MODEL_SECONDS,
    SEPARATOR,
    SUM_MS,
    TURNS,
    Counted,
    Timed,
    counted,
    label_values,
    quantile_ms,
)

# What the bus and SQL know, as Prometheus text. Pure.


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MetricRow(Generic[T]):
    """One row of a table of metrics: a name for ever, to which Prometheus adds `_total` if it only grows; what it
    counts, and how that is read of the figures."""

    name: str
    meaning: str
    of: Callable[[T], float]


GAUGES: Final[Sequence[MetricRow[QueueFigures]]] = (
    MetricRow(
        "trivet_queue_messages", "Messages that wait for an answer, running turns included.", lambda found: found.queued
    ),
    MetricRow(
        "trivet_queue_age_seconds",
        "How long the oldest message has waited, of the lanes that are next; 0 if none waits.",
        lambda found: found.oldest_wait_ms / 1000,
    ),
    MetricRow("trivet_lanes_ready", "Lanes that wait for a free agent worker.", lambda found: found.ready),
    MetricRow("trivet_lanes_running", "Lanes in which a turn runs.", lambda found: found.running),
    MetricRow(
        "trivet_lanes_delayed",
        "Lanes that wait for a moment to come: a retry, a settling time.",
        lambda found: found.delayed,
    ),
    MetricRow(
        "trivet_dead_letters",
        "Messages that could not be answered and were put aside.",
        lambda found: found.dead_letters,
    ),
    MetricRow("trivet_agent_workers", "Agent processes that are alive.", lambda found: found.workers_alive),
)
"""What the bus knows as one number each."""


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
    meaning = "1 while the database answers and its schema is ours."
    yield GaugeMetricFamily("trivet_database_up", meaning, value=database_up)


def _of_bus(figures: QueueFigures | None, channels: Iterable[str]) -> Iterator[Metric]:
    meaning = "1 while the bus answers; without it the other figures are missing."
    yield GaugeMetricFamily("trivet_bus_up", meaning, value=figures is not None)
    if figures is None:
        return
    for row in GAUGES:
        yield GaugeMetricFamily(row.name, row.meaning, value=row.of(figures))
    unsent = GaugeMetricFamily(
        "trivet_replies_unsent", "Committed replies that a channel has not sent yet.", labels=_CHANNEL
    )
    yield _by_channel(unsent, figures.outbound_pending)
    ambiguous = CounterMetricFamily(
        "trivet_outbox_ambiguous", "Messages sent again although an earlier attempt may have arrived.", labels=_CHANNEL
    )
    yield _by_channel(ambiguous, dict.fromkeys(channels, 0) | figures.ambiguous_sends)
    states = dict.fromkeys(channels, "") | figures.channels_connected
    connected = GaugeMetricFamily(
        "trivet_channel_connected", "1 while the channel is connected to its platform.", labels=_CHANNEL
    )
    yield _by_channel(connected, {name: state == "connected" for name, state in states.items()})


def _by_channel(family: GaugeMetricFamily | CounterMetricFamily, values: Mapping[str, float]) -> Metric:
    for name, value in sorted(values.items()):
        family.add_metric([name], value)
    return family


_CHANNEL: Final = ("channel",)


# The counts of `gateway.telemetry.metrics`, and which models do not answer.


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


USAGE_TABLE: Final[Sequence[MetricRow[UsageSum]]] = (
    MetricRow("trivet_model_calls", "Calls of models.", lambda found: found.calls),
    MetricRow("trivet_model_prompt_tokens", "Tokens in, cached ones included.", lambda found: found.prompt_tokens),
    MetricRow("trivet_model_completion_tokens", "Tokens out.", lambda found: found.completion_tokens),
    MetricRow("trivet_model_cached_tokens", "Tokens in that a prompt cache had.", lambda found: found.cached_tokens),
    MetricRow("trivet_model_cost_usd", "What models cost, in US dollars.", lambda found: found.cost_usd),
)

HIT_RATIO: Final = "trivet_model_cache_hit_ratio"
"""A sudden fall means that prompts do not begin any more as the ones before them did."""


def usage_families(sums: Sums, *, clean: Callable[[str], str]) -> Iterator[Metric]:
    """Yield the counters, and how well prompt caches work. `clean` makes a model's name fit to be shown; all but the
    busiest share one label."""
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


# The reasons why Trivet is not ready, in words. Pure.


CONNECTED: Final = "connected"
_FAULTS: Final = {
    ModelFault.KEY: "does not accept its key",
    ModelFault.QUOTA: "says that its quota or credit is used up",
}


def reasons(figures: QueueFigures | None, *, channels: Iterable[str], database_problem: str) -> Iterator[str]:
    """Yield the reasons why we are not ready; none when every configured channel is connected, an agent is alive and
    the database answers."""
    if database_problem:
        yield database_problem
    if figures is None:
        yield "the bus does not answer"
        return
    for name in channels:
        state = figures.channels_connected.get(name, "no report from the channels role")
        if state != CONNECTED:
            yield f"{name}: {state}"
    if figures.workers_alive == 0:
        yield "no agent process is alive"


def in_words(trouble: ModelTrouble) -> str:
    """Describe why a model does not answer, and when it was last asked in vain."""
    asked = datetime.fromtimestamp(trouble.at_ms / 1000, UTC)
    return f"{trouble.model}: {trouble.provider} {_FAULTS[trouble.fault]} ({asked:%Y-%m-%d %H:%M} UTC)"


class SettingView(BaseModel):
    """One setting, as it is in force."""

    key: str = Field(description="As in `trivet.toml`.")
    value: str = Field(description="As TOML; secrets are masked.")
    source: str = Field(description="Where the value comes from: `default`, the file, or a variable.")
    meaning: str


async def _known(asked: Awaitable[T], otherwise: T) -> T:
    """Return what was asked for, or the other while the bus or the database does not answer."""
    try:
        return await asked
    except (BusError, StoreError):
        return otherwise


@dataclass(frozen=True, slots=True)
class Health:
    """The state of the installation as a whole. What the bus or SQL cannot say just now is left out."""

    store: Store
    bus: Operator
    scrubber: Scrubber
    clock: Clock
    channels: Sequence[str]
    version: str
    settings: Sequence[SettingView] = ()

    async def readiness(self) -> Readiness:
        """Judge whether everything works together."""
        found = list(
            reasons(await self.figures(), channels=self.channels, database_problem=await self.database_problem())
        )
        troubles = [in_words(each) for each in await self.troubles()]
        return Readiness(ready=not found, reasons=found, models=troubles)

    async def figures(self) -> QueueFigures | None:
        return await _known(self.bus.figures(), None)

    async def troubles(self) -> Sequence[ModelTrouble]:
        return await _known(self.bus.model_troubles(), ())

    async def past(self) -> Sequence[CountedSpan]:
        return await _known(self.bus.counts_past(now_ms=self.clock.now_ms()), ())

    async def spent_today(self) -> Sums:
        today = day_of(self.clock.now_ms())
        return await _known(self.store.usage.by_model(Period(day_begins_ms(today), day_begins_ms(today + 1))), {})

    async def database_problem(self) -> str:
        """Say what is wrong with the database; empty when all is well."""
        try:
            await self.store.check_schema()
        except StoreError as error:
            return str(error)
        return ""


def readiness_routes(health: Health) -> APIRouter:
    """Build the routes that are open to everybody."""
    router = APIRouter(tags=["health"])

    @router.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Confirm that this process answers."""
        return {"status": "ok"}

    @router.get("/readyz", responses={503: {"model": Readiness}})
    async def readyz(response: Response) -> Readiness:
        """Confirm that every configured channel is connected, an agent is alive, and the database is ours; otherwise
        503 and why. Models that do not answer are named, and change nothing: another may answer, and no restart mends
        it."""
        found = await health.readiness()
        if not found.ready:
            response.status_code = status.HTTP_503_SERVICE_UNAVAILABLE
        return found

    return router


# The overview: the numbers of this moment, and of the last day.


_RECENT_SPANS: Final = 2  # the one that is not over and the one before it: ten minutes at most
_HOUR_SPANS: Final = 3600 // TALLY_SLOT_S
_ANSWERED: Final = "answered"
_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}


class LogLineView(ApiView):
    """One line of a log."""

    at: Moment = Field(validation_alias="at_ms")
    level: str = Field(description="`debug`, `info`, `warning`, `error` or `critical`.")
    text: str = Field(description="As it was written, secrets taken out.")


class SpanView(BaseModel):
    """Five minutes of the last day."""

    at: datetime = Field(description="When they began.")
    answers: int = Field(description="Turns that were committed.")
    failures: int = Field(description="Of these, turns that failed.")
    p50_ms: float | None = Field(description="From a message to its committed answer, half of them; null for none.")
    p95_ms: float | None = Field(description="Likewise, 95 of 100.")
    model_calls: int
    model_errors: int = Field(description="Calls of models that gave no answer, repeated tries counted as one.")


class HourView(BaseModel):
    """The cost of models in one hour of the last day."""

    at: datetime
    cost: float = Field(description="US dollars.")
    tokens: int


class ModelView(BaseModel):
    """One model, and how its calls went. Names that no setting has are counted together, as `other`."""

    model: str
    trouble: str = Field(description="Why it does not answer, where that is for an operator to mend; else empty.")
    calls_today: int = Field(description="Of this UTC day, as the next two.")
    tokens_today: int
    cost_today: float
    answered: int = Field(description="Calls of the last day that were answered.")
    failed: int = Field(description="Calls of the last day that were not.")
    p50_ms: float | None = Field(description="Half of the answers of the last day took that long at most.")
    p95_ms: float | None = Field(description="95 of 100 of them.")


class OverviewView(BaseModel):
    """The installation at this moment, and over the last day."""

    at: datetime
    ready: bool
    reasons: list[str] = Field(description="Why it is not ready.")
    models: list[str] = Field(description="Models that do not answer for want of a key or of credit.")
    queue: QueueView | None = Field(description="Null while the bus does not answer.")
    per_minute: float = Field(description="Turns committed a minute, in the last ten.")
    p50_ms: float | None = Field(description="From a message to its committed answer in the last hour, half of them.")
    p95_ms: float | None = Field(description="Likewise, 95 of 100.")
    model_calls: int = Field(description="In the last hour.")
    model_errors: int = Field(description="In the last hour.")
    cost_today: float = Field(description="US dollars since midnight UTC.")
    tokens_today: int
    waited: list[QueueMomentView] = Field(description="How much waited in the last ten minutes, oldest first.")
    past: list[SpanView] = Field(description="The last day, oldest first, the one that is not over last.")
    hours: list[HourView] = Field(description="The last day, oldest first, hours in which a model was called.")


def overview_routes(health: Health) -> APIRouter:
    """Build `GET /api/v1/overview` and `GET /metrics`."""
    router = APIRouter(tags=["health"])

    @router.get("/api/v1/overview")
    async def overview() -> OverviewView:
        """Show how Trivet is, how much it has to do, how fast it answers and what that costs, now and over the last
        day. Agent processes report what they count every few seconds; it is kept on the bus for a day."""
        readiness, figures, past = await health.readiness(), await health.figures(), await health.past()
        today, now_ms = await health.spent_today(), health.clock.now_ms()
        recent, hour = _together(past[-_RECENT_SPANS:]), _together(past[-_HOUR_SPANS:])
        since_ms = past[-_RECENT_SPANS].at_ms if past else now_ms
        by_hour = await _known(health.store.usage.by_hour(Period(now_ms - DAY_MS, now_ms + 1)), {})
        calls = counted(hour, MODEL_OUTCOMES)
        return OverviewView(
            at=moment(now_ms),
            **dict(readiness),
            queue=None if figures is None else QueueView.of(figures, at=moment(now_ms)),
            per_minute=counted(recent, TURNS) / max((now_ms - since_ms) / 60_000, 1),
            p50_ms=quantile_ms(hour, ANSWER_SECONDS, 0.5),
            p95_ms=quantile_ms(hour, ANSWER_SECONDS, 0.95),
            model_calls=calls,
            model_errors=calls - counted(hour, MODEL_OUTCOMES, None, _ANSWERED),
            cost_today=sum(each.cost_usd for each in today.values()),
            tokens_today=sum(each.tokens for each in today.values()),
            waited=list(map(QueueMomentView.of, await _known(health.bus.queue_past(), ()))),
            past=list(map(_span_view, past)),
            hours=[
                HourView(at=moment(at_ms), cost=found.cost_usd, tokens=found.tokens) for at_ms, found in by_hour.items()
            ],
        )

    @router.get("/api/v1/logs")
    async def logs(
        q: Annotated[str, Query(max_length=200, description="A part of the line, such as the id of a turn.")] = "",
        level: Annotated[LogLevel | None, Query(description="The least important lines that are shown.")] = None,
        limit: Annotated[int, Query(ge=1, le=LOG_LINES_KEPT)] = 200,
    ) -> list[LogLineView]:
        """List the newest lines that all processes logged, newest first, as far as the last day's 5,000 go back."""
        least = 0 if level is None else _LEVELS[level.value]
        words = q.strip().lower()
        found = (
            line
            for line in await health.bus.log_lines(LOG_LINES_KEPT if words or least else limit)
            if words in line.text.lower() and _LEVELS.get(line.level, 0) >= least
        )
        return list(map(LogLineView.of, islice(found, limit)))

    @router.get("/api/v1/settings")
    async def settings() -> list[SettingView]:
        """List every setting with the value in force in this process, and where it comes from. They are read at the
        start; what may change at run time has routes of its own: limits, places, grants, types of sub-agents."""
        return list(health.settings)

    @router.get("/api/v1/models")
    async def models() -> list[ModelView]:
        """List the models that were asked today or in the last day, or that do not answer, by name."""
        spent, counts = await health.spent_today(), _together(await health.past())
        troubles = {each.model: each for each in await health.troubles()}
        today: dict[str, UsageSum] = {}
        for (_, model), found in spent.items():
            today[model] = today.get(model, UsageSum()) + found
        names = {*today, *troubles, *label_values(counts, MODEL_OUTCOMES)}
        return [
            ModelView(
                model=name,
                trouble="" if name not in troubles else in_words(troubles[name]),
                calls_today=today.get(name, UsageSum()).calls,
                tokens_today=today.get(name, UsageSum()).tokens,
                cost_today=today.get(name, UsageSum()).cost_usd,
                answered=counted(counts, MODEL_OUTCOMES, name, _ANSWERED),
                failed=counted(counts, MODEL_OUTCOMES, name) - counted(counts, MODEL_OUTCOMES, name, _ANSWERED),
                p50_ms=quantile_ms(counts, MODEL_SECONDS, 0.5, name),
                p95_ms=quantile_ms(counts, MODEL_SECONDS, 0.95, name),
            )
            for name in sorted(names)
        ]

    @router.get("/metrics", response_class=Response)
    async def metrics() -> Response:
        """Show the figures of bus and database as Prometheus text."""
        clean = health.scrubber.scrub
        text = exposition(
            await health.figures(),
            channels=health.channels,
            database_up=not await health.database_problem(),
            version=health.version,
            more=(
                *usage_families(await health.spent_today(), clean=clean),
                *tally_families(await _known(health.bus.counts(), {}), await health.troubles(), clean=clean),
            ),
        )
        return Response(text, media_type=CONTENT_TYPE_LATEST)

    return router


def _together(spans: Iterable[CountedSpan]) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for span in spans:
        for name, number in span.counts.items():
            found[name] = found.get(name, 0) + number
    return found


def _span_view(span: CountedSpan) -> SpanView:
    calls = counted(span.counts, MODEL_OUTCOMES)
    return SpanView(
        at=moment(span.at_ms),
        answers=counted(span.counts, TURNS),
        failures=counted(span.counts, TURNS, "failed"),
        p50_ms=quantile_ms(span.counts, ANSWER_SECONDS, 0.5),
        p95_ms=quantile_ms(span.counts, ANSWER_SECONDS, 0.95),
        model_calls=calls,
        model_errors=calls - counted(span.counts, MODEL_OUTCOMES, None, _ANSWERED),
    )
