"""Summarises the older part of a session when its next prompt would not fit, or when asked to."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from agent.compacting.ladder import Ladder, NoSummary, UnusableSummary, Wanted
from agent.compacting.plan import Plan, plan_compaction
from agent.context import Budget
from agent.limits import SUMMARY_REST_TURNS, SUMMARY_RESTS_MAX
from agent.model.client import Permit
from gateway.contracts.entries import Entry, EntryKind, Role, Session
from gateway.contracts.messages import CleanText
from gateway.contracts.ports import Clock
from gateway.store import Store

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Compaction:
    """What became of a view: how many messages the summary stands for, or, with none, whether making it failed."""

    view: tuple[Entry, ...]
    messages: int = 0
    has_failed: bool = False


class Compactor:
    """The built-in sub-agent that writes summaries. A failure leaves the session as it was.

    The summary is stored under the turn's fence, in one statement of its own: a crash before it costs a call and
    changes nothing, and of two compactions at once the stale one is refused.
    """

    def __init__(self, ladder: Ladder, store: Store, clock: Clock) -> None:
        self._ladder = ladder
        self._store = store
        self._clock = clock
        self._resting: OrderedDict[str, set[int]] = OrderedDict()
        """The sessions whose summary was unusable, with the fences of the turns since."""

    async def compact(
        self,
        session: Session,
        view: Sequence[Entry],
        *,
        fence: int,
        budget: Budget | None,
        permit: Permit,
        focus: CleanText | None = None,
    ) -> Compaction:
        """The view afterwards: summary and tail, or `view` unchanged if nothing could be summarised.

        `budget` None means manual: everything is summarised. Raises `Fenced` and `StoreUnavailable`.
        """
        plan = plan_compaction(view, budget)
        if plan is None:
            return Compaction(tuple(view))
        if budget is not None and self._rests(session, fence):
            return Compaction(tuple(view), has_failed=True)
        text = await self.summarise(session, plan.head, fence=fence, prior=plan.prior, permit=permit, focus=focus)
        if text is None:
            return Compaction(tuple(view), has_failed=True)
        stored = await self._store.transcript.append_compaction(
            session.id, fence=fence, key=session.key, entry=self._entry(text, plan)
        )
        messages = sum(entry.kind is EntryKind.MESSAGE for entry in plan.head)
        _log.info("session.compacted", session_id=session.id, messages=messages)
        tail = (kept for kept in view if kept.seq >= plan.tail_start_seq and kept.kind is not EntryKind.COMPACTION)
        return Compaction((stored, *tail), messages)

    async def summarise(
        self,
        session: Session,
        entries: tuple[Entry, ...],
        *,
        fence: int,
        prior: CleanText | None,
        permit: Permit,
        focus: CleanText | None = None,
    ) -> CleanText | None:
        """A summary of `entries` that nobody has stored; None (and a warning in the log) if there is none."""
        try:
            text = await self._ladder.climb(Wanted(session, entries, prior, focus, permit))
            self._resting.pop(session.id, None)
            return text
        except NoSummary as failure:
            if isinstance(failure, UnusableSummary):
                self._resting[session.id] = {fence}
            if len(self._resting) > SUMMARY_RESTS_MAX:
                self._resting.popitem(last=False)
            _log.warning("session.compaction_failed", session_id=session.id, reason=str(failure))
            return None

    def _rests(self, session: Session, fence: int) -> bool:
        """Whether a summary of this session was unusable so few turns ago that another would be paid for in vain."""
        turns = self._resting.get(session.id)
        if turns is None:
            return False
        turns.add(fence)
        if len(turns) <= SUMMARY_REST_TURNS:
            return True
        del self._resting[session.id]
        return False

    def _entry(self, text: CleanText, plan: Plan) -> Entry:
        return Entry(
            Role.ASSISTANT,
            text,
            kind=EntryKind.COMPACTION,
            tail_start_seq=plan.tail_start_seq,
            created_at_ms=self._clock.now_ms(),
        )
