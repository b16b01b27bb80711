"""Gives a session its title, beside the reply and never in its way (agent.md section 5)."""

from __future__ import annotations

import structlog

from agent.ledger import usage_of
from agent.limits import (
    TITLE_REASONING_TOKENS_MAX,
    TITLE_TEMPERATURE,
    TITLE_TIMEOUT_S,
    TITLE_TOKENS_MAX,
    TITLE_TRIES_MAX,
)
from agent.model.client import ModelClient, ModelRequest, Permit, ask
from agent.models import Models
from agent.prompts.library import PROMPTS
from agent.titling import first_request, sanitize_title
from gateway.contracts.entries import UNTITLED, Session, UsagePurpose
from gateway.contracts.errors import BudgetSpent, ModelError, StoreError
from gateway.contracts.messages import CleanText
from gateway.contracts.ports import Clock, Scrubber, Store

_log = structlog.get_logger(__name__)


class Titler:
    """The built-in sub-agent that names conversations. Its failures are logged, never shown."""

    def __init__(self, client: ModelClient, models: Models, store: Store, scrubber: Scrubber, clock: Clock) -> None:
        self._client = client
        self._models = models
        self._store = store
        self._scrubber = scrubber
        self._clock = clock

    async def title(self, session: Session, first_text: CleanText, *, turn_id: str, permit: Permit) -> None:
        """Title `session` beside that turn, if it still has no title. Two workers never pay for the same title."""
        if session.title != UNTITLED or not first_text.strip():
            return
        try:
            if await self._store.claim_title(session.id, tries_max=TITLE_TRIES_MAX):
                await self._make(session, first_text, turn_id, permit)
        except BudgetSpent:
            _log.info("title.skipped", session_id=session.id)  # the turn itself says why
        except (ModelError, StoreError) as error:
            _log.warning("title.failed", session_id=session.id, reason=str(error))

    async def _make(self, session: Session, first_text: CleanText, turn_id: str, permit: Permit) -> None:
        model = self._models.utility(session)
        is_reasoning = self._models.facts(model).is_reasoning
        request = ModelRequest(
            model=model,
            purpose=UsagePurpose.TITLE,
            key=session.key,
            system=PROMPTS.title,
            messages=first_request(first_text),
            completion_tokens_max=TITLE_REASONING_TOKENS_MAX if is_reasoning else TITLE_TOKENS_MAX,
            temperature=TITLE_TEMPERATURE,
            timeout_s=TITLE_TIMEOUT_S,
            turn_id=turn_id,
            permit=permit,
        )
        answer = await ask(self._client, request)
        usage = usage_of(answer, session.key, UsagePurpose.TITLE, now_ms=self._clock.now_ms())
        await self._store.record_usage([usage], session_id=session.id)
        title = sanitize_title(self._scrubber.scrub(answer.text))
        if title:
            await self._store.set_title_if_untitled(session.id, self._scrubber.scrub(title))
