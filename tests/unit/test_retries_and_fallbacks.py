"""Model calls that fail: what is tried again, what is asked elsewhere, and within which time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace

import pytest

from agent.limits import MODEL_BACKOFF_S, MODEL_RETRY_AFTER_MAX_S
from agent.model_clients import ModelRouter
from agent.models.client import ModelClient
from agent.models.requests import (
    LONG_WORK,
    ModelAnswer,
    ModelEvent,
    ModelFacts,
    ModelRequest,
    StreamRestarted,
    TextDelta,
    TokenCount,
    ask,
)
from gateway.contracts.errors import (
    ConfigError,
    ContextTooLong,
    ModelError,
    ModelRejected,
    ModelTooSlow,
    ModelUnavailable,
)
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import literal_text
from gateway.contracts.sessions import UsagePurpose

TRIES = len(MODEL_BACKOFF_S) + 1
Failing = Mapping[str, Callable[[], ModelError]]


class Models:
    """Answers with the model's own name, or fails as `failing` says, after a first word. Time is its own."""

    def __init__(self, failing: Failing | None = None, *, takes_s: float = 0.0) -> None:
        self.failing = failing or {}
        self.takes_s = takes_s
        self.asked: list[str] = []
        self.allowed_s: list[float] = []
        self.waited: list[float] = []
        self.now_s = 0.0

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.asked.append(request.model)
        self.allowed_s.append(request.timeout_s)
        self.now_s += self.takes_s
        yield TextDelta(f"{request.model}…")
        if request.model in self.failing:
            failure = self.failing[request.model]()
            raise failure
        yield ModelAnswer(request.model, (), "stop", TokenCount(1, 1), 0.0, request.model)

    def facts(self, model: str) -> ModelFacts:
        return ModelFacts(provider=model.partition("/")[0])

    def check_name(self, model: str) -> None:
        if "/" not in model:
            raise ConfigError(f"{model} is nobody's")

    async def close(self) -> None:
        return

    async def sleep(self, wait_s: float) -> None:
        self.waited.append(wait_s)
        self.now_s += wait_s

    def client(self, *fallbacks: str) -> ModelClient:
        return ModelClient(self, fallbacks=fallbacks, sleep=self.sleep, monotonic_s=lambda: self.now_s)


def asking(model: str = "a/1", *, purpose: UsagePurpose = UsagePurpose.TURN, timeout_s: float = 180.0) -> ModelRequest:
    return ModelRequest(model, purpose, SessionKey("telegram", "1"), literal_text("system"), (), timeout_s=timeout_s)


def busy() -> ModelError:
    return ModelUnavailable("busy")


async def test_back_off_grows_and_has_jitter() -> None:
    """Not everybody who was refused at once comes back at once."""
    waits = []
    for _ in range(20):
        models = Models({"a/1": busy})
        with pytest.raises(ModelUnavailable):
            await ask(models.client(), asking())
        assert len(models.asked) == TRIES
        assert models.waited[0] < models.waited[1]
        waits.append(models.waited[0])
    assert len(set(waits)) > 1


@pytest.mark.parametrize("error", [ModelRejected, ContextTooLong])
async def test_what_cannot_pass_is_tried_once(error: type[ModelError]) -> None:
    """Authentication, quota, not found, invalid, too long: trying again changes nothing."""
    models = Models({"a/1": lambda: error("no")})
    with pytest.raises(error):
        await ask(models.client(), asking())
    assert models.asked == ["a/1"]


async def test_a_provider_is_never_asked_before_the_time_it_named() -> None:
    models = Models({"a/1": lambda: ModelUnavailable("busy", retry_after_s=7)})
    with pytest.raises(ModelUnavailable):
        await ask(models.client(), asking())
    assert all(wait_s >= 7 for wait_s in models.waited)


async def test_a_provider_that_wants_too_long_has_said_no() -> None:
    models = Models({"a/1": lambda: ModelUnavailable("busy", retry_after_s=MODEL_RETRY_AFTER_MAX_S + 1)})
    with pytest.raises(ModelUnavailable):
        await ask(models.client(), asking())
    assert (models.asked, models.waited) == (["a/1"], [])


async def test_all_tries_share_the_time_of_the_call() -> None:
    """A title has fifteen seconds, not three times fifteen; who would have to wait longer gives up."""
    models = Models({"a/1": lambda: ModelUnavailable("busy", retry_after_s=4)}, takes_s=5)
    with pytest.raises(ModelUnavailable):
        await ask(models.client(), asking(timeout_s=15))
    assert len(models.asked) == 2
    assert models.allowed_s[0] == 15
    assert models.allowed_s[1] <= 6


async def test_a_call_that_took_all_its_time_is_not_made_again() -> None:
    """It would take as long; a fall-back may be faster."""
    models = Models({"a/1": lambda: ModelTooSlow(180)})
    with pytest.raises(ModelTooSlow):
        await ask(models.client(), asking())
    assert models.asked == ["a/1"]
    assert (await ask(models.client("b/1"), asking())).model == "b/1"


async def test_no_try_begins_without_a_permit() -> None:
    """A turn that was stopped while it waited asks nobody any more."""
    models = Models({"a/1": busy})
    permits = iter([None])

    async def permit() -> None:
        if next(permits, "ended") is not None:
            raise asyncio.CancelledError

    request = ModelRequest(
        "a/1", UsagePurpose.TURN, SessionKey("telegram", "1"), literal_text("system"), (), permit=permit
    )
    with pytest.raises(asyncio.CancelledError):
        await ask(models.client("b/1"), request)
    assert models.asked == ["a/1"]


async def test_fall_backs_are_asked_in_order_after_the_retries() -> None:
    """And what was shown of a failed model is void."""
    models = Models({"a/1": busy, "b/1": lambda: ModelRejected("no such model")})
    client = models.client("b/1", "a/1", "c/1")
    events = [event async for event in client.stream(asking())]
    assert models.asked == ["a/1"] * TRIES + ["b/1", "c/1"]
    last_restart = max(at for at, event in enumerate(events) if isinstance(event, StreamRestarted))
    assert events[last_restart + 1 :] == [
        TextDelta("c/1…"),
        ModelAnswer("c/1", (), "stop", TokenCount(1, 1), 0.0, "c/1"),
    ]


@pytest.mark.parametrize("chosen", ["c/9", "b/1"])
async def test_the_model_that_was_asked_for_comes_first(chosen: str) -> None:
    """Also when it is no fall-back, and also when it is the second one."""
    models = Models()
    assert (await ask(models.client("a/1", "b/1"), asking(chosen))).model == chosen
    assert models.asked == [chosen]


async def test_a_prompt_that_is_too_long_is_not_sent_elsewhere() -> None:
    """It has to become shorter; the user's own model then gets it again."""
    models = Models({"a/1": lambda: ContextTooLong("8192")})
    with pytest.raises(ContextTooLong):
        await ask(models.client("b/1"), asking())
    assert models.asked == ["a/1"]


async def test_when_all_fail_the_first_failure_is_the_answer() -> None:
    """A fall-back with a smaller window must not have the conversation of the model in front condensed."""
    models = Models({"a/1": lambda: ModelRejected("quota"), "b/1": lambda: ContextTooLong("4096")})
    with pytest.raises(ModelRejected, match="quota"):
        await ask(models.client("b/1"), asking())


@pytest.mark.parametrize("purpose", sorted(set(UsagePurpose) - LONG_WORK))
async def test_small_work_never_leaves_its_provider(purpose: UsagePurpose) -> None:
    """Whoever reads a conversation's title has read the conversation."""
    models = Models({"a/small": busy})
    client = models.client("b/1", "a/large")
    assert (await ask(client, asking("a/small", purpose=purpose))).model == "a/large"
    assert "b/1" not in models.asked


@pytest.mark.parametrize("purpose", UsagePurpose)
async def test_a_cheap_model_that_fails_is_stood_in_for_by_that_of_the_conversation(purpose: UsagePurpose) -> None:
    """Before any fall-back; where it is the same model, it is not asked twice."""
    models = Models({"a/small": lambda: ModelRejected("no such model"), "a/large": lambda: ModelRejected("neither")})
    request = replace(asking("a/small", purpose=purpose), otherwise="a/large")
    assert (await ask(models.client("a/large", "a/3"), request)).model == "a/3"
    assert models.asked == ["a/small", "a/large", "a/3"]
    models.asked.clear()
    with pytest.raises(ModelRejected, match="no such model"):
        await ask(models.client(), replace(request, otherwise="a/small"))
    assert models.asked == ["a/small"]


@pytest.mark.parametrize("purpose", sorted(LONG_WORK))
async def test_sub_agents_and_plans_fall_back_as_turns_do(purpose: UsagePurpose) -> None:
    client = Models({"a/small": busy}).client("b/1", "a/large")
    assert (await ask(client, asking("a/small", purpose=purpose))).model == "b/1"


async def test_demo_models_are_scripted_and_all_others_somebody_elses() -> None:
    """So that a demo can stand in anywhere a name may stand."""
    models = Models()
    client = ModelRouter(models)
    assert (await ask(client, asking("a/1"))).model == "a/1"
    client.check_name("demo/scripted@10ms")
    client.check_name("a/1")
    for name in ("demo/other", "nobody"):
        with pytest.raises(ConfigError):
            client.check_name(name)
    assert client.facts("demo/scripted").context_window
    await client.close()
