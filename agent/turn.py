"""One batch in, one clean reply out.

A turn is one pass from the user's messages to the final reply: a command, or a conversation (`agent.conversing`), and
the commit that everything goes into (`agent.commits`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agent.batch import Batch
from agent.commands.table import CommandTable, Converse, Done
from agent.commits import Commits
from agent.conversing import Conversing
from agent.engine import Turn
from agent.limits import TURN_TIMEOUT_S
from agent.people import People
from agent.running.deadlines import Deadline
from agent.subagents.texts import attempt_text
from agent.usage.metering import Meter
from gateway.contracts.entries import TurnCommit
from gateway.contracts.errors import BudgetSpent, EmptyAnswer, ModelError
from gateway.contracts.messages import CleanText, InboundMessage, joined
from gateway.contracts.ports import Clock, Scrubber
from gateway.contracts.subagents import is_wake
from gateway.store import Store
from gateway.words import words_for


class TurnTaker:
    """Takes turns. Everything it depends on comes in here; nothing of a turn stays in it."""

    def __init__(
        self,
        *,
        commands: CommandTable,
        conversing: Conversing,
        commits: Commits,
        people: People,
        meter: Meter,
        store: Store,
        scrubber: Scrubber,
        clock: Clock,
    ) -> None:
        self._commands = commands
        self._conversing = conversing
        self._commits = commits
        self._people = people
        self._meter = meter
        self._store = store
        self._scrubber = scrubber
        self._clock = clock

    async def take_turn(self, turn: Turn) -> TurnCommit:
        """Everything the turn leaves behind. Raises `Fenced` and `StoreUnavailable`; model failures end in
        a commit of state FAILED. Cancellable at every await; `turn` then tells what had been done."""
        try:
            async with Deadline(TURN_TIMEOUT_S):
                lost = await self._lost(turn.batch)
                heard = await self._listen(turn)
                if isinstance(heard, Done):
                    return self._commits.obeyed(turn, heard)
                await self._conversing.converse(turn, heard, lost)
        except BudgetSpent as error:
            return self._commits.refused(turn, error)
        except (ModelError, TimeoutError) as error:
            return self._commits.failed(turn, error)
        if turn.suspension.barrier is not None:
            return self._commits.yielded(turn)
        if not (turn.answer or "").strip():
            return self._commits.failed(turn, EmptyAnswer(turn.finish_reason))
        little_left = await self._meter.little_left(turn.batch.key.owner, words_for(turn.session.language))
        return self._commits.answered(turn, little_left)

    async def _lost(self, batch: Batch) -> CleanText | None:
        """What the model is told of the sub-agents of earlier attempts at this turn: they are to end, and
        nobody is woken for them."""
        tasks = () if batch.is_first else await self._store.tasks.tasks_of_turn(batch.turn_id)
        if not tasks:
            return None
        await self._store.tasks.disown(batch.key, batch.turn_id)
        return self._scrubber.for_chat(str(batch.key)).scrub(attempt_text(tasks))

    async def _listen(self, turn: Turn) -> Done | Sequence[InboundMessage]:
        """What a command says; the messages, when the turn is a conversation, whose words the transcript holds."""
        batch, session = turn.batch, turn.session
        turn.authors = batch.authors
        if not batch.is_command:
            words = [message.text for message in batch.messages if not is_wake(message)]
            turn.said = joined(*words, by="\n\n") if words else None
            turn.is_plain = bool(words) and len(batch.messages) == 1 and batch.messages[0].is_text
            return batch.messages
        (command,) = batch.messages
        _, role = await self._people.least_among(batch.authors)
        _, ceiling = await self._conversing.powers(batch, session)
        match await self._commands.run(
            command, session, role, fence=batch.fence, permit=turn.permit, ceiling=ceiling, turn_id=batch.turn_id
        ):
            case Converse(said, is_stored, authors, has_foreign):
                turn.said = said
                turn.authors = (*authors, *batch.authors)
                turn.reading.is_foreign = has_foreign
                if is_stored:
                    return ()
                command = replace(command, text=said)
                await self._store_said(batch, command)
                return (command,)
            case Done() as done:
                return done

    async def _store_said(self, batch: Batch, said: InboundMessage) -> None:
        await self._store.turns.join(
            turn_id=batch.turn_id,
            key=batch.key,
            fence=batch.fence,
            messages=(said,),
            now_ms=self._clock.now_ms(),
        )
