"""Asks a person before something is done: the question, and its way to the person over the bus."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Final, Protocol

import structlog

from agent.limits import ADMINS_ASKED_MAX, ANSWER_LOOK_EVERY_S, QUESTION_CHARS_MAX, QUESTION_CODE_CHARS
from agent.tools.questions import (
    ALWAYS_LABELS,
    APPROVE_LABEL,
    ASKED_FOR,
    DENY_LABEL,
    EXPIRED,
    QUESTION_PREFIX,
    TURN_LABEL,
    WITH_THE_TURN,
    WITHDRAWN,
    Duration,
    admins_asked_text,
    always_text,
    answer_to,
    ended_text,
    lasts_of,
    question_text,
    turn_text,
)
from gateway.bus.access import Questions
from gateway.bus.deliveries import Deliveries
from gateway.config.features import WebhookEvent
from gateway.contracts.access import PlaceApproval
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import (
    Choice,
    CleanText,
    ControlKind,
    ControlRequest,
    PutQuestion,
    QuestionState,
    Reply,
    ReplyKind,
)
from gateway.contracts.ports import Clock
from gateway.contracts.sessions import GrantRole
from gateway.i18n import Sentence, Words, words_for
from gateway.limits import QUESTION_MARGIN_S
from gateway.scrub import Scrubber
from gateway.store import Store
from gateway.tasks import BackgroundTasks, retry_until_available, while_asking
from gateway.webhooks import NOBODY_TOLD, WebhookEvents


class ApprovalOutcome(StrEnum):
    """The end of a question. Only APPROVED lets the call run."""

    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    TOO_LONG = "too_long"
    """It could not be shown whole, so nobody was asked."""
    NO_ADMIN = "no_admin"
    """An admin has to approve it, and there is none whom we could ask."""


@dataclass(frozen=True, slots=True)
class Lasting:
    """The approvals that one answer may give besides the call itself. `approval` is what holds always, in a place;
    `of_turn` are the tools that are not asked about in this turn any more, None where there is no turn. An admin may
    answer so where it `is_offered`."""

    approval: PlaceApproval
    of_turn: set[str] | None
    is_offered: bool

    @property
    def is_of_turn(self) -> bool:
        """Tell whether the tool was approved for the rest of the turn."""
        return self.of_turn is not None and self.approval.tool in self.of_turn


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """May this be done? Everything a person reads of it was composed by the asking side.

    `text` is all of it, shown as one message, as several or as a file, with the buttons under the last; what is longer
    than QUESTION_CHARS_MAX nobody is asked about. `digest` is that of what is done if it is approved: an answer to a
    question with another one counts for nothing. `asked_by` is who may answer, besides an admin. What `needs_admin` is
    answered by nobody else; it `goes_to_admins`, in private, where the person who asked is none. `fence` is the fencing
    token of the turn that asks: when another run owns the lane nobody can answer any more. A question
    of a sub-agent that outlives its turn is open as long as that (`task_id`) lives. Without an `address` there is
    nobody to ask. `language` is that of the person who asked. What has no `lasting` is approved for this once."""

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
    """Asks a person for an approval."""

    async def ask(self, question: ApprovalRequest) -> ApprovalOutcome:
        """Wait for an answer, at most as long as an approval lives; meanwhile time limits
        (`agent.concurrency`) stand still. Cancelling withdraws the question."""


class NobodyToAsk:
    """`Approvals` where no person is present: asking is denying."""

    async def ask(self, question: ApprovalRequest) -> ApprovalOutcome:
        """Answer DENIED to every question."""
        return ApprovalOutcome.DENIED


# What takes the place of a question once it is settled: the same words, how it ended, and no buttons.


def amendments(
    question: PutQuestion, ending: Callable[[Words], str], scrubber: Scrubber, clock: Clock
) -> tuple[Reply, ...]:
    """Return one for each reply of the question, however it is settled: its id is known from the reply's."""
    return tuple(
        replace(
            reply,
            id=f"{reply.id}:end",
            text=scrubber.for_chat(str(question.key)).scrub(ended_text(reply.text, ending(words_for(reply.language)))),
            kind=ReplyKind.NOTICE,
            created_at_ms=clock.now_ms(),
            choices=(),
            amends=reply.id,
        )
        for reply in question.replies
    )


# Asks a person over the bus, in the place where the turn was asked for, and waits for the decision. A
# question that an admin has to answer for somebody else goes to the admins, in private, and that place is told so.
#
#     record on the bus ──▶ reply with buttons: outbox, then bus ──▶ look until it is settled, or time is up
#
# The record comes first, so that an immediate press finds it; the reply is committed before it is published, like
# every other. The question is settled by a person by way of the control lane (`agent.runtime.control`), or by this
# module when the time is up or the turn ends; either of them also amends the message, which removes its buttons.


_log = structlog.get_logger(__name__)
_VERDICTS: Final = {ControlKind.APPROVE: ApprovalOutcome.APPROVED, ControlKind.DENY: ApprovalOutcome.DENIED}


@dataclass(eq=False, repr=False)
class ChatApprovals:
    """`Approvals` over the bus. `ttl_s` is how long a question waits for its answer; `admins` are those of the
    configuration, besides whom there are those who were made admins."""

    questions: Questions
    deliveries: Deliveries
    store: Store
    scrubber: Scrubber
    clock: Clock
    background: BackgroundTasks
    _: KW_ONLY
    ttl_s: float
    admins: Sequence[SessionKey] = ()
    events: WebhookEvents = NOBODY_TOLD

    async def ask(self, question: ApprovalRequest) -> ApprovalOutcome:
        """Put the question and wait. APPROVED at once where an earlier answer covers it; DENIED where nobody can be
        asked, NO_ADMIN where no admin can, TOO_LONG for what cannot be shown whole."""
        is_whole = len(question.text) <= QUESTION_CHARS_MAX
        if is_whole and await self._is_covered(question.lasting):
            return ApprovalOutcome.APPROVED
        if question.address is None:
            return ApprovalOutcome.DENIED
        if not is_whole:
            return ApprovalOutcome.TOO_LONG
        admins = await self._addresses() if question.goes_to_admins else {}
        if question.goes_to_admins and not admins:
            return ApprovalOutcome.NO_ADMIN
        put = self._put(question, question.address, admins)
        verdict: ApprovalOutcome | None = None
        try:
            with while_asking():
                verdict = await self._answer(put, question)
            return verdict
        finally:
            if verdict is None:
                self.background.start(self._end(put, WITHDRAWN))

    async def _answer(self, put: PutQuestion, question: ApprovalRequest) -> ApprovalOutcome:
        until_s = self.clock.monotonic_s() + self.ttl_s
        await self._open(put, until_s)
        _log.info("question.put", code=put.code)
        await self._publish((*put.replies, *self._told(put, question)))
        lasting = question.lasting
        standing = await self._settled(put, until_s, lasting)
        if standing is None or standing.answer is None:
            is_covered = lasting is not None and lasting.is_of_turn
            await self._end(put, WITH_THE_TURN if is_covered else EXPIRED)
            return ApprovalOutcome.APPROVED if is_covered else ApprovalOutcome.EXPIRED
        if standing.question.digest != question.digest:
            _log.error("question.changed", code=put.code)
            return ApprovalOutcome.DENIED
        verdict = _VERDICTS[standing.answer.kind]
        if verdict is ApprovalOutcome.APPROVED and lasting is not None:
            await self._keep(lasting, standing.answer)
        return verdict

    async def _is_covered(self, lasting: Lasting | None) -> bool:
        if lasting is None:
            return False
        return lasting.is_of_turn or await retry_until_available(
            lambda: self.store.access.is_approved(lasting.approval)
        )

    async def _keep(self, lasting: Lasting, answer: ControlRequest) -> None:
        """Remember what an admin approved beyond this call."""
        approval, lasts = lasting.approval, lasts_of(answer.message.text)
        if lasts is Duration.ALWAYS:
            given = replace(approval, approved_by=str(answer.message.author), approved_at_ms=self.clock.now_ms())
            await retry_until_available(lambda: self.store.access.put_place_approval(given))
        is_every_call = lasts is Duration.TURN or (lasts is Duration.ALWAYS and not approval.digest)
        if is_every_call and lasting.of_turn is not None:
            lasting.of_turn.add(approval.tool)
        _log.info("question.kept", tool=approval.tool, lasts=lasts.value)

    async def _settled(self, put: PutQuestion, until_s: float, lasting: Lasting | None) -> QuestionState | None:
        """Wait until a person answers, the time is over, or an answer to another call of the turn covers this one; then
        close the question and return its final state."""
        while (left_s := until_s - self.clock.monotonic_s()) > 0:
            standing = await retry_until_available(lambda: self.questions.standing(put.code))
            if standing is None:  # the bus has lost what it knew; the buttons are still there
                await self._open(put, until_s)
            elif not standing.is_open:
                return standing
            if lasting is not None and lasting.is_of_turn:
                break
            await asyncio.sleep(min(ANSWER_LOOK_EVERY_S, left_s))
        return await retry_until_available(lambda: self.questions.settle(put.code, None))

    async def _open(self, put: PutQuestion, until_s: float) -> None:
        """Register the question on the bus, for a little longer than we wait: it must not expire before it is
        closed."""
        ttl_s = max(until_s - self.clock.monotonic_s(), 0.0) + QUESTION_MARGIN_S
        await retry_until_available(lambda: self.questions.put(put, ttl_s=ttl_s))

    async def _end(self, put: PutQuestion, ending: Sentence) -> None:
        """Close it, unless a person was quicker: then the control lane says how it ended."""
        standing = await retry_until_available(lambda: self.questions.settle(put.code, None))
        if standing is None or standing.answer is None:
            await self._publish(amendments(put, lambda words: words.say(ending), self.scrubber, self.clock))

    async def _addresses(self) -> dict[SessionKey, ReplyAddress]:
        """Return where admins are asked in private, of those who have written to us there: the newest reply to them
        went to that address. Whether they are admins still is asked when one presses."""
        grants = await retry_until_available(self.store.access.grants)
        granted = (grant.key for grant in grants if grant.role is GrantRole.ADMIN)
        found: dict[SessionKey, ReplyAddress] = {}
        for admin in dict.fromkeys((*(admin.owner for admin in self.admins), *granted)):
            address = await retry_until_available(partial(self.store.outbox.last_address, admin))
            if address is not None and len(found) < ADMINS_ASKED_MAX:
                found[admin] = address
        return found

    async def _publish(self, replies: Sequence[Reply]) -> None:
        await retry_until_available(lambda: self.store.outbox.put(replies))
        await retry_until_available(lambda: self.deliveries.publish(replies))

    def _put(
        self, question: ApprovalRequest, address: ReplyAddress, admins: Mapping[SessionKey, ReplyAddress]
    ) -> PutQuestion:
        code, words, minutes = self.clock.code(QUESTION_CODE_CHARS), words_for(question.language), self.ttl_s / 60
        clean = self.scrubber.for_chat(str(question.key)).scrub
        more, choices = self._further(question, code, words)
        text = question_text(question.text, code, words, minutes=round(minutes), more=more)
        asked = Reply(
            id=f"{QUESTION_PREFIX}{question.turn_id}:{code}",
            turn_id=question.turn_id,
            key=question.key,
            address=address,
            text=clean(text),
            kind=ReplyKind.QUESTION,
            created_at_ms=self.clock.now_ms(),
            choices=(
                Choice(words.say(APPROVE_LABEL), self._command(ControlKind.APPROVE, code)),
                Choice(words.say(DENY_LABEL), self._command(ControlKind.DENY, code)),
                *choices,
            ),
            language=words.language.value,
        )
        replies: tuple[Reply, ...] = (asked,)
        if question.goes_to_admins:
            told = clean(admins_asked_text(words, minutes=round(minutes)))
            asking = clean(f"{words.say(ASKED_FOR, person=str(question.asked_by))}\n\n{text}")
            replies = (
                replace(asked, text=told, kind=ReplyKind.NOTICE, choices=()),
                *(
                    replace(asked, id=f"{asked.id}:{number}", key=admin, address=place, text=asking)
                    for number, (admin, place) in enumerate(admins.items(), 1)
                ),
            )
        asked_by = None if question.needs_admin else question.asked_by
        return PutQuestion(code, question.key, replies, asked_by, question.fence, question.digest, question.task_id)

    def _told(self, put: PutQuestion, question: ApprovalRequest) -> tuple[Reply, ...]:
        """Return what webhooks are told of the question."""
        event, at_ms = WebhookEvent.APPROVAL_WANTED, self.clock.now_ms()
        return self.events.tell(event, put.code, put.key, question.text, at_ms=at_ms, turn_id=question.turn_id)

    def _further(self, question: ApprovalRequest, code: str, words: Words) -> tuple[str, tuple[Choice, ...]]:
        """Return the answers that approve more than this call: as text, and as buttons."""
        lasting = question.lasting
        if lasting is None or not lasting.is_offered:
            return "", ()
        told = [always_text(code, lasting.approval, words)]
        label = words.say(ALWAYS_LABELS[question.goes_to_admins])
        choices = [Choice(label, self._command(ControlKind.APPROVE, code, Duration.ALWAYS))]
        if lasting.of_turn is not None:
            told.insert(0, turn_text(code, lasting.approval.tool, words))
            choices.insert(0, Choice(words.say(TURN_LABEL), self._command(ControlKind.APPROVE, code, Duration.TURN)))
        return " ".join(told), tuple(choices)

    def _command(self, kind: ControlKind, code: str, lasts: Duration = Duration.ONCE) -> CleanText:
        return self.scrubber.scrub(answer_to(kind, code, lasts))
