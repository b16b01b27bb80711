"""Several sides argue, a judge decides. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from agent.prompts.library import strategy_prompt
from agent.subagents.strategies.assignments import (
    Ended,
    Exhibit,
    Going,
    Move,
    StepOrder,
    Undone,
    brief_of,
    fallen_short,
    label_of,
    line_of,
)
from agent.subagents.strategies.stepwise import Step
from agent.subagents.strategies.strategy import Endings, Role, concluded, exhibit, missing
from gateway.contracts.reasons import Shortfall

_SIDE: Final = strategy_prompt("side")
_JUDGE: Final = strategy_prompt("judge")
_SPEAKING_MIN: Final = 2
JUDGEMENT: Final = "the judgement"


@dataclass(frozen=True, slots=True)
class Debate:
    """Each side states its case in every round and sees what the others said last; then a judge decides.

    A side that fails speaks no more, and what it said before still counts. With fewer than two sides left the debate
    is over; unless two of them have spoken there is nothing to judge.
    """

    goal: str
    sides: tuple[Step, ...]
    rounds: int
    judge: Role
    name: ClassVar[str] = "debate"

    @property
    def children_max(self) -> int:
        return len(self.sides) * self.rounds + 1

    def move(self, ended: Endings) -> Move:
        speaking = list(range(1, len(self.sides) + 1))
        for number in range(1, self.rounds + 1):
            waiting = tuple(
                self._statement(number, side, ended) for side in speaking if _said(number, side) not in ended
            )
            if waiting:
                return Going(waiting)
            speaking = [side for side in speaking if ended[_said(number, side)].is_done]
            if len(speaking) < _SPEAKING_MIN:
                break
        if sum(end.is_done for end in (ended[_said(1, side)] for side in self._numbers)) < _SPEAKING_MIN:
            return fallen_short(self.achieved(ended), Shortfall.TOO_FEW_SIDES)
        last = StepOrder(
            JUDGEMENT,
            self.judge.sub_type,
            label_of("judgement", self.goal),
            brief_of(_JUDGE, self.goal, self.judge.task),
            self._newest(ended, self.rounds),
        )
        return concluded(last, "the judge", ended, self.achieved(ended))

    def achieved(self, ended: Endings) -> tuple[Exhibit, ...]:
        return (*self._newest(ended, self.rounds), *exhibit(JUDGEMENT, "Judgement", ended))

    def undone(self, ended: Endings) -> tuple[Undone, ...]:
        return missing(JUDGEMENT, self.judge, ended)

    @property
    def _numbers(self) -> range:
        return range(1, len(self.sides) + 1)

    def _statement(self, number: int, side: int, ended: Endings) -> StepOrder:
        speaker = self.sides[side - 1]
        return StepOrder(
            _said(number, side),
            speaker.sub_type,
            label_of(f"round {number}/{self.rounds} side {side}", speaker.task),
            brief_of(_SIDE, self.goal, f"You are side {side} and speak for this position: {speaker.task}"),
            self._newest(ended, number - 1),
        )

    def _newest(self, ended: Endings, rounds: int) -> tuple[Exhibit, ...]:
        """What each side said last in the first `rounds` rounds, and whether it has failed since."""
        return tuple(found for side in self._numbers for found in self._newest_of(side, ended, rounds))

    def _newest_of(self, side: int, ended: Endings, rounds: int) -> tuple[Exhibit, ...]:
        heard = [number for number in range(1, rounds + 1) if _said(number, side) in ended]
        if not heard:
            return ()
        last = ended[_said(heard[-1], side)]
        number = heard[-1] if last.is_done else max(heard[-1] - 1, 1)
        said = ended[_said(number, side)]
        problem = f"it failed in round {heard[-1]}: {last.problem}" if last.problem else ""
        title = f"Side {side}, round {number}: {line_of(self.sides[side - 1].task)}"
        return (Exhibit.of(_said(number, side), title, Ended(said.text, problem)),)


def _said(number: int, side: int) -> str:
    return f"round {number} side {side}"
