"""Tells of a turn, and of how long its messages waited, once it is committed."""

from __future__ import annotations

from agent.afterwards.finished import AfterTurn, Finished
from gateway.contracts.ports import SpanSink
from gateway.telemetry.spans import turn_spans


def tracing_turns(spans: SpanSink) -> AfterTurn:
    """What is left to do after each turn."""

    async def tell(finished: Finished) -> None:
        batch = finished.batch
        for span in turn_spans(finished.commit, batch.messages, began_ms=batch.begun_at_ms, fence=batch.fence):
            spans.record(span)

    return tell
