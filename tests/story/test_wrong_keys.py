"""A key that the provider does not take, or an account without credit: members are not sent in circles, admins are told
what it is, once, and see it again when it is mended. With the real litellm and a provider on loopback."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from agent.models.catalog import ModelCatalog, ModelEndpoint
from agent.models.client import ModelHealth
from agent.models.litellm import LitellmClient
from gateway.bus.bus import RedisBus
from gateway.contracts.ids import SessionKey
from gateway.contracts.ports import ModelFault
from gateway.store import Store
from tests.doubles import ManualClock
from tests.parts.agents import AgentProcess, running_agent
from tests.parts.model_server import Failure, ModelServer, serve_model
from tests.parts.operator_api import app_of, client_of
from tests.parts.waiting import PATIENCE_S, POLL_S

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:Pydantic serializer warnings")

ADMIN, MEMBER = "telegram:1", "telegram:2"
MODEL, OTHER = "openai/gpt-4o-mini", "openai/gpt-4.1-mini"
KEY = "key-of-the-test"
WRONG_KEY = Failure(401, f"Incorrect API key provided: {KEY}", "invalid_api_key")
NO_CREDIT = Failure(429, "You exceeded your current quota", "insufficient_quota")

Agents = Callable[..., AbstractAsyncContextManager[AgentProcess]]


@pytest.fixture
async def provider() -> AsyncIterator[ModelServer]:
    async with serve_model() as model:
        yield model


@pytest.fixture
async def other() -> AsyncIterator[ModelServer]:
    async with serve_model() as model:
        yield model


@pytest.fixture
async def agents(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path, provider: ModelServer, other: ModelServer
) -> AsyncIterator[Agents]:
    """Agents whose model is at `provider`, and each fall-back at `other`."""

    def endpoint(model: str) -> ModelEndpoint:
        return ModelEndpoint(model, provider.url if model == MODEL else other.url, KEY)

    litellm = LitellmClient(ModelCatalog(), endpoint)
    health = ModelHealth(lambda model: litellm.facts(model).api, (MODEL,), ManualClock())  # so that no hour ends

    def running(*fallbacks: str) -> AbstractAsyncContextManager[AgentProcess]:
        admins = (SessionKey.parse(ADMIN),)
        return running_agent(
            bus, sqlite_store, litellm, tmp_path, model=MODEL, fallbacks=fallbacks, admins=admins, health=health
        )

    yield running
    await litellm.close()


@pytest.mark.parametrize(
    ("failure", "fault", "said"),
    [(WRONG_KEY, ModelFault.KEY, "does not accept its key"), (NO_CREDIT, ModelFault.QUOTA, "is used up")],
)
async def test_members_are_told_not_to_try_again_and_admins_what_it_is_once(
    agents: Agents, provider: ModelServer, failure: Failure, fault: ModelFault, said: str
) -> None:
    async with agents() as agent:
        await agent.ask("hello", ADMIN)
        provider.failures = deque([failure] * 50)
        await agent.say("hello", MEMBER)
        member, admin = sorted((await agent.heard(3))[1:], key=lambda reply: str(reply.key), reverse=True)
        assert member.text.startswith("I cannot answer at the moment: the operator has to mend something first.")
        assert "retry" not in member.text
        assert not member.choices
        assert str(admin.key) == ADMIN
        assert f"`{MODEL}`" in admin.text
        assert said in admin.text
        assert "openai" in admin.text
        assert KEY not in admin.text + member.text
        await agent.say("and now?", MEMBER)
        await agent.heard(4)
        (trouble,) = await agent.bus.operator.model_troubles()
        assert (trouble.model, trouble.provider, trouble.fault) == (MODEL, "openai", fault)
        provider.failures.clear()
        assert (await agent.ask("and now?", MEMBER)).startswith("echo: ")
        async with asyncio.timeout(PATIENCE_S):
            while await agent.bus.operator.model_troubles():  # noqa: ASYNC110 - told by the agent in its own time
                await asyncio.sleep(POLL_S)
    assert len(agent.replies) == 5, "an hour has not passed"


async def test_a_fall_back_that_answers_hides_no_wrong_key(agents: Agents, provider: ModelServer) -> None:
    async with agents(OTHER) as agent:
        await agent.ask("hello", ADMIN)
        provider.failures = deque([WRONG_KEY] * 50)
        await agent.say("hello", MEMBER)
        answers = {str(reply.key): reply.text for reply in (await agent.heard(3))[1:]}
    assert answers[MEMBER].startswith("echo: ")
    assert "does not accept its key" in answers[ADMIN]


async def test_what_happened_is_counted_and_timed_for_prometheus(
    agents: Agents, provider: ModelServer, bus: RedisBus, sqlite_store: Store
) -> None:
    """Turns and calls by how they ended, a model that no setting names among the others; how long each part took."""
    async with agents(OTHER) as agent:
        await agent.ask("hello", MEMBER)
        provider.failures = deque([WRONG_KEY] * 50)
        await agent.ask("and now?", MEMBER)
        async with client_of(app_of(sqlite_store, bus)) as admin:
            text = ""
            while "trivet_delivery_seconds_count" not in text:  # the last that is told, from receipts
                await asyncio.sleep(POLL_S)
                text = (await admin.get("/metrics")).text
    told = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert told["trivet_turns_total", "done"] == 2
    assert told["trivet_model_outcomes_total", MODEL, "answered"] >= 1
    assert told["trivet_model_outcomes_total", MODEL, "key"] >= 1
    assert told["trivet_model_outcomes_total", "other", "answered"] >= 1
    assert told["trivet_model_unusable", "key", MODEL] == 1
    for name in ("trivet_queue_wait_seconds", "trivet_answer_seconds"):
        assert told[f"{name}_count",] == told[f"{name}_bucket", "+Inf"] == 2
        assert told[f"{name}_sum",] > 0
    assert told["trivet_delivery_seconds_count",] >= 1
    assert told["trivet_model_seconds_count", MODEL] == told["trivet_model_outcomes_total", MODEL, "answered"]
