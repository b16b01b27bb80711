"""Summarise the older part of a session, step by step and within limits.

    as it is  ──too long──▶  tool outputs pruned  ──too long──▶  in chunks, each with the summary so far
                                                  ──too long──▶  without its middle, until it fits

"Too long" is what our estimate says, or the provider. A summary that is cut short is asked for once more at half the
length. Everything else that goes wrong (the model is away after its retries, it takes too long, its summary is empty,
cut short or no shorter than what it replaces) ends the attempts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

import structlog

from agent import limits
from agent.models.client import ModelClient
from agent.models.metering import usage_of
from agent.models.requests import ModelAnswer, ModelRequest, Permit, StopReason, ask
from agent.models.selection import Models
from agent.models.transcript import PromptBudget
from agent.prompts.library import PROMPTS
from agent.runtime import compaction_plan
from agent.tokens import estimate_tokens
from gateway.bounded_dict import BoundedDict
from gateway.contracts.errors import BudgetSpent, ContextTooLong, ModelError
from gateway.contracts.messages import CleanText
from gateway.contracts.ports import Clock
from gateway.contracts.sessions import Entry, EntryKind, Role, Session, UsagePurpose
from gateway.scrub import Scrubber
from gateway.store import Store


class NoSummary(Exception):
    """There is no usable summary; the reason is for the log."""


class UnusableSummary(NoSummary):
    """The model wrote one that is empty, cut short or too long: asked again soon, it would do the same."""


@dataclass(frozen=True, slots=True)
class SummaryOrder:
    """The entries to summarise, and for whom. `prior` is the summary of what came before `entries`."""

    session: Session
    entries: tuple[Entry, ...]
    prior: CleanText | None
    focus: CleanText | None
    permit: Permit


@dataclass(eq=False, repr=False)
class Summarizer:
    """Makes summaries with the cheap model; every call is charged to the session's user, used or not. `tokens_max` is
    the length of a summary; a model's thinking before it comes on top."""

    client: ModelClient
    models: Models
    store: Store
    scrubber: Scrubber
    clock: Clock
    _: KW_ONLY
    tokens_max: int = limits.SUMMARY_TOKENS_MAX

    async def summarize(self, wanted: SummaryOrder) -> CleanText:
        """Summarize so that the summary is shorter than what it replaces. Raises `NoSummary`, `BudgetSpent`,
        `StoreUnavailable`."""
        try:
            async with asyncio.timeout(limits.COMPACTION_TIMEOUT_S):
                lighter = compaction_plan.pruned(wanted.entries, kept=0)
                scrub = self.scrubber.for_chat(str(wanted.session.key)).scrub
                lists = [wanted.entries, *([lighter] if lighter != list(wanted.entries) else [])]
                attempts = [compaction_plan.material(entries, scrub) for entries in lists]
                room = self._room(wanted, wanted.prior)
                for lines in attempts:
                    if compaction_plan.size_of(lines) <= room:
                        try:
                            return await self._alone(wanted, lines)
                        except ContextTooLong:
                            room = min(room, compaction_plan.size_of(lines) // 2)
                try:
                    return await self._in_chunks(wanted, attempts[-1], room)
                except ContextTooLong:
                    return await self._without_middle(wanted, attempts[-1], room)
        except ContextTooLong as error:
            raise NoSummary("the material is too long for the model, even without its middle") from error
        except BudgetSpent:
            raise  # the turn itself would cost more: its user is told that, not that the conversation is too long
        except ModelError as error:
            raise NoSummary(str(error)) from error
        except TimeoutError as error:
            raise NoSummary("the time for it is over") from error

    async def _in_chunks(self, wanted: SummaryOrder, lines: Sequence[CleanText], room: int) -> CleanText:
        """Summarize chunk after chunk, each with the summary of all before it. A refused chunk is halved."""
        so_far, rest, read, calls = wanted.prior, tuple(lines), estimate_tokens(wanted.prior or ""), 0
        while rest:
            room = min(room, self._room(wanted, so_far))
            calls += 1
            if (
                room < limits.MATERIAL_TOKENS_MIN
                or calls > limits.SUMMARY_CHUNKS_MAX
                or compaction_plan.size_of(rest) > room * limits.SUMMARY_CHUNKS_MAX
            ):
                raise ContextTooLong("too many chunks")
            chunk, behind = compaction_plan.first_chunk(rest, room)
            try:
                so_far = await self._call(wanted, chunk, so_far, replaced_tokens=read + compaction_plan.size_of(chunk))
            except ContextTooLong:
                room //= 2
            else:
                read += compaction_plan.size_of(chunk)
                rest = behind
        if so_far is None:
            raise NoSummary("there is nothing to summarize")
        return so_far

    async def _without_middle(self, wanted: SummaryOrder, lines: Sequence[CleanText], room: int) -> CleanText:
        room = min(room, self._room(wanted, wanted.prior))
        while True:
            lines = compaction_plan.without_middle(lines)
            if compaction_plan.size_of(lines) <= max(room, limits.MATERIAL_TOKENS_MIN):
                try:
                    return await self._alone(wanted, lines)
                except ContextTooLong:
                    if compaction_plan.size_of(lines) <= limits.MATERIAL_TOKENS_MIN:
                        raise

    def _room(self, wanted: SummaryOrder, prior: CleanText | None) -> int:
        model = self.models.utility(wanted.session)
        planned = self.models.budget(model).planned
        return compaction_plan.material_room(
            planned, self._answer_max(model), system=PROMPTS.summary, prior=prior, focus=wanted.focus
        )

    def _answer_max(self, model: str) -> int:
        thought = limits.SUMMARY_THOUGHT_TOKENS if self.models.client.facts(model).is_reasoning else 0
        return compaction_plan.bounded(self.tokens_max + thought, self.models.budget(model).planned)

    async def _alone(self, wanted: SummaryOrder, lines: Sequence[CleanText]) -> CleanText:
        replaced = compaction_plan.size_of(lines) + estimate_tokens(wanted.prior or "")
        return await self._call(wanted, lines, wanted.prior, replaced_tokens=replaced)

    async def _call(
        self, wanted: SummaryOrder, lines: Sequence[CleanText], prior: CleanText | None, *, replaced_tokens: int
    ) -> CleanText:
        """Ask for a summary, and for one of half the length if the first is cut short. Raises `NoSummary` and the
        `ModelError` tree."""
        tokens = compaction_plan.bounded(
            self.tokens_max, self.models.budget(self.models.utility(wanted.session)).planned
        )
        answer = await self._answer(wanted, lines, prior, tokens)
        if answer.ending is StopReason.CUT:
            answer = await self._answer(wanted, lines, prior, tokens // 2)
        if not compaction_plan.is_usable(answer, replaced_tokens=replaced_tokens):
            raise UnusableSummary(f"the summary is empty, cut short or too long (finish reason {answer.finish_reason})")
        return self.scrubber.for_chat(str(wanted.session.key)).scrub(answer.text.strip())

    async def _answer(
        self, wanted: SummaryOrder, lines: Sequence[CleanText], prior: CleanText | None, tokens: int
    ) -> ModelAnswer:
        """Ask once for a summary of about `tokens` tokens, retries included, within the time limit."""
        model = self.models.utility(wanted.session)
        length = self.scrubber.for_chat(str(wanted.session.key)).scrub(compaction_plan.length_note(tokens))
        request = ModelRequest(
            model=model,
            purpose=UsagePurpose.COMPACTION,
            key=wanted.session.key,
            system=PROMPTS.summary,
            messages=compaction_plan.summary_request(lines, length=length, prior=prior, focus=wanted.focus),
            completion_tokens_max=self._answer_max(model),
            temperature=limits.SUMMARY_TEMPERATURE,
            timeout_s=limits.SUMMARY_TIMEOUT_S,
            backoff_s=limits.SUMMARY_BACKOFF_S,
            permit=wanted.permit,
            otherwise=self.models.of_session(wanted.session),
        )
        async with asyncio.timeout(limits.SUMMARY_TIMEOUT_S):
            answer = await ask(self.client, request)
        usage = usage_of(answer, wanted.session.key, UsagePurpose.COMPACTION, now_ms=self.clock.now_ms())
        await self.store.sessions.charge([usage], session_id=wanted.session.id)
        return answer


# Summarises the older part of a session when its next prompt would not fit, or when asked to.


_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Compaction:
    """The outcome for a view: how many messages the summary replaces, or, with none, whether making it failed."""

    view: tuple[Entry, ...]
    messages: int = 0
    has_failed: bool = False


class Compactor:
    """The built-in sub-agent that writes summaries. A failure leaves the session as it was.

    The summary is stored under the turn's fence, in one statement of its own: a crash before it costs a call and
    changes nothing, and of two compactions at once the stale one is refused."""

    def __init__(self, ladder: Summarizer, store: Store, clock: Clock) -> None:
        self._ladder = ladder
        self._store = store
        self._clock = clock
        self._resting: BoundedDict[str, set[int]] = BoundedDict(limits.SUMMARY_RESTS_MAX)
        """The sessions whose summary was unusable, with the fences of the turns since."""

    async def compact(
        self,
        session: Session,
        view: Sequence[Entry],
        *,
        fence: int,
        budget: PromptBudget | None,
        permit: Permit,
        focus: CleanText | None = None,
    ) -> Compaction:
        """Compact the view and return it: summary and tail, or `view` unchanged if nothing could be summarised.

        `budget` None means manual: everything is summarised. Raises `Fenced` and `StoreUnavailable`."""
        plan = compaction_plan.plan_compaction(view, budget)
        if plan is None:
            return Compaction(tuple(view))
        if budget is not None and self._rests(session, fence):
            return Compaction(tuple(view), has_failed=True)
        text = await self.summarise(SummaryOrder(session, plan.head, plan.prior, focus, permit), fence=fence)
        if text is None:
            return Compaction(tuple(view), has_failed=True)
        stored = await self._store.transcript.append_compaction(
            session.id, fence=fence, key=session.key, entry=self._entry(text, plan)
        )
        messages = sum(entry.kind is EntryKind.MESSAGE for entry in plan.head)
        _log.info("session.compacted", session_id=session.id, messages=messages)
        tail = (kept for kept in view if kept.seq >= plan.tail_start_seq and kept.kind is not EntryKind.COMPACTION)
        return Compaction((stored, *tail), messages)

    async def summarise(self, wanted: SummaryOrder, *, fence: int) -> CleanText | None:
        """Summarize without storing the summary; None (and a warning in the log) if there is none."""
        session_id = wanted.session.id
        try:
            text = await self._ladder.summarize(wanted)
            self._resting.pop(session_id, None)
            return text
        except NoSummary as failure:
            if isinstance(failure, UnusableSummary):
                self._resting[session_id] = {fence}
            _log.warning("session.compaction_failed", session_id=session_id, reason=str(failure))
            return None

    def _rests(self, session: Session, fence: int) -> bool:
        """Tell whether a summary of this session was unusable so few turns ago that another would be paid for
        in vain."""
        turns = self._resting.get(session.id)
        if turns is None:
            return False
        turns.add(fence)
        if len(turns) <= limits.SUMMARY_REST_TURNS:
            return True
        del self._resting[session.id]
        return False

    def _entry(self, text: CleanText, plan: compaction_plan.CompactionPlan) -> Entry:
        return Entry(
            Role.ASSISTANT,
            text,
            kind=EntryKind.COMPACTION,
            tail_start_seq=plan.tail_start_seq,
            created_at_ms=self._clock.now_ms(),
        )
