"""Calls providers by litellm's provider classes: litellm writes each request and reads each event, the HTTP is ours.

litellm's own way, `acompletion`, costs eight times as much for the same words: it builds each chunk three times, puts
the whole answer together again for logs that nobody reads, and starts threads for that. It stays for providers that
need more than HTTP with server-sent events: cloud logins, signed requests, answers in another framing."""

from __future__ import annotations

import asyncio
import json
import os
import re
import tomllib
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import resources
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from agent.limits import (
    MODEL_END_WAIT_S,
    MODEL_ERROR_BYTES_MAX,
    MODEL_EVENT_BYTES_MAX,
    MODEL_EVENTS_AT_ONCE,
    MODEL_STREAM_BYTES_MAX,
    MODEL_TOOLS_KEPT,
)
from agent.models.litellm_import import Litellm
from agent.models.requests import ToolSpec
from gateway.contracts.errors import ModelUnavailable

_END: Final = re.compile(rb'"(?:finish_reason|stop_reason|finishReason)":\s*"[^"]')
"""In the event that says why an answer ends. No text of an answer can hold it: there, quotes are escaped."""
_LAST: Final = re.compile(rb'"type":\s*"message_stop"')
"""In Anthropic's last event."""
_OTHER_LIMITS: Final = frozenset({"model_length", "max_output_tokens"})
_BROKEN_OFF: Final = frozenset({"error", "abort", "insufficient_system_resource"})
"""Reasons of Mistral, DeepSeek, OpenRouter and vLLM; of each that it does not know litellm makes a `stop`."""
_ENDS_UNSAID: Final = frozenset({"gemini"})
"""Wires on which a whole answer may end without a reason or a mark."""


# The providers that are called directly.


@dataclass(frozen=True, slots=True)
class DirectProvider:
    """A provider, by the environment variables that hold its keys and its address, in the order of their rank; for
    most, litellm looks them up itself. `headers` are sent where their variable is set. `tools_are_apart` where litellm
    reads every schema again for each call, and nothing else of the request depends on the tools."""

    wire: str = "chat"
    keys: Sequence[str] = ()
    bases: Sequence[str] = ()
    base: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    tools_are_apart: bool = False

    def key(self) -> str | None:
        """Return the key of the environment."""
        return next(filter(None, map(os.environ.get, self.keys)), None)

    def address(self) -> str | None:
        """Return the address of the environment, else the provider's own."""
        return next(filter(None, map(os.environ.get, self.bases)), None) or self.base or None


_TABLE: Final = tomllib.loads(resources.files(__package__).joinpath("providers.toml").read_text("utf-8"))
PROVIDERS: Final[Mapping[str, DirectProvider]] = {
    **dict.fromkeys(_TABLE["chat"], DirectProvider()),
    **{name: DirectProvider(**row) for name, row in _TABLE["other"].items()},
}


# One call, ready to be sent.

_SCALARS: Final = ("reasoning_effort", "max_tokens", "temperature")
"""The parameters of a call that are no objects."""


@dataclass(frozen=True, slots=True)
class ProviderCall:
    """A request as its provider takes it, and what reads the events of the answer. `is_plain_chat` where the words of
    an event may be read without it."""

    provider: str
    model: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    config: Any = field(repr=False)
    parse: Callable[[Any], Any] = field(repr=False)
    is_plain_chat: bool


@dataclass(frozen=True, slots=True)
class _Draft:
    """The request as all wires share it, before litellm's class has written its own."""

    litellm: Litellm
    config: Any
    provider: str
    model: str
    key: str | None
    base: str | None
    headers: dict[str, str]
    messages: list[Any]
    params: dict[str, Any]
    litellm_params: dict[str, Any]

    def finished(self, url: str, headers: Mapping[str, str], body: Mapping[str, Any], parser: Any) -> ProviderCall:
        return ProviderCall(
            self.provider,
            self.model,
            url,
            dict(headers),
            json.dumps(body).encode(),
            self.config,
            parser.chunk_parser,
            type(parser) is self.litellm.chat_parser,
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Written:
    """What litellm made of the parameters of a call, and in JSON of its tools. What was `offered` is kept, too: as long
    as these tools are there, no other one has one of their ids."""

    offered: tuple[ToolSpec, ...]
    params: dict[str, Any]
    tools: bytes


def _chat_call(draft: _Draft) -> ProviderCall | None:
    if draft.base is None:
        return None
    config, params = draft.config, draft.params
    extra = params.pop("extra_body", None) or {}
    common = {"model": draft.model, "optional_params": params, "litellm_params": draft.litellm_params}
    headers = config.validate_environment(
        headers={**config.get_attribution_headers(), **draft.headers},
        messages=draft.messages,
        api_key=draft.key,
        api_base=draft.base,
        **common,
    )
    url = config.get_complete_url(api_base=draft.base, api_key=draft.key, stream=True, **common)
    body = config.transform_request(messages=draft.messages, headers=headers, **common)
    body |= {"stream": True, **config.transform_extra_body(extra, body, draft.model, draft.litellm_params)}
    return draft.finished(url, headers, body, config.get_model_response_iterator(iter(()), sync_stream=False))


def _words_only(event: Any) -> str:
    """Return the words of an event that says nothing else, most of a stream; "" of any other. Objects of litellm, made
    for each, would be a quarter of what a call costs."""
    match event:
        case {"choices": [{"delta": {"content": str(words)} as delta} as choice]}:
            more = (event.get("error"), event.get("usage"), choice.get("finish_reason"))
            is_all = not any(more) and not any(delta[name] for name in delta.keys() - {"content", "role"})
            return words if is_all else ""
    return ""


def _normalized(event: Any) -> Any:
    """Write an event as its vendor's reference has it, where other servers of the same API are known to differ in ways
    that litellm's classes cannot read. A whole answer becomes one event."""
    if not isinstance(event, dict):
        return event
    if isinstance(event.get("message"), str) and not event.keys() & {"choices", "error"}:
        return {"error": event}  # vLLM and others send the error itself
    if "usage" in event and not _is_counted(event["usage"]):
        del event["usage"]
    if "choices" in event:
        event["choices"] = event["choices"] or []
    for choice in event.get("choices", ()):
        if (finish := choice.get("finish_reason")) in _BROKEN_OFF and not event.get("error"):
            raise ModelUnavailable(f"the answer ended with {finish}")
        if finish in _OTHER_LIMITS:
            choice["finish_reason"] = "length"
        delta = choice["delta"] = choice.get("delta") or choice.get("message") or {}
        if isinstance(parts := delta.get("content"), list):  # Mistral's thinking models: https://docs.mistral.ai
            delta["content"] = "".join(part.get("text") or "" for part in parts if part.get("type") == "text")
        for index, call in enumerate(delta.get("tool_calls") or ()):
            call.setdefault("index", index)
            call["id"] = None if call.get("id") is None else str(call["id"])
            call["function"] = call.get("function") or {"name": None, "arguments": ""}
    for candidate in event.get("candidates") or ():
        for part in (candidate.get("content") or {}).get("parts") or ():
            if "functionCall" in part:
                part["functionCall"]["args"] = part["functionCall"].get("args") or {}
    if counted := event.get("usageMetadata"):
        event["usageMetadata"] = {name: value for name, value in counted.items() if value is not None}
    return event


def _is_counted(usage: Any) -> bool:
    """Tell whether all counts of tokens are numbers; an answer is not lost because they are none."""
    return isinstance(usage, dict) and all(
        _is_counted(count)
        if isinstance(count, dict)
        else count is None or (type(count) in (int, float) and not count % 1)
        for name, count in usage.items()
        if "_tokens" in name
    )


def _anthropic_call(draft: _Draft) -> ProviderCall | None:
    params = {**draft.params, "is_vertex_request": False}
    common = {"model": draft.model, "optional_params": params, "litellm_params": draft.litellm_params}
    headers = draft.config.validate_environment(
        headers=draft.headers, messages=draft.messages, api_key=draft.key, api_base=draft.base, **common
    )
    body = draft.config.transform_request(messages=draft.messages, headers=headers, **common)
    headers, body = draft.litellm.anthropic_betas(headers=headers, request_data=body, provider=draft.provider)
    base = draft.base or ""
    url = base if base.endswith("/v1/messages") else base + "/v1/messages"
    renamed = draft.litellm_params.get(draft.litellm.anthropic_renamed)
    parser = draft.litellm.anthropic_parser(iter(()), sync_stream=False, tool_name_reverse_map=renamed)
    return draft.finished(url, headers, {**body, "stream": True}, parser)


def _gemini_call(draft: _Draft) -> ProviderCall | None:
    if draft.key is None:
        return None
    key, url = draft.litellm.gemini_address(
        model=draft.model,
        auth_header=None,
        gemini_api_key=draft.key,
        vertex_project=None,
        vertex_location=None,
        vertex_credentials=None,
        stream=True,
        custom_llm_provider="gemini",
        api_base=draft.base,
    )
    params = {name: value for name, value in draft.params.items() if name != "stream"}
    common = {"model": draft.model, "optional_params": params, "litellm_params": draft.litellm_params}
    headers = draft.config.validate_environment(headers=draft.headers, messages=draft.messages, api_key=key, **common)
    body = draft.litellm.gemini_body(
        messages=draft.messages, custom_llm_provider="gemini", cached_content=None, **common
    )
    return draft.finished(url, headers, body, draft.litellm.gemini_parser(iter(()), False, _NoLogging()))


class _NoLogging:
    """The part of litellm's log that a parser asks for: whether old-style functions were offered."""

    optional_params: Final[dict[str, Any]] = {}


_WIRES: Final[Mapping[str, Callable[[_Draft], ProviderCall | None]]] = {
    "chat": _chat_call,
    "anthropic": _anthropic_call,
    "gemini": _gemini_call,
}


@lru_cache(maxsize=256)
def _may_be_for_responses(litellm: Litellm, provider: str, model: str) -> bool:
    """Tell whether OpenAI takes any call of this model on its Responses API only, by all that litellm looks at."""
    if provider == "openai" and (litellm.module.route_all_chat_openai_to_responses or litellm.is_reasoning(model)):
        return True
    try:
        return bool(litellm.model_info(model=model, custom_llm_provider=provider).get("mode") == "responses")
    except Exception:  # noqa: BLE001  # litellm's way to say that its map does not know the model
        return model.startswith("responses/")


@lru_cache(maxsize=256)
def _is_for_responses(
    litellm: Litellm, provider: str, model: str, has_tools: bool, effort: str | None, base: str | None
) -> bool:
    """Tell whether OpenAI takes such a call on its Responses API only. Only the whole of litellm can."""
    kind, _ = litellm.module.main.responses_api_bridge_check(
        model=model,
        custom_llm_provider=provider,
        tools=[{"type": "function"}] if has_tools else None,
        reasoning_effort=effort,
        api_base=base,
    )
    return bool(kind.get("mode") == "responses")


class ProviderCalls:
    """The direct way to providers, with connections that are kept open between calls. Belongs to one event loop."""

    def __init__(self, litellm: Litellm) -> None:
        """Open nothing yet."""
        self.litellm = litellm
        self._proxies = getproxies()
        self._written: dict[tuple[Any, ...], _Written] = {}
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=litellm.tls()),  # the worker limits how much goes on at once
            timeout=aiohttp.ClientTimeout(),  # each call has its own, which the caller keeps
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": "trivet", "Content-Type": "application/json"},
        )

    async def close(self) -> None:
        """Close all connections, those of litellm's own way, too."""
        await self._http.close()
        if self.litellm.is_whole:
            await self.litellm.module.close_litellm_async_clients()

    def prepare(self, given: Mapping[str, Any], offered: tuple[ToolSpec, ...] = ()) -> ProviderCall | None:
        """Prepare the call that `acompletion` would make of these arguments, whose tools are those `offered`; None
        where only that can make it, or where it has to be loaded before anybody can tell. Raises litellm's errors."""
        model, name, key, base = self.litellm.provider_of(
            model=given["model"], api_base=given.get("api_base"), api_key=given.get("api_key")
        )
        provider = PROVIDERS.get(name)
        if provider is None:
            return None
        shape = (name, model, base, "stream_options" in given, *map(given.get, _SCALARS), *map(id, offered))
        known = self._written.get(shape) if provider.tools_are_apart and offered else None
        with self._mapping(model, name):
            draft = self._drafted(given, provider, name, model, key, base, known)
            if draft is None:
                return None
            if provider.tools_are_apart and offered:
                return self._with_tools(draft, _WIRES[provider.wire], offered, shape, known)
            return _WIRES[provider.wire](draft)

    async def chunks(self, call: ProviderCall) -> AsyncGenerator[Any]:
        """Make the call and yield litellm's chunks, or the words of those that hold nothing else. Raises litellm's
        errors, and `ModelUnavailable` where the network fails or the stream stops before the answer ends. The response
        is closed as soon as nobody reads on."""
        is_ended = False
        try:
            async with self._http.post(
                call.url, data=call.body, headers=call.headers, proxy=self._proxy(call.url)
            ) as response:
                if not response.ok:
                    raise self._mapped(await _refusal(response, call), call.model, call.provider)
                events = ServerSentEvents()
                async for piece in response.content.iter_any():
                    for count, event in enumerate(events.feed(piece), 1):
                        heard = self._parsed(event, call)
                        if not isinstance(heard, str):  # words alone end nothing
                            is_ended = is_ended or _END.search(event) is not None
                            events.is_done = events.is_done or _LAST.search(event) is not None
                        yield heard
                        if count % MODEL_EVENTS_AT_ONCE == 0:  # they are read without waiting: others have their turn
                            await asyncio.sleep(0)
                    if events.is_done:
                        is_ended = True
                        await _read_rest(response)
                        break
                for event in events.flush():
                    is_ended = is_ended or _END.search(event) is not None
                    yield self._parsed(event, call)
                if not is_ended and not events.is_done and PROVIDERS[call.provider].wire not in _ENDS_UNSAID:
                    raise ModelUnavailable("the stream stopped before the answer ended")
        except aiohttp.ClientError as error:
            if not is_ended:  # what comes after the end is a count of tokens, at most
                raise ModelUnavailable(type(error).__name__) from None

    def _drafted(
        self,
        given: Mapping[str, Any],
        named: DirectProvider,
        name: str,
        model: str,
        key: str | None,
        base: str | None,
        known: _Written | None,
    ) -> _Draft | None:
        litellm, tools, effort = self.litellm, given.get("tools"), given.get("reasoning_effort")
        if _may_be_for_responses(litellm, name, model) and (
            not litellm.is_whole or _is_for_responses(litellm, name, model, bool(tools), effort, base)
        ):
            return None
        key, base = key or given.get("api_key") or named.key(), base or named.address()
        params = (known and deepcopy(known.params)) or litellm.optional_params(
            model=model,
            custom_llm_provider=name,
            messages=given["messages"],
            stream=True,
            stream_options=given.get("stream_options"),
            tools=tools,
            **{scalar: given.get(scalar) for scalar in _SCALARS},
        )
        own = {header: value for header, of in named.headers.items() if (value := os.environ.get(of))}
        return _Draft(
            litellm,
            litellm.config_of(model, name),
            name,
            model,
            key,
            base,
            {**own, **given.get("extra_headers", {})},
            given["messages"],
            params,
            {"api_key": key, "api_base": base, "custom_llm_provider": name},
        )

    def _with_tools(
        self,
        draft: _Draft,
        wire: Callable[[_Draft], ProviderCall | None],
        offered: tuple[ToolSpec, ...],
        shape: tuple[Any, ...],
        known: _Written | None,
    ) -> ProviderCall | None:
        """Finish a call with its tools as litellm made them for an earlier one of this shape."""
        if known is not None:
            call = wire(draft)
            return call and replace(call, body=b'%s, "tools": %s}' % (call.body[:-1], known.tools))
        params = deepcopy({name: value for name, value in draft.params.items() if name != "tools"})
        call = wire(draft)
        if call is not None and (tools := json.loads(call.body).get("tools")):
            if len(self._written) >= MODEL_TOOLS_KEPT:
                self._written.clear()
            self._written[shape] = _Written(offered, params, json.dumps(tools).encode())
        return call

    def _proxy(self, url: str) -> str | None:
        """Find the proxy of an address in the environment, as litellm's own client does."""
        scheme, host, *_ = urlsplit(url)
        proxy = self._proxies.get(scheme) or self._proxies.get("all")
        if not proxy or proxy_bypass(host):
            return None
        if "://" in proxy and not proxy.startswith(("http://", "https://")):
            raise ModelUnavailable("the proxy that the environment names is no HTTP proxy")
        return proxy if "://" in proxy else f"http://{proxy}"

    def _parsed(self, event: bytes, call: ProviderCall) -> Any:
        with self._mapping(call.model, call.provider):
            said = json.loads(event.decode("utf-8", "surrogatepass"))  # what it is json would have to find out
            return (call.is_plain_chat and _words_only(said)) or call.parse(_normalized(said))

    @contextmanager
    def _mapping(self, model: str, provider: str) -> Iterator[None]:
        """Raise the error that `acompletion` would raise in place of whatever litellm's classes raise."""
        try:
            yield
        except ModelUnavailable:
            raise
        except Exception as error:  # noqa: BLE001  # an endpoint that cannot be called, an event that nobody can read
            raise self._mapped(error, model, provider) from None

    def _mapped(self, error: Exception, model: str, provider: str) -> Exception:
        """Return the error that `acompletion` would raise for this one."""
        try:
            return self.litellm.mapped_error(model=model, original_exception=error, custom_llm_provider=provider)
        except self.litellm.errors as mapped:
            return mapped


async def _read_rest(response: aiohttp.ClientResponse) -> None:
    """Read what comes after the last event, so that the connection serves the next call, too; some servers keep it open
    and send nothing."""
    with suppress(TimeoutError, aiohttp.ClientError):
        async with asyncio.timeout(MODEL_END_WAIT_S):
            async for _ in response.content.iter_any():
                pass


async def _refusal(response: aiohttp.ClientResponse, call: ProviderCall) -> Exception:
    """Read a provider's error, as the class of litellm that the provider has for it."""
    said = bytearray()
    async for piece in response.content.iter_any():
        said += piece
        if len(said) > MODEL_ERROR_BYTES_MAX:
            break
    headers = {name.lower(): value for name, value in response.headers.items()}
    error: Exception = call.config.get_error_class(said.decode(errors="replace"), response.status, headers)
    return error


class ServerSentEvents:
    """The data of server-sent events, put together from pieces that heed no boundary. Pure."""

    def __init__(self) -> None:
        self.is_done = False
        self._is_json: bool | None = None
        self._rest = b""
        self._data: list[bytes] = []
        self._bytes = 0
        self._bytes_of_all = 0

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Take a piece and yield the data of each event that it completes; what is no data is skipped. The mark that
        some providers end with sets `is_done`. A server that does not stream sends one JSON value instead, which is
        yielded as one event. Raises `ModelUnavailable` for an event or a stream without an end."""
        self._bytes_of_all += len(piece)
        if self._is_json is None and piece.strip():
            self._is_json = piece.lstrip().startswith((b"{", b"["))
        *lines, self._rest = [self._rest + piece] if self._is_json else (self._rest + piece).split(b"\n")
        for line in lines:
            if event := self._add(line.rstrip(b"\r")):
                yield event
        if len(self._rest) + self._bytes > MODEL_EVENT_BYTES_MAX:
            raise ModelUnavailable("an event of the stream is too long")
        if self._bytes_of_all > MODEL_STREAM_BYTES_MAX:
            raise ModelUnavailable("the stream is too long")

    def flush(self) -> Iterator[bytes]:
        """Yield the data of an event that the end of the stream completes."""
        if self._is_json:
            yield self._rest
        else:
            yield from self.feed(b"\n\n")

    def _add(self, line: bytes) -> bytes:
        """Add a line, and return the data of the event if the line ends one."""
        if line.startswith(b"data:"):
            self._data.append(line[5:].strip())
            self._bytes += len(line)
        if line or not self._data:
            return b""
        event = b"\n".join(self._data)
        self._data.clear()
        self._bytes = 0
        self.is_done = self.is_done or event == b"[DONE]"
        return b"" if event == b"[DONE]" else event
