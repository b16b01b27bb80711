"""Tells of sub-agents that are over, beside whoever shows them."""

from __future__ import annotations

from agent.subagents.status.lines import StatusLines
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.ports import SpanSink
from gateway.contracts.subagents import SubTask
from gateway.telemetry.spans import subagent_span


class TracingWatch:
    """`agent.subagents.life.dispatcher.Watch` that passes on what it hears."""

    def __init__(self, inner: StatusLines, spans: SpanSink) -> None:
        self._inner = inner
        self._spans = spans

    def started(self, task: SubTask, address: ReplyAddress | None, language: str, *, person: str = "") -> None:
        """Nothing to tell yet."""
        self._inner.started(task, address, language, person=person)

    def ended(self, task: SubTask) -> None:
        """With what it cost and how it ended."""
        self._spans.record(subagent_span(task))
        self._inner.ended(task)
