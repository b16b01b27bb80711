"""The HTTP port for programs: `/api/v1/messages`, the part of OpenAI's API in which a client sends messages, and an MCP
server with the tools of other agents.

A client proves who it is by its token (`gateway.clients`). What it may do is decided where it is decided for people.
The facts on OpenAI's API are from https://platform.openai.com/docs/api-reference/chat, those on MCP from
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from channels.api.adapter import ApiAdapter, ApiMessage, UnfitMessage, answer_fields, message_id
from channels.core.adapter import AdapterDeps, InboundHandler
from channels.core.message import RawQuote
from gateway.bus.answers import FetchedAnswer
from gateway.clients import CHANNEL, client_of
from gateway.config import Settings, client_key, own_hosts, webhook_host
from gateway.contracts.errors import BusUnavailable
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import QuoteKind
from gateway.contracts.sessions import GrantRole
from gateway.http_guard import Guard, http_served
from gateway.limits import API_BODY_BYTES_MAX, API_CLIENT_REQUESTS_MAX, API_WAIT_MAX_S, INBOUND_CHARS_MAX
from gateway.preflight import listen

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams

LAST_REQUESTS_S: Final = 2
MODEL: Final = "trivet"
_EVENTS: Final = "text/event-stream"
_SPEAKERS: Final = ("user", "assistant")

ClientRoles: TypeAlias = Callable[[SessionKey], Awaitable[GrantRole | None]]
"""Returns the role of a client; None for one that was removed."""


class ThreadOrder(BaseModel):
    """The names in every order of a client; the arguments of the MCP tool `sessions`."""

    model_config = ConfigDict(extra="forbid")

    thread: str = Field(default="", description="The conversation of the client that it belongs to.")


class SendOrder(ThreadOrder):
    """The arguments of the MCP tool `send`."""

    text: str = Field(max_length=INBOUND_CHARS_MAX, description="What is said.")
    id: str = Field(default="", description="Yours; the same one again is the same message, answered once.")
    webhook: str = Field(default="", description="Where to send the answer; one of channels.api.webhooks.")


class ClientMessageOrder(SendOrder):
    """The body of `POST /api/v1/messages`."""

    wait_s: float = Field(default=60.0, ge=0.0, le=API_WAIT_MAX_S, description="Seconds to wait for the answer.")


class AskOrder(ClientMessageOrder):
    """The arguments of the MCP tool `ask`. The SDKs' clients give up after 60 s, if they are told nothing else."""

    wait_s: float = Field(default=50.0, ge=0.0, le=API_WAIT_MAX_S, description="How many seconds to wait.")


class ReminderOrder(SendOrder):
    """The arguments of the MCP tool `remind`."""

    when: str = Field(max_length=200, description="Such as: in 30 minutes, tomorrow at 8, every Monday at 18:00.")


_ASK: Final = (
    "Ask the agent and wait for its answer. It has a memory and tools of its own. If there is no answer in time, call "
    "again with the id that you were told and an empty text."
)
_REMIND: Final = (
    "Have the agent remind you. The reminder is posted to `webhook`, and `ask` with the same id and an empty text "
    "fetches it for an hour."
)
MCP_TOOLS: Final[Mapping[str, tuple[str, type[ThreadOrder]]]] = {
    "ask": (_ASK, AskOrder),
    "send": ("Tell the agent something without waiting. `ask` with the same id fetches the answer.", SendOrder),
    "sessions": ("List your conversations with the agent in a thread.", ThreadOrder),
    "remind": (_REMIND, ReminderOrder),
}


class TextPart(BaseModel):
    """A part of a message's content; parts of other kinds are refused."""

    type: str
    text: str = ""


class ChatMessage(BaseModel):
    """One of the messages of a chat."""

    role: str
    content: str | list[TextPart] | None = None

    @property
    def text(self) -> str:
        """Return the words. Raises `UnfitMessage` for what is no text."""
        if isinstance(self.content, list):
            if any(part.type != "text" for part in self.content):
                raise UnfitMessage("only text can be sent here, no images, sounds or files")
            return "\n".join(part.text for part in self.content)
        return self.content or ""


class ChatOrder(BaseModel):
    """The body of `POST /v1/chat/completions`. What else OpenAI knows (temperature, tools, …) is the operator's to
    choose, and left unread."""

    model: str = MODEL
    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    stream: bool = False
    user: str = ""

    def message(self, client: SessionKey, own_id: str) -> ApiMessage:
        """Return what is said now. With `user` the conversation of that name goes on, which is kept here. Without, the
        client keeps the conversation: it is what these messages say, however many chats begin alike, and each request
        is a thread of its own. Raises `UnfitMessage`."""
        newest = self.messages[-1]
        if newest.role != "user":
            raise UnfitMessage("the last message must be the user's: it is what is said now")
        if self.user:
            return ApiMessage(client, own_id, self.user, newest.text)
        spoken = [message for message in self.messages[:-1] if message.role in _SPEAKERS and message.text]
        before = tuple(RawQuote(QuoteKind.THREAD, message.role, message.text) for message in spoken)
        return ApiMessage(client, own_id, own_id, newest.text, before=before)


class ApiServer:
    """The routes, over an adapter that knows what clients say and are told."""

    def __init__(
        self, adapter: ApiAdapter, handler: InboundHandler, roles: ClientRoles, *, hosts: Collection[str]
    ) -> None:
        self._adapter = adapter
        self._handler = handler
        self._roles = roles
        self._under_way = Counter[SessionKey]()
        table = [
            Route("/messages", self._post_message, methods=["POST"]),
            Route("/messages/{id}", self._get_message),
            Route("/messages/{id}/events", self._get_events),
            Route("/chat/completions", self._complete, methods=["POST"]),
            Route("/models", self._models),
        ]
        self.routes = [
            Route("/healthz", self._health),
            Mount("/api/v1", routes=table),
            Mount("/v1", routes=table),  # where clients of OpenAI's API look
            Route("/mcp", self._mcp, methods=["POST"]),
        ]
        told = {UnfitMessage: _refused, ValidationError: _refused, BusUnavailable: _away, HTTPException: _plain}
        self._routed = Starlette(routes=self.routes, exception_handlers={**told})
        self.app = Guard(self._serve, hosts=hosts, body_bytes_max=API_BODY_BYTES_MAX, check=self._check, told=_told)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, unless its client has so many under way that others would find no connection. Raises
        `HTTPException`."""
        request = Request(scope)
        if request.url.path == "/healthz":
            await self._routed(scope, receive, send)
            return
        client = self._named(request)
        if self._under_way[client] >= API_CLIENT_REQUESTS_MAX:
            raise HTTPException(429, "this client has too many requests under way", {"Retry-After": "1"})
        self._under_way[client] += 1
        try:
            await self._routed(scope, receive, send)
        finally:
            self._under_way[client] -= 1
            if not self._under_way[client]:
                del self._under_way[client]

    def _check(self, request: Request) -> None:
        if request.url.path != "/healthz":
            self._named(request)

    def _named(self, request: Request) -> SessionKey:
        """Return whose token it is. Raises `HTTPException`."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        client = client_of(self._adapter.key, token.strip()) if scheme.lower() == "bearer" else None
        if client is None:
            raise _unknown("send a client's token: Authorization: Bearer …")
        return client

    async def _client(self, request: Request) -> SessionKey:
        """Return who asks. Raises `HTTPException` also for a client that was removed or blocked."""
        client = self._named(request)
        role = await self._roles(client)
        if role is None:
            raise _unknown("this client was removed: its token is worth nothing any more")
        if role is GrantRole.BLOCKED:
            raise HTTPException(403, "this client is blocked")
        return client

    async def _health(self, _request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    # --- our own

    async def _post_message(self, request: Request) -> Response:
        client = await self._client(request)
        order = ClientMessageOrder.model_validate_json(await request.body())
        own_id = order.id or secrets.token_hex(8)
        message = ApiMessage(client, own_id, order.thread, order.text, order.webhook)
        await self._take_in(message)
        if _EVENTS in request.headers.get("accept", ""):
            return StreamingResponse(self._events(message.incoming_id, own_id), media_type=_EVENTS)
        return self._told(own_id, await self._answered(message.incoming_id, order.wait_s))

    async def _get_message(self, request: Request) -> Response:
        _, answers = await self._known(request)
        return self._told(request.path_params["id"], answers)

    async def _get_events(self, request: Request) -> Response:
        incoming_id, _ = await self._known(request)
        return StreamingResponse(self._events(incoming_id, request.path_params["id"]), media_type=_EVENTS)

    async def _known(self, request: Request) -> tuple[str, Sequence[FetchedAnswer]]:
        """Return the id on the bus of a message of who asks, and the answers to it. Raises `HTTPException`."""
        incoming_id = message_id(await self._client(request), request.path_params["id"])
        return incoming_id, await self._found(incoming_id)

    async def _found(self, incoming_id: str) -> Sequence[FetchedAnswer]:
        answers = await self._adapter.answers.of(incoming_id)
        if answers is None:
            raise HTTPException(404, "no message of yours has this id, or it is more than an hour old")
        return answers

    def _told(self, own_id: str, answers: Sequence[FetchedAnswer]) -> Response:
        return JSONResponse(_message_fields(own_id, answers), 200 if answers else 202)

    async def _events(self, incoming_id: str, own_id: str) -> AsyncIterator[str]:
        """Yield what is made of the answer, as whole texts so far, and then the answers."""
        async for draft, answers in self._followed(incoming_id, API_WAIT_MAX_S):
            for answer in answers:
                yield _event("answer", answer_fields(own_id, answer.text, answer.choices, answer.id))
            if not answers:
                yield _event("draft", {"message_id": own_id, "text": draft})

    # --- OpenAI's

    async def _models(self, request: Request) -> Response:
        await self._client(request)
        row = {"id": MODEL, "object": "model", "created": 0, "owned_by": MODEL}
        return JSONResponse({"object": "list", "data": [row]})

    async def _complete(self, request: Request) -> Response:
        client, own_id = await self._client(request), secrets.token_hex(8)
        order = ChatOrder.model_validate_json(await request.body())
        message = order.message(client, own_id)
        await self._take_in(message)
        if order.stream:
            return StreamingResponse(self._pieces(message.incoming_id, own_id), media_type=_EVENTS)
        answers = await self._answered(message.incoming_id, API_WAIT_MAX_S)
        if not answers:
            raise HTTPException(504, f"no answer yet: ask GET /api/v1/messages/{own_id} later")
        reply = {"role": "assistant", "content": _words(answers)}
        choice = {"index": 0, "message": reply, "finish_reason": "stop", "logprobs": None}
        return JSONResponse({**_head(own_id, "chat.completion"), "choices": [choice]})

    async def _pieces(self, incoming_id: str, own_id: str) -> AsyncIterator[str]:
        """Yield an answer piece by piece. What two drafts in a row agree in will not change any more."""
        head = _head(own_id, "chat.completion.chunk")
        said, before, is_answered = "", "", False

        def piece(delta: Mapping[str, str], finish: str | None = None) -> str:
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
            return f"data: {json.dumps({**head, 'choices': [choice]})}\n\n"

        yield piece({"role": "assistant", "content": ""})
        async for draft, answers in self._followed(incoming_id, API_WAIT_MAX_S):
            text = _words(answers) if answers else common_beginning(before, draft)
            before, is_answered = draft, bool(answers)
            if answers and not text.startswith(said):
                text = f"{said}\n\n{text}"  # the turn was begun anew, and what was said cannot be taken back
            if text.startswith(said) and len(text) > len(said):
                yield piece({"content": text[len(said) :]})
                said = text
        if is_answered:
            yield piece({}, "stop")
            yield "data: [DONE]\n\n"
        else:
            error = {"message": f"no answer yet: ask GET /api/v1/messages/{own_id} later", "type": "server_error"}
            yield f"data: {json.dumps({'error': error})}\n\n"

    # --- MCP

    async def _mcp(self, _request: Request) -> ASGIApp:
        """Serve one request of an MCP client. None of them leaves anything here, so any process may get the next."""
        return await asyncio.to_thread(lambda: self._mcp_app)

    @cached_property
    def _mcp_app(self) -> ASGIApp:
        """Build what serves MCP. Blocks: the SDK takes a second and 31 MB, which only those pay whose clients speak
        it."""
        from mcp.server.lowlevel import Server  # noqa: PLC0415
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager  # noqa: PLC0415

        server = Server(MODEL, on_list_tools=self._list_tools, on_call_tool=self._call_tool)

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            manager = StreamableHTTPSessionManager(server, json_response=True, stateless=True)
            async with manager.run():
                await manager.handle_request(scope, receive, send)

        return serve

    async def _list_tools(
        self, _context: ServerRequestContext[Any, Any], _params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        from mcp.types import ListToolsResult, Tool  # noqa: PLC0415 - as in _mcp_app

        tools = [
            Tool(name=name, description=about, input_schema=order.model_json_schema() | {"description": about})
            for name, (about, order) in MCP_TOOLS.items()
        ]
        return ListToolsResult(tools=tools)

    async def _call_tool(
        self, context: ServerRequestContext[Any, Any], params: CallToolRequestParams
    ) -> CallToolResult:
        """Do what a tool does for the client whose token the request has."""
        from mcp.types import CallToolResult, TextContent  # noqa: PLC0415 - as in _mcp_app

        assert context.request is not None
        try:
            order = _order_of(params.name, params.arguments or {})
            own_id = order.id or secrets.token_hex(8)
            message = ApiMessage(await self._client(context.request), own_id, order.thread, order.text, order.webhook)
            if order.id and not order.text:
                await self._found(message.incoming_id)
            else:
                await self._take_in(message)
            answers = await self._answered(message.incoming_id, order.wait_s)
        except (UnfitMessage, ValidationError, HTTPException, BusUnavailable) as error:
            return CallToolResult(content=[TextContent(text=_why(error))], is_error=True)
        said = _words(answers) if answers else f"No answer yet: call ask with the id {own_id} and an empty text."
        return CallToolResult(content=[TextContent(text=said)], structured_content=_message_fields(own_id, answers))

    # --- all

    async def _take_in(self, message: ApiMessage) -> None:
        """Bring a message to its lane. Raises `UnfitMessage`, `BusUnavailable`, `HTTPException` where it is turned
        away."""
        told = await self._handler.invoke(self._adapter.incoming(message))
        if told is not None:
            raise HTTPException(429 if told else 403, told or "this client may not talk to the agent")
        await self._adapter.answers.expect(message.incoming_id)

    async def _answered(self, incoming_id: str, wait_s: float) -> Sequence[FetchedAnswer]:
        """Return the answers to a message; none if there is none within `wait_s`."""
        async for _, answers in self._followed(incoming_id, wait_s):
            if answers:
                return answers
        return ()

    async def _followed(self, incoming_id: str, wait_s: float) -> AsyncIterator[tuple[str, Sequence[FetchedAnswer]]]:
        """Yield the draft of an answer whenever it has changed, and in the end the answers, if there are any within
        `wait_s`."""
        watched = self._adapter.watch(incoming_id)
        ends_at = asyncio.get_running_loop().time() + wait_s
        draft = ""
        try:
            while True:
                with contextlib.suppress(BusUnavailable):
                    if answers := await self._adapter.answers.of(incoming_id):
                        yield watched.draft, answers
                        return
                if watched.draft != draft:
                    draft = watched.draft
                    yield draft, ()
                if asyncio.get_running_loop().time() >= ends_at:
                    return
                await watched.news()
        finally:
            self._adapter.unwatch(incoming_id, watched)


def _unknown(why: str) -> HTTPException:
    return HTTPException(401, why, {"WWW-Authenticate": "Bearer"})


def common_beginning(one: str, other: str) -> str:
    """Return what both texts begin with."""
    at = next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None)
    return one[: min(len(one), len(other)) if at is None else at]


def _order_of(tool: str, arguments: Mapping[str, Any]) -> ClientMessageOrder:
    """Return a call of an MCP tool as the message that it is. Raises `UnfitMessage`, `ValidationError`."""
    _, kind = MCP_TOOLS.get(tool, ("", None))
    if kind is None:
        raise UnfitMessage(f"there is no tool {tool[:64]!r}; there are {', '.join(MCP_TOOLS)}")
    order = kind.model_validate(arguments)
    match order:
        case ClientMessageOrder():
            return order
        case ReminderOrder():
            text = f"/remind {order.when} {order.text}"
            return ClientMessageOrder(text=text, id=order.id, thread=order.thread, webhook=order.webhook)
        case SendOrder():
            return ClientMessageOrder(**order.model_dump(), wait_s=0.0)
    return ClientMessageOrder(text="/sessions", thread=order.thread)


def _message_fields(own_id: str, answers: Sequence[FetchedAnswer]) -> dict[str, object]:
    """Return a message with its answers as clients read it."""
    told = [answer_fields(own_id, answer.text, answer.choices, answer.id) for answer in answers]
    return {"id": own_id, "state": "answered" if told else "waiting", "answers": told}


def _words(answers: Sequence[FetchedAnswer]) -> str:
    """Return answers as one text; a question says how it is answered."""
    ways = [[f"{label}: {say}" for label, say in answer.choices] for answer in answers]
    return "\n\n".join("\n".join((answer.text, *way)) for answer, way in zip(answers, ways, strict=True))


def _event(name: str, fields: Mapping[str, object]) -> str:
    return f"event: {name}\ndata: {json.dumps(fields)}\n\n"


def _head(own_id: str, kind: str) -> Mapping[str, object]:
    return {"id": f"chatcmpl-{own_id}", "object": kind, "created": int(time.time()), "model": MODEL}


def _error(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Refuse in the shape of OpenAI's errors and in that of the operator's API."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    error = {"message": message, "type": kind, "param": None, "code": status}
    return JSONResponse({"error": error, "detail": message}, status, headers)


def _told(error: HTTPException) -> Response:
    return _error(error.status_code, error.detail, error.headers)


def _refused(_request: Request, error: Exception) -> Response:
    return _error(400, _why(error))


def _away(_request: Request, error: Exception) -> Response:
    return _error(503, _why(error), {"Retry-After": "1"})


def _why(error: Exception) -> str:
    """Say in a clause why an order was not carried out."""
    match error:
        case ValidationError():
            first: Any = error.errors(include_url=False, include_input=False)[0]
            return f"{'.'.join(map(str, first['loc'])) or 'the body'}: {first['msg']}"
        case BusUnavailable():
            return "the queue cannot be reached or is full: try again"
        case HTTPException():
            return error.detail
    return str(error)


def _plain(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _told(error)


def open_adapter(_name: str, settings: Settings, parts: AdapterDeps) -> ApiAdapter:
    """Build the adapter of channel `api`, which serves `channels.api.port`."""
    host, port, hosts = webhook_host(settings), settings.channels.api.port, own_hosts(settings)

    async def role_of(client: SessionKey) -> GrantRole | None:
        return settings.access.policy.role_of(client, (await parts.access.view(client)).granted)

    @contextlib.asynccontextmanager
    async def serve(adapter: ApiAdapter, handler: InboundHandler) -> AsyncIterator[None]:
        with listen(host, port, "channels.api.port", is_shared=True) as listener:
            async with http_served(
                ApiServer(adapter, handler, role_of, hosts=hosts).app, listener, grace_s=LAST_REQUESTS_S
            ):
                yield

    shows = settings.channels.api.streaming == "auto"
    return ApiAdapter(
        serve,
        parts.answers,
        (lambda: parts.leases.drafts(CHANNEL)) if shows else None,
        parts.clock,
        key=client_key(settings),
        webhooks=settings.channels.api.webhooks,
        scope=settings.session.scope,
    )
