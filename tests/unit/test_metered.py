"""What each call is charged, however it ends: answered, refused, broken in the middle, cut off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from agent.models.client import ModelClient
from agent.models.metering import Planned
from agent.models.requests import (
    CallCost,
    EmbeddingAnswer,
    EmbeddingRequest,
    ModelAnswer,
    ModelEvent,
    ModelFacts,
    ModelRequest,
    Paid,
    PromptMessage,
    TextDelta,
    TokenCount,
    ToolSpec,
    ask,
)
from gateway.contracts.budgets import Amounts, Measure
from gateway.contracts.errors import BudgetSpent, ContextTooLong, ModelRejected, ModelUnavailable
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import literal_text
from gateway.contracts.sessions import Role, UsagePurpose

ADA = SessionKey("telegram", "1", ("-100",))
REQUEST = ModelRequest(
    "m",
    UsagePurpose.TURN,
    ADA,
    literal_text("be kind"),
    (PromptMessage(Role.USER, literal_text("hello, how are you today?")),),
    completion_tokens_max=100,
    turn_id="t1",
)
PROMPT_TOKENS = 9  # 2 of the system prompt, 7 of the message
ANSWER = ModelAnswer("fine", (), "stop", TokenCount(20, 30), 0.001, "m")

Step = ModelEvent | BaseException | Callable[[], Awaitable[object]]


class Playing:
    """A model that does what it is told, one list of steps for each attempt."""

    def __init__(self, *attempts: Sequence[Step]) -> None:
        self._attempts = list(attempts)

    def facts(self, model: str) -> ModelFacts:
        """A dollar for a million tokens in, ten for a million out."""
        return ModelFacts(output_max=50_000, prices_usd={"prompt": 1e-6, "completion": 1e-5})

    def check_name(self, model: str) -> None:
        """Every name will do."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """One attempt."""
        for step in self._attempts.pop(0):
            if isinstance(step, BaseException):
                raise step
            if callable(step):
                await step()
            else:
                yield step

    async def close(self) -> None:
        """Nothing is open."""


@dataclass
class RecordingGate:
    """A gate that writes down what it is asked; `renewals` says how many attempts more it lets through."""

    planned: list[Planned] = field(default_factory=list)
    owners: list[SessionKey] = field(default_factory=list)
    settled: list[Amounts] = field(default_factory=list)
    renewals: int = 9
    is_open: bool = False

    async def admit(self, owner: SessionKey, plan: Callable[[], Planned]) -> RecordingGate | None:
        """Let everything through."""
        self.owners.append(owner)
        self.planned.append(plan())
        return None if self.is_open else self

    async def renew(self) -> None:
        """Once more."""
        self.renewals -= 1
        if self.renewals < 0:
            raise BudgetSpent(Measure.TOKENS, reset_at_ms=1)

    async def settle(self, cost: Amounts, *, is_last: bool = False) -> None:
        """Once."""
        self.settled.append(cost)

    def settle_soon(self, cost: Amounts) -> None:
        """Only what is not settled."""
        if not self.settled:
            self.settled.append(cost)


async def sleep(_wait_s: float) -> None:
    """No time passes here."""


def metered(gate: RecordingGate, *attempts: Sequence[Step]) -> ModelClient:
    return ModelClient(Playing(*attempts), gate=gate, sleep=sleep)


async def test_a_call_reserves_its_prompt_and_the_longest_answer_and_pays_for_what_came() -> None:
    gate = RecordingGate()
    assert await ask(metered(gate, [TextDelta("fi"), TextDelta("ne"), ANSWER]), REQUEST) == ANSWER
    (planned,) = gate.planned
    assert gate.owners == [SessionKey("telegram", "1")]
    assert planned.most == Amounts(PROMPT_TOKENS + 100, PROMPT_TOKENS * 1_000 + 100 * 10_000)
    assert (planned.turn_id, planned.begins_turn) == ("t1", True)
    assert gate.settled == [Amounts(50, 1_000_000)]


async def test_an_answer_of_unknown_length_is_reserved_up_to_a_bound() -> None:
    gate = RecordingGate(is_open=True)
    tools = (ToolSpec("t", "does things", {"type": "object"}),)
    await ask(metered(gate, [ANSWER]), replace(REQUEST, completion_tokens_max=None, tools=tools))
    assert 4_096 + PROMPT_TOKENS < gate.planned[0].most.tokens < 4_096 + PROMPT_TOKENS + 30
    assert gate.settled == []


async def test_only_a_turns_own_calls_begin_it() -> None:
    gate = RecordingGate()
    await ask(metered(gate, [ANSWER]), replace(REQUEST, purpose=UsagePurpose.TITLE))
    assert (gate.planned[0].turn_id, gate.planned[0].begins_turn) == ("t1", False)


@pytest.mark.parametrize("error", [ContextTooLong("x"), ModelRejected("x"), ModelUnavailable("x", retry_after_s=999)])
async def test_what_the_provider_refused_costs_nothing(error: Exception) -> None:
    gate = RecordingGate()
    with pytest.raises(type(error)):
        await ask(metered(gate, [error]), REQUEST)
    assert gate.settled == [Amounts()]


async def test_an_attempt_that_broke_in_the_middle_is_paid_for_too() -> None:
    gate = RecordingGate()
    heard = TextDelta("x" * 39)  # some ten tokens
    broken: list[Step] = [heard, ModelUnavailable("cut")]
    await ask(metered(gate, broken, [ModelUnavailable("busy")], [ANSWER]), REQUEST)
    assert gate.settled == [Amounts(50 + PROMPT_TOKENS + 10, 1_000_000 + PROMPT_TOKENS * 1_000 + 10 * 10_000)]
    assert gate.renewals == 7, "each further attempt is reserved for anew"


async def test_a_call_that_breaks_for_good_pays_for_what_was_heard() -> None:
    gate = RecordingGate()
    broken: list[Step] = [TextDelta("word"), ModelUnavailable("cut")]
    with pytest.raises(ModelUnavailable):
        await ask(metered(gate, broken, broken, broken), REQUEST)
    assert gate.settled == [Amounts(3 * (PROMPT_TOKENS + 2), 3 * (PROMPT_TOKENS * 1_000 + 20_000))]


async def test_no_further_attempt_where_the_allowance_ends() -> None:
    gate = RecordingGate(renewals=0)
    with pytest.raises(BudgetSpent):
        await ask(metered(gate, [ModelUnavailable("busy")], [ANSWER]), REQUEST)
    assert gate.settled == [Amounts()]


async def cut_off_where(gate: RecordingGate, *steps: Step) -> ModelRequest:
    """A call that is cancelled in the middle of the last of these steps."""
    hangs = asyncio.Event()

    async def hang() -> None:
        hangs.set()
        await asyncio.Event().wait()

    request = replace(REQUEST, cost=CallCost())
    call = asyncio.create_task(ask(metered(gate, [*steps, hang]), request))
    await hangs.wait()
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    return request


async def test_a_call_that_is_cut_off_pays_for_its_prompt_and_what_was_heard() -> None:
    """The provider has read the one and written the other."""
    gate = RecordingGate()
    await cut_off_where(gate, TextDelta("word"))
    assert gate.settled == [Amounts(PROMPT_TOKENS + 2, PROMPT_TOKENS * 1_000 + 20_000)]


@pytest.mark.parametrize("is_open", [False, True], ids=["limited", "unlimited"])
async def test_a_bill_holds_what_nobody_has_an_answer_for(is_open: bool) -> None:
    """The same that is counted where there are limits; the answer says for itself what it cost."""
    request = await cut_off_where(RecordingGate(is_open=is_open), TextDelta("word"))
    assert request.cost.unanswered() == Paid(PROMPT_TOKENS, 2, PROMPT_TOKENS * 1e-6 + 2e-5)
    answered = replace(REQUEST, cost=CallCost())
    await ask(metered(RecordingGate(is_open=is_open), [TextDelta("word"), ModelUnavailable("cut")], [ANSWER]), answered)
    assert answered.cost.unanswered() == Paid(PROMPT_TOKENS, 2, PROMPT_TOKENS * 1e-6 + 2e-5)
    refused = replace(REQUEST, cost=CallCost())
    with pytest.raises(ModelRejected):
        await ask(metered(RecordingGate(is_open=is_open), [ModelRejected("x")]), refused)
    assert refused.cost.unanswered() == Paid()


async def test_an_answer_that_is_being_settled_is_on_the_bill_until_it_is_handed_on() -> None:
    """Who is ended at that moment never sees it, and pays for it."""

    class Slow(RecordingGate):
        settling = asyncio.Event()

        async def settle(self, cost: Amounts, *, is_last: bool = False) -> None:
            self.settling.set()
            await asyncio.Event().wait()

    gate, request = Slow(), replace(REQUEST, cost=CallCost())
    call = asyncio.create_task(ask(metered(gate, [ANSWER]), request))
    await gate.settling.wait()
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    assert request.cost.unanswered() == Paid(20, 30, 0.001)
    assert gate.settled == [Amounts(50, 1_000_000)]


async def test_a_call_that_was_never_begun_costs_nothing() -> None:
    """It waited for its permit, and its turn ended."""

    async def ended() -> None:
        raise asyncio.CancelledError

    gate = RecordingGate()
    with pytest.raises(asyncio.CancelledError):
        await ask(metered(gate, [ANSWER]), replace(REQUEST, permit=ended))
    assert gate.settled == [Amounts()]


class Embedding:
    """An embedding model that answers, or does not."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    async def embed(self, _request: EmbeddingRequest) -> EmbeddingAnswer:
        """One vector."""
        if self._error is not None:
            raise self._error
        return EmbeddingAnswer(((1.0,),), 12, 0.002)


@pytest.mark.parametrize(
    ("error", "cost"),
    [(None, Amounts(12, 2_000_000)), (ModelUnavailable("busy"), Amounts())],
    ids=["answered", "refused"],
)
async def test_embeddings_are_metered_as_well(error: Exception | None, cost: Amounts) -> None:
    gate = RecordingGate()
    embeddings = ModelClient(Playing(), embeddings=Embedding(error), gate=gate, sleep=sleep)
    await asyncio.gather(
        embeddings.embed(EmbeddingRequest("e", ADA, (literal_text("hello"),), 5.0)), return_exceptions=True
    )
    assert gate.owners == [SessionKey("telegram", "1")]
    assert gate.planned[0].most == Amounts(2, 2_000)
    assert gate.settled == [cost]
