"""One batch in, one clean reply out.

A turn is one pass from the user's messages to the final reply: command or conversation, compaction if
the next prompt would not fit, the steps, and the commit that everything goes into. A turn that fails
says so in one plain sentence with a reference; the log has the rest, the user's message stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import structlog

from agent.attachments.attending import Attending
from agent.attachments.sentences import UNSEEN, could_be_seen_by
from agent.commands.parsing import parse_command
from agent.commands.table import CommandTable, Converse, Done
from agent.compacting.room import Rooms
from agent.context import preamble
from agent.engine import Engine, Hold, StepsTaken
from agent.limits import TURN_TIMEOUT_S
from agent.memory.knowledge import Memory
from agent.models import Models
from agent.offering import Meant, Offer, offering, retry_offers
from agent.people import People
from agent.profiles import Profile, ceiling_of, profile_named
from agent.prompting.system import SystemPrompts
from agent.routing import Depth
from agent.running.deadlines import Deadline
from agent.sentences import CUT_NOTE, STOPPED_NOTE, YIELDED_WORD, failure_sentence, removed_note, unchecked_notes
from agent.subagents.results import attempt_text
from agent.titles.naming import nameable, title_reply
from agent.tone import tone_of
from agent.tools.lineage import Lineage
from agent.tools.permissions import Permissions, Place
from agent.tools.tool import ToolContext
from agent.transcript import has_images, last_said
from agent.usage.metering import Meter
from agent.usage.sentences import spent_sentence
from gateway.contracts.buttons import Button
from gateway.contracts.entries import Effect, Entry, EntryKind, Role, Session, TurnCommit, TurnState
from gateway.contracts.errors import BudgetSpent, ModelError
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText, InboundMessage, Reply, ReplyKind, clipped, joined, own_words
from gateway.contracts.ports import Clock, Scrubber, Store
from gateway.contracts.schedules import is_firing
from gateway.contracts.subagents import Barrier, WakeAddress, is_wake
from gateway.limits import REPLY_CHARS_MAX
from gateway.words import words_for

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Batch:
    """The messages one turn answers, all of one place, with the fence that guards their lane. `is_first`: no run of it
    was begun before."""

    turn_id: str
    key: SessionKey
    fence: int
    messages: tuple[InboundMessage, ...]
    is_first: bool = False

    @property
    def newest(self) -> InboundMessage:
        """The last that somebody wrote; where nobody did, the last."""
        return newest_of(self.messages)

    @property
    def wakes(self) -> int:
        """How many wakes have led to one another since a person spoke; 0: one speaks here."""
        return max(message.wakes for message in self.messages) if is_wake(self.newest) else 0

    @property
    def is_command(self) -> bool:
        """A command is always alone in its batch (`agent.working.batches.first_batch`)."""
        return parse_command(self.messages[0].text) is not None

    @property
    def is_said(self) -> bool:
        """Whether its messages are part of the conversation."""
        return not self.is_command and not self.messages[0].only_mends


def reply_id_of(turn_id: str) -> str:
    """The id of the one reply that a turn leaves, known before there is any."""
    return f"{turn_id}:1"


def newest_of(messages: Sequence[InboundMessage]) -> InboundMessage:
    """Who is answered, and where: what the end of a sub-agent sent comes behind what a person wrote."""
    return (tuple(message for message in messages if not is_wake(message)) or messages)[-1]


class TurnTaker:
    """Takes turns. Everything it depends on comes in here; nothing of a turn stays in it."""

    def __init__(
        self,
        *,
        models: Models,
        engine: Engine,
        rooms: Rooms,
        commands: CommandTable,
        prompts: SystemPrompts,
        people: People,
        attending: Attending,
        memory: Memory | None,
        meter: Meter,
        store: Store,
        scrubber: Scrubber,
        clock: Clock,
    ) -> None:
        self._models = models
        self._engine = engine
        self._rooms = rooms
        self._commands = commands
        self._prompts = prompts
        self._people = people
        self._attending = attending
        self._memory = memory
        self._meter = meter
        self._store = store
        self._scrubber = scrubber
        self._clock = clock

    async def take_turn(self, batch: Batch, session: Session, taken: StepsTaken, hold: Hold) -> TurnCommit:
        """Everything the turn leaves behind. Raises `Fenced` and `StoreUnavailable`; model failures end in
        a commit of state FAILED. Cancellable at every await; `taken` then tells what had been done."""
        try:
            async with Deadline(TURN_TIMEOUT_S):
                lost = await self._lost(batch)
                heard = await self._listen(batch, session, taken, hold)
                if isinstance(heard, Done):
                    return self._obeyed(batch, session, heard)
                await self._converse(batch, heard, session, taken, hold, lost)
        except BudgetSpent as error:
            return self._refused(batch, session, taken, error)
        except (ModelError, TimeoutError) as error:
            return self._failed(batch, session, taken, error)
        if taken.suspension.barrier is not None:
            return self._yielded(batch, session, taken)
        if not (taken.answer or "").strip():
            return self._failed(batch, session, taken, ModelError("the model gave an empty answer"))
        little_left = await self._meter.little_left(batch.key.owner, words_for(session.language))
        reply = self._answer(batch, session, taken, little_left)
        return self._commit(batch, session, TurnState.DONE, taken, reply)

    def silent(self, batch: Batch, session: Session) -> TurnCommit:
        """What a turn leaves behind in which nobody said anything."""
        return self._commit(batch, session, TurnState.DONE, StepsTaken(), None)

    def stopped(self, batch: Batch, session: Session, taken: StepsTaken) -> TurnCommit:
        """What a turn leaves behind that its user stopped: no reply, and its messages are not run again.

        The transcript says that it was stopped, or the next prompt would ask for it once more.
        """
        return self._commit(batch, session, TurnState.STOPPED, self._noted(batch, taken, STOPPED_NOTE), None)

    async def _lost(self, batch: Batch) -> CleanText | None:
        """What the model is told of the sub-agents of earlier attempts at this turn: they are to end, and
        nobody is woken for them."""
        tasks = () if batch.is_first else await self._store.tasks.tasks_of_turn(batch.turn_id)
        if not tasks:
            return None
        await self._store.tasks.disown(batch.key, batch.turn_id)
        return self._clean(batch, attempt_text(tasks))

    async def _listen(
        self, batch: Batch, session: Session, taken: StepsTaken, hold: Hold
    ) -> Done | Sequence[InboundMessage]:
        """What a command says; the messages, when the turn is a conversation, whose words the transcript holds."""
        if not batch.is_command:
            words = [message.text for message in batch.messages if not is_wake(message)]
            taken.said = joined(*words, by="\n\n") if words else None
            taken.is_plain = bool(words) and len(batch.messages) == 1 and batch.messages[0].is_text
            return batch.messages
        (command,) = batch.messages
        role = await self._people.role_behind(batch.messages)
        _, ceiling = await self._powers(batch, session)
        match await self._commands.run(
            command, session, role, fence=batch.fence, permit=hold.permit, ceiling=ceiling, turn_id=batch.turn_id
        ):
            case Converse(said, is_stored):
                taken.said = said
                if is_stored:
                    return ()
                command = replace(command, text=said)
                await self._store_said(batch, command)
                return (command,)
            case Done() as done:
                return done

    async def _store_said(self, batch: Batch, said: InboundMessage) -> None:
        await self._store.join_turn(
            turn_id=batch.turn_id,
            key=batch.key,
            fence=batch.fence,
            messages=(said,),
            now_ms=self._clock.now_ms(),
        )

    async def _converse(
        self,
        batch: Batch,
        heard: Sequence[InboundMessage],
        session: Session,
        taken: StepsTaken,
        hold: Hold,
        lost: CleanText | None,
    ) -> None:
        hold = await self._attending.attend(
            heard, session, taken, hold, turn_id=batch.turn_id, key=batch.key, fence=batch.fence
        )
        profile, ceiling = await self._powers(batch, session)
        context = await self._context(batch, session, taken, hold, ceiling=ceiling)
        system = partial(self._prompts.system_prompt, context, profile)
        room = await self._rooms.open(session, context, system=system, fence=batch.fence)
        said = taken.said if taken.said is not None else last_said(room.view)
        chosen = self._models.choose(session, said, Depth.of(room.view), prompt_tokens=room.tokens)
        await room.fit(chosen.budget)
        unseen = self._unseen(batch, room.view, chosen.model)
        await self._begin_notes(batch, session, taken, room.view, lost=lost, unseen=unseen)
        prompt = room.prompt(taken.entries)
        await self._engine.run(taken, hold, context, model=chosen.model, system=room.system, prompt=prompt, room=room)
        if room.is_abridged:
            taken.prompt_tokens = 0  # the count is of less than the next prompt will hold

    async def _powers(self, batch: Batch, session: Session) -> tuple[Profile, Permissions]:
        """Who the agent is in this turn and what it may use at most, by its session and its place."""
        place = await self._people.place_of(batch.newest)
        profile = profile_named(session.profile or place.profile)
        return profile, ceiling_of(profile, place.ceilings)

    async def _begin_notes(
        self,
        batch: Batch,
        session: Session,
        taken: StepsTaken,
        view: Sequence[Entry],
        *,
        lost: CleanText | None,
        unseen: CleanText | None,
    ) -> None:
        """What the model is told beside the request itself: the first thing that the turn leaves behind."""
        said = taken.said or own_words("")
        memory = await self._memory.block(session, said, view) if self._memory is not None and said else None
        now_ms = self._clock.now_ms()
        told = preamble(now_ms, tone=tone_of(said), memory=memory, lost=lost, unseen=unseen)
        note = Entry(Role.USER, told, kind=EntryKind.NOTE, turn_id=batch.turn_id, created_at_ms=now_ms)
        taken.entries.append(note)

    def _unseen(self, batch: Batch, view: Sequence[Entry], model: str) -> CleanText | None:
        """What a model is told with an image that it cannot see, and which nobody describes to it."""
        if self._models.learns_of_images(model) or not has_images(view, batch.turn_id):
            return None
        seeing = self._models.seeing
        return self._clean(batch, could_be_seen_by(seeing)) if seeing else UNSEEN

    async def _context(
        self, batch: Batch, session: Session, taken: StepsTaken, hold: Hold, *, ceiling: Permissions
    ) -> ToolContext:
        """For whom tools run in this turn, and what they may do."""
        newest = batch.newest
        return ToolContext(
            batch.key,
            batch.key.owner,
            batch.turn_id,
            role=await self._people.role_behind(batch.messages),
            place=Place.DM if newest.is_private else Place.GROUP,
            asked_by=newest.author,
            address=None if is_firing(newest) else newest.address,
            fence=batch.fence,
            ceiling=ceiling,
            permit=hold.permit,
            enclosures=taken.enclosures,
            lineage=Lineage(session.id),
            suspension=taken.suspension,
            wake=WakeAddress(
                batch.key,
                newest.address,
                newest.author_id,
                newest.author_name,
                newest.is_private,
                newest.place,
                batch.wakes,
            ),
            language=session.language,
            place_ids=newest.place,
        )

    def _obeyed(self, batch: Batch, session: Session, done: Done) -> TurnCommit:
        left = StepsTaken()
        if done.noted is not None:
            now_ms = self._clock.now_ms()
            note = Entry(Role.USER, done.noted, kind=EntryKind.NOTE, turn_id=batch.turn_id, created_at_ms=now_ms)
            left.entries.append(note)
        for file in done.files:
            left.enclosures.add(file)
        reply = self._reply(batch, session, left, self._clean(batch, done.text), ReplyKind.NOTICE)
        reply = replace(reply, files=left.enclosures.files)
        commit = self._commit(batch, session, TurnState.DONE, left, reply, effects=done.effects, offers=done.offers)
        return commit if done.title is None else self._naming(batch, commit, done.title)

    def _naming(self, batch: Batch, commit: TurnCommit, title: CleanText) -> TurnCommit:
        address = nameable(batch.newest)
        if address is None:
            return commit
        now_ms = self._clock.now_ms()
        telling = title_reply(title, turn_id=batch.turn_id, key=batch.key, address=address, now_ms=now_ms)
        return replace(commit, outbox=(*commit.outbox, telling))

    def _answer(self, batch: Batch, session: Session, taken: StepsTaken, little_left: str) -> Reply:
        answer = taken.answer or own_words("")
        parts = [clipped(answer, REPLY_CHARS_MAX)]
        if len(answer) > REPLY_CHARS_MAX:
            parts.append(words_for(session.language).say(CUT_NOTE))
        if little_left:
            parts.append(self._clean(batch, little_left))
        reply = self._reply(batch, session, taken, joined(*parts, by="\n\n"), ReplyKind.ANSWER)
        return replace(reply, files=taken.enclosures.files)

    def _yielded(self, batch: Batch, session: Session, taken: StepsTaken) -> TurnCommit:
        """No answer yet; but files that are to go out do not wait for it, nor what was removed from a message."""
        files, word = taken.enclosures.files, words_for(session.language).say(YIELDED_WORD)
        reply = replace(self._reply(batch, session, taken, word, ReplyKind.NOTICE), files=files)
        has_news = bool(files) or reply.text != word
        barrier = taken.suspension.barrier
        return self._commit(batch, session, TurnState.DONE, taken, reply if has_news else None, barrier=barrier)

    def _refused(self, batch: Batch, session: Session, taken: StepsTaken, error: BudgetSpent) -> TurnCommit:
        """Nothing is wrong, so there is nothing to look up: one sentence that says when it goes on."""
        _log.info("turn.refused", reason=str(error))
        words = words_for(session.language)
        sentence = self._clean(batch, spent_sentence(error, words, now_ms=self._clock.now_ms()))
        reply = self._reply(batch, session, taken, sentence, ReplyKind.NOTICE)
        return self._commit(batch, session, TurnState.FAILED, self._noted(batch, taken, sentence), reply)

    def _failed(self, batch: Batch, session: Session, taken: StepsTaken, error: Exception) -> TurnCommit:
        reference = self._clock.code(6)
        _log.error("turn.failed", reference=reference, reason=f"{type(error).__name__}: {error}")
        sentence = self._clean(batch, failure_sentence(error, reference, words_for(session.language)))
        reply = self._reply(batch, session, taken, sentence, ReplyKind.ERROR)
        taken = self._noted(batch, taken, sentence)
        offers = retry_offers(error, batch.turn_id, words_for(session.language)) if taken.said is not None else ()
        return self._commit(batch, session, TurnState.FAILED, taken, reply, offers=offers, reference=reference)

    def _clean(self, batch: Batch, text: str) -> CleanText:
        return self._scrubber.for_chat(str(batch.key)).scrub(text)

    def _noted(self, batch: Batch, taken: StepsTaken, text: CleanText) -> StepsTaken:
        """How a turn without an answer ended, in the place of the answer. A command leaves no trace."""
        if taken.said is not None or not batch.is_command:
            now_ms = self._clock.now_ms()
            taken.entries.append(Entry(Role.ASSISTANT, text, turn_id=batch.turn_id, created_at_ms=now_ms))
            taken.prompt_tokens = 0  # a count belongs to the answer it was made for
        return taken

    def _reply(self, batch: Batch, session: Session, taken: StepsTaken, text: CleanText, kind: ReplyKind) -> Reply:
        """What goes out, however the turn ended; with it goes what was removed from the messages on their way in."""
        words = words_for(session.language)
        answered = (*batch.messages, *taken.joined)
        removed = [removed for message in answered for removed in message.removed]
        note = removed_note(removed, words)
        told = (self._clean(batch, note),) if note else ()
        notes = (*taken.notes, *told, *unchecked_notes(text, removed, words))
        return Reply(
            id=reply_id_of(batch.turn_id),
            turn_id=batch.turn_id,
            key=batch.key,
            address=newest_of(answered).address,
            text=joined(text, *notes, by="\n\n"),
            kind=kind,
            created_at_ms=self._clock.now_ms(),
            language=words.language.value,
        )

    def _commit(
        self,
        batch: Batch,
        session: Session,
        state: TurnState,
        taken: StepsTaken,
        reply: Reply | None,
        *,
        effects: tuple[Effect, ...] = (),
        offers: Sequence[Offer] = (),
        reference: str = "",
        barrier: Barrier | None = None,
    ) -> TurnCommit:
        buttons: tuple[Button, ...] = ()
        if reply is not None and offers:
            meant, clean = Meant.for_author(newest_of((*batch.messages, *taken.joined))), partial(self._clean, batch)
            reply, buttons = offering(reply, offers, meant, clean, self._clock)
        return TurnCommit(
            turn_id=batch.turn_id,
            session_id=session.id,
            key=batch.key,
            fence=batch.fence,
            state=state,
            consumed=tuple(message.id for message in (*batch.messages, *taken.joined)),
            entries=tuple(taken.entries),
            usage=tuple(taken.usage),
            outbox=(reply,) if reply else (),
            contents=taken.enclosures.contents(reply.id) if reply and reply.files else (),
            effects=effects,
            error_reference=reference,
            finished_at_ms=self._clock.now_ms(),
            prompt_tokens=taken.prompt_tokens,
            barrier=barrier,
            buttons=buttons,
            collected=tuple(taken.suspension.collected),
        )
