"""The control lane: /stop, /status, /where, answers to questions and presses of buttons, however busy the worker is.

The stop itself happened on the bus, in the step that took the command. What is left is to say so, and not a moment
before it is true: the acknowledgement leaves when the stopped turn has ended, and its sub-agents with it. A worker that
does not end it in time (it is paused, cut off, or its event loop is stuck) loses the lane, and is fenced off in SQL."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Any, Final

import structlog
import uvloop

from agent.features.access import People, words_of_author
from agent.features.commands import CommandRequest, CommandRow
from agent.limits import CONTROL_PARALLEL_MAX, STOP_PATIENCE_S
from agent.subagents.runs import SubagentStopper
from agent.texts import PricesOf, removed_note, status_text, stopped_sentence, where_text
from agent.tools.approvals import amendments
from agent.tools.questions import (
    DONE_WORDS,
    NO_CODE_WORD,
    NOT_OPEN_WORD,
    NOT_YOURS_WORD,
    ONCE_WORD,
    QUESTION_PREFIX,
    WITHDRAWN,
    Duration,
    answer_to,
    code_in,
    ended_by_choice,
    ending_by,
    lasts_of,
    settled_word,
)
from gateway.access import AccessService
from gateway.bus.access import Questions
from gateway.bus.bus import RedisBus
from gateway.bus.inbound import Inbound
from gateway.bus.lanes import Lanes
from gateway.contracts.commands import find_command
from gateway.contracts.errors import BusError, TrivetError
from gateway.contracts.ids import EVENTS, SessionKey
from gateway.contracts.messages import (
    STATUS_PREFIX,
    Button,
    ControlKind,
    ControlRequest,
    InboundMessage,
    PressState,
    PutQuestion,
    QuestionState,
    Reply,
    ReplyKind,
)
from gateway.contracts.ports import Clock, Verdict
from gateway.contracts.sessions import GrantRole, Session
from gateway.contracts.subagents import SubTask
from gateway.i18n import Words, sentence, words_for
from gateway.scrub import Scrubber
from gateway.store import Store
from gateway.store.subagents import TaskStore
from gateway.tasks import retry_until_available

# /approve and /deny, as words or by a button: who may answer, which answer counts, what everybody is told.
#
# A button grants no right: the platform says who pressed it, and only the person who was asked, or an admin, may
# answer; where the policy wants an admin, an admin alone. The first answer counts. An answer to a run that
# does not own its lane any more (its worker died, the turn was stopped) is no answer: the turn that came after it
# asks again, with another code.


_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Decided:
    """`word` is for the person who decided, empty where the public text says it all; that text is in
    `amendments`."""

    word: str
    amendments: tuple[Reply, ...] = ()


@dataclass(eq=False, repr=False)
class ApprovalDecisions:
    """Settles questions for the control lane."""

    questions: Questions
    lanes: Lanes
    book: TaskStore
    people: People
    scrubber: Scrubber
    clock: Clock

    async def decide(self, request: ControlRequest, words: Words) -> Decided:
        """Decide on an answer and return the outcome; a repeated answer has the same outcome. `words` are those of the
        person who decides; what everybody sees is in the language of the question."""
        command, lasts = find_command(request.message.text), lasts_of(request.message.text)
        code = code_in(request.kind, command.arguments) if command else ""
        if not code:
            return Decided(words.say(NO_CODE_WORD))
        standing = await self.questions.standing(code)
        if standing is None:
            return Decided(words.say(NOT_OPEN_WORD))
        role = await self.people.role_of(request.message.author)
        if not _may_answer(request.message, role, standing.question):
            _log.info("question.refused", code=code)
            return Decided(words.say(NOT_YOURS_WORD))
        if lasts is not Duration.ONCE and not (role is GrantRole.ADMIN and _offers(standing.question, lasts)):
            return Decided(words.say(ONCE_WORD, code=code))
        if standing.is_open:
            is_awaited = await self._is_awaited(standing.question)
            standing = await self.questions.settle(standing.question.code, request if is_awaited else None)
        return Decided(words.say(NOT_OPEN_WORD)) if standing is None else self._outcome(request, standing, words)

    async def _is_awaited(self, question: PutQuestion) -> bool:
        """Tell whether somebody waits for the answer: the run that asked, or a sub-agent that asked and outlives every
        run."""
        if not question.task_id:
            return await self.lanes.is_in_work(question.key, question.fence)
        task = await retry_until_available(lambda: self.book.task(question.task_id))
        return task is not None and not task.state.is_over

    def _outcome(self, request: ControlRequest, standing: QuestionState, words: Words) -> Decided:
        question, answer = standing.question, standing.answer
        if answer is None:
            withdrawn = amendments(question, lambda shown: shown.say(WITHDRAWN), self.scrubber, self.clock)
            return Decided(words.say(NOT_OPEN_WORD), withdrawn)
        name, lasts = answer.message.author_name, lasts_of(answer.message.text)
        _log.info("question.answered", code=question.code, answer=answer.kind.value, lasts=lasts.value)
        if (answer.kind, lasts) != (request.kind, lasts_of(request.message.text)):
            word = settled_word(ending_by(answer.kind, lasts, name, words), words)
        else:
            word = "" if request.is_press else words.say(DONE_WORDS[answer.kind])
        ending = partial(ending_by, answer.kind, lasts, name)
        return Decided(word, amendments(question, ending, self.scrubber, self.clock))


def _may_answer(message: InboundMessage, role: GrantRole, question: PutQuestion) -> bool:
    is_asked = message.author == question.asked_by and role is not GrantRole.BLOCKED
    return role is GrantRole.ADMIN or is_asked


def _offers(question: PutQuestion, lasts: Duration) -> bool:
    """Tell whether the question offered this answer, too."""
    answer = answer_to(ControlKind.APPROVE, question.code, lasts)
    return any(choice.command == answer for reply in question.replies for choice in reply.choices)


# A press of a button that says a command: who may, once, and what becomes of the button.
#
#     find it ─▶ is it theirs? ─▶ redeem (SQL) ─▶ say it on its lane (bus) ─▶ the buttons go ─▶ reply
#
# A process that dies in between leaves the press on the control lane, and the next one repeats all of it: the press
# that used the button up still counts, the message has one id, and so have the changes of the replies.


GONE_WORD: Final = sentence("This button is no longer in use.")
NOT_FOR_YOU_WORD: Final = sentence("This button is for somebody else.")
NOT_HERE_WORD: Final = sentence("I do not listen to you here any more.")
USED_WORD: Final = sentence("One of these buttons was pressed already.")
EXPIRED_WORD: Final = sentence("This button is too old. Write the command instead.")
FULL_WORD: Final = sentence("I have too much to answer at the moment. Please press it again later.")

_WORDS: Final = {PressState.USED: USED_WORD, PressState.EXPIRED: EXPIRED_WORD, PressState.GONE: GONE_WORD}


@dataclass(eq=False, repr=False)
class ButtonPresses:
    """Redeems buttons for the control lane."""

    store: Store
    intake: Inbound
    people: People
    scrubber: Scrubber
    clock: Clock

    async def press(self, press: InboundMessage, words: Words) -> Decided:
        """Handle a press and return the outcome; a repeated press has the same outcome."""
        command = find_command(press.text)
        token = command.arguments if command else ""
        button = await self.store.buttons.find(token)
        if button is None:
            return Decided(words.say(GONE_WORD))
        if press.author != button.meant_for:
            _log.info("button.refused", reply_id=button.reply_id)
            return Decided(words.say(NOT_FOR_YOU_WORD))
        said = button.said_by(press)
        if not await self.people.is_admitted(press.author, said.spoken_in):
            return Decided(words.say(NOT_HERE_WORD))
        redeemed = await self.store.buttons.redeem(token, press_id=press.id, now_ms=self.clock.now_ms())
        if redeemed.standing is not PressState.TAKEN:
            used_up = redeemed.reply_ids if redeemed.standing is PressState.EXPIRED else ()
            return Decided(words.say(_WORDS[redeemed.standing]), await self._without_buttons(used_up))
        if not await self._is_said(said):
            await self.store.buttons.give_back(token, press_id=press.id)
            return Decided(words.say(FULL_WORD))
        _log.info("button.pressed", reply_id=button.reply_id)
        return Decided("", await self._without_buttons(redeemed.reply_ids, button, press))

    async def _is_said(self, said: InboundMessage) -> bool:
        admission = await self.intake.enqueue(said)
        return admission.verdict in (Verdict.ACCEPTED, Verdict.DUPLICATE)

    async def _without_buttons(
        self, reply_ids: tuple[str, ...], chosen: Button | None = None, press: InboundMessage | None = None
    ) -> tuple[Reply, ...]:
        """Build the replies that replace the old ones: the same text without buttons, and what was chosen."""
        found = [await self.store.outbox.committed(reply_id) for reply_id in reply_ids]
        return tuple(self._changed(reply, chosen, press) for reply in found if reply is not None)

    def _changed(self, reply: Reply, chosen: Button | None, press: InboundMessage | None) -> Reply:
        text = reply.text
        if chosen is not None and press is not None:
            ending = ended_by_choice(chosen.label, press.author_shown, words_for(reply.language))
            text = self.scrubber.for_chat(str(reply.key)).scrub(f"{text}\n\n{ending}")
        return replace(
            reply,
            id=f"{reply.id}:pressed",
            text=text,
            kind=ReplyKind.NOTICE,
            created_at_ms=self.clock.now_ms(),
            choices=(),
            files=(),
            title=None,
            amends=reply.id,
        )


OWNER_WORD: Final = sentence(
    "You are my admin now: I ask you before I change anything, and tell you who wants to be let in. Write to me as you "
    "would to a person; /help says what else I understand."
)
NO_OWNER_WORD: Final = sentence("This code is used up or too old. An admin can let you in with /pair.")

_RETRY_S: Final = 0.5
_LOOK_EVERY_S: Final = 0.02  # a turn that is cancelled ends within some milliseconds
_REPLIES_SHOWN: Final = 3
_REPLIES_READ: Final = 60  # some of them are answers of this lane, questions, status lines: nobody asks for these
_TURN_ID: Final = "control:"


@dataclass(eq=False, repr=False)
class ControlService:
    """Answers control commands, each in a task of its own: one that waits for its turn to end holds up no other."""

    worker_id: str
    bus: RedisBus
    store: Store
    deciding: ApprovalDecisions
    pressing: ButtonPresses
    access: AccessService
    scrubber: Scrubber
    clock: Clock
    _: KW_ONLY
    prices_of: PricesOf
    _slots: asyncio.Semaphore = field(init=False, default_factory=lambda: asyncio.Semaphore(CONTROL_PARALLEL_MAX))

    def __post_init__(self) -> None:
        self._ending = SubagentStopper(self.store.tasks, self.clock)

    async def serve(self) -> None:
        """Serve control requests until cancelled; a request without an answer by then goes to another process."""
        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    async for receipt, request in self.bus.control.requests(self.worker_id):
                        await self._slots.acquire()
                        answering = group.create_task(self._serve(receipt, request))
                        answering.add_done_callback(lambda _: self._slots.release())
                except BusError as error:
                    _log.warning("control.unheard", reason=str(error))
                await asyncio.sleep(_RETRY_S)

    async def _serve(self, receipt: str, request: ControlRequest) -> None:
        """Serve one command. One that cannot be answered is left to another process, and does not affect others."""
        try:
            await self._answer(receipt, request)
        except TrivetError as error:
            _log.error("control.failed", message_id=request.message.id, reason=str(error))

    async def _answer(self, receipt: str, request: ControlRequest) -> None:
        """Answer the command exactly once, whichever part of this is repeated."""
        message = request.message
        ended, _, words = await asyncio.gather(
            self._ask_to_end(request),
            self._end_turn(request),
            retry_until_available(lambda: words_of_author(message, self.store)),
        )
        reply = self._reply(message, await retry_until_available(lambda: self._text(request, ended, words)), words)
        if request.is_press:
            await retry_until_available(lambda: self.bus.control.finish_press(receipt, message, reply))
            return
        await retry_until_available(lambda: self.store.outbox.put([reply]))
        await retry_until_available(lambda: self.bus.control.finish(receipt, reply))

    def _reply(self, message: InboundMessage, text: str, words: Words) -> Reply:
        said = "\n\n".join(filter(None, (text, removed_note(message.removed, words))))
        return Reply(
            id=_TURN_ID + message.id,
            turn_id=_TURN_ID + message.id,
            key=message.key,
            address=message.address,
            text=self.scrubber.for_chat(str(message.key)).scrub(said),
            kind=ReplyKind.NOTICE,
            created_at_ms=self.clock.now_ms(),
            language=words.language.value,
        )

    async def _ask_to_end(self, request: ControlRequest) -> int:
        """Ask the sub-agents to end along with their turn, and return how many a stop found at work."""
        return await self._ending.ask(request.message.key) if request.kind is ControlKind.STOP else 0

    async def _end_turn(self, request: ControlRequest) -> None:
        """Return when the stopped turn, if there was one, can do nothing any more. What it had answered before the stop
        reached it is published now, so that it comes before the acknowledgement and not after it."""
        key, fence = request.message.key, request.stopped_fence
        if not fence:
            return
        patience_until_s = self.clock.monotonic_s() + STOP_PATIENCE_S
        while await retry_until_available(lambda: self.bus.lanes.is_in_work(key, fence)):
            if self.clock.monotonic_s() >= patience_until_s:
                _log.warning("control.lane_revoked", lane=str(key))
                await retry_until_available(lambda: self.bus.lanes.revoke(key, fence))
                break
            await asyncio.sleep(_LOOK_EVERY_S)
        answered = await retry_until_available(lambda: self.store.turns.fence_off(key, fence))
        if answered:
            await retry_until_available(lambda: self.bus.deliveries.publish(answered))

    async def _text(self, request: ControlRequest, ended: int, words: Words) -> str:
        key = request.message.key
        match request.kind:
            case ControlKind.STOP:
                if ended or request.stopped_fence:  # a turn may have started some at its last moment
                    ended = max(ended, await self._ending.end(key))
                    ended = max(ended, await self._ending.ended_since(key, request.message.received_at_ms))
                return stopped_sentence(words, was_running=request.was_running, dropped=request.dropped, ended=ended)
            case ControlKind.STATUS:
                waiting, is_running = await self.bus.lanes.depth(key)
                session, now_ms = await self.store.sessions.current(key), self.clock.now_ms()
                tasks = await self._tasks_of(session)
                return status_text(
                    session,
                    words,
                    waiting=waiting,
                    is_running=is_running,
                    now_ms=now_ms,
                    prices_of=self.prices_of,
                    tasks=tasks,
                )
            case ControlKind.WHERE:
                return await self._lane_text(key, words)
            case ControlKind.APPROVE | ControlKind.DENY:
                return await self._shown(await self.deciding.decide(request, words))
            case ControlKind.CLAIM:
                is_owner = await self.access.claim(request.message.author, request.message.received_at_ms)
                return words.say(OWNER_WORD if is_owner else NO_OWNER_WORD)
            case ControlKind.PRESS:
                return await self._shown(await self.pressing.press(request.message, words))

    async def _shown(self, decided: Decided) -> str:
        """Publish what everybody sees of the decision, then return the word for the person who decided."""
        if decided.amendments:
            await self.store.outbox.put(decided.amendments)
            await self.bus.deliveries.publish(decided.amendments)
        return decided.word

    async def _lane_text(self, key: SessionKey, words: Words) -> str:
        waiting, is_running = await self.bus.lanes.depth(key)
        began_ms = await self.store.turns.began(key) if is_running else None
        replies = [
            reply
            for reply in await self.store.outbox.recent(key, limit=_REPLIES_READ)
            if reply.channel != EVENTS and not reply.reply_id.startswith((_TURN_ID, QUESTION_PREFIX, STATUS_PREFIX))
        ]
        return where_text(
            replies[:_REPLIES_SHOWN],
            words,
            waiting=waiting,
            is_running=is_running,
            began_ms=began_ms,
            now_ms=self.clock.now_ms(),
            tasks=await self._tasks_of(await self.store.sessions.current(key)),
        )

    async def _tasks_of(self, session: Session | None) -> Sequence[SubTask]:
        return await self.store.tasks.tasks_of_session(session.id) if session is not None else ()


# /approve and /deny for /help. The control lane answers them (`agent.runtime.control`), whatever else goes on.


def answering_commands() -> tuple[CommandRow, ...]:
    """Return the command rows, in the order of /help."""

    async def too_late(asked: CommandRequest) -> str:
        # One that comes this way was taken for work: the turn that could have asked it has ended.
        return asked.words.say(NOT_OPEN_WORD)

    return (CommandRow("approve", too_late), CommandRow("deny", too_late))


# Work that must not wait for the event loop: on a thread, with an event loop of its own.


_Place = tuple[asyncio.AbstractEventLoop, asyncio.Task[None]]


async def run_in_own_loop(serve: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run `serve()` alongside this event loop, however busy it is. Cancelling this cancels it there and waits for
    its end; what it raises, this raises. Nothing that belongs to this loop may be used in it."""
    place: Future[_Place] = Future()
    thread = asyncio.create_task(asyncio.to_thread(_in_a_loop, serve, place))
    try:
        await asyncio.shield(thread)
    except asyncio.CancelledError:
        loop, serving = await asyncio.wrap_future(place)
        with contextlib.suppress(RuntimeError):  # the loop has ended by itself
            loop.call_soon_threadsafe(serving.cancel)
        await asyncio.wait({thread})
        raise


def _in_a_loop(serve: Callable[[], Coroutine[Any, Any, None]], place: Future[_Place]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        loop = runner.get_loop()
        serving = loop.create_task(serve())
        place.set_result((loop, serving))
        with contextlib.suppress(asyncio.CancelledError):
            loop.run_until_complete(serving)
