"""Gets a summary out of a model, whatever stands in the way: rung by rung, within limits.

    as it is  ──too long──▶  tool outputs pruned  ──too long──▶  in chunks, each with the summary so far
                                                  ──too long──▶  without its middle, until it fits

"Too long" is what our estimate says, or the provider. A summary that is cut short is asked for once more at half the
length. Everything else that goes wrong (the model is away after its
retries, it takes too long, its summary is empty, cut short or no shorter than what it replaces) ends the climb.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from agent.compacting.pruning import pruned
from agent.compacting.summary import (
    bounded,
    first_chunk,
    is_usable,
    length_note,
    material,
    material_room,
    size_of,
    summary_request,
    without_middle,
)
from agent.limits import (
    COMPACTION_TIMEOUT_S,
    MATERIAL_TOKENS_MIN,
    SUMMARY_BACKOFF_S,
    SUMMARY_CHUNKS_MAX,
    SUMMARY_TEMPERATURE,
    SUMMARY_THOUGHT_TOKENS,
    SUMMARY_TIMEOUT_S,
    SUMMARY_TOKENS_MAX,
)
from agent.model.calling import ModelClient
from agent.model.client import Ending, ModelAnswer, ModelRequest, Permit, ask
from agent.models import Models
from agent.prompts.library import PROMPTS
from agent.tokens import estimate_tokens
from agent.usage.ledger import usage_of
from gateway.contracts.entries import Entry, Session, UsagePurpose
from gateway.contracts.errors import BudgetSpent, ContextTooLong, ModelError
from gateway.contracts.messages import CleanText
from gateway.contracts.ports import Clock, Scrubber
from gateway.store import Store


class NoSummary(Exception):
    """There is no usable summary; the reason is for the log."""


class UnusableSummary(NoSummary):
    """The model wrote one that is empty, cut short or too long: asked again soon, it would do the same."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to summarise, and for whom. `prior` is the summary of what came before `entries`."""

    session: Session
    entries: tuple[Entry, ...]
    prior: CleanText | None
    focus: CleanText | None
    permit: Permit


class Ladder:
    """Makes summaries with the cheap model; every call is charged to the session's user, used or not."""

    def __init__(
        self,
        client: ModelClient,
        models: Models,
        store: Store,
        scrubber: Scrubber,
        clock: Clock,
        *,
        tokens_max: int = SUMMARY_TOKENS_MAX,
    ) -> None:
        """`tokens_max` is the length of a summary; what a model thinks before it comes on top."""
        self._client = client
        self._models = models
        self._store = store
        self._scrubber = scrubber
        self._clock = clock
        self._tokens_max = tokens_max

    async def climb(self, wanted: Wanted) -> CleanText:
        """A summary that is shorter than what it replaces. Raises `NoSummary`, `BudgetSpent`, `StoreUnavailable`."""
        try:
            async with asyncio.timeout(COMPACTION_TIMEOUT_S):
                return await self._whole(wanted)
        except ContextTooLong as error:
            raise NoSummary("the material is too long for the model, even without its middle") from error
        except BudgetSpent:
            raise  # the turn itself would cost more: its user is told that, not that the conversation is too long
        except ModelError as error:
            raise NoSummary(str(error)) from error
        except TimeoutError as error:
            raise NoSummary("the time for it is over") from error

    async def _whole(self, wanted: Wanted) -> CleanText:
        lighter = pruned(wanted.entries, kept=0)
        scrub = self._scrubber.for_chat(str(wanted.session.key)).scrub
        lists = [wanted.entries, *([lighter] if lighter != list(wanted.entries) else [])]
        attempts = [material(entries, scrub) for entries in lists]
        room = self._room(wanted, wanted.prior)
        for lines in attempts:
            if size_of(lines) <= room:
                try:
                    return await self._alone(wanted, lines)
                except ContextTooLong:
                    room = min(room, size_of(lines) // 2)
        try:
            return await self._in_chunks(wanted, attempts[-1], room)
        except ContextTooLong:
            return await self._without_middle(wanted, attempts[-1], room)

    async def _in_chunks(self, wanted: Wanted, lines: Sequence[CleanText], room: int) -> CleanText:
        """Chunk after chunk, each with the summary of all before it. A refused chunk is halved."""
        so_far, rest, read, calls = wanted.prior, tuple(lines), estimate_tokens(wanted.prior or ""), 0
        while rest:
            room = min(room, self._room(wanted, so_far))
            calls += 1
            if room < MATERIAL_TOKENS_MIN or calls > SUMMARY_CHUNKS_MAX or size_of(rest) > room * SUMMARY_CHUNKS_MAX:
                raise ContextTooLong("too many chunks")
            chunk, behind = first_chunk(rest, room)
            try:
                so_far = await self._call(wanted, chunk, so_far, replaced_tokens=read + size_of(chunk))
            except ContextTooLong:
                room //= 2
            else:
                read += size_of(chunk)
                rest = behind
        assert so_far is not None
        return so_far

    async def _without_middle(self, wanted: Wanted, lines: Sequence[CleanText], room: int) -> CleanText:
        room = min(room, self._room(wanted, wanted.prior))
        while True:
            lines = without_middle(lines)
            if size_of(lines) <= max(room, MATERIAL_TOKENS_MIN):
                try:
                    return await self._alone(wanted, lines)
                except ContextTooLong:
                    if size_of(lines) <= MATERIAL_TOKENS_MIN:
                        raise

    def _room(self, wanted: Wanted, prior: CleanText | None) -> int:
        model = self._models.utility(wanted.session)
        window = self._models.budget(model).window
        return material_room(window, self._answer_max(model), system=PROMPTS.summary, prior=prior, focus=wanted.focus)

    def _answer_max(self, model: str) -> int:
        thought = SUMMARY_THOUGHT_TOKENS if self._models.facts(model).is_reasoning else 0
        return bounded(self._tokens_max + thought, self._models.budget(model).window)

    async def _alone(self, wanted: Wanted, lines: Sequence[CleanText]) -> CleanText:
        replaced = size_of(lines) + estimate_tokens(wanted.prior or "")
        return await self._call(wanted, lines, wanted.prior, replaced_tokens=replaced)

    async def _call(
        self, wanted: Wanted, lines: Sequence[CleanText], prior: CleanText | None, *, replaced_tokens: int
    ) -> CleanText:
        """A summary, at half the length if one of the whole is cut short. Raises `NoSummary` and the `ModelError`
        tree."""
        tokens = bounded(self._tokens_max, self._models.budget(self._models.utility(wanted.session)).window)
        answer = await self._answer(wanted, lines, prior, tokens)
        if answer.ending is Ending.CUT:
            answer = await self._answer(wanted, lines, prior, tokens // 2)
        if not is_usable(answer, replaced_tokens=replaced_tokens):
            raise UnusableSummary(f"the summary is empty, cut short or too long (finish reason {answer.finish_reason})")
        return self._scrubber.for_chat(str(wanted.session.key)).scrub(answer.text.strip())

    async def _answer(
        self, wanted: Wanted, lines: Sequence[CleanText], prior: CleanText | None, tokens: int
    ) -> ModelAnswer:
        """One call, its retries included, within its time limit, that asks for a summary of about so many `tokens`."""
        model = self._models.utility(wanted.session)
        length = self._scrubber.for_chat(str(wanted.session.key)).scrub(length_note(tokens))
        request = ModelRequest(
            model=model,
            purpose=UsagePurpose.COMPACTION,
            key=wanted.session.key,
            system=PROMPTS.summary,
            messages=summary_request(lines, length=length, prior=prior, focus=wanted.focus),
            completion_tokens_max=self._answer_max(model),
            temperature=SUMMARY_TEMPERATURE,
            timeout_s=SUMMARY_TIMEOUT_S,
            backoff_s=SUMMARY_BACKOFF_S,
            permit=wanted.permit,
        )
        async with asyncio.timeout(SUMMARY_TIMEOUT_S):
            answer = await ask(self._client, request)
        usage = usage_of(answer, wanted.session.key, UsagePurpose.COMPACTION, now_ms=self._clock.now_ms())
        await self._store.sessions.charge([usage], session_id=wanted.session.id)
        return answer
