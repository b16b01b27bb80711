"""The cost of a model call, before and after it.

A call without an answer costs nothing when the provider refused it before a word came; when it was cut off it
costs an estimate of its prompt and of the words that arrived, because providers charge for what they have read
and written. Each attempt that broke in the middle is paid for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from agent import limits
from agent.models import requests
from agent.tokens import estimate_tokens
from gateway.contracts.budgets import Amounts, nano_of
from gateway.contracts.ids import SessionKey
from gateway.contracts.sessions import Usage, UsagePurpose


@dataclass(frozen=True, slots=True)
class Planned:
    """A call that is about to be made: what it may cost at most, how long it may take, for which turn."""

    model: str
    most: Amounts
    is_priced: bool
    for_s: float
    turn_id: str = ""
    begins_turn: bool = False


class Ticket(Protocol):
    """The allowance for one call."""

    async def renew(self) -> None:
        """Reserve for one more attempt, for as long again. Raises `BudgetSpent`."""

    async def settle(self, cost: Amounts, *, is_last: bool = False) -> None:
        """Replace the reservation by the real cost; after the last call of a turn, by its commit at the latest."""

    def settle_soon(self, cost: Amounts) -> None:
        """Settle in the background, for a call that was cut off. Nothing happens if it is settled already."""


class Gate(Protocol):
    """The limit that every call passes first. Raises `BudgetSpent` and `StoreUnavailable`."""

    async def admit(self, owner: SessionKey, plan: Callable[[], Planned]) -> Ticket | None:
        """Reserve one call. None where nothing is limited: then nothing is counted, and `plan` is not called."""


class MeteredCall:
    """Follows a call while it runs: its attempts, what arrived, what that costs. It does not keep the request, whose
    `cost` knows this object."""

    def __init__(self, request: requests.ModelRequest, ticket: Ticket | None, prices_usd: Mapping[str, float]) -> None:
        self._permit = request.permit
        self._prompt = request.system, request.messages, request.tools
        self._ticket = ticket
        self._prices_usd = prices_usd
        self._attempts = 0
        self._is_open = False
        self._heard_tokens = 0
        self._lost = requests.Paid()
        self._answered: requests.Paid | None = None
        self._is_handed_on = False

    async def permit(self) -> None:
        """Obtain the permit of the request, and note that an attempt begins."""
        await self._permit()
        if self._attempts and self._ticket is not None:
            await self._ticket.renew()
        self._attempts += 1
        self._is_open = True

    def hear(self, event: requests.ModelEvent) -> None:
        """Take note of what came."""
        match event:
            case requests.TextDelta(text=text):
                self._heard_tokens += estimate_tokens(text)
            case requests.StreamRestarted():
                self._lost = self._paid
                self._heard_tokens = 0
                self._is_open = False
            case requests.ModelAnswer(tokens=tokens, cost_usd=cost_usd):
                self._answered = requests.Paid(tokens.prompt, tokens.completion, cost_usd)

    def refuse(self) -> None:
        """Note that the attempt failed: it costs nothing if not a word of it came."""
        if not self._heard_tokens:
            self._is_open = False

    def hand_on(self) -> None:
        """Note that the caller has received the answer, and with it its cost."""
        self._is_handed_on = True

    @property
    def cost_so_far(self) -> Amounts:
        """Compute what the call costs if nothing more comes."""
        paid = self._paid
        return Amounts(paid.prompt_tokens + paid.completion_tokens, nano_of(paid.cost_usd))

    @property
    def unanswered(self) -> requests.Paid:
        """Return the part of the cost that no answer carries."""
        return self._lost if self._is_handed_on else self._paid

    @property
    def _paid(self) -> requests.Paid:
        if self._answered is not None:
            return self._lost + self._answered
        if not self._is_open:
            return self._lost
        prompt_tokens = _prompt_tokens(*self._prompt)
        usd = _usd(prompt_tokens, self._heard_tokens, self._prices_usd)
        return self._lost + requests.Paid(prompt_tokens, self._heard_tokens, usd)


def embedding_plan(request: requests.EmbeddingRequest, facts: requests.ModelFacts) -> Planned:
    """Plan a call of an embedding model, which is paid by its texts."""
    most = _amounts(sum(map(estimate_tokens, request.texts)), 0, facts.prices_usd)
    return _planned(request.model, most, facts, request.timeout_s * limits.EMBEDDING_TRIES_MAX)


def transcription_plan(request: requests.TranscriptionRequest, facts: requests.ModelFacts) -> Planned:
    """Plan a transcription: what it costs is guessed from the size of the recording."""
    size_bytes = len(request.content)
    # Ten tokens of input and four of output for each second, as the providers that
    # count tokens do.
    seconds = size_bytes // limits.SPOKEN_BYTES_PER_S + 1
    by_tokens = _amounts(10 * seconds, 4 * seconds, facts.prices_usd)
    most = Amounts(by_tokens.tokens, by_tokens.nano_usd + nano_of(seconds * facts.prices_usd.get("second", 0.0)))
    return _planned(request.model, most, facts, request.timeout_s * limits.TRANSCRIPTION_TRIES_MAX, request.turn_id)


def speech_plan(request: requests.SpeechRequest, facts: requests.ModelFacts) -> Planned:
    """Plan a recording, which is paid by the characters spoken."""
    most = Amounts(0, nano_of(speech_usd(request, facts.prices_usd)))
    return _planned(request.model, most, facts, request.timeout_s * limits.SPEECH_TRIES_MAX, request.turn_id)


def _planned(model: str, most: Amounts, facts: requests.ModelFacts, within_s: float, turn_id: str = "") -> Planned:
    return Planned(model, most, any(facts.prices_usd.values()), within_s + limits.RESERVATION_GRACE_S, turn_id)


def speech_usd(request: requests.SpeechRequest, prices_usd: Mapping[str, float]) -> float:
    """Compute what a recording costs. A model that is paid by tokens tells none: then it is guessed from the text."""
    by_character = len(request.text) * prices_usd.get("character", 0.0)
    return by_character or _usd(
        estimate_tokens(request.text), limits.SPEECH_TOKENS_PER_CHAR * len(request.text), prices_usd
    )


def engine_plan(model: str, prompt_tokens: int, prices_usd: Mapping[str, float], for_s: float, turn_id: str) -> Planned:
    """Plan all the calls of a turn for an engine that makes them by itself."""
    most = _amounts(prompt_tokens, limits.RESERVED_COMPLETION_TOKENS_MAX, prices_usd)
    return Planned(model, most, any(prices_usd.values()), for_s, turn_id=turn_id, begins_turn=True)


def cost_of(calls: Iterable[Usage]) -> Amounts:
    """Compute what these calls cost, as the daily ledger counts it."""
    amounts = (Amounts(call.prompt_tokens + call.completion_tokens, nano_of(call.cost_usd)) for call in calls)
    return sum(amounts, start=Amounts())


def request_plan(request: requests.ModelRequest, facts: requests.ModelFacts) -> Planned:
    """Plan a call: its prompt, and the longest answer."""
    bound = min(facts.output_max or limits.RESERVED_COMPLETION_TOKENS_MAX, limits.RESERVED_COMPLETION_TOKENS_MAX)
    completion_tokens = bound if request.completion_tokens_max is None else request.completion_tokens_max
    return Planned(
        model=request.model,
        most=_amounts(
            _prompt_tokens(request.system, request.messages, request.tools), completion_tokens, facts.prices_usd
        ),
        is_priced=any(facts.prices_usd.values()),
        for_s=request.timeout_s + limits.RESERVATION_GRACE_S,
        turn_id=request.turn_id,
        begins_turn=request.purpose is UsagePurpose.TURN,
    )


def _amounts(prompt_tokens: int, completion_tokens: int, prices_usd: Mapping[str, float]) -> Amounts:
    return Amounts(prompt_tokens + completion_tokens, nano_of(_usd(prompt_tokens, completion_tokens, prices_usd)))


def _usd(prompt_tokens: int, completion_tokens: int, prices_usd: Mapping[str, float]) -> float:
    return requests.price_usd(requests.TokenCount(prompt_tokens, completion_tokens), prices_usd)


def _prompt_tokens(system: str, messages: Iterable[requests.PromptMessage], tools: Iterable[requests.ToolSpec]) -> int:
    total = estimate_tokens(system) + sum(tool.tokens for tool in tools)
    for message in messages:
        total += estimate_tokens(message.text) + limits.IMAGE_TOKENS * len(message.images)
        total += sum(estimate_tokens(call.name) + estimate_tokens(call.arguments) for call in message.tool_calls)
    return total


# What a model call cost, as a row of the usage ledger. Pure.


def usage_of(
    answer: requests.ModelAnswer, key: SessionKey, purpose: UsagePurpose, *, now_ms: int, turn_id: str = ""
) -> Usage:
    """Build the usage of an answer. Every call is charged to the key it was made for: turns, titles and compactions
    alike."""
    return Usage(
        key=key,
        purpose=purpose,
        model=answer.model,
        prompt_tokens=answer.tokens.prompt,
        completion_tokens=answer.tokens.completion,
        cached_tokens=answer.tokens.cached,
        cost_usd=answer.cost_usd,
        turn_id=turn_id,
        created_at_ms=now_ms,
    )


def usage_unanswered(request: requests.ModelRequest, *, now_ms: int) -> Usage | None:
    """Build the usage of a call that no answer carries: its failed attempts, and all of it if it was cut off. None if
    that is nothing."""
    paid = request.cost.unanswered()
    if paid == requests.Paid():
        return None
    return Usage(
        key=request.key,
        purpose=request.purpose,
        model=request.model,
        prompt_tokens=paid.prompt_tokens,
        completion_tokens=paid.completion_tokens,
        cost_usd=paid.cost_usd,
        turn_id=request.turn_id,
        created_at_ms=now_ms,
    )
