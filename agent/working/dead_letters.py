"""A message that was given up still gets an answer, and its conversation a note."""

from __future__ import annotations

import structlog

from agent.sentences import DEAD_NOTE, dead_sentence, removed_note
from agent.working.closing import put_out
from gateway.bus.deliveries import Deliveries
from gateway.bus.lanes import Lanes
from gateway.contracts.ids import turn_id_of
from gateway.contracts.messages import InboundMessage, Reply, ReplyKind
from gateway.contracts.ports import Clock, DeadMessage, Scrubber
from gateway.retry import retry_until_available
from gateway.store import Store
from gateway.words import Words, language_of, words_for

_log = structlog.get_logger(__name__)


class DeadLetters:
    """Tells the authors of dead letters. Their messages have left the lane: nobody waits for this."""

    def __init__(self, lanes: Lanes, deliveries: Deliveries, store: Store, scrubber: Scrubber, clock: Clock) -> None:
        self._lanes = lanes
        self._deliveries = deliveries
        self._store = store
        self._scrubber = scrubber
        self._clock = clock

    async def tell(self, dead: DeadMessage) -> None:
        """Answer a message with an apology, unless its last run had answered it after all."""
        message, reference = dead.message, self._clock.code(6)
        _log.error("message.dead", message_id=message.id, letter_id=dead.letter_id, reference=reference)
        turn_id = turn_id_of(message.id)
        words = await self._words(message)
        said = "\n\n".join(filter(None, (dead_sentence(reference, words), removed_note(message.removed, words))))
        reply = Reply(
            id=f"{turn_id}:dead",
            turn_id=turn_id,
            key=message.key,
            address=message.address,
            text=self._scrubber.for_chat(str(message.key)).scrub(said),
            kind=ReplyKind.ERROR,
            created_at_ms=self._clock.now_ms(),
            language=words.language.value,
        )
        is_given_up = await retry_until_available(
            lambda: self._store.turns.give_up(
                turn_id=turn_id,
                message=message,
                reply=reply,
                note=DEAD_NOTE,
                reference=reference,
                letter_id=dead.letter_id,
                now_ms=reply.created_at_ms,
            )
        )
        if is_given_up:
            await put_out(self._deliveries, message.address, turn_id)
            await retry_until_available(lambda: self._deliveries.publish([reply]))
        await retry_until_available(lambda: self._lanes.finish_dead(message))

    async def _words(self, message: InboundMessage) -> Words:
        """Of whoever wrote it; where that does not show, of whoever speaks on its lane."""
        if (language := language_of(message)) is not None:
            return Words(language)
        session = await retry_until_available(lambda: self._store.sessions.current(message.key))
        return words_for(session.language if session else "")
