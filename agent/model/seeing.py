"""Images are shown to models that see, and to no others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import structlog

from agent.model.around import AroundClient
from agent.model.client import ModelEvent, ModelRequest
from gateway.contracts.errors import ModelRejected

_log = structlog.get_logger(__name__)


class SeeingClient(AroundClient):
    """A `ModelClient` that takes the images out of a prompt for a model that sees none.

    A provider that refuses a prompt with images is asked once more without them: an image that it does not like would
    otherwise cost its author the whole conversation, for it stands in every prompt that follows.
    """

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """The inner stream."""
        if not request.has_images:
            pass
        elif not self.facts(request.model).sees:
            request = _blind(request)
        else:
            has_begun = False
            try:
                async for event in self._inner.stream(request):
                    has_begun = True
                    yield event
                return
            except ModelRejected as error:
                if has_begun or error.needs_operator:
                    raise
                _log.warning("model.images_refused", model=request.model, reason=str(error))
            await request.permit()
            request = _blind(request)
        async for event in self._inner.stream(request):
            yield event


def _blind(request: ModelRequest) -> ModelRequest:
    return replace(request, messages=tuple(replace(message, images=()) for message in request.messages))
