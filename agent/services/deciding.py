"""/approve and /deny, as words or by a button: who may, which answer counts, what everybody is told.

A button gives nobody a right: who pressed it is known from the platform, and only the person who was asked, or an
admin, is heard; where the policy wants an admin, an admin alone. The first answer counts. An answer to a run that does
not own its lane any more (its worker died, the turn was stopped) is no answer: the turn that came after it asks again,
with another code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import structlog

from agent.people import People
from agent.questions import (
    DONE_WORDS,
    NO_CODE_WORD,
    NOT_OPEN_WORD,
    NOT_YOURS_WORD,
    ONCE_WORD,
    WITHDRAWN,
    Lasts,
    answer_to,
    code_in,
    ending_by,
    lasts_of,
    settled_word,
)
from agent.tools.amending import amendments
from gateway.bus.access import Questions
from gateway.bus.lanes import Lanes
from gateway.contracts.commands import find_command
from gateway.contracts.entries import GrantRole
from gateway.contracts.messages import ControlKind, ControlRequest, InboundMessage, Reply
from gateway.contracts.ports import Clock, Scrubber
from gateway.contracts.questions import PutQuestion, Standing
from gateway.retry import retry_until_available
from gateway.store.subagents import TaskStore
from gateway.words import Words

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Decided:
    """`word` is for the one who decided, empty where what everybody sees says it all; that is in `amendments`."""

    word: str
    amendments: tuple[Reply, ...] = ()


class Deciding:
    """Settles questions for the control lane."""

    def __init__(
        self,
        questions: Questions,
        lanes: Lanes,
        book: TaskStore,
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
        command, lasts = find_command(request.message.text), lasts_of(request.message.text)
        code = code_in(request.kind, command.arguments) if command else ""
        if not code:
            return Decided(words.say(NO_CODE_WORD))
        standing = await self._questions.standing(code)
        if standing is None:
            return Decided(words.say(NOT_OPEN_WORD))
        role = await self._people.role_of(request.message.author)
        if not _may_answer(request.message, role, standing.question):
            _log.info("question.refused", code=code)
            return Decided(words.say(NOT_YOURS_WORD))
        if lasts is not Lasts.ONCE and not (role is GrantRole.ADMIN and _offers(standing.question, lasts)):
            return Decided(words.say(ONCE_WORD, code=code))
        if standing.is_open:
            standing = await self._settled(request, standing.question)
        return Decided(words.say(NOT_OPEN_WORD)) if standing is None else self._outcome(request, standing, words)

    async def _settled(self, request: ControlRequest, question: PutQuestion) -> Standing | None:
        is_awaited = await self._is_awaited(question)
        return await self._questions.settle(question.code, request if is_awaited else None)

    async def _is_awaited(self, question: PutQuestion) -> bool:
        """By the run that asked, or by the sub-agent that did and outlives every run."""
        if not question.task_id:
            return await self._lanes.is_in_work(question.key, question.fence)
        task = await retry_until_available(lambda: self._book.task(question.task_id))
        return task is not None and not task.state.is_over

    def _outcome(self, request: ControlRequest, standing: Standing, words: Words) -> Decided:
        question, answer = standing.question, standing.answer
        if answer is None:
            return Decided(words.say(NOT_OPEN_WORD), self._amendments(question, lambda shown: shown.say(WITHDRAWN)))
        name, lasts = answer.message.author_name, lasts_of(answer.message.text)
        _log.info("question.answered", code=question.code, answer=answer.kind.value, lasts=lasts.value)
        if (answer.kind, lasts) != (request.kind, lasts_of(request.message.text)):
            word = settled_word(ending_by(answer.kind, lasts, name, words), words)
        else:
            word = "" if request.is_press else words.say(DONE_WORDS[answer.kind])
        return Decided(word, self._amendments(question, partial(ending_by, answer.kind, lasts, name)))

    def _amendments(self, question: PutQuestion, ending: Callable[[Words], str]) -> tuple[Reply, ...]:
        return amendments(question, ending, self._scrubber, self._clock)


def _may_answer(message: InboundMessage, role: GrantRole, question: PutQuestion) -> bool:
    is_asked = message.author == question.asked_by and role is not GrantRole.BLOCKED
    return role is GrantRole.ADMIN or is_asked


def _offers(question: PutQuestion, lasts: Lasts) -> bool:
    """Whether whoever was asked was offered this answer, too."""
    answer = answer_to(ControlKind.APPROVE, question.code, lasts)
    return any(choice.command == answer for reply in question.replies for choice in reply.choices)
