"""/approve and /deny, as words or by a button: who may, which answer counts, what everybody is told.

A button gives nobody a right: who pressed it is known from the platform, and only the person who was asked, or an
admin, is heard; where the policy wants an admin, an admin alone. The first answer counts. An answer to a run that does
not own its lane any more (its worker died, the turn was stopped) is no answer: the turn that came after it asks again,
with another code.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import structlog

from agent.people import People
from agent.questions import (
    DONE_WORDS,
    NO_CODE_WORD,
    NOT_OPEN_WORD,
    NOT_YOURS_WORD,
    WITHDRAWN,
    ending_by,
    settled_word,
)
from agent.running.insisting import insist
from agent.tools.amending import amendments
from gateway.contracts.commands import find_command
from gateway.contracts.entries import GrantRole
from gateway.contracts.messages import ControlRequest, InboundMessage, Reply
from gateway.contracts.ports import Clock, LaneDepth, QuestionBus, Scrubber, SubTaskBook
from gateway.contracts.questions import PutQuestion, Standing
from gateway.words import Words

_log = structlog.get_logger(__name__)
_CODE: Final = re.compile(r"[A-Z2-9]{4,16}")


@dataclass(frozen=True, slots=True)
class Decided:
    """`word` is for the one who decided, empty where what everybody sees says it all; that is in `amendments`."""

    word: str
    amendments: tuple[Reply, ...] = ()


class Deciding:
    """Settles questions for the control lane."""

    def __init__(
        self,
        questions: QuestionBus,
        lanes: LaneDepth,
        book: SubTaskBook,
        people: People,
        scrubber: Scrubber,
        clock: Clock,
    ) -> None:
        self._questions = questions
        self._lanes = lanes
        self._book = book
        self._people = people
        self._scrubber = scrubber
        self._clock = clock

    async def decide(self, request: ControlRequest, words: Words) -> Decided:
        """What became of an answer; of one that is given again, the same. `words` are those of the one who decides;
        what everybody sees is in the language of the question."""
        code = _code_in(request.message)
        if not code:
            return Decided(words.say(NO_CODE_WORD))
        standing = await self._questions.standing(code)
        if standing is None:
            return Decided(words.say(NOT_OPEN_WORD))
        if not await self._may_answer(request.message, standing.question):
            _log.info("question.refused", code=code)
            return Decided(words.say(NOT_YOURS_WORD))
        if standing.is_open:
            standing = await self._settled(request, standing.question)
        return Decided(words.say(NOT_OPEN_WORD)) if standing is None else self._outcome(request, standing, words)

    async def _may_answer(self, message: InboundMessage, question: PutQuestion) -> bool:
        person = message.author
        role = await self._people.role_of(person)
        return role is GrantRole.ADMIN or (person == question.asked_by and role is not GrantRole.BLOCKED)

    async def _settled(self, request: ControlRequest, question: PutQuestion) -> Standing | None:
        is_awaited = await self._is_awaited(question)
        return await self._questions.settle(question.code, request if is_awaited else None)

    async def _is_awaited(self, question: PutQuestion) -> bool:
        """By the run that asked, or by the sub-agent that did and outlives every run."""
        if not question.task_id:
            return await self._lanes.is_in_work(question.key, question.fence)
        task = await insist(lambda: self._book.task(question.task_id))
        return task is not None and not task.state.is_over

    def _outcome(self, request: ControlRequest, standing: Standing, words: Words) -> Decided:
        question, answer = standing.question, standing.answer
        if answer is None:
            return Decided(words.say(NOT_OPEN_WORD), self._amendments(question, lambda shown: shown.say(WITHDRAWN)))
        name = answer.message.author_name
        _log.info("question.answered", code=question.code, answer=answer.kind.value)
        if answer.kind is not request.kind:
            word = settled_word(ending_by(answer.kind, name, words), words)
        else:
            word = "" if request.is_press else words.say(DONE_WORDS[answer.kind])
        return Decided(word, self._amendments(question, partial(ending_by, answer.kind, name)))

    def _amendments(self, question: PutQuestion, ending: Callable[[Words], str]) -> tuple[Reply, ...]:
        return amendments(question, ending, self._scrubber, self._clock)


def _code_in(message: InboundMessage) -> str:
    command = find_command(message.text)
    code = command.arguments.strip().upper() if command else ""
    return code if _CODE.fullmatch(code) else ""
