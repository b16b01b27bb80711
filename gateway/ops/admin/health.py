"""The health and the load of the installation: readiness, metrics, and the overview with its last day."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Final

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import BaseModel, Field
from starlette import status

from gateway.bus.operator import Operator
from gateway.config import LogLevel
from gateway.contracts.budgets import DAY_MS, Period, UsageSum, day_begins_ms, day_of
from gateway.contracts.errors import BusError, StoreError
from gateway.contracts.ports import Clock, CountedSpan, ModelFault, ModelTrouble, QueueFigures, QueueMoment
from gateway.limits import LOG_LINES_KEPT, TALLY_SLOT_S
from gateway.ops.admin.views import ApiView, Moment, QueueMomentView, QueueView, Readiness, moment, queue_view
from gateway.scrub import Scrubber
from gateway.store import Store
from gateway.telemetry.metrics import CONTENT_TYPE, Sums, exposition, tally_families, usage_families
from gateway.telemetry.tally import (
    ANSWER_SECONDS,
    MODEL_OUTCOMES,
    MODEL_SECONDS,
    TURNS,
    counted,
    label_values,
    quantile_ms,
)

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
        try:
            return await self.bus.figures()
        except BusError:
            return None

    async def troubles(self) -> Sequence[ModelTrouble]:
        try:
            return await self.bus.model_troubles()
        except BusError:
            return ()

    async def counts(self) -> Mapping[str, int]:
        try:
            return await self.bus.counts()
        except BusError:
            return {}

    async def past(self) -> Sequence[CountedSpan]:
        try:
            return await self.bus.counts_past(now_ms=self.clock.now_ms())
        except BusError:
            return ()

    async def waited(self) -> Sequence[QueueMoment]:
        try:
            return await self.bus.queue_past()
        except BusError:
            return ()

    async def spent_today(self) -> Sums:
        today = day_of(self.clock.now_ms())
        try:
            return await self.store.usage.by_model(Period(day_begins_ms(today), day_begins_ms(today + 1)))
        except StoreError:
            return {}

    async def spent_by_hour(self) -> Mapping[int, UsageSum]:
        now_ms = self.clock.now_ms()
        try:
            return await self.store.usage.by_hour(Period(now_ms - DAY_MS, now_ms + 1))
        except StoreError:
            return {}

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
        calls = counted(hour, MODEL_OUTCOMES)
        return OverviewView(
            at=moment(now_ms),
            **dict(readiness),
            queue=None if figures is None else queue_view(figures, now_ms=now_ms),
            per_minute=counted(recent, TURNS) / max((now_ms - since_ms) / 60_000, 1),
            p50_ms=quantile_ms(hour, ANSWER_SECONDS, 0.5),
            p95_ms=quantile_ms(hour, ANSWER_SECONDS, 0.95),
            model_calls=calls,
            model_errors=calls - counted(hour, MODEL_OUTCOMES, None, _ANSWERED),
            cost_today=sum(each.cost_usd for each in today.values()),
            tokens_today=sum(each.tokens for each in today.values()),
            waited=list(map(QueueMomentView.model_validate, await health.waited())),
            past=list(map(_span_view, past)),
            hours=[
                HourView(at=moment(at_ms), cost=found.cost_usd, tokens=found.tokens)
                for at_ms, found in (await health.spent_by_hour()).items()
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
        return list(map(LogLineView.model_validate, islice(found, limit)))

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
                *tally_families(await health.counts(), await health.troubles(), clean=clean),
            ),
        )
        return Response(text, media_type=CONTENT_TYPE)

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
