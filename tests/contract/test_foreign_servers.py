"""Answers of servers that speak a vendor's API in their own way: Ollama, vLLM, llama.cpp, LM Studio, gateways."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import pytest

from agent.models.catalog import ModelCatalog, ModelEndpoint
from agent.models.litellm import LitellmClient
from agent.models.requests import PromptMessage, StopReason
from gateway.contracts.errors import ContextTooLong, ModelUnavailable, QuotaSpent
from gateway.contracts.messages import CleanText, literal_text
from gateway.contracts.sessions import Role, ToolCall
from tests.contract.test_provider_calls import Heard, asking, heard
from tests.parts.providers.script import Answer, Body, Fault, FaultKind
from tests.parts.providers.vendors import VENDORS, Vendor, always, asked

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:Pydantic serializer warnings")

_USAGE: Final = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
_DONE: Final = b"data: [DONE]\n\n"
_LOOK: Final = {"name": "look", "arguments": '{"at": "sea"}'}
_HILL: Final = {"name": "look", "arguments": '{"at": "hill"}'}
_BOTH: Final = (("look", '{"at": "sea"}'), ("look", '{"at": "hill"}'))
_CALLED: Final = {"role": "assistant", "content": None, "tool_calls": [{"id": "a", "function": _LOOK}]}


def event(body: Any) -> bytes:
    return f"data: {json.dumps(body)}\n\n".encode()


def delta(finish: str | None = None, **said: Any) -> bytes:
    return event({"id": "1", "choices": [{"index": 0, "delta": said, "finish_reason": finish}]})


def called(*calls: Body) -> bytes:
    return delta(tool_calls=list(calls))


def whole(message: Body, finish: str = "stop") -> bytes:
    """An answer of a server that does not stream, as it is written for people to read."""
    answer = {"choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": _USAGE}
    return json.dumps(answer, indent=1).encode()


STOP: Final = delta("stop") + _DONE
CALLS: Final = delta("tool_calls") + _DONE


def wire_of(pieces: Sequence[bytes], name: str = "openai") -> Vendor:
    vendor = VENDORS[name]
    return replace(vendor, wire=replace(vendor.wire, events=lambda _answer, _model: iter(pieces)))


async def heard_of(*pieces: bytes, name: str = "openai", answer: Answer | None = None) -> Heard:
    async with asked(wire_of(pieces, name), always(answer or Answer())) as (_, client):
        return await heard(client, asking(VENDORS[name].model))


@pytest.mark.parametrize(
    ("stream", "text"),
    [
        (delta(content="<think>") + delta(content="Hm.") + delta(content="</think>\n") + delta(content="\nHi"), "Hi"),
        (delta(content="\n<thi") + delta(content="nk>Hm.</thi") + delta(content="nk>Hi"), "Hi"),
        (delta(content="<think>Hm.") + delta(content=" Hm."), ""),
        (delta(content="<") + delta(content="b>Hi"), "<b>Hi"),
        (delta(content=" ") + delta(content="<thin"), " <thin"),
        (delta(content="Hi <think>is a mark</think>"), "Hi <think>is a mark</think>"),
        (delta(content=[{"type": "thinking", "thinking": []}, {"type": "text", "text": "Hi"}]), "Hi"),
        (event({"choices": [{"index": 0, "delta": None, "finish_reason": None}]}) + delta(content="Hi"), "Hi"),
        (event({"choices": [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}]}), "Hi"),
    ],
)
async def test_a_text_is_the_answer_and_no_thought(stream: bytes, text: str) -> None:
    one = await heard_of(stream + STOP)
    assert (one.text, one.deltas, one.error) == (text, text, "")


@pytest.mark.parametrize(
    ("stream", "calls"),
    [
        (
            called({"index": 0, "id": "a", "function": _LOOK}) + called({"index": 0, "id": "b", "function": _HILL}),
            _BOTH,
        ),
        (called({"id": "a", "function": _LOOK}) + called({"id": "b", "function": _HILL}), _BOTH),
        (called({"id": "a", "function": _LOOK}, {"id": "a", "function": _HILL}), _BOTH),
        (called({"index": 0, "id": "", "function": _LOOK}) + called({"index": 0, "id": "", "function": _HILL}), _BOTH),
        (
            called({"function": {**_LOOK, "arguments": '{"at'}})
            + called({"function": {**_LOOK, "arguments": '": "sea"}'}}),
            _BOTH[:1],
        ),
        (called({"index": 0, "id": 7, "function": _LOOK}), _BOTH[:1]),
        (called({"index": 0, "id": "a"}) + called({"index": 0, "function": _LOOK}), _BOTH[:1]),
        (
            called({"index": 0, "id": "a", "function": {**_LOOK, "arguments": json.dumps(_LOOK["arguments"])}}),
            _BOTH[:1],
        ),
    ],
)
async def test_calls_are_told_from_each_other(stream: bytes, calls: tuple[tuple[str, str], ...]) -> None:
    one = await heard_of(stream + CALLS)
    assert (one.calls, len(set(one.ids)), one.error) == (calls, len(calls), "")


@pytest.mark.parametrize("usage", [{}, {"prompt_tokens": None}, {"prompt_tokens": -1, "completion_tokens": -1}])
async def test_a_count_that_counts_nothing_is_estimated(usage: Body) -> None:
    one = await heard_of(delta(content="Hello.") + delta("stop") + event({"choices": [], "usage": usage}) + _DONE)
    assert one.tokens[0] > 0
    assert one.tokens[1] > 0
    assert one.cost_usd > 0


async def test_a_count_without_choices_ends_no_answer() -> None:
    one = await heard_of(delta(content="Hello.") + delta("stop") + event({"choices": None, "usage": _USAGE}))
    assert (one.text, one.tokens[:2], one.error) == ("Hello.", (100, 10), "")


async def test_a_server_that_does_not_stream_is_understood() -> None:
    assert (await heard_of(whole({"role": "assistant", "content": "Hello."}))).text == "Hello."
    assert (await heard_of(whole(_CALLED, "tool_calls"))).calls == _BOTH[:1]


@pytest.mark.parametrize("name", VENDORS)
@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"<html>Welcome</html>",
        b": nothing\n\n",
        json.dumps({"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}).encode(),
    ],
)
async def test_no_answer_at_all_is_a_failure(said: bytes, name: str) -> None:
    assert (await heard_of(said, name=name)).error == "ModelUnavailable"


@pytest.mark.parametrize(
    "model", ["mistral/small", "deepseek/deepseek-chat", "groq/llama", "openrouter/x/y", "xai/grok-3"]
)
async def test_each_chat_provider_may_break_off(model: str) -> None:
    """Their classes in litellm read an error each in its own way."""
    said = [{"index": 0, "delta": {"content": "Half"}, "finish_reason": finish} for finish in (None, "error")]
    broken = [event({"id": "1", "created": 1, "model": "x", "choices": [choice]}) for choice in said]
    async with asked(wire_of(broken), always(Answer())) as (_, client):
        assert (await heard(client, asking(model))).error == "ModelUnavailable"


@pytest.mark.parametrize("finish", ["model_length", "max_output_tokens"])
async def test_an_answer_that_ends_at_another_limit_is_cut(finish: str) -> None:
    one = await heard_of(delta(content="Half") + delta(finish) + _DONE)
    assert (one.text, one.ending) == ("Half", StopReason.CUT)


@pytest.mark.parametrize(
    "stream",
    [
        delta("", content="Half"),
        *(
            delta(content="Half") + delta(broken) + _DONE
            for broken in ("error", "abort", "insufficient_system_resource")
        ),
        delta(content="Half") + called({"index": 0, "id": "a", "function": _LOOK}) + delta("error") + _DONE,
        delta(content="Half") + event({"object": "error", "message": "The engine died", "code": 500}),
        delta(content="Half") + b'event: error\ndata: {"message": "The engine died", "code": 500}\n\n',
    ],
)
async def test_half_an_answer_is_none(stream: bytes) -> None:
    one = await heard_of(stream)
    assert (one.deltas, one.error) == ("Half", "ModelUnavailable")


@pytest.mark.parametrize("name", ["openai", "anthropic"])
async def test_an_answer_ends_with_its_last_event_although_the_connection_stays_open(name: str) -> None:
    pieces = [*VENDORS[name].wire.events(Answer(("Hello.",)), "m")]
    one = await heard_of(*pieces, b": still there\n\n", name=name, answer=Answer(stalls_after=len(pieces)))
    assert (one.text, one.error) == ("Hello.", "")


async def test_gemini_calls_without_arguments_and_counts_nothing() -> None:
    parts = [{"functionCall": {"name": "look"}}]
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}
    one = await heard_of(event({"candidates": [candidate], "usageMetadata": {"promptTokenCount": None}}), name="gemini")
    assert (one.calls, one.error) == ((("look", "{}"),), "")


@pytest.mark.parametrize("name", VENDORS)
@pytest.mark.parametrize("arguments", ["", '{"at": "se', '"sea"', "null", "[1]"])
async def test_a_call_with_unreadable_arguments_spoils_no_later_prompt(name: str, arguments: str) -> None:
    call = ToolCall(literal_text("call_a"), literal_text("look"), literal_text(arguments))
    before = (
        PromptMessage(Role.USER, literal_text("Look.")),
        PromptMessage(Role.ASSISTANT, literal_text(""), (call,)),
        PromptMessage(Role.TOOL, literal_text("The arguments are no JSON."), tool_call_id="call_a"),
    )
    async with asked(VENDORS[name], always(Answer(("Hello.",)))) as (server, client):
        assert (await heard(client, replace(asking(VENDORS[name].model), messages=before))).text == "Hello."
    (body,) = server.requests
    match body:
        case {"messages": [*_, {"tool_calls": [{"function": {"arguments": sent}}]}, _]}:
            assert isinstance(json.loads(sent), dict)
        case {"messages": [*_, {"content": [{"input": sent}]}, _]} | {
            "contents": [*_, {"parts": [{"function_call": {"args": sent}}]}, _]
        }:
            assert isinstance(sent, dict)
        case _:
            pytest.fail(f"no call in {body}")


@pytest.mark.parametrize("wire", VENDORS)
@pytest.mark.parametrize("said", ["", "\n\n"])
async def test_who_says_nothing_before_a_call_has_said_nothing(wire: str, said: str) -> None:
    """Vendors refuse a text of white space, and litellm would put words into the model's mouth."""
    call = ToolCall(literal_text("call_a"), literal_text("look"), literal_text("{}"))
    before = (
        PromptMessage(Role.USER, literal_text("Look.")),
        PromptMessage(Role.ASSISTANT, CleanText(said), (call,)),
        PromptMessage(Role.TOOL, literal_text("A hill."), tool_call_id="call_a"),
    )
    async with asked(VENDORS[wire], always(Answer(("Hello.",)))) as (server, client):
        await heard(client, replace(asking(VENDORS[wire].model), messages=before))
    assert set(re.findall(r'"(?:content|text)": "([^"]*)"', json.dumps(server.requests))) <= {
        *("Look.", "A hill.", "You are a test.")
    }


@pytest.mark.parametrize("wire", VENDORS)
@pytest.mark.parametrize("made_up", ["multi_tool_use.parallel", "look<|channel|>json", "[redacted:token#1]", "a" * 90])
async def test_a_call_of_a_made_up_name_spoils_no_later_prompt(wire: str, made_up: str) -> None:
    """Vendors refuse a prompt in which a function is called by anything but 64 letters, digits, `_` and `-`."""
    call = ToolCall(literal_text("call_a"), CleanText(made_up), literal_text("{}"))
    before = (
        PromptMessage(Role.USER, literal_text("Look.")),
        PromptMessage(Role.ASSISTANT, literal_text(""), (call,)),
        PromptMessage(Role.TOOL, literal_text("There is no such tool."), tool_call_id="call_a"),
    )
    async with asked(VENDORS[wire], always(Answer(("Hello.",)))) as (server, client):
        assert (await heard(client, replace(asking(VENDORS[wire].model), messages=before))).text == "Hello."
    names = re.findall(r'"name": "([^"]*)"', json.dumps(server.requests))
    assert names
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in names)


@pytest.mark.parametrize("refused", ["stream_options", "temperature"])
async def test_an_argument_that_a_server_does_not_know_is_left_out(refused: str) -> None:
    def answer(body: Body) -> Answer | Fault:
        words = f"Unrecognized request argument supplied: {refused}"
        return Fault(FaultKind.INVALID, message=words) if refused in body else Answer(("Hello.",), usage=None)

    async with asked(VENDORS["openai"], answer, temperature=0.5) as (server, client):
        for _ in range(2):
            assert (await heard(client, asking("openai/gpt-4o-mini"))).text == "Hello."
        assert [refused in body for body in server.requests] == [True, False, False]


@pytest.mark.parametrize(
    ("kind", "words", "error", "wait_s"),
    [
        (FaultKind.INVALID, "Please reduce the length of the messages", ContextTooLong, None),
        (FaultKind.INVALID, "The prompt (5000) is longer than the maximum model length of 4096", ContextTooLong, None),
        (FaultKind.INVALID, "Your input exceeds the context window of this model", ContextTooLong, None),
        (FaultKind.INVALID, "You have reached your specified API usage limits", QuotaSpent, None),
        (FaultKind.RATE_LIMITED, "Too many tokens, please wait before trying again", ModelUnavailable, None),
        (FaultKind.RATE_LIMITED, "Rate limit reached. Please try again in 1m7.5s.", ModelUnavailable, 67.5),
        (FaultKind.RATE_LIMITED, "Rate limit reached. Please try again in 300ms.", ModelUnavailable, 0.3),
        (
            FaultKind.RATE_LIMITED,
            "Rate limit reached. Please try again in 1 hour and 2 minutes.",
            ModelUnavailable,
            3720,
        ),
        (FaultKind.RATE_LIMITED, "Rate limit is exceeded. Please retry after 60 seconds.", ModelUnavailable, 60),
        (FaultKind.RATE_LIMITED, "Rate limit reached. Try again in 5 tries.", ModelUnavailable, None),
        (FaultKind.QUOTA, "You exceeded your current quota. Please retry in 7.5s.", ModelUnavailable, 7.5),
        (FaultKind.QUOTA, "You exceeded your current quota (RequestsPerDay). Please retry in 7.5s.", QuotaSpent, None),
    ],
)
async def test_the_words_of_a_refusal_say_what_is_wrong(
    kind: FaultKind, words: str, error: type[Exception], wait_s: float | None
) -> None:
    async with asked(VENDORS["openai"], always(Fault(kind, message=words))) as (_, client):
        one = await heard(client, asking("openai/gpt-4o-mini"))
    assert (one.error, one.retry_after_s) == (error.__name__, wait_s)


class Ollama(BaseHTTPRequestHandler):
    """Ollama's own API, which streams JSON lines. It notes what it is asked."""

    asked: list[str]

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.asked.append(self.path)
        self.send_response(200)
        self.end_headers()
        for said, end in (("Hello", {"done": False}), (" there", {"done": True, "done_reason": "stop"})):
            line = {"model": "x", "message": {"role": "assistant", "content": said}, **end}
            self.wfile.write(json.dumps(line).encode() + b"\n")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving_ollama() -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []
    with ThreadingHTTPServer(("127.0.0.1", 0), type("", (Ollama,), {"asked": asked})) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


async def test_an_ollama_is_asked_for_an_answer_and_for_nothing_else() -> None:
    """litellm asks it for the facts of its model when it logs an answer, and its event loop waits meanwhile."""
    with serving_ollama() as (url, asked_for):
        client = LitellmClient(ModelCatalog(), partial(ModelEndpoint, api_base=url))
        told = await heard(client, asking("ollama_chat/of-this-test"))
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)
        await client.close()
    assert (told.text, asked_for) == ("Hello there", ["/api/chat"])
