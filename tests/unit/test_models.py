"""Which model does what: names that are checked at the start, budgets, the cheap sibling."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from structlog.testing import capture_logs

from agent.limits import UNKNOWN_WINDOW_TOKENS
from agent.model_clients import ModelRouter
from agent.models.catalog import ModelCatalog, ModelEndpoint, ModelEndpoints
from agent.models.litellm import LitellmClient
from agent.models.requests import ModelFacts
from agent.models.selection import Depth, Models, check_models, utility_model
from agent.models.transcript import budget_of
from gateway.config import Settings
from gateway.config.features import ModelEntry, RoutingSettings
from gateway.config.settings import AgentSettings
from gateway.contracts.errors import ConfigError
from tests.parts.turns import SESSION

SONNET, HAIKU, MINI = "anthropic/claude-sonnet-4-6", "anthropic/claude-haiku-5-5", "openai/gpt-4o-mini"
SMALL = "openai/gpt-6-luna"


def client(api_base: str = "") -> ModelRouter:
    """Every model, as the agent process has them; nothing is called."""
    return ModelRouter(LitellmClient(ModelCatalog(), partial(ModelEndpoint, api_base=api_base)))


def settings(agent: AgentSettings, routing: RoutingSettings | None = None) -> Settings:
    return Settings(agent=agent, routing=routing or RoutingSettings())


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (settings(AgentSettings(model="gtp-4o")), "agent.model: 'gtp-4o'"),
        (settings(AgentSettings(model="demo/other")), "agent.model: 'demo/other'"),
        (settings(AgentSettings(model=MINI, utility_model="nobody/x")), "agent.utility_model: 'nobody/x'"),
        (settings(AgentSettings(model=MINI, fallback_models=(SONNET, "x"))), "agent.fallback_models: 'x'"),
        (settings(AgentSettings(model=MINI, models=("y",))), "agent.models: 'y'"),
        (settings(AgentSettings(model=MINI), RoutingSettings(high="z")), "routing.high: 'z'"),
    ],
)
def test_a_name_nobody_can_call_stops_the_start(wrong: Settings, named: str) -> None:
    """In one sentence that names the setting."""
    with pytest.raises(ConfigError, match=named):
        check_models(client(), wrong)


def test_names_that_can_be_called_pass() -> None:
    agent = AgentSettings(model=MINI, fallback_models=(SONNET, "demo/scripted"), models=("ollama/anything",))
    check_models(client(), settings(agent, RoutingSettings(enabled=True, low=HAIKU)))


def test_everybody_may_choose_what_the_operator_pays_for_anyway() -> None:
    """The tiers count only while there is routing; a list of the operator's replaces all but the default."""
    routing = RoutingSettings(enabled=True, low=HAIKU, high=SONNET)
    agent = AgentSettings(model=MINI, fallback_models=(SONNET,))
    assert Models(client(), settings(agent, routing)).choosable == (MINI, HAIKU, SONNET)
    assert Models(client(), settings(agent, RoutingSettings(low=HAIKU))).choosable == (MINI, SONNET)
    listed = AgentSettings(model=MINI, models=(HAIKU,), fallback_models=(SONNET,))
    assert Models(client(), settings(listed, routing)).choosable == (MINI, HAIKU)


def test_a_window_is_that_of_the_model() -> None:
    """`agent.context_window` speaks of the configured model and of those nobody knows; one warning for each guess."""
    models = Models(client(), settings(AgentSettings(model="ollama/mine", context_window=16_000)))
    assert models.budget("ollama/mine").window == 16_000
    assert models.budget("ollama/other").window == 16_000
    assert models.budget(MINI).window == 128_000
    with capture_logs() as logs:
        models = Models(client(), settings(AgentSettings(model="ollama/mine")))
        for _ in range(3):
            assert models.budget("ollama/mine").window == UNKNOWN_WINDOW_TOKENS
    assert [line["event"] for line in logs] == ["model.window_unknown"]


@pytest.mark.parametrize(
    ("window", "output_max", "asked", "planned", "usable"),
    [
        (1_000_000, 64_000, 0, 100_000, 80_000),  # the reserve is 20,000 at most
        (1_000_000, 64_000, 20_000, 20_000, 10_000),  # and half of the budget at most
        (1_000_000, 64_000, 400_000, 400_000, 380_000),  # a number is taken as it is
        (128_000, 16_384, 0, 76_800, 60_416),  # 60 % of the window is less than 100,000
        (128_000, 16_384, 400_000, 128_000, 111_616),  # never above the window
        (40_000, 4_096, 0, 32_000, 27_904),  # so many are cheap in any model
        (8_192, 2_048, 0, 8_192, 6_144),  # a small window is used whole
        (8_192, 0, 0, 8_192, 6_144),  # of an unknown output a quarter is kept free
    ],
)
def test_a_prompt_is_kept_within_its_budget(
    window: int, output_max: int, asked: int, planned: int, usable: int
) -> None:
    """The window stays what it is: what cannot be made shorter may still be sent."""
    budget = budget_of(ModelFacts(context_window=window, output_max=output_max), context_budget=asked)
    assert (budget.window, budget.planned, budget.usable) == (window, planned, usable)


def test_an_entry_has_a_budget_of_its_own() -> None:
    """Before that of the agent; an entry without one follows the agent."""
    configured = Settings(
        agent=AgentSettings(model=MINI, context_budget=50_000),
        models={"wide": ModelEntry(model=MINI, context_budget=90_000), "plain": ModelEntry(model=MINI)},
    )
    catalog = ModelCatalog()
    models = Models(ModelRouter(LitellmClient(catalog, ModelEndpoints(configured, catalog).of)), configured)
    assert [models.budget(name).planned for name in (MINI, "wide", "plain")] == [50_000, 90_000, 50_000]


def test_a_choice_that_cannot_be_called_any_more_is_passed_over() -> None:
    """The operator changed the configuration; the conversation goes on."""
    models = Models(client(), settings(AgentSettings(model=MINI)))
    assert models.of_session(replace(SESSION, model="gone")) == MINI
    assert models.of_session(replace(SESSION, model=SONNET)) == SONNET


def test_a_session_with_a_model_of_its_own_is_never_routed() -> None:
    """Not even where that is the configured one."""
    models = Models(client(), settings(AgentSettings(model=MINI), RoutingSettings(enabled=True, low=HAIKU)))
    assert models.choose(SESSION, "thanks", Depth(), prompt_tokens=0).model == HAIKU
    for own in (MINI, SONNET):
        assert models.choose(replace(SESSION, model=own), "thanks", Depth(), prompt_tokens=0).model == own


@pytest.mark.parametrize(
    ("agent", "of", "utility"),
    [
        (AgentSettings(model=SONNET), "", HAIKU),
        (AgentSettings(model=SONNET), MINI, SMALL),
        (AgentSettings(model=SONNET, utility_model=MINI), "", MINI),
        (AgentSettings(model=SONNET, utility_model="anthropic/claude-x"), HAIKU, "anthropic/claude-x"),
        (AgentSettings(model=SONNET, utility_model=HAIKU), MINI, SMALL),
        (AgentSettings(model="ollama/a", utility_model="ollama/b"), "ollama/c", "ollama/b"),
        (AgentSettings(model="ollama/a"), "", "ollama/a"),
        (AgentSettings(model="openai/a", utility_model="openai/b", api_base="http://x/v1"), "openai/c", "openai/b"),
        (AgentSettings(model="openai/a", api_base="http://x/v1"), "openai/c", "openai/c"),
    ],
)
def test_small_work_stays_with_the_provider_of_the_conversation(agent: AgentSettings, of: str, utility: str) -> None:
    """The operator's word counts for the configured model and its siblings; one server is one provider."""
    configured = settings(agent)
    catalog = ModelCatalog()
    facts = LitellmClient(catalog, ModelEndpoints(configured, catalog).of).facts
    assert utility_model(configured, facts, of) == utility


def test_an_entry_called_cheap_is_for_those_who_name_it() -> None:
    """Small work stays with the provider of its conversation, whatever the entries are called."""
    configured = Settings(agent=AgentSettings(model=SONNET), models={"cheap": ModelEntry(model=MINI)})
    catalog = ModelCatalog()
    models = Models(ModelRouter(LitellmClient(catalog, ModelEndpoints(configured, catalog).of)), configured)
    assert models.named("cheap", SONNET) == "cheap"
    assert models.utility(SESSION) == HAIKU
