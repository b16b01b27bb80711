"""OpenAI's chat completions, as its API reference has them; many other vendors speak them, too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from tests.parts.providers.script import Answer, Body, Call, Fault, FaultKind, Refusal, Usage, Wire

_FAULTS: Final[dict[FaultKind, tuple[int, str, str, str | None]]] = {
    FaultKind.RATE_LIMITED: (
        429,
        "Rate limit reached for gpt-4o-mini in organization org-x on tokens per min. Please try again in 300ms.",
        "tokens",
        "rate_limit_exceeded",
    ),
    FaultKind.OVERLOADED: (503, "The engine is currently overloaded, please try again later", "server_error", None),
    FaultKind.BROKEN: (
        500,
        "The server had an error while processing your request. Sorry about that!",
        "server_error",
        None,
    ),
    FaultKind.TOO_LONG: (
        400,
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 130022 tokens.",
        "invalid_request_error",
        "context_length_exceeded",
    ),
    FaultKind.KEY: (401, "Incorrect API key provided: key-of-t***test.", "invalid_request_error", "invalid_api_key"),
    FaultKind.QUOTA: (
        429,
        "You exceeded your current quota, please check your plan and billing details.",
        "insufficient_quota",
        "insufficient_quota",
    ),
    FaultKind.INVALID: (400, "Invalid value for 'temperature'.", "invalid_request_error", "invalid_value"),
    FaultKind.UNKNOWN_MODEL: (
        404,
        "The model `gpt-9` does not exist or you do not have access to it.",
        "invalid_request_error",
        "model_not_found",
    ),
}


def refusal(fault: Fault) -> Refusal:
    """The fault as the API reports it."""
    status, message, kind, code = _FAULTS[fault.kind]
    return Refusal(status, {"error": {"message": fault.message or message, "type": kind, "param": None, "code": code}})


def events(answer: Answer, model: str) -> Iterator[bytes]:
    """The chunks of one answer, usage and the end included."""
    if answer.is_chatty:
        yield b": PROCESSING\n\n"
        yield _chunk(model, choices=[], prompt_filter_results=[])
    yield _delta(model, {"role": "assistant", "content": "", "refusal": None})
    for thought in answer.thinking:
        yield _delta(model, {"reasoning_content": thought})
    for text in answer.deltas:
        yield _delta(model, {"content": text})
        if answer.is_chatty:
            yield b": PROCESSING\n\n"
            yield _delta(model, {})
    for index, call in enumerate(answer.calls):
        yield from _call(model, index, call)
    if answer.refusal:
        yield _delta(model, {"refusal": answer.refusal})
    if answer.fault is not None:
        yield _event(refusal(answer.fault).body)
        return
    if answer.is_cut and not answer.finish:
        return
    finish = answer.finish if answer.finish != "" else ("tool_calls" if answer.calls else "stop")
    yield _delta(model, {}, finish)
    if answer.is_cut:
        return
    if answer.usage is not None:
        yield _chunk(model, choices=[], usage=_usage(answer.usage))
    yield b"data: [DONE]\n\n"


def _call(model: str, index: int, call: Call) -> Iterator[bytes]:
    head = {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
    yield _delta(model, {"tool_calls": [{"index": index, **head}]})
    for piece in call.pieces:
        yield _delta(model, {"tool_calls": [{"index": index, "function": {"arguments": piece}}]})


def _usage(usage: Usage) -> Body:
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.prompt + usage.completion,
        "prompt_tokens_details": {"cached_tokens": usage.cached, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


def _delta(model: str, delta: Body, finish: str | None = None) -> bytes:
    return _chunk(model, choices=[{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}])


def _chunk(model: str, **fields: Any) -> bytes:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": model}
    return _event({**head, "system_fingerprint": "fp_1", **fields})


def _event(body: Body) -> bytes:
    return f"data: {json.dumps(body, ensure_ascii=False)}\n\n".encode()


WIRE: Final = Wire(
    "/{base:path}/chat/completions",
    events,
    refusal,
    ("stop", "length", "tool_calls", "content_filter", "function_call"),
)
