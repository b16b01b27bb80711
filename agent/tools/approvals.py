"""Asking a person before something is done. What is asked is here; how it reaches the person is in `asking`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from gateway.contracts.access import PlaceApproval
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import CleanText


class Verdict(StrEnum):
    """How a question ended. Only APPROVED lets the call run."""

    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    TOO_LONG = "too_long"
    """It could not be shown whole, so nobody was asked."""
    NO_ADMIN = "no_admin"
    """An admin has to approve it, and there is none whom we could ask."""


@dataclass(frozen=True, slots=True)
class Lasting:
    """What one answer may approve besides the call itself. `approval` is what holds always, in a place; `of_turn` are
    the tools that are not asked about in this turn any more, None where there is no turn. Whoever is asked may answer
    so where it `is_offered`: to admins."""

    approval: PlaceApproval
    of_turn: set[str] | None
    is_offered: bool

    @property
    def is_of_turn(self) -> bool:
        """Whether the tool was approved for the rest of the turn."""
        return self.of_turn is not None and self.approval.tool in self.of_turn


@dataclass(frozen=True, slots=True)
class Question:
    """May this be done? Everything a person reads of it was composed by whoever asks.

    `text` is all of it, shown as one message, as several or as a file, with the buttons under the last; what is longer
    than QUESTION_CHARS_MAX nobody is asked about. `digest` is that of what is done if it is approved: an answer to a
    question with another one counts for nothing. `asked_by` is who may answer, besides an admin. What `needs_admin` is
    answered by nobody else; it `goes_to_admins`, in private, where the person who asked is none. `fence` is the fencing
    token of the turn that asks: when another run owns the lane nobody can answer any more. A question
    of a sub-agent that outlives its turn is open as long as that (`task_id`) lives. Without an `address` there is
    nobody to ask. `language` is that of the person who asked. What has no `lasting` is approved for this once.
    """

    key: SessionKey
    turn_id: str
    fence: int
    asked_by: SessionKey
    address: ReplyAddress | None
    text: CleanText
    digest: str
    language: str = ""
    task_id: str = ""
    needs_admin: bool = False
    goes_to_admins: bool = False
    lasting: Lasting | None = None


class Approvals(Protocol):
    """A way to a person."""

    async def ask(self, question: Question) -> Verdict:
        """Wait for an answer, at most as long as an approval lives; meanwhile time limits
        (`agent.running.deadlines`) stand still. Cancelling withdraws the question."""
        ...


class NobodyToAsk:
    """`Approvals` where no person is present: asking is denying."""

    async def ask(self, question: Question) -> Verdict:
        """Always DENIED."""
        return Verdict.DENIED
