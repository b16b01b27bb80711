"""Tool calls by a model that has learned none: an endpoint in front of a llama.cpp server.

Where the newest message is a user's and tools are offered, the server is asked for JSON by a schema that allows a call
of one of them and nothing else, and what it writes is passed on as a tool call on OpenAI's wire. What follows the
results is the model's own text. A request whose system prompt ends with a form is answered by the form's schema.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from channels.emulators.serving import LOOPBACK, listening
from tests.parts.providers import openai
from tests.parts.providers.script import Answer, Body, Call, Usage

WITHIN_S: Final = 300.0
CHARS_MAX: Final = 60
"""So long may be what such a small model writes into a field: it would go on for ever."""
TOKENS_MAX: Final = 400
ONE_LINE: Final = 'root ::= [^\\n]{2,200} "\\n"?'
"""All that it says in its own words: more would take it minutes."""


@asynccontextmanager
async def calling_tools(
    llama: str,
    forms: Mapping[str, Body] | None = None,
    *,
    fields: Mapping[str, Body] | None = None,
    heard: list[Body] | None = None,
) -> AsyncIterator[str]:
    """The address of the endpoint; `forms` are schemas by the words with which system prompts ask for them. With
    `fields` a tool is called only where one of the newest messages has its name in backticks, and such fields of it
    are always written, by these schemas. `heard` is told all that was asked."""
    async with httpx.AsyncClient(base_url=llama, timeout=WITHIN_S) as http:

        async def complete(request: Request) -> Response:
            body: Body = await request.json()
            if heard is not None:
                heard.append(dict(body))
            tools, system = body.pop("tools", ()), body["messages"][0]["content"]
            if fields is not None:
                newest = (message for message in body["messages"][-4:] if message["role"] == "user")
                said = " ".join(str(message["content"]) for message in newest)
                tools = [tool for tool in tools if f"`{tool['function']['name']}`" in said]
            if tools and body["messages"][-1]["role"] == "user":
                return await _answered(http, body, _any_call(tools, fields or {}), is_call=True)
            for words, schema in (forms or {}).items():
                if words in system:
                    return await _answered(http, body, schema, is_call=False)
            body |= {"messages": [_plain(message) for message in body["messages"]], "grammar": ONE_LINE}
            sent = http.build_request("POST", request.url.path, json=body)
            answer = await http.send(sent, stream=True)
            return StreamingResponse(answer.aiter_raw(), answer.status_code, media_type=answer.headers["content-type"])

        async with listening(Starlette(routes=[Route("/v1/chat/completions", complete, methods=["POST"])])) as port:
            yield f"http://{LOOPBACK}:{port}"


def bounded(schema: Any) -> Any:
    """The schema, with short texts and short lists, and without what llama.cpp cannot make a grammar of."""
    if isinstance(schema, list):
        return [bounded(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {name: bounded(part) for name, part in schema.items() if name not in {"description", "format"}}
    if kept.get("type") == "string" and "enum" not in kept:
        kept = {"type": "string", "minLength": kept.get("minLength", 0), "maxLength": CHARS_MAX}
    if kept.get("type") == "array":
        kept["maxItems"] = min(kept.get("maxItems", 2), 2)
    return kept


async def _answered(http: httpx.AsyncClient, body: Body, schema: Body, *, is_call: bool) -> Response:
    asked = {
        **{name: value for name, value in body.items() if name not in {"stream", "stream_options"}},
        "messages": [_plain(message) for message in body["messages"]],
        "max_tokens": TOKENS_MAX,
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}},
    }
    response = await http.post("/v1/chat/completions", json=asked)
    if response.is_error:
        return JSONResponse(response.json(), response.status_code)
    heard = response.json()
    said, counted = heard["choices"][0]["message"]["content"], heard["usage"]
    usage = Usage(counted["prompt_tokens"], counted["completion_tokens"])
    is_cut = heard["choices"][0]["finish_reason"] == "length"
    if is_call and not is_cut:
        call = json.loads(said)
        arguments = json.dumps(call["arguments"])
        pieces = [arguments[at : at + 7] for at in range(0, len(arguments), 7)]
        answer = Answer(calls=(Call(call["name"], pieces, f"call_{len(body['messages'])}"),), usage=usage)
    else:
        answer = Answer((said,), finish="length" if is_cut else "", usage=usage)
    return StreamingResponse(openai.events(answer, body["model"]), media_type="text/event-stream")


def _any_call(tools: Sequence[Body], fields: Mapping[str, Body]) -> Body:
    functions = [tool["function"] for tool in tools]
    return {"anyOf": [_call_of(function["name"], function["parameters"], fields) for function in functions]}


def _call_of(name: str, parameters: Body, fields: Mapping[str, Body]) -> Body:
    written = {field: schema for field, schema in fields.items() if field in parameters.get("properties", ())}
    arguments = bounded(parameters)
    if written:
        arguments |= {
            "properties": arguments["properties"] | written,
            "required": [*dict.fromkeys([*arguments.get("required", ()), *written])],
        }
    call = {"name": {"const": name}, "arguments": arguments}
    return {"type": "object", "properties": call, "required": list(call), "additionalProperties": False}


def _plain(message: Body) -> Body:
    """The message for a template that knows no tools."""
    if message["role"] == "tool":
        return {"role": "user", "content": f"The tool answered:\n{message['content']}"}
    called = "".join(json.dumps(call["function"]) for call in message.get("tool_calls") or ())
    return {"role": message["role"], "content": (message["content"] or "") + called}
