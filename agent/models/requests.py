"""The requests of the agent to models, and their answers. Every client of a provider implements them."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol

from agent.limits import MODEL_BACKOFF_S, SCRUBBED_AT_ONCE_CHARS
from agent.tokens import estimate_tokens
from gateway.contracts.context_blocks import Image
from gateway.contracts.ids import SessionKey
from gateway.contracts.memory import Vector
from gateway.contracts.messages import CleanText, joined, literal_text
from gateway.contracts.sessions import Role, ToolCall, UsagePurpose
from gateway.scrub import Scrubber

Permit = Callable[[], Awaitable[None]]
"""Asked before each call to a provider and before each tool call. Returns when the call may be made; raises
`CancelledError` when the turn it would be made for has ended."""


async def always() -> None:
    """Permit every call: the permit of one that belongs to no turn."""


LONG_WORK: Final = frozenset({UsagePurpose.TURN, UsagePurpose.PLAN, UsagePurpose.SUBAGENT})
"""Purposes whose calls are rounds of one growing prompt, and end in what somebody waits for; all others are small."""


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """One message of a prompt after the system prompt. `tool_call_id` only with `Role.TOOL`, `images` only with
    `Role.USER`: by reference, their bytes are read when the request is made."""

    role: Role
    text: CleanText
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True)
class Thoughts:
    """The thoughts of a model before it called tools, in its provider's form and signed by it: `blocks` before the
    calls (Anthropic), `signatures` of the calls in their order (Gemini). They go back with the results of these calls,
    unchanged, to this `model` and to nobody else. They are raw, held in memory for a turn, and stored nowhere."""

    model: str
    blocks: tuple[Mapping[str, str], ...] = field(default=(), repr=False)
    signatures: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model sees it; `schema` is a JSON schema of an object. `tokens` is about its size in a prompt."""

    name: str
    description: str
    schema: Mapping[str, Any]
    tokens: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        told = f"{self.name} {self.description} {json.dumps(dict(self.schema))}"
        object.__setattr__(self, "tokens", estimate_tokens(told))


@dataclass(frozen=True, slots=True)
class TokenCount:
    """The provider's count (or, where it counts nothing, our estimate). Of `prompt`, `cached` were read from its cache
    and `written` into it; both have prices of their own."""

    prompt: int
    completion: int
    cached: int = 0
    written: int = 0


@dataclass(frozen=True, slots=True)
class Paid:
    """Tokens in and out, and US dollars."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0

    def __add__(self, other: Paid) -> Paid:
        return Paid(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cost_usd + other.cost_usd,
        )


@dataclass(slots=True, eq=False)
class CallCost:
    """The cost of one call in addition to its answer: attempts that broke in the middle, and all of it while
    there is no answer, for it may be cut off at any moment. Nothing if the call is not metered."""

    unanswered: Callable[[], Paid] = Paid
    """Computes the cost so far that no answer carries; the meter of the call sets it."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One model call, charged to the owner of `key`. `timeout_s` bounds the whole call, stream and repeated tries
    included; `backoff_s` are the pauses before each further try; `permit` is asked before each try. `turn_id` names
    the turn it belongs to, `task_id` the sub-agent that asks; empty: there is none. `otherwise` is asked first when
    `model` fails for good: for a cheap model, the one of the conversation. `thoughts` belong to messages of the turn,
    by the id of their first call. `cost` is for this one call."""

    model: str
    purpose: UsagePurpose
    key: SessionKey
    system: CleanText
    messages: tuple[PromptMessage, ...]
    tools: tuple[ToolSpec, ...] = ()
    completion_tokens_max: int | None = None
    temperature: float | None = None
    timeout_s: float = 180.0
    turn_id: str = ""
    task_id: str = ""
    otherwise: str = ""
    thoughts: Mapping[str, Thoughts] = field(default_factory=dict, repr=False)
    backoff_s: tuple[float, ...] = MODEL_BACKOFF_S
    permit: Permit = field(default=always, compare=False, repr=False)
    cost: CallCost = field(default_factory=CallCost, compare=False, repr=False)

    @property
    def has_images(self) -> bool:
        """Tell whether the request shows an image."""
        return any(message.images for message in self.messages)


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer as it is made. Raw: it has not been scrubbed."""

    text: str


@dataclass(frozen=True, slots=True)
class StreamRestarted:
    """The call failed midway and starts again: what came before is void."""


@dataclass(frozen=True, slots=True)
class RequestedCall:
    """A tool call as the model wrote it; `arguments` may be broken JSON, and is not scrubbed."""

    id: str
    name: str
    arguments: str


_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]")


def wire_name(name: str) -> str:
    """Return the name of an earlier call as providers take it: a model may have made up any, and a prompt in which one
    has other characters is refused."""
    return _UNFIT.sub("_", name)[:64]


class StopReason(StrEnum):
    """Why a model stopped."""

    OWN = "own"
    CUT = "cut"
    FILTERED = "filtered"
    REFUSED = "refused"


REFUSAL: Final = "refusal"
"""The finish reason of an answer that is a refusal: no provider has one for that, they say so beside the text."""

_ENDINGS: Final = {
    "length": StopReason.CUT,
    "max_tokens": StopReason.CUT,
    "content_filter": StopReason.FILTERED,
    REFUSAL: StopReason.REFUSED,
}


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """The end of a stream: all that the model said. Raw: it has not been scrubbed. `finish_reason` is the provider's,
    "" where it gave none. Only what ends by the model's own will is whole: no call of another answer may be run."""

    text: str
    calls: tuple[RequestedCall, ...]
    finish_reason: str
    tokens: TokenCount
    cost_usd: float
    model: str
    thoughts: Thoughts | None = None

    @property
    def ending(self) -> StopReason:
        """Return why the answer ended. A provider that gives no reason, or an unknown one, is believed to have
        finished."""
        return _ENDINGS.get(self.finish_reason, StopReason.OWN)


ModelEvent = TextDelta | StreamRestarted | ModelAnswer


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """The known facts of a model. Zero means unknown.

    `provider` names the operator of the servers, `api` the provider whose API they speak; `sees` says that the
    model understands images. Most providers cache what prompts have in common by themselves; one that
    `is_told_to_cache` does it where the request says so. `cheap_sibling` is a cheaper model that is called in the same
    way and can do small work, `embedding_sibling` one that embeds texts; empty where none is known."""

    provider: str = ""
    api: str = ""
    context_window: int = 0
    output_max: int = 0
    is_reasoning: bool = False
    is_told_to_cache: bool = False
    sees: bool = False
    prices_usd: Mapping[str, float] = field(default_factory=dict)
    cheap_sibling: str = ""
    embedding_sibling: str = ""


Gallery = Callable[[SessionKey, str], Awaitable[bytes | None]]
"""Reads an image of a prompt by its path in the workspace of a key; None if it is not there any more."""


class ModelProvider(Protocol):
    """A client of models: litellm's, the scripted ones, or a test's."""

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Stream deltas, then exactly one `ModelAnswer`. Raises the `ModelError` tree."""

    def facts(self, model: str) -> ModelFacts:
        """Return what is known of `model`, from tables on disk: no network, no slow import."""

    def check_name(self, model: str) -> None:
        """Check a name. Raises `ConfigError` for one that this client cannot call."""

    async def close(self) -> None: ...


async def ask(client: ModelProvider, request: ModelRequest) -> ModelAnswer:
    """Return the whole answer at once, for callers that show nothing meanwhile."""
    answer: ModelAnswer | None = None
    async for event in client.stream(request):
        if isinstance(event, ModelAnswer):
            answer = event
    if answer is None:
        raise RuntimeError("a model stream ended without an answer")  # the Protocol's promise was broken
    return answer


def request_chars(system: str, messages: Sequence[PromptMessage]) -> int:
    """Count the characters of a prompt, tool arguments included: the base of an estimate of its size."""
    return len(system) + sum(
        len(message.text) + sum(len(call.arguments) + len(call.name) for call in message.tool_calls)
        for message in messages
    )


def price_usd(tokens: TokenCount, prices_usd: Mapping[str, float]) -> float:
    """Compute what a call cost by the price list, for providers that name no price. Zero where no list is known."""
    fresh = max(tokens.prompt - tokens.cached - tokens.written, 0)
    return (
        fresh * prices_usd.get("prompt", 0.0)
        + tokens.written * prices_usd.get("written", 0.0)
        + tokens.cached * prices_usd.get("cached", 0.0)
        + tokens.completion * prices_usd.get("completion", 0.0)
    )


# What the agent asks of an embedding model, and what comes back.
#
# Embedder         what memory uses: charged to the key, tried again where that helps
# EmbeddingModel   one way to a provider; `agent.features.memory.knowledge` makes the former of the latter


@dataclass(frozen=True, slots=True)
class EmbeddingRequest:
    """One call, charged to the owner of `key`. None of the texts is blank."""

    model: str
    key: SessionKey
    texts: tuple[CleanText, ...]
    timeout_s: float


@dataclass(frozen=True, slots=True)
class EmbeddingAnswer:
    """A vector for each text, in order, and what they cost."""

    vectors: tuple[Vector, ...]
    tokens: int
    cost_usd: float


class EmbeddingModel(Protocol):
    """A client of an embedding model."""

    async def embed(self, request: EmbeddingRequest) -> EmbeddingAnswer:
        """Embed the texts of the request. Raises the `ModelError` tree."""


class Embedder(Protocol):
    """Turns texts into vectors of `model`."""

    @property
    def model(self) -> str: ...

    async def embed(self, key: SessionKey, texts: Sequence[CleanText]) -> Sequence[Vector]:
        """Embed each text as a vector; none of them is blank. Raises the `ModelError` tree."""


# What the agent asks of a model that hears, and what comes back.


@dataclass(frozen=True, slots=True)
class TranscriptionRequest:
    """One recording, charged to the owner of `key`. `name` has the ending by which providers know the format;
    `language` is an IETF tag, empty if unknown."""

    model: str
    key: SessionKey
    name: str
    media_type: str
    content: bytes = field(repr=False)
    language: str = ""
    timeout_s: float = 120.0
    turn_id: str = ""
    permit: Permit = field(default=always, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class TranscriptionAnswer:
    """The transcribed words, raw. A provider counts tokens, or none."""

    text: str
    tokens: TokenCount
    cost_usd: float


class TranscriptionModel(Protocol):
    """A client of a transcription model."""

    async def transcribe(self, request: TranscriptionRequest) -> TranscriptionAnswer:
        """Transcribe the recording of the request. Raises the `ModelError` tree."""


@dataclass(frozen=True, slots=True)
class SpeechRequest:
    """A text to be spoken in `voice`, a name of the provider's, charged to the owner of `key`."""

    model: str
    key: SessionKey
    text: str
    voice: str
    timeout_s: float = 60.0
    turn_id: str = ""
    permit: Permit = field(default=always, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class SpeechAnswer:
    """A recording: Opus in Ogg was asked for, but a provider may make something else."""

    content: bytes = field(repr=False)
    cost_usd: float


class SpeechModel(Protocol):
    """A client of a model that speaks."""

    async def speak(self, request: SpeechRequest) -> SpeechAnswer:
        """Speak the text of the request. Raises the `ModelError` tree."""


# What a model says, clean, while it is said.
#
# Deltas are words or less, and the scrubber takes some 50 microseconds for each piece, however short. So they are
# gathered until somebody looks at the text, or there is a page of them.


_NOTHING: Final = literal_text("")


class CleanStream:
    """The text of one stream. What comes out is final: what may still become a secret is held back."""

    def __init__(self, scrubber: Scrubber) -> None:
        self._scrubber = scrubber
        self.begin_anew()

    def begin_anew(self) -> None:
        """Reset, because the stream has started over."""
        self._scrubbing = self._scrubber.stream()
        self._clean: list[CleanText] = []
        self._raw: list[str] = []
        self._raw_chars = 0

    def add(self, delta: str) -> CleanText:
        """Add a delta and return the text that it makes certain, which is nothing until a page is full."""
        self._raw.append(delta)
        self._raw_chars += len(delta)
        return self._scrub() if self._raw_chars >= SCRUBBED_AT_ONCE_CHARS else _NOTHING

    def so_far(self) -> CleanText:
        """Return all text that is certain by now."""
        self._scrub()
        return joined(*self._clean)

    def to_the_end(self) -> CleanText:
        """Return the whole text, after the model has finished."""
        self._scrub()
        self._clean.append(self._scrubbing.flush())
        return joined(*self._clean)

    def _scrub(self) -> CleanText:
        if not self._raw:
            return _NOTHING
        clean = self._scrubbing.feed("".join(self._raw))
        self._clean.append(clean)
        self._raw.clear()
        self._raw_chars = 0
        return clean
