"""A turn that is a conversation: what came along, the prompt, which model, then the steps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from agent.attachments.attending import Attending
from agent.attachments.sentences import UNSEEN, could_be_seen_by
from agent.batch import Batch
from agent.compacting.room import Rooms
from agent.context import preamble
from agent.engine import Engine, Turn
from agent.memory.knowledge import Memory
from agent.models import Models
from agent.people import People
from agent.profiles import Profile, ceiling_of, profile_named
from agent.prompting.system import SystemPrompts
from agent.routing import Depth
from agent.tone import tone_of
from agent.tools.lineage import Lineage
from agent.tools.permissions import Permissions, Place
from agent.tools.tool import ToolContext
from agent.transcript import has_images, last_said
from gateway.contracts.entries import Entry, EntryKind, Role, Session
from gateway.contracts.messages import CleanText, InboundMessage, own_words
from gateway.contracts.ports import Clock, Scrubber
from gateway.contracts.schedules import is_firing
from gateway.contracts.subagents import WakeAddress


class Conversing:
    """Has the words of a batch answered by a model. Nothing of a turn stays in it."""

    def __init__(
        self,
        *,
        models: Models,
        engine: Engine,
        rooms: Rooms,
        prompts: SystemPrompts,
        people: People,
        attending: Attending,
        memory: Memory | None,
        scrubber: Scrubber,
        clock: Clock,
    ) -> None:
        self._models = models
        self._engine = engine
        self._rooms = rooms
        self._prompts = prompts
        self._people = people
        self._attending = attending
        self._memory = memory
        self._scrubber = scrubber
        self._clock = clock

    async def converse(
        self,
        turn: Turn,
        heard: Sequence[InboundMessage],
        lost: CleanText | None,
    ) -> None:
        """Ask the model; it grows with what is said. `lost` is what it is told of earlier attempts. Raises
        `ModelError` and `BudgetSpent`."""
        batch, session = turn.batch, turn.session
        await self._attending.attend(heard, turn)
        profile, ceiling = await self.powers(batch, session)
        context = await self._context(turn, ceiling=ceiling)
        system = partial(self._prompts.system_prompt, context, profile)
        room = await self._rooms.open(session, context, system=system, fence=batch.fence)
        said = turn.said if turn.said is not None else last_said(room.view)
        chosen = self._models.choose(session, said, Depth.of(room.view), prompt_tokens=room.tokens)
        await room.fit(chosen.budget)
        unseen = self._unseen(batch, room.view, chosen.model)
        await self._begin_notes(turn, room.view, lost=lost, unseen=unseen)
        prompt = room.prompt(turn.entries)
        await self._engine.run(turn, context, model=chosen.model, system=room.system, prompt=prompt, room=room)
        if room.is_abridged:
            turn.prompt_tokens = 0  # the count is of less than the next prompt will hold

    async def powers(self, batch: Batch, session: Session) -> tuple[Profile, Permissions]:
        """Who the agent is in this turn and what it may use at most, by its session and its place."""
        place = await self._people.place_of(batch.newest)
        profile = profile_named(session.profile or place.profile)
        return profile, ceiling_of(profile, place.ceilings)

    async def _begin_notes(
        self,
        turn: Turn,
        view: Sequence[Entry],
        *,
        lost: CleanText | None,
        unseen: CleanText | None,
    ) -> None:
        """What the model is told beside the request itself: the first thing that the turn leaves behind."""
        said = turn.said or own_words("")
        memory = await self._memory.block(turn.session, said, view) if self._memory is not None and said else None
        now_ms = self._clock.now_ms()
        told = preamble(now_ms, tone=tone_of(said), memory=memory, lost=lost, unseen=unseen)
        note = Entry(Role.USER, told, kind=EntryKind.NOTE, turn_id=turn.batch.turn_id, created_at_ms=now_ms)
        turn.entries.append(note)

    def _unseen(self, batch: Batch, view: Sequence[Entry], model: str) -> CleanText | None:
        """What a model is told with an image that it cannot see, and which nobody describes to it."""
        if self._models.learns_of_images(model) or not has_images(view, batch.turn_id):
            return None
        seeing = self._models.seeing
        return self._scrubber.for_chat(str(batch.key)).scrub(could_be_seen_by(seeing)) if seeing else UNSEEN

    async def _context(self, turn: Turn, *, ceiling: Permissions) -> ToolContext:
        """For whom tools run in this turn, and what they may do."""
        batch, session = turn.batch, turn.session
        newest = batch.newest
        person, role = await self._people.least_among(turn.authors)
        named = (message.author_name for message in reversed(batch.messages) if message.author == person)
        return ToolContext(
            batch.key,
            batch.key.owner,
            batch.turn_id,
            role=role,
            place=Place.DM if newest.is_private else Place.GROUP,
            asked_by=person,
            address=None if is_firing(newest) else newest.address,
            fence=batch.fence,
            ceiling=ceiling,
            permit=turn.permit,
            enclosures=turn.enclosures,
            lineage=Lineage(session.id),
            suspension=turn.suspension,
            reading=turn.reading,
            wake=WakeAddress(
                batch.key,
                newest.address,
                person.user,
                next(named, own_words("")),
                newest.is_private,
                newest.place,
                batch.wakes,
            ),
            language=session.language,
            place_ids=newest.place,
        )
