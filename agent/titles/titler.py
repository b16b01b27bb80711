"""Gives a session its title, beside the reply and never in its way (agent.md section 5)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import structlog

from agent.limits import (
    TITLE_CLAIM_S,
    TITLE_REASONING_TOKENS_MAX,
    TITLE_TEMPERATURE,
    TITLE_TIMEOUT_S,
    TITLE_TOKENS_MAX,
    TITLE_TRIES_MAX,
)
from agent.model.client import Ending, ModelAnswer, ModelProvider, ModelRequest, Permit, ask
from agent.models import Models
from agent.prompts.library import PROMPTS
from agent.titles.naming import title_reply
from agent.titles.titling import first_request, sanitize_title
from agent.usage.ledger import usage_of
from gateway.contracts.entries import UNTITLED, Session, UsagePurpose
from gateway.contracts.errors import BudgetSpent, BusError, ModelError, StoreError
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import CleanText, Reply
from gateway.contracts.ports import Clock, Scrubber
from gateway.store import Store

_log = structlog.get_logger(__name__)


class Titler:
    """The built-in sub-agent that names conversations. Its failures are logged, never shown."""

    def __init__(
        self,
        client: ModelProvider,
        models: Models,
        store: Store,
        scrubber: Scrubber,
        clock: Clock,
        publish: Callable[[Sequence[Reply]], Awaitable[None]],
    ) -> None:
        self._client = client
        self._models = models
        self._store = store
        self._scrubber = scrubber
        self._clock = clock
        self._publish = publish

    async def title(
        self, session: Session, *, turn_id: str, permit: Permit, address: ReplyAddress | None = None
    ) -> None:
        """Title `session` beside that turn, if it still has no title; the place at `address` is told. Two workers
        never pay for the same title."""
        if session.title != UNTITLED or session.title_tries >= TITLE_TRIES_MAX:
            return
        try:
            first_text = await self._store.transcript.first_said(session.id)
            if first_text and await self._claim(session):
                title = await self._try(session, first_text, turn_id, permit)
                if title is None or not await self._give(session, title, first_text, turn_id, address):
                    await self._store.sessions.release_title(session.id)
        except StoreError as error:
            _log.warning("title.failed", session_id=session.id, reason=str(error))

    async def _claim(self, session: Session) -> bool:
        return await self._store.sessions.claim_title(
            session.id, tries_max=TITLE_TRIES_MAX, held_ms=int(TITLE_CLAIM_S * 1000), now_ms=self._clock.now_ms()
        )

    async def _try(self, session: Session, first_text: CleanText, turn_id: str, permit: Permit) -> CleanText | None:
        try:
            title = await self._make(session, first_text, turn_id, permit)
        except BudgetSpent:
            _log.info("title.skipped", session_id=session.id)  # the turn itself says why
            return None
        except (ModelError, TimeoutError) as error:
            _log.warning("title.failed", session_id=session.id, reason=f"{type(error).__name__}: {error}")
            return None
        if title in ("", UNTITLED):
            _log.warning("title.failed", session_id=session.id, reason="nothing was left of the model's answer")
            return None
        return title

    async def _give(
        self, session: Session, title: CleanText, made_of: CleanText, turn_id: str, address: ReplyAddress | None
    ) -> bool:
        """One commit for the title and the word of it; what the bus does not take now, the relay brings. False: it has
        one by now, or what this was made of is not there any more."""
        now_ms = self._clock.now_ms()
        telling = (
            title_reply(title, turn_id=turn_id, key=session.key, address=address, now_ms=now_ms) if address else None
        )
        is_given = await self._store.transcript.set_title_if_untitled(
            session.id, title, made_of=made_of, telling=telling
        )
        if is_given and telling:
            try:
                await self._publish([telling])
            except BusError as error:
                _log.info("title.told_later", session_id=session.id, reason=str(error))
        return is_given

    async def _make(self, session: Session, first_text: CleanText, turn_id: str, permit: Permit) -> CleanText:
        """What the model calls it, empty if that is no title. Raises the `ModelError` tree and `TimeoutError`."""
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
        async with asyncio.timeout(TITLE_TIMEOUT_S):
            answer = await ask(self._client, request)
        usage = usage_of(answer, session.key, UsagePurpose.TITLE, now_ms=self._clock.now_ms())
        await self._store.sessions.charge([usage], session_id=session.id)
        return sanitize_title(_whole_lines(answer), self._scrubber.for_chat(str(session.key)).scrub)


def _whole_lines(answer: ModelAnswer) -> str:
    """What of an answer can be a title: of one that was cut off, the lines that have an end; of no answer, nothing."""
    match answer.ending:
        case Ending.OWN:
            return answer.text
        case Ending.CUT:
            return answer.text.rpartition("\n")[0]
    return ""
