"""Tells of a turn, and of how long its messages waited, once it is committed: to a collector, and to /metrics."""

from __future__ import annotations

from agent.afterwards.finished import AfterTurn, Finished
from gateway.contracts.ports import SpanSink
from gateway.telemetry.spans import turn_spans
from gateway.telemetry.tally import ANSWER_SECONDS, QUEUE_SECONDS, TURNS, Tally


def tracing_turns(spans: SpanSink) -> AfterTurn:
    """What is left to do after each turn."""

    async def tell(finished: Finished) -> None:
        batch = finished.turn.batch
        for span in turn_spans(finished.commit, batch.messages, began_ms=batch.begun_at_ms, fence=batch.fence):
            spans.record(span)

    return tell


def counting_turns(tally: Tally) -> AfterTurn:
    """Likewise."""

    async def count(finished: Finished) -> None:
        batch, commit = finished.turn.batch, finished.commit
        received_ms = min(message.received_at_ms for message in batch.messages)
        tally.add(TURNS, commit.state.value)
        tally.time(QUEUE_SECONDS, batch.begun_at_ms - received_ms)
        if commit.outbox:
            tally.time(ANSWER_SECONDS, commit.finished_at_ms - received_ms)

    return count
