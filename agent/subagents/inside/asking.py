"""What a child asks for, and how it waits for it: a model and tools of its parent, and tools of its own.

Whatever comes back, from whichever thread, goes into one queue, and one thread takes it out. So nothing here is shared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from queue import Empty, SimpleQueue

from agent.subagents.inside.own_tools import Job, OwnTools
from agent.subagents.wire.codec import FrameTooLong, Unread
from agent.subagents.wire.frames import (
    Call,
    Chunk,
    Frame,
    ModelCall,
    ModelDelta,
    ModelResult,
    ToolCall,
    ToolOutcome,
    ToParent,
)
from gateway.contracts.reasons import Reason


class Asking:
    """Asks the parent through `send`, which raises `FrameTooLong`. What answers nothing is passed over."""

    def __init__(
        self,
        send: Callable[[ToParent], None],
        own: OwnTools,
        offered: Sequence[str],
        *,
        pass_over: Callable[[Frame | Unread], None],
    ) -> None:
        self._send = send
        self._own = own
        self._offered = offered
        self._pass_over = pass_over
        self._heard: SimpleQueue[Frame | Unread | Job] = SimpleQueue()

    def hear(self, frame: Frame | Unread) -> None:
        """Something from the parent; for the thread that listens."""
        self._heard.put(frame)

    def model(self, call: ModelCall) -> ModelResult:
        """The answer of a model; a prompt that fits into no frame is too long as any other."""
        try:
            self._send(call)
        except FrameTooLong:
            return ModelResult(call.id, error=Reason.PROMPT_TOO_LONG, is_too_long=True)
        while True:
            match self._heard.get():
                case ModelDelta(id=call_id, delta=delta) if call_id == call.id:
                    self._send(Chunk(delta))
                case ModelResult(id=call_id) as result if call_id == call.id:
                    return result
                case Job():
                    pass  # nobody waits for it any more
                case frame:
                    self._pass_over(frame)

    def tools(self, calls: Sequence[Call], refused: Iterable[ToolOutcome]) -> list[ToolOutcome]:
        """What the calls of a round come to, in their order; those that the parent has `refused` are not run."""
        outcomes = {outcome.id: outcome for outcome in refused}
        jobs: dict[str, Job] = {}
        for call in calls:
            if call.id in outcomes:
                continue
            if call.name in self._own:
                jobs[call.id] = self._own.begin(call, self._heard.put)
            elif (outcome := self._ask(call)) is not None:
                outcomes[call.id] = outcome
        while open_calls := [call.id for call in calls if call.id not in outcomes]:
            outcome = self._next([jobs[name] for name in open_calls if name in jobs], open_calls)
            outcomes[outcome.id] = outcome
        return [outcomes[call.id] for call in calls]

    def _ask(self, call: Call) -> ToolOutcome | None:
        """Ask the parent; an outcome where that cannot be."""
        if call.name not in self._offered:
            said = f"there is no tool {call.name[:64]!r}; there are: {', '.join(self._offered)}"
            return ToolOutcome(call.id, said, is_error=True)
        try:
            self._send(ToolCall(call.id, call.name, call.arguments))
        except FrameTooLong as error:
            return ToolOutcome(call.id, str(error), is_error=True)
        return None

    def _next(self, jobs: Sequence[Job], open_calls: Sequence[str]) -> ToolOutcome:
        """The outcome that is there first. Of jobs of our own, also one that has taken too long."""
        asked = set(open_calls) - {job.call.id for job in jobs}
        while True:
            try:
                heard = self._heard.get(timeout=min((job.left_s for job in jobs), default=None))
            except Empty:
                return min(jobs, key=lambda job: job.left_s).outcome
            match heard:
                case Job():
                    if heard in jobs:
                        return heard.outcome
                case ToolOutcome() if heard.id in asked:
                    return heard
                case _:
                    self._pass_over(heard)
