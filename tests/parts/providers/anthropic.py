"""Anthropic's Messages API, as its documentation has it: litellm and the Claude command line program speak it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from tests.parts.providers.script import Answer, Body, Call, Fault, FaultKind, Refusal, Usage, Wire
from tests.parts.providers.server import ProviderServer, serving

_FAULTS: Final = {
    FaultKind.RATE_LIMITED: (
        429,
        "rate_limit_error",
        "This request would exceed your organization's rate limit of 50,000 input tokens per minute.",
    ),
    FaultKind.OVERLOADED: (529, "overloaded_error", "Overloaded"),
    FaultKind.BROKEN: (500, "api_error", "Internal server error"),
    FaultKind.TOO_LONG: (400, "invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum"),
    FaultKind.KEY: (401, "authentication_error", "invalid x-api-key"),
    FaultKind.QUOTA: (
        400,
        "invalid_request_error",
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing.",
    ),
    FaultKind.INVALID: (400, "invalid_request_error", "messages: at least one message is required"),
    FaultKind.UNKNOWN_MODEL: (404, "not_found_error", "model: claude-9"),
}


def refusal(fault: Fault) -> Refusal:
    """The fault as the API reports it."""
    status, kind, message = _FAULTS[fault.kind]
    error = {"type": kind, "message": fault.message or message}
    return Refusal(status, {"type": "error", "error": error, "request_id": "req_1"})


def thinking_fault(body: Body) -> Fault | None:
    """The fault of a request that breaks a rule of extended thinking, in the vendor's words: results of calls come with
    the thought that led to them, there is room for a thought, and it has a temperature of its own."""
    thinking = body.get("thinking", {})
    if thinking.get("budget_tokens", 0) >= body["max_tokens"]:
        return Fault(FaultKind.INVALID, message="`max_tokens` must be greater than `thinking.budget_tokens`.")
    if thinking.get("budget_tokens", 1_024) < 1_024:
        return Fault(FaultKind.INVALID, message="thinking.budget_tokens: Input should be greater than or equal to 1024")
    if thinking.get("type") in {"enabled", "adaptive"} and body.get("temperature", 1) != 1:
        return Fault(FaultKind.INVALID, message="`temperature` may only be set to 1 when thinking is enabled.")
    spoken = [message["content"] for message in body["messages"] if message["role"] == "assistant"]
    blocks = [block["type"] for block in spoken[-1]] if spoken and isinstance(spoken[-1], list) else []
    is_thinking = thinking.get("type") == "enabled"
    if is_thinking and "tool_use" in blocks and blocks[0] not in {"thinking", "redacted_thinking"}:
        said = f"Expected `thinking` or `redacted_thinking`, but found `{blocks[0]}`."
        return Fault(FaultKind.INVALID, message=said)
    if not is_thinking and "thinking" in blocks:
        return Fault(FaultKind.INVALID, message="When thinking is disabled, an assistant message cannot contain it.")
    return None


def events(answer: Answer, model: str) -> Iterator[bytes]:
    """The events of one message."""
    usage = answer.usage or Usage(prompt=0, completion=0)
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": []}
    start = {**message, "stop_reason": None, "stop_sequence": None, "usage": {**_prompt(usage), "output_tokens": 1}}
    yield _event({"type": "message_start", "message": start})
    for index, (block, deltas) in enumerate(_blocks(answer)):
        yield _event({"type": "content_block_start", "index": index, "content_block": block})
        for delta in deltas:
            if answer.is_chatty:
                yield _event({"type": "ping"})
            yield _event({"type": "content_block_delta", "index": index, "delta": delta})
        yield _event({"type": "content_block_stop", "index": index})
    if answer.fault is not None:
        yield _event(refusal(answer.fault).body)
        return
    if answer.is_cut and not answer.finish:
        return
    stop = answer.finish if answer.finish != "" else ("tool_use" if answer.calls else "end_turn")
    ending = {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}}
    yield _event({**ending, "usage": {"output_tokens": usage.completion}})
    if answer.is_cut:
        return
    yield _event({"type": "message_stop"})


def _prompt(usage: Usage) -> Body:
    """The vendor counts what it reads from its cache, and writes into it, apart."""
    return {
        "input_tokens": usage.prompt - usage.cached - usage.written,
        "cache_creation_input_tokens": usage.written,
        "cache_read_input_tokens": usage.cached,
    }


def _blocks(answer: Answer) -> Iterator[tuple[Body, Sequence[Body]]]:
    if answer.thinking:
        thoughts = [{"type": "thinking_delta", "thinking": thought} for thought in answer.thinking]
        signature = {"type": "signature_delta", "signature": answer.signature}
        yield {"type": "thinking", "thinking": "", "signature": ""}, [*thoughts, signature]
    if answer.hidden:
        yield {"type": "redacted_thinking", "data": answer.hidden}, []
    if answer.deltas:
        yield {"type": "text", "text": ""}, [{"type": "text_delta", "text": text} for text in answer.deltas]
    for call in answer.calls:
        pieces = [{"type": "input_json_delta", "partial_json": piece} for piece in call.pieces]
        yield {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}, pieces


def _event(body: Body) -> bytes:
    return f"event: {body['type']}\ndata: {json.dumps(body, ensure_ascii=False)}\n\n".encode()


WIRE: Final = Wire(
    "/v1/messages",
    events,
    refusal,
    ("end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "refusal", "model_context_window_exceeded"),
)


@dataclass(frozen=True, slots=True)
class Step:
    """One model answer: a text, and the tools it calls with their arguments. `stop` is why it ended, if not of itself;
    arguments that were cut off are a text."""

    text: str = ""
    calls: Sequence[tuple[str, Body | str]] = ()
    stop: str = ""


@asynccontextmanager
async def serve_anthropic(steps: Sequence[Step], *, prefix: str = "mcp__trivet__") -> AsyncIterator[ProviderServer]:
    """A running server. Requests with tools get the next step, all others a word; `prefix` stands in front of the
    names of tools that are called."""
    left = iter(steps)

    def answer(body: Body) -> Answer:
        return _step(next(left), prefix) if body.get("tools") else Answer(("ok",))

    async with serving(WIRE, answer) as server:
        yield server


def _step(step: Step, prefix: str) -> Answer:
    calls = [
        Call(prefix + name, (given if isinstance(given, str) else json.dumps(given),), f"toolu_{at}")
        for at, (name, given) in enumerate(step.calls)
    ]
    return Answer((step.text,) if step.text else (), calls, finish=step.stop, usage=Usage(30, 5))
