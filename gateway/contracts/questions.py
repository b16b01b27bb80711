"""A question to a person, as the bus keeps it while somebody waits for the answer."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import ControlRequest, Reply


@dataclass(frozen=True, slots=True)
class PutQuestion:
    """`code` is what stands on its buttons; `replies` are what people read of it, the first where the turn was asked
    for. `asked_by` (an owner key) may answer, or any admin; None: an admin alone. `key` is the lane and `fence` that of
    the turn that waits: the answer is worth nothing to any other run. Where a sub-agent waits that outlives its turn,
    `task_id` says which; else it is "". `digest` is that of what the answer is about."""

    code: str
    key: SessionKey
    replies: tuple[Reply, ...]
    asked_by: SessionKey | None
    fence: int
    digest: str
    task_id: str = ""


@dataclass(frozen=True, slots=True)
class Standing:
    """How a question stands: open, settled by the command of a person (`answer`), or closed by whoever asked."""

    question: PutQuestion
    is_open: bool
    answer: ControlRequest | None = None
