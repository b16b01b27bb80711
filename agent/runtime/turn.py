"""One batch in, one clean reply out.

A turn is one pass from the user's messages to the final reply: a command, or a conversation, and the commit
that holds everything (`agent.runtime.commit`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial, reduce
from operator import and_
from typing import Final

from agent.engine import Batch, Engine, FirstPrompt, Turn
from agent.features.access import People
from agent.features.attachments.inbox import UNSEEN, could_be_seen_by, files_of
from agent.features.attachments.intake import AttachmentIntake
from agent.features.commands import CommandReply, CommandTable, Converse
from agent.features.memory.knowledge import PersonMemory
from agent.features.usage import Meter
from agent.features.voice import Voice
from agent.limits import ADVICE_CHARS_MAX, TURN_TIMEOUT_S
from agent.models.selection import Depth, Models
from agent.models.transcript import has_images, last_said, preamble, tone_of
from agent.prompts.library import Profile
from agent.prompts.system import SystemPrompts
from agent.runtime.commit import Commits
from agent.runtime.window import TurnWindows
from agent.subagents.texts import attempt_text
from agent.tools.policy import Permissions
from gateway.contracts.errors import BudgetSpent, EmptyAnswer, ModelError
from gateway.contracts.ids import is_wake
from gateway.contracts.messages import CleanText, InboundMessage, clipped, is_visible, joined, literal_text
from gateway.contracts.ports import Clock
from gateway.contracts.sessions import Entry, EntryKind, PromptQuery, Role, Session, TurnCommit
from gateway.i18n import words_for
from gateway.packages import HookPoint
from gateway.plugins import NO_HOOKS, Clean, HookEvent, Hooks
from gateway.scrub import Scrubber
from gateway.store import Store
from gateway.tasks import Deadline

HOOK_POINTS: Final = (HookPoint.BEFORE_MODEL, HookPoint.AFTER_ANSWER)
"""The points at which plug-ins are asked in this process."""

# A turn that is a conversation: what came along, the prompt, which model, then the steps.


@dataclass(eq=False, repr=False)
class ConversationRunner:
    """Has a model answer the words of a batch. It keeps nothing from one turn to the next."""

    _: KW_ONLY
    models: Models
    engine: Engine
    windows: TurnWindows
    prompts: SystemPrompts
    people: People
    attachments: AttachmentIntake
    memory: PersonMemory | None
    scrubber: Scrubber
    clock: Clock

    async def converse(self, turn: Turn, messages: Sequence[InboundMessage], lost: CleanText | None) -> None:
        """Ask the model; it grows with what is said. `lost` is what it is told of earlier attempts. Raises
        `ModelError` and `BudgetSpent`."""
        batch, session = turn.batch, turn.session
        await self.attachments.attend(messages, turn)
        profile, ceiling = await self.capabilities(batch, session)
        person, role = await self.people.least_among(turn.authors)
        context = turn.tool_context(person, role, ceiling)
        system = partial(self.prompts.system_prompt, context, profile)
        window = await self.windows.open(session, context, system=system, fence=batch.fence, start=turn.prompt)
        said = turn.said if turn.said is not None else last_said(window.view)
        chosen = self.models.choose(session, said, Depth.of(window.view), prompt_tokens=window.tokens)
        await window.fit(chosen.budget)
        unseen = self._unseen(batch, window.view, chosen.model)
        name = context.wake.author_name if batch.key.user and context.wake else None
        told = partial(preamble, advice=turn.advice, lost=lost, unseen=unseen, name=name, zone=window.zone)
        await self._begin_notes(turn, window.view, told, chosen.budget.usable)
        first = FirstPrompt(chosen.model, window.system, window.prompt(turn.entries), window)
        await self.engine.take_steps(turn, context, first)
        if window.is_abridged:
            turn.prompt_tokens = 0  # the count is of less than the next prompt will hold

    def prompt_query(self, said: CleanText | None) -> PromptQuery:
        """Return what will be read to begin the prompt of a turn in which the user said `said`."""
        query = self.windows.query(self.models.default)
        return query if self.memory is None or said is None else self.memory.joined_to(query, said)

    async def capabilities(self, batch: Batch, session: Session) -> tuple[Profile, Permissions]:
        """Return the profile of the agent in this turn and the most that it may use, by its session and its place."""
        place = await self.people.place_of(batch.newest)
        profile = self.prompts.profile_named(session.profile or place.profile)
        return profile, reduce(and_, map(Permissions.only, place.ceilings), profile.ceiling)

    async def _begin_notes(
        self, turn: Turn, view: Sequence[Entry], told: Callable[..., CleanText], prompt_tokens: int
    ) -> None:
        """Record what the model is told in addition to the request: the first entries of the turn. `told` is the
        preamble, which still lacks the time, the tone and memory; a prompt may hold `prompt_tokens`."""
        said = turn.said or literal_text("")
        memory = None
        if self.memory is not None and said:
            block = await self.memory.block(turn.session, said, view, start=turn.prompt, prompt_tokens=prompt_tokens)
            memory, turn.used_facts = block.text, block.used
        now_ms = self.clock.now_ms()
        text = told(now_ms, tone=tone_of(said), memory=memory)
        note = Entry(Role.USER, text, kind=EntryKind.NOTE, turn_id=turn.batch.turn_id, created_at_ms=now_ms)
        turn.entries.append(note)

    def _unseen(self, batch: Batch, view: Sequence[Entry], model: str) -> CleanText | None:
        """Tell the model that there is an image which it cannot see and which no other model describes to it."""
        if self.models.learns_of_images(model) or not has_images(view, batch.turn_id):
            return None
        seeing = self.models.seeing
        return self.scrubber.for_chat(str(batch.key)).scrub(could_be_seen_by(seeing)) if seeing else UNSEEN


def _said_in(messages: Sequence[InboundMessage]) -> CleanText | None:
    """Return what people said; None where only sub-agents ended."""
    words = [message.text for message in messages if not is_wake(message.id)]
    return joined(*words, by="\n\n") if words else None


@dataclass(eq=False, repr=False)
class TurnRunner:
    """Takes turns. It keeps nothing from one turn to the next."""

    _: KW_ONLY
    commands: CommandTable
    conversations: ConversationRunner
    commits: Commits
    people: People
    meter: Meter
    store: Store
    scrubber: Scrubber
    clock: Clock
    voice: Voice
    hooks: Hooks = NO_HOOKS

    async def take_turn(self, turn: Turn) -> TurnCommit:
        """Take the turn and return its commit. Raises `Fenced` and `StoreUnavailable`; model failures end in a commit
        of state FAILED. Cancellable at every await; `turn` then tells what had been done."""
        try:
            async with Deadline(TURN_TIMEOUT_S):
                lost = await self._lost(turn.batch)
                outcome = await self._listen(turn)
                if isinstance(outcome, CommandReply):
                    return self.commits.command_done(turn, outcome)
                if self.hooks and turn.said:
                    advice = await self.hooks.gathered(*self._event(HookPoint.BEFORE_MODEL, turn, turn.said))
                    turn.advice = tuple(clipped(each, ADVICE_CHARS_MAX) for each in advice)
                await self.conversations.converse(turn, outcome, lost)
        except BudgetSpent as error:
            return self.commits.refused(turn, error)
        except (ModelError, TimeoutError) as error:
            return self.commits.failed(turn, error)
        if turn.suspension.barrier is not None:
            return self.commits.yielded(turn)
        if not is_visible(turn.answer or ""):
            return self.commits.failed(turn, EmptyAnswer(turn.finish_reason))
        if self.hooks:
            said = turn.answer or literal_text("")
            turn.answer = await self.hooks.replaced(*self._event(HookPoint.AFTER_ANSWER, turn, said))
            if turn.answer != said and turn.entries and turn.entries[-1].text == said:
                turn.entries[-1] = replace(turn.entries[-1], text=turn.answer)
        await self.voice.speak(turn)
        little_left = await self.meter.little_left(turn.batch.key.owner, words_for(turn.session.language))
        return self.commits.answered(turn, little_left)

    def _event(self, point: HookPoint, turn: Turn, text: CleanText) -> tuple[HookEvent, Clean]:
        key = turn.batch.key
        return HookEvent(point, text, key, turn.batch.turn_id), self.scrubber.for_chat(str(key)).scrub

    def prompt_query(self, batch: Batch) -> PromptQuery | None:
        """Return what may be read with the begin of a turn, in the same transaction; None for a command, and where
        attachments may still change what the transcript says."""
        if batch.is_command or any(map(files_of, batch.messages)):
            return None
        return self.conversations.prompt_query(_said_in(batch.messages))

    async def _lost(self, batch: Batch) -> CleanText | None:
        """Tell the model about the sub-agents of earlier attempts at this turn: they are ended, and no wake follows
        from them."""
        tasks = () if batch.is_first else await self.store.tasks.tasks_of_turn(batch.turn_id)
        if not tasks:
            return None
        await self.store.tasks.cancel_silently(batch.key, batch.turn_id)
        return self.scrubber.for_chat(str(batch.key)).scrub(attempt_text(tasks))

    async def _listen(self, turn: Turn) -> CommandReply | Sequence[InboundMessage]:
        """Run the command and return its reply; for a conversation, record the text in the turn and return the
        messages."""
        batch, session = turn.batch, turn.session
        turn.authors = batch.authors
        if not batch.is_command:
            turn.said = _said_in(batch.messages)
            return batch.messages
        (command,) = batch.messages
        _, role = await self.people.least_among(batch.authors)
        _, ceiling = await self.conversations.capabilities(batch, session)
        match await self.commands.execute(
            command, session, role, fence=batch.fence, permit=turn.hold.permit, ceiling=ceiling, turn_id=batch.turn_id
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
            case CommandReply() as done:
                return done

    async def _store_said(self, batch: Batch, said: InboundMessage) -> None:
        await self.store.turns.join(
            turn_id=batch.turn_id, key=batch.key, fence=batch.fence, messages=(said,), now_ms=self.clock.now_ms()
        )
