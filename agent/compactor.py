"""Summarises the older part of a session when its next prompt would not fit, or when asked to."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from agent.compaction import Plan, is_usable, plan_compaction, summary_request
from agent.context import Budget
from agent.ledger import usage_of
from agent.limits import SUMMARY_TEMPERATURE, SUMMARY_TIMEOUT_S, SUMMARY_TOKENS_MAX
from agent.model.client import ModelClient, ModelRequest, Permit, ask
from agent.models import Models
from agent.prompts.library import PROMPTS
from gateway.contracts.entries import Entry, EntryKind, Role, Session, UsagePurpose
from gateway.contracts.errors import ModelError
from gateway.contracts.messages import CleanText
from gateway.contracts.ports import Clock, Scrubber, Store

_log = structlog.get_logger(__name__)


class Compactor:
    """The built-in sub-agent that writes summaries. A failure leaves the session as it was."""

    def __init__(self, client: ModelClient, models: Models, store: Store, scrubber: Scrubber, clock: Clock) -> None:
        self._client = client
        self._models = models
        self._store = store
        self._scrubber = scrubber
        self._clock = clock

    async def compact(
        self,
        session: Session,
        view: Sequence[Entry],
        *,
        fence: int,
        budget: Budget | None,
        permit: Permit,
        focus: CleanText | None = None,
    ) -> tuple[Entry, ...]:
        """The view afterwards: summary and tail, or `view` unchanged if nothing could be summarised.

        `budget` None means manual: everything is summarised. Raises `Fenced` and `StoreUnavailable`.
        """
        plan = plan_compaction(view, budget)
        if plan is None:
            return tuple(view)
        entry = await self._summarise(session, plan, focus, permit)
        if entry is None:
            return tuple(view)
        stored = await self._store.append_compaction(session.id, fence=fence, key=session.key, entry=entry)
        _log.info("session.compacted", session_id=session.id, entries=len(plan.head))
        return (
            stored,
            *(kept for kept in view if kept.seq >= plan.tail_start_seq and kept.kind is not EntryKind.COMPACTION),
        )

    async def _summarise(self, session: Session, plan: Plan, focus: CleanText | None, permit: Permit) -> Entry | None:
        request = ModelRequest(
            model=self._models.utility(session),
            purpose=UsagePurpose.COMPACTION,
            key=session.key,
            system=PROMPTS.summary,
            messages=summary_request(plan, focus=focus),
            completion_tokens_max=SUMMARY_TOKENS_MAX,
            temperature=SUMMARY_TEMPERATURE,
            timeout_s=SUMMARY_TIMEOUT_S,
            permit=permit,
        )
        try:
            answer = await ask(self._client, request)
        except ModelError as error:
            _log.warning("session.compaction_failed", session_id=session.id, reason=str(error))
            return None
        now_ms = self._clock.now_ms()
        usage = usage_of(answer, session.key, UsagePurpose.COMPACTION, now_ms=now_ms)
        await self._store.record_usage([usage], session_id=session.id)
        if not is_usable(answer, plan):
            _log.warning("session.compaction_failed", session_id=session.id, reason="the summary is unusable")
            return None
        return Entry(
            Role.ASSISTANT,
            self._scrubber.scrub(answer.text.strip()),
            kind=EntryKind.COMPACTION,
            tail_start_seq=plan.tail_start_seq,
            created_at_ms=now_ms,
        )
