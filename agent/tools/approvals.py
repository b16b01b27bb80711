"""Asking a person before a tool runs. What is asked is here; the buttons are on the channel's side."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from agent.tools.permissions import Risk
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText


class Verdict(StrEnum):
    """How a question ended. Only APPROVED lets the call run."""

    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class Question:
    """May this call run? `asked_by` is who may answer, besides an admin; `arguments` are clean and clipped."""

    key: SessionKey
    turn_id: str
    asked_by: SessionKey
    call_id: str
    tool: CleanText
    risk: Risk
    arguments: CleanText


class Approvals(Protocol):
    """A way to a person."""

    async def ask(self, question: Question) -> Verdict:
        """Wait for an answer, at most as long as an approval lives. Cancelling withdraws the question."""
        ...


class NobodyToAsk:
    """`Approvals` where no person is present (schedules, `demo --headless`): asking is denying."""

    async def ask(self, question: Question) -> Verdict:
        """Always DENIED."""
        return Verdict.DENIED
