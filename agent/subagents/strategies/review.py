"""An author and a reviewer, until the work is approved or the iterations are used up. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from agent.prompts.library import strategy_prompt
from agent.subagents.strategies.assignments import (
    Exhibit,
    Going,
    Move,
    Outcome,
    StepOrder,
    Undone,
    brief_of,
    fallen_short,
    label_of,
)
from agent.subagents.strategies.strategy import Endings, Role, exhibit
from agent.subagents.strategies.structured import Verdict, read_verdict
from agent.tools.truncation import abridged
from gateway.contracts.reasons import Shortfall

_DRAFT: Final = strategy_prompt("draft")
_REVISION: Final = strategy_prompt("revision")
_REVIEW: Final = strategy_prompt("review")
_VERDICT: Final = strategy_prompt("verdict")
_ASKED_CHARS: Final = 1_500  # of the author's task, before the reviewer: the draft needs the room
_UNREADABLE: Final = strategy_prompt("unreadable")


@dataclass(frozen=True, slots=True)
class Review:
    """The author writes, the reviewer approves or says what to mend. Approved, the newest draft is the answer; not
    approved in the last iteration, it is none.

    A verdict that cannot be read is asked for once more, and then is no approval.
    """

    goal: str
    author: Role
    reviewer: Role
    iterations: int
    name: ClassVar[str] = "review"

    @property
    def children_max(self) -> int:
        return 3 * self.iterations

    def move(self, ended: Endings) -> Move:
        for number in range(1, self.iterations + 1):
            wanted = self._wanted(number, ended)
            if wanted is not None:
                return Going((wanted,))
            failed = [name for name in _ids(number) if name in ended and not ended[name].is_done]
            if failed:
                return fallen_short(
                    self.achieved(ended), Shortfall.STEP_FAILED, step=failed[0], problem=ended[failed[0]].problem
                )
            if _verdict(number, ended).approved:
                return Outcome(exhibit(_draft(number), _draft(number), ended))
        return fallen_short(self.achieved(ended), Shortfall.NOT_APPROVED, number=self.iterations)

    def achieved(self, ended: Endings) -> tuple[Exhibit, ...]:
        """The newest draft that is one, what the reviewer said of it, and what failed last."""
        reached = [number for number in range(1, self.iterations + 1) if _draft(number) in ended]
        return tuple(
            found
            for number in reached[-2:]
            for name in _ids(number)
            for found in exhibit(name, name.capitalize(), ended)
        )

    def undone(self, ended: Endings) -> tuple[Undone, ...]:
        return ()

    def _wanted(self, number: int, ended: Endings) -> StepOrder | None:
        """What is missing of one iteration; None when it has a verdict, or failed."""
        draft, review, again = _ids(number)
        if draft not in ended:
            return self._writing(number, ended)
        if not ended[draft].is_done:
            return None
        if review not in ended:
            return self._reviewing(number, review, ended)
        is_unreadable = ended[review].is_done and read_verdict(ended[review].text) is None
        if is_unreadable and again not in ended:
            return self._reviewing(number, again, ended)
        return None

    def _writing(self, number: int, ended: Endings) -> StepOrder:
        before = number - 1
        return StepOrder(
            _draft(number),
            self.author.sub_type,
            label_of(f"{number}/{self.iterations} author", self.author.task or self.goal),
            brief_of(_REVISION if before else _DRAFT, self.goal, self.author.task),
            (*exhibit(_draft(before), "Your last draft", ended), *self._feedback(before, ended)) if before else (),
        )

    def _feedback(self, number: int, ended: Endings) -> tuple[Exhibit, ...]:
        feedback = _verdict(number, ended).feedback
        return (Exhibit(_review(number), "The review", feedback or "Not approved; no reason was given."),)

    @property
    def _review_told(self) -> str:
        """What was asked of the author is what its work is held against."""
        told = abridged(self.author.task, _ASKED_CHARS)
        return f"{_REVIEW}\n\n# What the author was told\n{told}" if told else _REVIEW

    def _reviewing(self, number: int, name: str, ended: Endings) -> StepOrder:
        is_again = name == _again(number)
        return StepOrder(
            name,
            self.reviewer.sub_type,
            label_of(f"{number}/{self.iterations} reviewer", self.reviewer.task or self.goal),
            brief_of(self._review_told, self.goal, self.reviewer.task),
            (
                *exhibit(_draft(number), f"Draft {number}", ended),
                *(exhibit(_review(number), "The answer that could not be read", ended) if is_again else ()),
            ),
            _UNREADABLE if is_again else "",
            _VERDICT,
        )


def _verdict(number: int, ended: Endings) -> Verdict:
    """The verdict of an iteration whose reviewer has answered. What cannot be read twice is no approval."""
    answers = [ended[name].text for name in (_review(number), _again(number)) if name in ended]
    return read_verdict(answers[-1]) or Verdict(approved=False, feedback=answers[-1])


def _ids(number: int) -> tuple[str, str, str]:
    return _draft(number), _review(number), _again(number)


def _draft(number: int) -> str:
    return f"draft {number}"


def _review(number: int) -> str:
    return f"review {number}"


def _again(number: int) -> str:
    return f"review {number} again"
