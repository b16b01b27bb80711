"""The one commit of a turn, however the turn ended.

A turn that fails says so in one plain sentence with a reference; the log has the rest, the user's message stays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import structlog

from agent.engine import AfterTurn, Finished, Turn, newest_of, reply_id_of
from agent.features.commands import Addressee, CommandReply, Offer, retry_offers, with_buttons
from agent.features.titles import nameable, title_reply
from agent.features.usage import spent_sentence
from agent.limits import NAMES_KNOWN_MAX
from agent.texts import CUT_NOTE, STOPPED_NOTE, YIELDED_WORD, failure_sentence, removed_note, unchecked_notes
from gateway.bounded_dict import BoundedDict
from gateway.bus.operator import Operator
from gateway.config.features import WebhookEvent
from gateway.contracts.errors import BudgetSpent, BusError
from gateway.contracts.ids import SessionKey, is_wake
from gateway.contracts.messages import Button, CleanText, Reply, ReplyKind, clipped, joined, literal_text
from gateway.contracts.ports import Clock, SpanSink
from gateway.contracts.sessions import Effect, Entry, EntryKind, Role, TurnCommit, TurnState
from gateway.contracts.subagents import Barrier
from gateway.i18n import words_for
from gateway.limits import REPLY_CHARS_MAX
from gateway.scrub import Scrubber
from gateway.telemetry.metrics import ANSWER_SECONDS, QUEUE_SECONDS, TURNS, Tally
from gateway.telemetry.spans import turn_spans
from gateway.webhooks import WebhookEvents

_log = structlog.get_logger(__name__)


class Commits:
    """Makes the commit of a turn. Nothing is written here."""

    def __init__(self, scrubber: Scrubber, clock: Clock, events: WebhookEvents) -> None:
        self._scrubber = scrubber
        self._clock = clock
        self._events = events

    def answered(self, turn: Turn, little_left: str) -> TurnCommit:
        """Build the commit of a model's answer. `little_left` is appended to it: what is nearly used up, or ""."""
        reply = self._answer(turn, little_left)
        commit = self._telling(WebhookEvent.TURN_ANSWERED, self._commit(turn, TurnState.DONE, reply), reply.text)
        if not little_left:
            return commit
        return self._telling(WebhookEvent.BUDGET_LOW, commit, self._clean(turn, little_left))

    def command_done(self, turn: Turn, done: CommandReply) -> TurnCommit:
        """Build the commit of a command."""
        if done.noted is not None:
            now_ms = self._clock.now_ms()
            note = Entry(Role.USER, done.noted, kind=EntryKind.NOTE, turn_id=turn.batch.turn_id, created_at_ms=now_ms)
            turn.entries.append(note)
        for file in done.files:
            turn.enclosures.add(file)
        reply = self._reply(turn, self._clean(turn, done.text), ReplyKind.NOTICE)
        reply = replace(reply, files=turn.enclosures.files)
        commit = self._commit(turn, TurnState.DONE, reply, effects=done.effects, offers=done.offers)
        return commit if done.title is None else self._naming(turn, commit, done.title)

    def yielded(self, turn: Turn) -> TurnCommit:
        """Build the commit of a turn that yields. It has no answer yet; but files that are to go out do not wait for
        it, nor does the note on what was removed from a message."""
        files, word = turn.enclosures.files, words_for(turn.session.language).say(YIELDED_WORD)
        reply = replace(self._reply(turn, word, ReplyKind.NOTICE), files=files)
        has_news = bool(files) or reply.text != word
        barrier = turn.suspension.barrier
        return self._commit(turn, TurnState.DONE, reply if has_news else None, barrier=barrier)

    def stopped(self, turn: Turn) -> TurnCommit:
        """Build the commit of a turn that its user stopped: no reply, and its messages are not run again.

        The transcript says that it was stopped, or the next prompt would ask for it once more."""
        return self._commit(self._noted(turn, STOPPED_NOTE), TurnState.STOPPED, None)

    def refused(self, turn: Turn, error: BudgetSpent) -> TurnCommit:
        """Build the commit of a refused turn: one sentence that says when it goes on. It has no reference, because
        nothing is wrong that could be looked up."""
        _log.info("turn.refused", reason=str(error))
        words = words_for(turn.session.language)
        sentence = self._clean(turn, spent_sentence(error, words, now_ms=self._clock.now_ms()))
        reply = self._reply(turn, sentence, ReplyKind.NOTICE)
        commit = self._commit(self._noted(turn, sentence), TurnState.FAILED, reply)
        return self._telling(WebhookEvent.TURN_FAILED, commit, sentence)

    def failed(self, turn: Turn, error: Exception) -> TurnCommit:
        """Build the commit of a failed turn: one plain sentence, with the reference under which the log has
        the rest."""
        reference = self._clock.code(6)
        _log.error("turn.failed", reference=reference, reason=f"{type(error).__name__}: {error}")
        sentence = self._clean(turn, failure_sentence(error, reference, words_for(turn.session.language)))
        reply = self._reply(turn, sentence, ReplyKind.ERROR)
        self._noted(turn, sentence)
        offers = (
            retry_offers(error, turn.batch.turn_id, words_for(turn.session.language)) if turn.said is not None else ()
        )
        commit = self._commit(turn, TurnState.FAILED, reply, offers=offers, reference=reference)
        return self._telling(WebhookEvent.TURN_FAILED, commit, sentence)

    def _telling(self, event: WebhookEvent, commit: TurnCommit, text: CleanText) -> TurnCommit:
        """Commit what webhooks are told along with what happened."""
        at_ms, turn_id = commit.finished_at_ms, commit.turn_id
        told = self._events.tell(event, turn_id, commit.key, text, at_ms=at_ms, turn_id=turn_id)
        return replace(commit, outbox=(*commit.outbox, *told)) if told else commit

    def _naming(self, turn: Turn, commit: TurnCommit, title: CleanText) -> TurnCommit:
        address = nameable(turn.batch.newest)
        if address is None:
            return commit
        now_ms = self._clock.now_ms()
        telling = title_reply(title, turn_id=turn.batch.turn_id, key=turn.batch.key, address=address, now_ms=now_ms)
        return replace(commit, outbox=(*commit.outbox, telling))

    def _answer(self, turn: Turn, little_left: str) -> Reply:
        answer = turn.answer or literal_text("")
        parts = [clipped(answer, REPLY_CHARS_MAX)]
        if len(answer) > REPLY_CHARS_MAX:
            parts.append(words_for(turn.session.language).say(CUT_NOTE))
        if little_left:
            parts.append(self._clean(turn, little_left))
        reply = self._reply(turn, joined(*parts, by="\n\n"), ReplyKind.ANSWER)
        return replace(reply, files=turn.enclosures.files)

    def _clean(self, turn: Turn, text: str) -> CleanText:
        return self._scrubber.for_chat(str(turn.batch.key)).scrub(text)

    def _noted(self, turn: Turn, text: CleanText) -> Turn:
        """Record in place of the answer how a turn without one ended. A command leaves no entry."""
        if turn.said is not None or not turn.batch.is_command:
            now_ms = self._clock.now_ms()
            turn.entries.append(Entry(Role.ASSISTANT, text, turn_id=turn.batch.turn_id, created_at_ms=now_ms))
            turn.prompt_tokens = 0  # a count belongs to the answer it was made for
        return turn

    def _reply(self, turn: Turn, text: CleanText, kind: ReplyKind) -> Reply:
        """Build the reply, however the turn ended; it also says what was removed from the messages on their way in."""
        words = words_for(turn.session.language)
        removed = [removed for message in turn.answered for removed in message.removed]
        note = removed_note(removed, words)
        told = (self._clean(turn, note),) if note else ()
        notes = (*turn.notes, *told, *unchecked_notes(text, removed, words))
        return Reply(
            id=reply_id_of(turn.batch.turn_id),
            turn_id=turn.batch.turn_id,
            key=turn.batch.key,
            address=newest_of(turn.answered).address,
            text=joined(text, *notes, by="\n\n"),
            kind=kind,
            created_at_ms=self._clock.now_ms(),
            language=words.language.value,
        )

    def _commit(
        self,
        turn: Turn,
        state: TurnState,
        reply: Reply | None,
        *,
        effects: tuple[Effect, ...] = (),
        offers: Sequence[Offer] = (),
        reference: str = "",
        barrier: Barrier | None = None,
    ) -> TurnCommit:
        buttons: tuple[Button, ...] = ()
        if reply is not None and offers:
            addressee, clean = Addressee.for_author(newest_of(turn.answered)), partial(self._clean, turn)
            reply, buttons = with_buttons(reply, offers, addressee, clean, self._clock)
        return TurnCommit(
            turn_id=turn.batch.turn_id,
            session_id=turn.session.id,
            key=turn.batch.key,
            fence=turn.batch.fence,
            state=state,
            consumed=tuple(message.id for message in turn.answered),
            entries=tuple(turn.entries),
            usage=tuple(turn.usage),
            outbox=(reply,) if reply else (),
            contents=turn.enclosures.contents(reply.id) if reply and reply.files else (),
            effects=effects,
            error_reference=reference,
            finished_at_ms=self._clock.now_ms(),
            prompt_tokens=turn.prompt_tokens,
            barrier=barrier,
            buttons=buttons,
            collected=tuple(turn.suspension.collected),
        )


# Tells of a turn, and of how long its messages waited, once it is committed: to a collector, and to /metrics.


async def trace_turn(spans: SpanSink, finished: Finished) -> None:
    """Record the turn as a span."""
    batch = finished.turn.batch
    for span in turn_spans(finished.commit, batch.messages, began_ms=batch.begun_at_ms, fence=batch.fence):
        spans.record(span)


async def count_turn(tally: Tally, finished: Finished) -> None:
    """Count the turn, and how long its messages waited."""
    batch, commit = finished.turn.batch, finished.commit
    received_ms = min(message.received_at_ms for message in batch.messages)
    tally.add(TURNS, commit.state.value)
    tally.time(QUEUE_SECONDS, batch.begun_at_ms - received_ms)
    if commit.outbox:
        tally.time(ANSWER_SECONDS, commit.finished_at_ms - received_ms)


def naming_people(bus: Operator) -> AfterTurn:
    """Build the step after each turn that notes what its people call themselves, for the operator's lists."""
    known: BoundedDict[SessionKey, str] = BoundedDict(NAMES_KNOWN_MAX)

    async def note(finished: Finished) -> None:
        said = finished.turn.batch.messages
        names = {each.author: each.author_name for each in said if each.author_name and not is_wake(each.id)}
        news = {author: name for author, name in names.items() if known.get(author) != name}
        if not news:
            return
        try:
            await bus.note_names(news)
        except BusError as error:  # it is noted with one of the next turns
            _log.warning("names.not_noted", reason=str(error))
            return
        known.update(news)

    return note


async def look_for_ends(ring: Callable[[], None], finished: Finished) -> None:
    """Call `ring` if the turn waits for sub-agents: they may have ended before it had yielded."""
    if finished.commit.barrier is not None:
        ring()
