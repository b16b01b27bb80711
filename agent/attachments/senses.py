"""What other models make of files that the model of a turn cannot take in itself: words of a recording, a description
of an image. Each is asked once for a file, metered, and charged to whoever sent it."""

from __future__ import annotations

from typing import Final

import structlog

from agent.attachments.occasion import Occasion
from agent.limits import DESCRIPTION_TIMEOUT_S, DESCRIPTION_TOKENS_MAX, SPOKEN_CHARS_MAX, TRANSCRIPTION_TIMEOUT_S
from agent.model.calling import ModelClient
from agent.model.client import Ending, ModelRequest, PromptMessage, ask
from agent.model.transcription import TranscriptionModel, TranscriptionRequest
from agent.prompts.library import PROMPTS
from agent.usage.ledger import usage_of
from gateway.contracts.alongside import Image
from gateway.contracts.entries import Role, Usage, UsagePurpose
from gateway.contracts.errors import StoreError
from gateway.contracts.messages import CleanText, clipped, own_words
from gateway.contracts.ports import Clock, Scrubber
from gateway.store import Store

_log = structlog.get_logger(__name__)
_ASKED: Final = own_words("Describe this image.")


class Ears:
    """Writes down what is said in a recording."""

    def __init__(self, inner: TranscriptionModel, model: str, store: Store, scrubber: Scrubber, clock: Clock) -> None:
        self._inner = inner
        self._model = model
        self._store = store
        self._scrubber = scrubber
        self._clock = clock

    async def words(self, name: str, media_type: str, content: bytes, occasion: Occasion) -> CleanText:
        """What is said; empty for silence. Raises the `ModelError` tree."""
        key = occasion.session.key
        request = TranscriptionRequest(
            self._model,
            key,
            name,
            media_type,
            content,
            language=occasion.language,
            timeout_s=TRANSCRIPTION_TIMEOUT_S,
            turn_id=occasion.turn_id,
            permit=occasion.permit,
        )
        answer = await self._inner.transcribe(request)
        usage = Usage(
            key,
            UsagePurpose.TRANSCRIPTION,
            self._model,
            prompt_tokens=answer.tokens.prompt,
            completion_tokens=answer.tokens.completion,
            cost_usd=answer.cost_usd,
            turn_id=occasion.turn_id,
            created_at_ms=self._clock.now_ms(),
        )
        await _charge(self._store, usage, occasion)
        return clipped(self._scrubber.for_chat(str(key)).scrub(answer.text.strip()), SPOKEN_CHARS_MAX)


class Eyes:
    """Says what is to be seen on an image, for a model that cannot look at it."""

    def __init__(self, client: ModelClient, model: str, store: Store, scrubber: Scrubber, clock: Clock) -> None:
        self._client = client
        self._model = model
        self._store = store
        self._scrubber = scrubber
        self._clock = clock

    async def description(self, image: Image, occasion: Occasion) -> CleanText:
        """A few sentences. Raises the `ModelError` tree."""
        key = occasion.session.key
        request = ModelRequest(
            model=self._model,
            purpose=UsagePurpose.VISION,
            key=key,
            system=PROMPTS.look,
            messages=(PromptMessage(Role.USER, _ASKED, images=(image,)),),
            completion_tokens_max=DESCRIPTION_TOKENS_MAX,
            timeout_s=DESCRIPTION_TIMEOUT_S,
            turn_id=occasion.turn_id,
            permit=occasion.permit,
        )
        answer = await ask(self._client, request)
        usage = usage_of(answer, key, UsagePurpose.VISION, now_ms=self._clock.now_ms(), turn_id=occasion.turn_id)
        await _charge(self._store, usage, occasion)
        said = answer.text.strip()
        if said and answer.ending is not Ending.OWN:
            said += " […]"
        return self._scrubber.for_chat(str(key)).scrub(said)


async def _charge(store: Store, usage: Usage, occasion: Occasion) -> None:
    """At once, and not with the turn: should that be taken again, nobody asks for the same a second time."""
    try:
        await store.sessions.charge([usage], session_id=occasion.session.id)
    except StoreError as error:
        _log.warning("attachment.cost_not_recorded", reason=str(error))
