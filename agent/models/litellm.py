"""A request as litellm takes it: the shapes of the OpenAI chat API. Pure."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, Final

import structlog

from agent.limits import MODEL_TOKENS_MAX, SPOKEN_BYTES_PER_S
from agent.models import requests
from agent.models.catalog import ModelCatalog, ModelEndpoint, number, whole
from agent.models.litellm_import import Litellm, load_litellm
from agent.models.metering import speech_usd
from agent.models.provider_calls import ProviderCalls
from agent.tokens import estimate_tokens
from gateway.contracts import errors
from gateway.contracts.context_blocks import Image
from gateway.contracts.sessions import Role, UsagePurpose

_log = structlog.get_logger(__name__)
_CACHED_UP_TO_HERE: Final = {"cache_control": {"type": "ephemeral"}}
_NO_EFFORTS: Final = frozenset({"", "none"})
_LONG_EFFORTS: Final = frozenset({"medium", "high"})
_THINKS_IN_BLOCKS: Final = "claude"
"""Models that, while they think, take the results of calls only together with the thought that led to these:
https://docs.anthropic.com/en/docs/build-with-claude/extended-thinking#extended-thinking-with-tool-use"""
_SIGNED: Final = "__thought__"
"""The separator that litellm puts between the id of a call and Gemini's signature of it."""
_THINKING_TOKENS: Final = {"high": 4_096, "medium": 2_048, "low": 1_024, "minimal": 1_024}
"""The most that litellm lets them think, where they do not decide that themselves. `max_tokens` has to be greater, and
less than 1,024 is refused: https://docs.anthropic.com/en/docs/build-with-claude/extended-thinking"""
_THOUGHT_BEGINS: Final = "<think>"
_THOUGHT_ENDS: Final = "</think>"
_OPTIONAL: Final = ("stream_options", "temperature", "reasoning_effort")
"""Arguments that a call can do without, where a server refuses them by name."""
_NOT_KNOWN_STATUS: Final = frozenset({400, 422})
_SHORT_EFFORT: Final = "low"
"""The effort of small work: it has few tokens for its answer, and a long thought would leave none of them."""


def addressed(endpoint: ModelEndpoint) -> dict[str, Any]:
    """Return the arguments of every call that say which endpoint is called, and with which key."""
    given: dict[str, Any] = {"model": endpoint.model}
    if endpoint.api_base:
        given["api_base"] = endpoint.api_base
    if endpoint.api_key:
        given["api_key"] = endpoint.api_key
    if endpoint.headers:
        given["extra_headers"] = dict(endpoint.headers)
    return given


def arguments(
    request: requests.ModelRequest, endpoint: ModelEndpoint, facts: requests.ModelFacts, pictures: Mapping[Image, bytes]
) -> dict[str, Any]:
    """Build the arguments of `acompletion`. Those images of the prompt are shown that are among `pictures`. The request
    may lower the limits of its endpoint, and its temperature takes precedence."""
    thoughts = {call_id: one for call_id, one in request.thoughts.items() if one.model == request.model}
    limits = [limit for limit in (request.completion_tokens_max, endpoint.max_tokens) if limit is not None]
    effort = _effort(request, endpoint, thoughts, min(limits, default=None))
    if endpoint.reasoning_effort and not effort:  # without thinking no thought may come back
        thoughts = {call_id: replace(one, blocks=()) for call_id, one in thoughts.items()}
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": request.system},
        *(_message(message, pictures, thoughts) for message in request.messages),
    ]
    has_next = request.purpose is UsagePurpose.TURN or (request.purpose in requests.LONG_WORK and bool(request.tools))
    if has_next and facts.is_told_to_cache:
        _mark_caches(messages)
    given: dict[str, Any] = {
        **addressed(endpoint),
        "messages": messages,
        "stream": True,
        "stream_options": {"include_usage": True},
        "timeout": request.timeout_s,
        "num_retries": 0,
        "max_retries": 0,
    }
    if request.tools:
        given["tools"] = [_tool(tool) for tool in request.tools]
    if limits:
        given["max_tokens"] = min(limits)
    temperature = endpoint.temperature if request.temperature is None else request.temperature
    is_thinking_in_blocks = _THINKS_IN_BLOCKS in endpoint.model and effort not in _NO_EFFORTS
    if temperature is not None and not is_thinking_in_blocks:  # together they are refused
        given["temperature"] = temperature
    if effort:
        given["reasoning_effort"] = effort
    return given


def _effort(
    request: requests.ModelRequest,
    endpoint: ModelEndpoint,
    thoughts: Mapping[str, requests.Thoughts],
    tokens_max: int | None,
) -> str:
    """Return how hard the model shall think; "" where it cannot. A model that thinks in blocks wants more tokens for
    that than small work has, and thinks less where `tokens_max` leaves no room for an answer; nor can it begin to think
    when the calls whose results come now were made without a thought (by another model, or in an earlier turn)."""
    if endpoint.reasoning_effort in _NO_EFFORTS:
        return endpoint.reasoning_effort
    is_small, thinks_in_blocks = request.purpose not in requests.LONG_WORK, _THINKS_IN_BLOCKS in endpoint.model
    newest = next((message for message in reversed(request.messages) if message.role is Role.ASSISTANT), None)
    calls = newest.tool_calls if newest is not None else ()
    if thinks_in_blocks and (is_small or (calls and calls[0].id not in thoughts)):
        return ""
    if thinks_in_blocks and tokens_max is not None:
        most = min(_THINKING_TOKENS[endpoint.reasoning_effort], tokens_max - 1)
        return next((effort for effort, tokens in _THINKING_TOKENS.items() if tokens <= most), "")
    return _SHORT_EFFORT if is_small and endpoint.reasoning_effort in _LONG_EFFORTS else endpoint.reasoning_effort


def _mark_caches(messages: Sequence[dict[str, Any]]) -> None:
    """Mark where a provider that has to be told shall cache: up to the system prompt, which many prompts share, and up
    to the newest message, which the next prompt will hold, too."""
    for message in (messages[0], messages[-1]):
        content = message["content"]
        (content[-1] if isinstance(content, list) else message).update(_CACHED_UP_TO_HERE)


def _message(
    message: requests.PromptMessage, pictures: Mapping[Image, bytes], thoughts: Mapping[str, requests.Thoughts]
) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": message.role.value, "content": message.text}
    if shown := [image for image in message.images if image in pictures]:
        wire["content"] = [
            {"type": "text", "text": message.text},
            *(_picture(image, pictures[image]) for image in shown),
        ]
    if message.tool_calls:
        wire["content"] = message.text if message.text.strip() else None  # litellm would fill a blank with words
        wire["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": requests.wire_name(call.name), "arguments": _as_object(call.arguments)},
            }
            for call in message.tool_calls
        ]
        if thought := thoughts.get(message.tool_calls[0].id):
            _add_thought(wire, thought)
    if message.role is Role.TOOL:
        wire["tool_call_id"] = message.tool_call_id
    return wire


def _as_object(arguments: str) -> str:
    """Return the arguments of an earlier call as a JSON object. Some providers take no prompt in which they are
    anything else, and it would be in every prompt that follows."""
    written = arguments or "{}"
    return written if _is_object(written) else json.dumps({"unreadable": arguments}, ensure_ascii=False)


def _is_object(arguments: str) -> bool:
    try:
        return isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        return False


def _add_thought(wire: dict[str, Any], thought: requests.Thoughts) -> None:
    if thought.blocks:
        wire["thinking_blocks"] = [dict(block) for block in thought.blocks]
    for call, signature in zip(wire["tool_calls"], thought.signatures, strict=False):
        if signature:
            call["provider_specific_fields"] = {"thought_signature": signature}


def _picture(image: Image, content: bytes) -> dict[str, Any]:
    address = f"data:{image.media_type};base64,{base64.b64encode(content).decode('ascii')}"
    return {"type": "image_url", "image_url": {"url": address}}


def _tool(tool: requests.ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": dict(tool.schema)},
    }


# The client of all models that are no demo.


_BUSY_STATUS: Final = 429
_TRANSIENT_STATUS: Final = frozenset({408, 409, 425, _BUSY_STATUS, 498, 499, *range(500, 600)})
_KEY_STATUS: Final = frozenset({401, 403})
_KEY_WORDS: Final = ("api key not valid", "api_key_invalid", "invalid_api_key")  # some providers say it with a 400
_SPENT_STATUS: Final = 402
_SPENT_WORDS: Final = ("insufficient_quota", "exceeded your current quota", "credit balance", "billing", "usage limits")
_WAIT_PART: Final = r"(\d+(?:\.\d+)?) ?(ms|millis|[dhms])"
_WAIT_WORDS: Final = re.compile(rf"try (?:again )?(?:in|after) ((?:{_WAIT_PART}[a-z]*[ ,]*(?:and )?)+)")
_UNITS_S: Final = {"ms": 0.001, "millis": 0.001, "s": 1, "m": 60, "h": 3_600, "d": 86_400}
_DAILY_WORD: Final = "perday"
"""In the names of Gemini's quotas of a day; all others it gives again within minutes, and names the time."""
_TOO_LONG_WORDS: Final = (
    "context length",
    "context_length",
    "maximum context",
    "prompt is too long",
    "too many tokens",
    "context size",
    "context window",
    "reduce the length",
    "maximum prompt length",
    "maximum model length",
    "maximum allowed token count",
    "model token limit",
    "input is too long",
    "must have less than",
)


@dataclass(eq=False, repr=False)
class LitellmClient:
    """`ModelProvider`, `EmbeddingModel` and `TranscriptionModel` on litellm. `endpoint_of` returns the
    arguments that go with a call, for each name of a model; `sees` overrides the price map on which models see; without
    a `gallery` no model is shown an image."""

    catalog: ModelCatalog
    endpoint_of: Callable[[str], ModelEndpoint] = ModelEndpoint
    _: KW_ONLY
    gallery: requests.Gallery | None = None
    sees: Mapping[str, bool] = field(default_factory=dict)
    _loading: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)
    _calls: ProviderCalls | None = field(init=False, default=None)
    _refused: dict[str, frozenset[str]] = field(init=False, default_factory=dict)

    def facts(self, model: str) -> requests.ModelFacts:
        """Return the facts from litellm's price map, without importing litellm. An address set by the operator counts
        as a provider of its own, of whose models no sibling is known; nor is one that needs another key."""
        endpoint = self.endpoint_of(model)
        facts = self.catalog.facts(endpoint.model)

        def called_alike(sibling: str) -> str:
            return sibling if not endpoint.api_base and endpoint.is_called_as(self.endpoint_of(sibling)) else ""

        return replace(
            facts,
            cheap_sibling=called_alike(facts.cheap_sibling),
            embedding_sibling=called_alike(facts.embedding_sibling),
            provider=endpoint.api_base or facts.provider,
            api=facts.provider,
            output_max=endpoint.max_tokens or facts.output_max,
            sees=self.gallery is not None and self.sees.get(model, facts.sees),
        )

    def check_name(self, model: str) -> None:
        """Check a name against litellm's price map and its list of providers."""
        self.catalog.check_name(self.endpoint_of(model).model)

    async def stream(self, request: requests.ModelRequest) -> AsyncIterator[requests.ModelEvent]:
        """Make one attempt. Raises `ModelUnavailable`, `ModelTooSlow`, `ModelRejected` or `ContextTooLong`."""
        calls = await self._load()
        gathered = _Gathered()
        try:
            async with asyncio.timeout(request.timeout_s):
                pictures = await self._pictures(request)
                endpoint = self.endpoint_of(request.model)
                given = arguments(request, endpoint, self.catalog.facts(endpoint.model), pictures)
                async with aclosing(self._chunks(calls, request, given, gathered)) as chunks:
                    async for chunk in chunks:
                        if text := gathered.add(chunk):
                            yield requests.TextDelta(text)
                if text := gathered.rest():
                    yield requests.TextDelta(text)
        except TimeoutError as error:
            raise errors.ModelTooSlow(request.timeout_s) from error
        except calls.litellm.errors as error:
            raise _translated(error, calls.litellm) from None  # litellm's text may hold the prompt: keep it out of logs
        yield self._answer(request, gathered, is_thinking=given.get("reasoning_effort", "") not in _NO_EFFORTS)

    async def _chunks(
        self, calls: ProviderCalls, request: requests.ModelRequest, given: dict[str, Any], gathered: _Gathered
    ) -> AsyncGenerator[Any]:
        """Yield the chunks of the answer. A server that refuses an argument that the call can do without is asked once
        more, and never again with this argument."""
        for name in self._refused.get(request.model, ()):
            given.pop(name, None)
        call = calls.prepare(given, request.tools)
        has_begun = False
        try:
            async with aclosing(calls.chunks(call) if call is not None else self._completed(given, gathered)) as chunks:
                async for chunk in chunks:
                    has_begun = True
                    yield chunk
            return
        except calls.litellm.errors as error:
            refused = {name for name in _OPTIONAL if name in given and name in str(error)}
            if has_begun or not refused or getattr(error, "status_code", None) not in _NOT_KNOWN_STATUS:
                raise
            _log.warning("model.arguments_refused", model=request.model, arguments=sorted(refused))
            self._refused[request.model] = self._refused.get(request.model, frozenset()) | refused
        await request.permit()
        async with aclosing(self._chunks(calls, request, given, gathered)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _completed(self, given: Mapping[str, Any], gathered: _Gathered) -> AsyncGenerator[Any]:
        """Yield the chunks of a provider that only litellm itself can call."""
        calls = await self._load(is_own_way=True)
        chunks = await calls.litellm.module.acompletion(**given)
        if chunks.completion_stream is None:  # some providers are called when the first chunk is read
            chunks.make_call = partial(gathered.opened, chunks.make_call)
        else:
            chunks.completion_stream = gathered.with_refusals(chunks.completion_stream)
        # Else litellm logs the answer for nobody, and the loop stands still while it asks an Ollama for its price.
        chunks.logging_obj._on_deferred_stream_complete = lambda: None
        async for chunk in chunks:
            yield chunk
        if not gathered.is_ended:  # where a provider gives no reason, litellm makes one up
            gathered.finish_reason = ""

    async def embed(self, request: requests.EmbeddingRequest) -> requests.EmbeddingAnswer:
        """Make one attempt. Raises `ModelUnavailable`, `ModelRejected` or `ContextTooLong`."""
        calls = await self._load(is_own_way=True)
        try:
            async with asyncio.timeout(request.timeout_s):
                answer = await calls.litellm.module.aembedding(
                    **addressed(self.endpoint_of(request.model)),
                    input=list(request.texts),
                    encoding_format="float",
                    timeout=request.timeout_s,
                    max_retries=0,
                )
        except TimeoutError as error:
            raise errors.ModelUnavailable(f"no answer within {request.timeout_s:g} s") from error
        except calls.litellm.errors as error:
            raise _translated(error, calls.litellm) from None  # as with `stream`
        return self._embedded(request, answer)

    async def transcribe(self, request: requests.TranscriptionRequest) -> requests.TranscriptionAnswer:
        """Make one attempt. Raises `ModelUnavailable`, `ModelTooSlow` or `ModelRejected`."""
        calls = await self._load(is_own_way=True)
        given = {"language": request.language.partition("-")[0].lower()} if request.language else {}
        async with _in_time(calls, request.timeout_s):
            answer = await calls.litellm.module.atranscription(
                **addressed(self.endpoint_of(request.model)),
                file=(request.name, request.content, request.media_type),
                timeout=request.timeout_s,
                max_retries=0,
                **given,
            )
        prices_usd = self.facts(request.model).prices_usd
        # Some providers count tokens, some the seconds of audio, some
        # nothing; then it is estimated from the size.
        usage = getattr(answer, "usage", None)
        tokens = requests.TokenCount(
            prompt=whole(getattr(usage, "input_tokens", 0)), completion=whole(getattr(usage, "output_tokens", 0))
        )
        seconds = number(getattr(usage, "seconds", None)) or number(getattr(answer, "duration", None))
        seconds = seconds or len(request.content) / SPOKEN_BYTES_PER_S
        cost_usd = requests.price_usd(tokens, prices_usd) or seconds * prices_usd.get("second", 0.0)
        return requests.TranscriptionAnswer(str(answer.text or ""), tokens, cost_usd)

    async def speak(self, request: requests.SpeechRequest) -> requests.SpeechAnswer:
        """Make one attempt. Raises `ModelUnavailable`, `ModelTooSlow` or `ModelRejected`."""
        calls = await self._load(is_own_way=True)
        async with _in_time(calls, request.timeout_s):
            answer = await calls.litellm.module.aspeech(
                **addressed(self.endpoint_of(request.model)),
                input=request.text,
                voice=request.voice,
                response_format="opus",
                timeout=request.timeout_s,
                max_retries=0,
            )
        return requests.SpeechAnswer(bytes(answer.content), speech_usd(request, self.facts(request.model).prices_usd))

    async def warm_up(self, models: Iterable[str], *, is_own_way: bool = False) -> None:
        """Load what calls of these models need, before the first of them comes. What is wrong with one of them its
        first call will say."""
        calls = await self._load(is_own_way=is_own_way)
        for model in models:
            given = {**addressed(self.endpoint_of(model)), "messages": [{"role": "user", "content": "hello"}]}
            with suppress(*calls.litellm.errors):
                if await asyncio.to_thread(calls.prepare, given) is None:
                    await self._load(is_own_way=True)
                    await asyncio.to_thread(calls.prepare, given)  # now it can tell

    async def close(self) -> None:
        """Close all connections to providers, if litellm was ever loaded."""
        if self._calls is not None:
            await self._calls.close()

    async def _pictures(self, request: requests.ModelRequest) -> Mapping[Image, bytes]:
        """Load the images of a prompt that still exist, for a model that sees."""
        if self.gallery is None or not self.facts(request.model).sees:
            return {}
        wanted = {image for message in request.messages for image in message.images}
        found = {image: await self.gallery(request.key, image.path) for image in wanted}
        return {image: content for image, content in found.items() if content is not None}

    async def _load(self, *, is_own_way: bool = False) -> ProviderCalls:
        """Load the part of litellm that direct calls need; for its own way to call a provider the rest, too."""
        async with self._loading:
            if self._calls is None:
                self._calls = ProviderCalls(await asyncio.to_thread(load_litellm))
            if is_own_way and not self._calls.litellm.is_whole:
                await asyncio.to_thread(self._calls.litellm.load_rest)
        return self._calls

    def _answer(
        self, request: requests.ModelRequest, gathered: _Gathered, *, is_thinking: bool
    ) -> requests.ModelAnswer:
        tokens = gathered.tokens or requests.TokenCount(
            prompt=requests.request_chars(request.system, request.messages) // 4,
            completion=estimate_tokens(gathered.text),
        )
        return requests.ModelAnswer(
            text=gathered.text,
            calls=gathered.requested_calls(),
            finish_reason=requests.REFUSAL if gathered.is_refused else gathered.finish_reason,
            tokens=tokens,
            cost_usd=requests.price_usd(tokens, self.facts(request.model).prices_usd),
            model=request.model,
            thoughts=gathered.thoughts(request.model, is_thinking=is_thinking),
        )

    def _embedded(self, request: requests.EmbeddingRequest, answer: Any) -> requests.EmbeddingAnswer:
        rows = sorted(answer.data, key=lambda row: int(row["index"]))
        vectors = tuple(tuple(map(float, row["embedding"])) for row in rows)
        if len(vectors) != len(request.texts):
            raise errors.ModelRejected(f"{len(vectors)} vectors for {len(request.texts)} texts")
        counted = answer.usage.prompt_tokens if answer.usage else 0
        tokens = counted or sum(map(estimate_tokens, request.texts))
        prices_usd = self.facts(request.model).prices_usd
        return requests.EmbeddingAnswer(vectors, tokens, tokens * prices_usd.get("prompt", 0.0))


@dataclass(slots=True)
class _PartialCall:
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(slots=True)
class _ThoughtInText:
    """The thought that a text begins with, where a server does not tell it from the answer. What may yet be one of its
    marks is held back; `awaited` is the mark that comes next."""

    held: str = ""
    awaited: str = _THOUGHT_BEGINS
    is_past: bool = False

    def without(self, text: str) -> str:
        """Take a piece of the text and return what belongs to the answer."""
        if self.is_past:
            return text
        self.held += text
        if self.awaited == _THOUGHT_BEGINS:
            begun = self.held.lstrip()
            if not begun.startswith(_THOUGHT_BEGINS):
                return "" if _THOUGHT_BEGINS.startswith(begun) else self.rest()
            self.awaited = _THOUGHT_ENDS
        if self.awaited == _THOUGHT_ENDS:
            _, mark, answer = self.held.partition(_THOUGHT_ENDS)
            if not mark:
                self.held = self.held[-len(_THOUGHT_ENDS) :]
                return ""
            self.held, self.awaited = answer, ""
        self.held = self.held.lstrip()
        return self.rest() if self.held else ""

    def rest(self) -> str:
        """Return what is held back and belongs to the answer. From now on, everything does."""
        answer = "" if self.awaited == _THOUGHT_ENDS else self.held
        self.is_past, self.held = True, ""
        return answer


@dataclass(slots=True)
class _Gathered:
    """A stream of chunks put together."""

    pieces: list[str] = field(default_factory=list)
    calls: dict[int, list[_PartialCall]] = field(default_factory=dict)
    blocks: list[dict[str, str]] = field(default_factory=list)
    finish_reason: str = ""
    is_refused: bool = False
    is_ended: bool = False
    thought: _ThoughtInText = field(default_factory=_ThoughtInText)
    tokens: requests.TokenCount | None = None

    async def with_refusals(self, raw: AsyncIterator[Any]) -> AsyncGenerator[Any]:
        """Yield the provider's own chunks, with the words of a refusal as text: litellm would drop them."""
        async for chunk in raw:
            await asyncio.sleep(0)  # what came at once is read without waiting: others have their turn between chunks
            for choice in getattr(chunk, "choices", None) or ():
                self.is_ended = self.is_ended or bool(getattr(choice, "finish_reason", None))
                delta: Any = getattr(choice, "delta", None)
                if words := getattr(delta, "refusal", None):
                    self.is_refused = True
                    delta.content = words
            yield chunk

    async def opened(self, make_call: Callable[..., Awaitable[AsyncIterator[Any]]], **given: Any) -> AsyncIterator[Any]:
        """Make the call, and return its chunks as `with_refusals` yields them."""
        return self.with_refusals(await make_call(**given))

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def add(self, chunk: Any) -> str:
        """Take one chunk in, or the words of one that holds nothing else; returns the text it carried."""
        if isinstance(chunk, str):
            return self._heard(chunk)
        if usage := getattr(chunk, "usage", None):
            self.tokens = _counted(usage, self.tokens)
        if not chunk.choices:
            return ""
        choice = chunk.choices[0]
        self.finish_reason = choice.finish_reason or self.finish_reason
        for call in getattr(choice.delta, "tool_calls", None) or ():
            begun = self.calls.setdefault(call.index or 0, [_PartialCall()])
            has_ids = call.id and begun[-1].id
            begins = call.function.name and (has_ids or call.function.arguments)
            if begins and (call.id != begun[-1].id if has_ids else _is_object(begun[-1].arguments)):
                begun.append(_PartialCall())  # some servers give all calls the index 0, or none, and no ids either
            partial = begun[-1]
            partial.id = call.id or partial.id
            partial.name = call.function.name or partial.name
            partial.arguments += call.function.arguments or ""
        for block in getattr(choice.delta, "thinking_blocks", None) or ():
            given = {name: str(value) for name, value in block.items() if value is not None and name != "cache_control"}
            newest = self.blocks[-1] if self.blocks else {}
            # A signature ends a thought; one that is redacted comes whole.
            if given["type"] == newest.get("type") == "thinking" and "signature" not in newest:
                given["thinking"] = newest["thinking"] + given.get("thinking", "")
                newest.update(given)
            else:
                self.blocks.append(given)
        text = str(choice.delta.content or "")
        if refused := getattr(choice.delta, "refusal", None):
            self.is_refused, text = True, str(refused)
        return self._heard(text)

    def rest(self) -> str:
        """Return the text that is still held back when the stream has ended. Raises `ModelUnavailable` if there was
        neither an answer nor a reason for there being none."""
        text = self.thought.rest()
        self.pieces.append(text)
        if not (self.text or self.calls or self.blocks or self.finish_reason or self.tokens):
            raise errors.ModelUnavailable("a stream without an answer")
        return text

    def _heard(self, raw: str) -> str:
        text = self.thought.without(raw)
        if text:
            self.pieces.append(text)
        return text

    def requested_calls(self) -> tuple[requests.RequestedCall, ...]:
        """Return the calls; each has an id of its own, because by that its result is told from the others."""
        found: dict[str, requests.RequestedCall] = {}
        for index, call in enumerate(self._named_calls()):
            id_ = call.id.partition(_SIGNED)[0] or f"call_{index}"
            while id_ in found:
                id_ += "_"
            found[id_] = requests.RequestedCall(id_, call.name, _decoded(call.arguments))
        return tuple(found.values())

    def thoughts(self, model: str, *, is_thinking: bool) -> requests.Thoughts | None:
        """Return what goes back with the results of the calls; None if the model has thought nothing, and was not
        asked to."""
        signatures = tuple(call.id.partition(_SIGNED)[2] for call in self._named_calls())
        if not self.blocks and not any(signatures) and not is_thinking:
            return None
        return requests.Thoughts(model, tuple(self.blocks), signatures)

    def _named_calls(self) -> list[_PartialCall]:
        return [call for _, begun in sorted(self.calls.items()) for call in begun if call.name]


def _decoded(arguments: str) -> str:
    """Return the arguments of a call, decoded once more where a server has encoded them twice."""
    if arguments.startswith('"'):
        with suppress(ValueError):
            return str(json.loads(arguments))
    return arguments


def _counted(usage: Any, before: requests.TokenCount | None) -> requests.TokenCount | None:
    """Count the tokens. Some providers count the prompt at the beginning of a stream and the rest at its end; some send
    nothing but zeros, which is no count, or more than any model takes."""
    details, told = getattr(usage, "prompt_tokens_details", None), before or requests.TokenCount(0, 0)
    prompt, completion = max(usage.prompt_tokens or 0, 0), max(usage.completion_tokens or 0, 0)
    if not 0 < prompt + completion <= MODEL_TOKENS_MAX:
        return before
    return requests.TokenCount(
        prompt=prompt or told.prompt,
        completion=completion or told.completion,
        cached=getattr(details, "cached_tokens", 0) or told.cached,
        written=getattr(usage, "cache_creation_input_tokens", 0) or told.written,
    )


@asynccontextmanager
async def _in_time(calls: ProviderCalls, limit_s: float) -> AsyncIterator[None]:
    """Bound one attempt by a sound model. Raises `ModelTooSlow`, or what the error of litellm means."""
    try:
        async with asyncio.timeout(limit_s):
            yield
    except TimeoutError as error:
        raise errors.ModelTooSlow(limit_s) from error
    except calls.litellm.errors as error:
        raise _translated(error, calls.litellm) from None  # as with `stream`


def _translated(error: Exception, litellm: Litellm) -> errors.ModelError:
    """Translate litellm's error into ours. The text names the class and the status, never the prompt, a URL
    or a key."""
    status = getattr(error, "status_code", None)
    said = str(error).lower()
    what = f"{type(error).__name__} (status {status})"
    is_busy, wait_s = status == _BUSY_STATUS, _retry_after_s(error)
    said_s = _wait_said_s(said) if is_busy and _DAILY_WORD not in said else None
    if isinstance(error, litellm.module.ContextWindowExceededError) or (not is_busy and _says(said, _TOO_LONG_WORDS)):
        return errors.ContextTooLong(what)
    if said_s is not None:  # whatever it calls it, a provider that says when it answers again is busy
        return errors.ModelUnavailable(what, retry_after_s=said_s if wait_s is None else wait_s)
    if status == _SPENT_STATUS or _says(said, _SPENT_WORDS):
        return errors.QuotaSpent(f"{what}: quota spent")
    if status in _KEY_STATUS or _says(said, _KEY_WORDS):
        return errors.KeyRejected(f"{what}: key rejected")
    if isinstance(error, litellm.network_errors) or status in _TRANSIENT_STATUS:
        return errors.ModelUnavailable(what, retry_after_s=wait_s)
    return errors.ModelRejected(what)


def _says(text: str, words: Sequence[str]) -> bool:
    return any(word in text for word in words)


def _retry_after_s(error: Exception) -> float | None:
    """Read how long the provider asks to wait, from its own header or the standard one; a date is compared with the
    provider's clock."""
    headers = getattr(error, "litellm_response_headers", None) or {}
    if _is_number(in_ms := str(headers.get("retry-after-ms", ""))):
        return float(in_ms) / 1000
    value = str(headers.get("retry-after", ""))
    if _is_number(value):
        return float(value)
    try:
        waiting = parsedate_to_datetime(value) - parsedate_to_datetime(str(headers.get("date", "")))
    except (TypeError, ValueError, OverflowError):
        return None
    return max(waiting.total_seconds(), 0.0)


def _wait_said_s(said: str) -> float | None:
    """Find in an error's words how long the provider asks to wait: "try again in 6m0s", "retry after 20 seconds"."""
    found = _WAIT_WORDS.search(said)
    if found is None:
        return None
    return sum(float(amount) * _UNITS_S[unit] for amount, unit in re.findall(_WAIT_PART, found[1]))


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdecimal()
