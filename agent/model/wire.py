"""A request as litellm takes it: the shapes of the OpenAI chat API. Pure."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

from agent.model.client import ModelFacts, ModelRequest, PromptMessage, ToolSpec
from gateway.contracts.alongside import Image
from gateway.contracts.entries import Role, UsagePurpose

_CACHE_UP_TO: Final = ({"location": "message", "role": "system"}, {"location": "message", "index": -1})
"""Where a provider that has to be told shall cache: up to the system prompt, which many prompts share, and up to the
newest message, which the next prompt will hold, too. Only a turn has a next one."""


def arguments(request: ModelRequest, facts: ModelFacts, pictures: Mapping[Image, bytes]) -> dict[str, Any]:
    """What `acompletion` is called with. Of the images of the prompt those are shown that are among `pictures`."""
    given: dict[str, Any] = {
        "model": request.model,
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
    if request.completion_tokens_max is not None:
        given["max_tokens"] = request.completion_tokens_max
    if request.temperature is not None:
        given["temperature"] = request.temperature
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
