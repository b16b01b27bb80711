"""Describe all HTTP routes as one OpenAPI document: the operator's, as FastAPI tells it, and those of programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields
from datetime import datetime
from importlib.metadata import version
from typing import Any, Final, Literal
from unittest.mock import Mock

from pydantic import BaseModel, Field
from pydantic.json_schema import models_json_schema

from channels.api.server import ChatOrder, ClientMessageOrder
from gateway.config.features import WebhookEvent
from gateway.ops.admin.app import Parts, create_app
from gateway.scrub import Scrubber

_OPERATOR: Final = "http://127.0.0.1:8420"
_PROGRAMS: Final = "http://127.0.0.1:8422"
_REF: Final = "#/components/schemas/{model}"
_JSON: Final = "application/json"
_EVENTS: Final = "text/event-stream"


class ChoiceView(BaseModel):
    """One way to answer a question."""

    label: str
    say: str = Field(description="The text that chooses it.")


class AnswerView(BaseModel):
    """One answer to a message; what a webhook of a client is sent, too."""

    id: str = Field(description="The same, however often the answer is sent.")
    message_id: str
    text: str
    choices: list[ChoiceView]


class MessageStateView(BaseModel):
    """A message and what was answered so far."""

    id: str
    state: Literal["waiting", "answered"]
    answers: list[AnswerView]


class ErrorView(BaseModel):
    """What OpenAI calls an error."""

    message: str
    type: Literal["invalid_request_error", "server_error"]
    param: None
    code: int


class ProgramRefusal(BaseModel):
    """Why it is not done, in the shape of OpenAI's API and in that of the operator's."""

    error: ErrorView
    detail: str


class ReplyView(BaseModel):
    """What the agent said."""

    role: Literal["assistant"]
    content: str


class CompletionChoiceView(BaseModel):
    """The one choice."""

    index: int
    message: ReplyView
    finish_reason: Literal["stop"]
    logprobs: None


class CompletionView(BaseModel):
    """An answer as OpenAI's API has it."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[CompletionChoiceView]


class ModelView(BaseModel):
    """The agent, as a model."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelListView(BaseModel):
    """The models that may be asked for."""

    object: Literal["list"]
    data: list[ModelView]


class EventView(BaseModel):
    """Something that happened, as the operator's webhooks are told of it."""

    id: str = Field(description="The same, however often it is told.")
    type: WebhookEvent
    at: datetime
    key: str = Field(description="Whom it is about, such as `telegram:123456789`.")
    turn_id: str = Field(description="Empty where there is no turn.")
    text: str = Field(description="What was said, its first 4,000 characters.")


_SHAPES: Final = (
    EventView,
    ClientMessageOrder,
    ChatOrder,
    MessageStateView,
    ProgramRefusal,
    CompletionView,
    ModelListView,
)


def document() -> dict[str, Any]:
    """Return the description of every route, by the port that it is on."""
    described = _operators()
    for methods in described["paths"].values():
        methods["servers"] = [{"url": _OPERATOR}]
    for path, methods in _programs().items():
        assert path not in described["paths"]
        described["paths"][path] = {**methods, "servers": [{"url": _PROGRAMS}]}
    _, shapes = models_json_schema([(shape, "validation") for shape in _SHAPES], ref_template=_REF)
    described["components"]["schemas"] |= shapes["$defs"]
    told = {"description": "Something happened.", "requestBody": {"required": True, "content": _content(EventView)}}
    described["webhooks"] = {"event": {"post": told | {"responses": {"2XX": {"description": "It was taken."}}}}}
    described["components"]["securitySchemes"]["client token"] = {"type": "http", "scheme": "bearer"}
    return described


def text() -> str:
    """Return the document as it is kept in the repository."""
    return json.dumps(document(), indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def _operators() -> dict[str, Any]:
    needed: dict[str, Any] = {
        part.name: Mock() for part in fields(Parts) if part.default is part.default_factory is MISSING
    }
    parts = Parts(**needed | {"scrubber": Scrubber(), "channels": (), "version": version("trivet")})
    return create_app(parts, "a-token-of-nobody-that-opens-nothing").openapi()


def _programs() -> dict[str, Any]:
    schema = {"type": "string", "title": "The id that you gave it, or were told"}
    own_id = {"name": "id", "in": "path", "required": True, "schema": schema}
    state = {"200": _shown(MessageStateView), "202": _shown(MessageStateView, "There is no answer yet.")}
    events = {"content": {_EVENTS: {}}, "description": "Events `draft`, with the text so far, and `answer`."}
    completion = _shown(CompletionView)
    completion["content"] |= {_EVENTS: {}}
    return {
        "/api/v1/messages": {
            "post": _route(
                "Send a message and wait for the answer; with `Accept: text/event-stream` as events.",
                state,
                body=ClientMessageOrder,
                refused=(400, 403, 408, 413, 503),
            )
        },
        "/api/v1/messages/{id}": {
            "get": _route("Ask for the answer to a message.", state, refused=(404, 503)) | {"parameters": [own_id]}
        },
        "/api/v1/messages/{id}/events": {
            "get": _route("Follow the answer to a message.", {"200": events}, refused=(404, 503))
            | {"parameters": [own_id]}
        },
        "/v1/chat/completions": {
            "post": _route(
                "Send the last of these messages, as a client of OpenAI's API does; also at /api/v1.",
                {"200": completion},
                body=ChatOrder,
                refused=(400, 403, 408, 413, 503, 504),
            )
        },
        "/v1/models": {"get": _route("List the agent as a model; also at /api/v1.", {"200": _shown(ModelListView)})},
    }


def _route(
    description: str, answers: Mapping[str, Any], *, body: type[BaseModel] | None = None, refused: tuple[int, ...] = ()
) -> dict[str, Any]:
    refusals = {str(code): _shown(ProgramRefusal, "Refused.") for code in sorted({401, 429, *refused})}
    asked = {} if body is None else {"requestBody": {"required": True, "content": _content(body)}}
    return {
        "description": description,
        "tags": ["programs"],
        "security": [{"client token": []}],
        "responses": {**answers, **refusals},
        **asked,
    }


def _shown(shape: type[BaseModel], description: str = "Successful Response") -> dict[str, Any]:
    return {"description": description, "content": _content(shape)}


def _content(shape: type[BaseModel]) -> dict[str, Any]:
    return {_JSON: {"schema": {"$ref": _REF.format(model=shape.__name__)}}}
