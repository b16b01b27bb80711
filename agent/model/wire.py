"""A request as litellm takes it: the shapes of the OpenAI chat API. Pure."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

from agent.model.client import ModelFacts, ModelRequest, PromptMessage, ToolSpec
from agent.model.endpoints import Endpoint
from gateway.contracts.alongside import Image
from gateway.contracts.entries import Role, UsagePurpose

_CACHE_UP_TO: Final = ({"location": "message", "role": "system"}, {"location": "message", "index": -1})
"""Where a provider that has to be told shall cache: up to the system prompt, which many prompts share, and up to the
newest message, which the next prompt will hold, too. Only a turn has a next one."""


_LONG_WORK: Final = frozenset({UsagePurpose.TURN, UsagePurpose.PLAN, UsagePurpose.SUBAGENT})
_LONG_EFFORTS: Final = frozenset({"medium", "high"})
_SHORT_EFFORT: Final = "low"
"""What is small has few tokens for its answer: a long thought would leave none of them."""


def addressed(endpoint: Endpoint) -> dict[str, Any]:
    """The arguments of every call that say who is called, and with which key."""
    given: dict[str, Any] = {"model": endpoint.model}
    if endpoint.api_base:
        given["api_base"] = endpoint.api_base
    if endpoint.api_key:
        given["api_key"] = endpoint.api_key
    if endpoint.headers:
        given["extra_headers"] = dict(endpoint.headers)
    return given


def arguments(
    request: ModelRequest, endpoint: Endpoint, facts: ModelFacts, pictures: Mapping[Image, bytes]
) -> dict[str, Any]:
    """What `acompletion` is called with. Of the images of the prompt those are shown that are among `pictures`. The
    request may bound what its endpoint allows, and knows its temperature better."""
    given: dict[str, Any] = {
        **addressed(endpoint),
        "messages": [
            {"role": "system", "content": request.system},
            *(_message(message, pictures) for message in request.messages),
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "timeout": request.timeout_s,
        "num_retries": 0,
        "max_retries": 0,
    }
    if request.tools:
        given["tools"] = [_tool(tool) for tool in request.tools]
    limits = [limit for limit in (request.completion_tokens_max, endpoint.max_tokens) if limit is not None]
    if limits:
        given["max_tokens"] = min(limits)
    temperature = endpoint.temperature if request.temperature is None else request.temperature
    if temperature is not None:
        given["temperature"] = temperature
    if effort := endpoint.reasoning_effort:
        is_short = request.purpose not in _LONG_WORK and effort in _LONG_EFFORTS
        given["reasoning_effort"] = _SHORT_EFFORT if is_short else effort
    if request.purpose is UsagePurpose.TURN and facts.is_told_to_cache:
        given["cache_control_injection_points"] = _CACHE_UP_TO
    return given


def _message(message: PromptMessage, pictures: Mapping[Image, bytes]) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": message.role.value, "content": message.text}
    if shown := [image for image in message.images if image in pictures]:
        wire["content"] = [
            {"type": "text", "text": message.text},
            *(_picture(image, pictures[image]) for image in shown),
        ]
    if message.tool_calls:
        wire["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.role is Role.TOOL:
        wire["tool_call_id"] = message.tool_call_id
    return wire


def _picture(image: Image, content: bytes) -> dict[str, Any]:
    address = f"data:{image.media_type};base64,{base64.b64encode(content).decode('ascii')}"
    return {"type": "image_url", "image_url": {"url": address}}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": dict(tool.schema)},
    }
