"""A question to a person, as the bus keeps it while somebody waits for the answer."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import ControlRequest, Reply


@dataclass(frozen=True, slots=True)
class PutQuestion:
    """`code` is what stands on its buttons; `reply` is what the person reads. `asked_by` (an owner key) may answer,
    and `fence` is that of the turn that waits: the answer is worth nothing to any other run. Where a sub-agent waits
    that outlives its turn, `task_id` says which; else it is "". `digest` is that of what the answer is about."""

    code: str
    reply: Reply
    asked_by: SessionKey
    fence: int
    digest: str
    task_id: str = ""


@dataclass(frozen=True, slots=True)
class Standing:
    """How a question stands: open, settled by the command of a person (`answer`), or closed by whoever asked."""

    question: PutQuestion
    is_open: bool
    answer: ControlRequest | None = None
