"""The control lane: /stop, /status, /where, answers to questions and presses of buttons, however busy the worker is.

The stop itself happened on the bus, in the step that took the command. What is left is to say so, and not a
moment before it is true: the acknowledgement leaves when the stopped turn has ended, and its sub-agents with it. A
worker that does not end it in time (it is paused, cut off, or its event loop is stuck) loses the lane, and is fenced
off in SQL.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog

from agent.limits import CONTROL_PARALLEL_MAX, STOP_PATIENCE_S
from agent.questions import QUESTION_PREFIX
from agent.sentences import removed_note, status_text, stopped_sentence, where_text
from agent.services.deciding import Decided, Deciding
from agent.services.pressing import Pressing
from agent.subagents.runs import SubagentStopper
from gateway.bus.control import Control
from gateway.bus.deliveries import Deliveries
from gateway.bus.lanes import Lanes
from gateway.contracts.entries import Session
from gateway.contracts.errors import BusError, TrivetError
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import (
    STATUS_PREFIX,
    ControlKind,
    ControlRequest,
    InboundMessage,
    Reply,
    ReplyKind,
)
from gateway.contracts.ports import Clock, Scrubber
from gateway.contracts.subagents import SubTask
from gateway.retry import retry_until_available
from gateway.store import Store
from gateway.words import Words, language_of, words_for

_log = structlog.get_logger(__name__)
_RETRY_S: Final = 0.5
_LOOK_EVERY_S: Final = 0.02  # a turn that is cancelled ends within some milliseconds
_REPLIES_SHOWN: Final = 3
_REPLIES_READ: Final = 60  # some of them are answers of this lane, questions, status lines: nobody asks for these
_TURN_ID: Final = "control:"


class ControlLane:
    """Answers control commands, each in a task of its own: one that waits for its turn to end holds up no other."""

    def __init__(
        self,
        worker_id: str,
        control: Control,
        lanes: Lanes,
        deliveries: Deliveries,
        store: Store,
        deciding: Deciding,
        pressing: Pressing,
        scrubber: Scrubber,
        clock: Clock,
    ) -> None:
        self._id = worker_id
        self._control = control
        self._deliveries = deliveries
        self._lanes = lanes
        self._store = store
        self._deciding = deciding
        self._pressing = pressing
        self._ending = SubagentStopper(store.tasks, clock)
        self._scrubber = scrubber
        self._clock = clock
        self._slots = asyncio.Semaphore(CONTROL_PARALLEL_MAX)

    async def run(self) -> None:
        """Until cancelled; what was not answered by then goes to another process."""
        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    async for receipt, request in self._control.requests(self._id):
                        await self._slots.acquire()
                        answering = group.create_task(self._serve(receipt, request))
                        answering.add_done_callback(lambda _: self._slots.release())
                except BusError as error:
                    _log.warning("control.unheard", reason=str(error))
                await asyncio.sleep(_RETRY_S)

    async def _serve(self, receipt: str, request: ControlRequest) -> None:
        """One command. One that cannot be answered is left to another process, and harms no other."""
        try:
            await self._answer(receipt, request)
        except TrivetError as error:
            _log.error("control.failed", message_id=request.message.id, reason=str(error))

    async def _answer(self, receipt: str, request: ControlRequest) -> None:
        """Whatever of this is repeated, the command is answered once."""
        message = request.message
        ended, _, words = await asyncio.gather(
            self._ask_to_end(request), self._end_turn(request), retry_until_available(lambda: self._words(message))
        )
        reply = self._reply(message, await retry_until_available(lambda: self._text(request, ended, words)), words)
        if request.is_press:
            await retry_until_available(lambda: self._control.finish_press(receipt, message, reply))
            return
        await retry_until_available(lambda: self._store.outbox.put([reply]))
        await retry_until_available(lambda: self._control.finish(receipt, reply))

    async def _words(self, message: InboundMessage) -> Words:
        """Of whoever says it; where that does not show, of whoever speaks on its lane."""
        if (language := language_of(message)) is not None:
            return Words(language)
        session = await self._store.sessions.current(message.key)
        return words_for(session.language if session is not None else "")

    def _reply(self, message: InboundMessage, text: str, words: Words) -> Reply:
        said = "\n\n".join(filter(None, (text, removed_note(message.removed, words))))
        return Reply(
            id=_TURN_ID + message.id,
            turn_id=_TURN_ID + message.id,
            key=message.key,
            address=message.address,
            text=self._scrubber.for_chat(str(message.key)).scrub(said),
            kind=ReplyKind.NOTICE,
            created_at_ms=self._clock.now_ms(),
            language=words.language.value,
        )

    async def _ask_to_end(self, request: ControlRequest) -> int:
        """How many sub-agents a stop found at work. They end while the turn does."""
        return await self._ending.ask(request.message.key) if request.kind is ControlKind.STOP else 0

    async def _end_turn(self, request: ControlRequest) -> None:
        """Return when the stopped turn, if there was one, can do nothing any more. What it had answered before the stop
        reached it is published now, so that it comes before the acknowledgement and not after it."""
        key, fence = request.message.key, request.stopped_fence
        if not fence:
            return
        patience_until_s = self._clock.monotonic_s() + STOP_PATIENCE_S
        while await retry_until_available(lambda: self._lanes.is_in_work(key, fence)):
            if self._clock.monotonic_s() >= patience_until_s:
                _log.warning("control.lane_revoked", lane=str(key))
                await retry_until_available(lambda: self._lanes.revoke(key, fence))
                break
            await asyncio.sleep(_LOOK_EVERY_S)
        answered = await retry_until_available(lambda: self._store.turns.fence_off(key, fence))
        if answered:
            await retry_until_available(lambda: self._deliveries.publish(answered))

    async def _text(self, request: ControlRequest, ended: int, words: Words) -> str:
        key = request.message.key
        match request.kind:
            case ControlKind.STOP:
                if ended or request.stopped_fence:  # a turn may have started some at its last moment
                    ended = max(ended, await self._ending.end(key))
                    ended = max(ended, await self._ending.ended_since(key, request.message.received_at_ms))
                return stopped_sentence(words, was_running=request.was_running, dropped=request.dropped, ended=ended)
            case ControlKind.STATUS:
                waiting, is_running = await self._lanes.depth(key)
                session, now_ms = await self._store.sessions.current(key), self._clock.now_ms()
                tasks = await self._tasks_of(session)
                return status_text(session, words, waiting=waiting, is_running=is_running, now_ms=now_ms, tasks=tasks)
            case ControlKind.WHERE:
                return await self._whereabouts(key, words)
            case ControlKind.APPROVE | ControlKind.DENY:
                return await self._shown(await self._deciding.decide(request, words))
            case ControlKind.PRESS:
                return await self._shown(await self._pressing.press(request.message, words))

    async def _shown(self, decided: Decided) -> str:
        """What everybody sees of it is on its way before the one who decided is told."""
        if decided.amendments:
            await self._store.outbox.put(decided.amendments)
            await self._deliveries.publish(decided.amendments)
        return decided.word

    async def _whereabouts(self, key: SessionKey, words: Words) -> str:
        waiting, is_running = await self._lanes.depth(key)
        began_ms = await self._store.turns.began(key) if is_running else None
        replies = [
            reply
            for reply in await self._store.outbox.recent(key, limit=_REPLIES_READ)
            if not reply.reply_id.startswith((_TURN_ID, QUESTION_PREFIX, STATUS_PREFIX))
        ]
        return where_text(
            replies[:_REPLIES_SHOWN],
            words,
            waiting=waiting,
            is_running=is_running,
            began_ms=began_ms,
            now_ms=self._clock.now_ms(),
            tasks=await self._tasks_of(await self._store.sessions.current(key)),
        )

    async def _tasks_of(self, session: Session | None) -> Sequence[SubTask]:
        return await self._store.tasks.tasks_of_session(session.id) if session is not None else ()
