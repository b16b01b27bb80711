"""Google's `streamGenerateContent?alt=sse`, as the reference of the Gemini API has it: lines end with CR and LF, a call
comes whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from tests.parts.providers.script import Answer, Body, Fault, FaultKind, Refusal, Usage, Wire

_FAULTS: Final = {
    FaultKind.RATE_LIMITED: (429, "RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota)."),
    FaultKind.OVERLOADED: (503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
    FaultKind.BROKEN: (500, "INTERNAL", "An internal error has occurred. Please retry or report."),
    FaultKind.TOO_LONG: (
        400,
        "INVALID_ARGUMENT",
        "The input token count (1200311) exceeds the maximum number of tokens allowed (1048576).",
    ),
    FaultKind.KEY: (400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."),
    FaultKind.QUOTA: (
        429,
        "RESOURCE_EXHAUSTED",
        "You exceeded your current quota, please check your plan and billing details.",
    ),
    FaultKind.INVALID: (400, "INVALID_ARGUMENT", "Invalid value at 'generation_config.temperature'"),
    FaultKind.UNKNOWN_MODEL: (404, "NOT_FOUND", "models/gemini-9 is not found for API version v1beta."),
}
BLOCKED_PROMPT: Final = "blockReason"
"""No finish reason, but what the API says where it has refused the prompt itself."""


def refusal(fault: Fault) -> Refusal:
    """The fault as the API reports it."""
    status, name, message = _FAULTS[fault.kind]
    return Refusal(status, {"error": {"code": status, "message": fault.message or message, "status": name}})


def events(answer: Answer, model: str) -> Iterator[bytes]:
    """The responses of one stream; the count of tokens comes with each of them."""
    usage = answer.usage
    if answer.finish == BLOCKED_PROMPT:
        yield _response(model, usage, promptFeedback={"blockReason": "PROHIBITED_CONTENT"})
        return
    for thought in answer.thinking:
        yield _part(model, usage, {"text": thought, "thought": True})
    for text in answer.deltas:
        yield _part(model, usage, {"text": text})
        if answer.is_chatty:
            yield _part(model, usage, {"text": ""})
    for at, call in enumerate(answer.calls):
        part: Body = {"functionCall": {"name": call.name, "args": json.loads(call.arguments)}}
        if answer.thinking and at == 0:
            part["thoughtSignature"] = answer.signature
        yield _part(model, usage, part)
    if answer.fault is not None:
        yield _event(refusal(answer.fault).body)
        return
    if answer.is_cut:
        return
    ending: Body = {"content": {"parts": [{"text": ""}], "role": "model"}, "index": 0}
    if answer.finish is not None:
        ending["finishReason"] = answer.finish or "STOP"
    yield _response(model, usage, candidates=[ending])


def _part(model: str, usage: Usage | None, part: Body) -> bytes:
    return _response(model, usage, candidates=[{"content": {"parts": [part], "role": "model"}, "index": 0}])


def _response(model: str, usage: Usage | None, **fields: Any) -> bytes:
    if usage is not None:
        fields["usageMetadata"] = {
            "promptTokenCount": usage.prompt,
            "candidatesTokenCount": usage.completion - usage.reasoning,
            "totalTokenCount": usage.prompt + usage.completion,
            **({"cachedContentTokenCount": usage.cached} if usage.cached else {}),
            **({"thoughtsTokenCount": usage.reasoning} if usage.reasoning else {}),
        }
    return _event({**fields, "modelVersion": model, "responseId": "r1"})


def _event(body: Body) -> bytes:
    return f"data: {json.dumps(body, ensure_ascii=False)}\r\n\r\n".encode()


WIRE: Final = Wire(
    "/models/{model}:streamGenerateContent",
    events,
    refusal,
    (
        "STOP",
        "MAX_TOKENS",
        "SAFETY",
        "RECITATION",
        "LANGUAGE",
        "OTHER",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "MALFORMED_FUNCTION_CALL",
        BLOCKED_PROMPT,
    ),
)
