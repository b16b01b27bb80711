"""One real completion: `python -m agent.trial`. Do the model, its key and its address work?

Says what the model said.
"""

from __future__ import annotations

from typing import Final, NoReturn

from agent.limits import TRIAL_CHARS_MAX, TRIAL_TIMEOUT_S, TRIAL_TOKENS_MAX
from agent.model.client import ModelAnswer, ModelClient, ModelRequest, PromptMessage
from agent.model_clients import model_clients
from agent.one_shot import answer_once
from gateway.config import Settings
from gateway.contracts.entries import Role, UsagePurpose
from gateway.contracts.errors import ModelError
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import own_words
from gateway.scrub import Scrubber

_SYSTEM: Final = own_words("You are being tried. Answer in one short sentence.")
_QUESTION: Final = own_words("Say hello.")
_NOBODY: Final = SessionKey("cli", "trial")


def main() -> NoReturn:
    """Try the configured model."""
    answer_once(_tried)


async def _tried(settings: Settings, scrubber: Scrubber) -> str:
    return await _said(model_clients(settings).client, settings.agent.model, scrubber)


async def _said(client: ModelClient, model: str, scrubber: Scrubber) -> str:
    """The beginning of the answer, on one line. Raises `ModelError`."""
    request = ModelRequest(
        model,
        UsagePurpose.TURN,
        _NOBODY,
        _SYSTEM,
        (PromptMessage(Role.USER, _QUESTION),),
        completion_tokens_max=TRIAL_TOKENS_MAX,
        timeout_s=TRIAL_TIMEOUT_S,
        backoff_s=(),
    )
    try:
        async for event in client.stream(request):
            if isinstance(event, ModelAnswer):
                return " ".join(scrubber.scrub(event.text).split())[:TRIAL_CHARS_MAX]
    finally:
        await client.close()
    raise ModelError("the model said nothing at all")


if __name__ == "__main__":
    main()
