"""The only importer of litellm.

litellm is loaded at the first call, in a thread: importing it costs seconds of CPU and about 190 MB.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from typing import Any, Final

from agent.model.catalog import ModelCatalog
from agent.model.client import (
    ModelAnswer,
    ModelEvent,
    ModelFacts,
    ModelRequest,
    PromptMessage,
    RequestedCall,
    TextDelta,
    TokenCount,
    ToolSpec,
    price_usd,
    request_chars,
)
from agent.tokens import estimate_tokens
from gateway.contracts.entries import Role
from gateway.contracts.errors import ContextTooLong, ModelError, ModelRejected, ModelTooSlow, ModelUnavailable

_TRANSIENT_STATUS: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_LOGGERS: Final = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy")
_SPENT_WORDS: Final = ("insufficient_quota", "exceeded your current quota", "credit balance", "billing")
_TOO_LONG_WORDS: Final = (
    "context length",
    "context_length",
    "maximum context",
    "prompt is too long",
    "too many tokens",
)


class LitellmClient:
    """`ModelClient` on litellm. `api_base` and `api_key`, where given, go to every call."""

    def __init__(self, catalog: ModelCatalog, *, api_base: str = "", api_key: str = "") -> None:
        self._catalog = catalog
        self._api_base = api_base
        self._endpoint = {name: value for name, value in (("api_base", api_base), ("api_key", api_key)) if value}
        self._loading = asyncio.Lock()
        self._litellm: Any = None

    def facts(self, model: str) -> ModelFacts:
        """From litellm's price map, without importing litellm. With an address of its own, all go to one provider."""
        facts = self._catalog.facts(model)
        return replace(facts, provider=self._api_base) if self._api_base else facts

    def check_name(self, model: str) -> None:
        """As litellm's price map and its list of providers have it."""
        self._catalog.check_name(model)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """One attempt. Raises `ModelUnavailable`, `ModelTooSlow`, `ModelRejected` or `ContextTooLong`."""
        litellm = await self._load()
        gathered = _Gathered()
        try:
            async with asyncio.timeout(request.timeout_s):
                chunks = await litellm.acompletion(**_arguments(request), **self._endpoint)
                async for chunk in chunks:
                    if text := gathered.add(chunk):
                        yield TextDelta(text)
        except TimeoutError as error:
            raise ModelTooSlow(request.timeout_s) from error
        except (litellm.exceptions.openai.OpenAIError, litellm.exceptions.httpx.HTTPError) as error:
            raise _translated(error, litellm) from None  # litellm's text may hold the prompt: keep it out of logs
        yield self._answer(request, gathered)

    async def close(self) -> None:
        """Close litellm's cached HTTP clients, if litellm was ever loaded."""
        if self._litellm is not None:
            await self._litellm.close_litellm_async_clients()

    async def _load(self) -> Any:
        async with self._loading:
            if self._litellm is None:
                self._litellm = await asyncio.to_thread(_import_litellm)
        return self._litellm

    def _answer(self, request: ModelRequest, gathered: _Gathered) -> ModelAnswer:
        tokens = gathered.tokens or TokenCount(
            prompt=request_chars(request.system, request.messages) // 4,
            completion=estimate_tokens(gathered.text),
        )
        return ModelAnswer(
            text=gathered.text,
            calls=gathered.requested_calls(),
            finish_reason=gathered.finish_reason or "stop",
            tokens=tokens,
            cost_usd=price_usd(tokens, self._catalog.facts(request.model).prices_usd),
            model=request.model,
        )


def _import_litellm() -> Any:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # read at import: no download of a price map
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")  # no search for .env files
    # Seconds of CPU and 190 MB, paid at the first call and by this process only. The second is what litellm itself
    # would load in the middle of that call, in the event loop, where everybody else would wait for it.
    import litellm  # noqa: PLC0415
    import openai.resources  # noqa: F401, PLC0415

    litellm.telemetry = False
    litellm.suppress_debug_info = True
    litellm.turn_off_message_logging = True
    litellm.drop_params = True  # a model that knows no temperature still answers
    litellm.num_retries = 0
    for name in _LOGGERS:  # they write past our scrubbing, and what the model says delta by delta
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.setLevel(logging.WARNING)
    return litellm


def _arguments(request: ModelRequest) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "model": request.model,
        "messages": [
            {"role": "system", "content": request.system},
            *map(_wire_message, request.messages),
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "timeout": request.timeout_s,
        "num_retries": 0,
        "max_retries": 0,
    }
    if request.tools:
        arguments["tools"] = [_wire_tool(tool) for tool in request.tools]
    if request.completion_tokens_max is not None:
        arguments["max_tokens"] = request.completion_tokens_max
    if request.temperature is not None:
        arguments["temperature"] = request.temperature
    return arguments


def _wire_message(message: PromptMessage) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": message.role.value, "content": message.text}
    if message.tool_calls:
        wire["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.role is Role.TOOL:
        wire["tool_call_id"] = message.tool_call_id
    return wire


def _wire_tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": dict(tool.schema)},
    }


@dataclass(slots=True)
class _PartialCall:
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(slots=True)
class _Gathered:
    """A stream of chunks put together."""

    pieces: list[str] = field(default_factory=list)
    calls: dict[int, _PartialCall] = field(default_factory=dict)
    finish_reason: str = ""
    tokens: TokenCount | None = None

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def add(self, chunk: Any) -> str:
        """Take one chunk in; returns the text it carried."""
        if usage := getattr(chunk, "usage", None):
            self.tokens = _token_count(usage)
        if not chunk.choices:
            return ""
        choice = chunk.choices[0]
        self.finish_reason = choice.finish_reason or self.finish_reason
        for call in getattr(choice.delta, "tool_calls", None) or ():
            self._add_call(call)
        text = choice.delta.content or ""
        if text:
            self.pieces.append(text)
        return str(text)

    def _add_call(self, call: Any) -> None:
        partial = self.calls.setdefault(call.index or 0, _PartialCall())
        partial.id = call.id or partial.id
        partial.name = call.function.name or partial.name
        partial.arguments += call.function.arguments or ""

    def requested_calls(self) -> tuple[RequestedCall, ...]:
        return tuple(
            RequestedCall(call.id or f"call_{index}", call.name, call.arguments)
            for index, call in sorted(self.calls.items())
            if call.name
        )


def _token_count(usage: Any) -> TokenCount:
    details = getattr(usage, "prompt_tokens_details", None)
    return TokenCount(
        prompt=usage.prompt_tokens or 0,
        completion=usage.completion_tokens or 0,
        cached=getattr(details, "cached_tokens", 0) or 0,
    )


def _translated(error: Exception, litellm: Any) -> ModelError:
    """Ours for theirs. The text names the class and the status, never the prompt, a URL or a key."""
    status = getattr(error, "status_code", None)
    said = str(error).lower()
    what = f"{type(error).__name__} (status {status})"
    if isinstance(error, litellm.ContextWindowExceededError) or _says(said, _TOO_LONG_WORDS):
        return ContextTooLong(what)
    if _says(said, _SPENT_WORDS):
        return ModelRejected(f"{what}: quota spent")
    is_network = isinstance(error, litellm.exceptions.openai.APIConnectionError | litellm.exceptions.httpx.HTTPError)
    if is_network or status in _TRANSIENT_STATUS:
        return ModelUnavailable(what, retry_after_s=_retry_after_s(error))
    return ModelRejected(what)


def _says(text: str, words: Sequence[str]) -> bool:
    return any(word in text for word in words)


def _retry_after_s(error: Exception) -> float | None:
    """What the provider asked for, in its own header or the standard one; a date is told by the provider's clock."""
    headers = getattr(error, "litellm_response_headers", None) or {}
    if _is_number(in_ms := str(headers.get("retry-after-ms", ""))):
        return float(in_ms) / 1000
    value = str(headers.get("retry-after", ""))
    if _is_number(value):
        return float(value)
    try:
        waiting = parsedate_to_datetime(value) - parsedate_to_datetime(str(headers.get("date", "")))
    except (TypeError, ValueError):
        return None
    return max(waiting.total_seconds(), 0.0)


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdecimal()
