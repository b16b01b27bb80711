"""Which model does what: the one that answers, and a cheap one of the same provider for small work."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from agent.context import Budget, budget_of
from agent.model.client import ModelClient, ModelFacts

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Models:
    """Names and facts, fixed at start."""

    answer: str
    utility: str
    facts: ModelFacts
    utility_facts: ModelFacts
    budget: Budget
    utility_window: int


def choose_models(client: ModelClient, *, model: str, utility_model: str, context_window: int = 0) -> Models:
    """The models that the configuration asks for.

    Warns once when the window of the model is unknown and a small one has to be assumed.
    """
    facts = client.facts(model)
    if not context_window and not facts.context_window:
        _log.warning("model.window_unknown", model=model, assumed=budget_of(facts).window)
    budget = budget_of(facts, window_override=context_window)
    utility_facts = client.facts(utility_model)
    utility_window = budget.window if utility_model == model else budget_of(utility_facts).window
    return Models(model, utility_model, facts, utility_facts, budget, utility_window)
