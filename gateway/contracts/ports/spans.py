"""What a trace of one turn consists of, and who takes its parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class TraceSpan:
    """A stretch of work for one turn, told when it is over. Times are Unix milliseconds.

    `id` is its own within the turn, `parent` that of the span it belongs to; "" for the outermost one. Whoever knows
    the turn can name both, so a trace grows in several processes and nothing is passed along. `operation` and
    `subject` make its name, such as `chat gpt-4o`. With a `failure`, a code, it did not succeed.
    """

    turn_id: str
    id: str
    parent: str
    operation: str
    began_ms: int
    ended_ms: int
    subject: str = ""
    failure: str = ""
    is_call: bool = False
    """Somebody else's server did the work."""
    attributes: Mapping[str, str | int] = field(default_factory=dict)


class SpanSink(Protocol):
    """Takes spans. Never raises and never waits: what cannot be passed on is dropped."""

    def record(self, span: TraceSpan) -> None: ...


class NoSpans:
    """Where nobody collects traces."""

    def record(self, _span: TraceSpan) -> None:
        """Ignore the span."""
