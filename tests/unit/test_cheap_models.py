"""The model for small work of every provider's main models, by litellm's prices: a table to judge by reading."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from agent.models.catalog import ModelCatalog

TABLE = Path(__file__).parents[1] / "golden" / "models" / "cheap.txt"
TODAY = date(2026, 11, 27)


def shown(catalog: ModelCatalog, model: str) -> str:
    """One model with its prices in and out, in US dollars for a million tokens."""
    prices = catalog.facts(model).prices_usd
    return f"{model} ({prices.get('prompt', 0) * 1e6:.3g} / {prices.get('completion', 0) * 1e6:.3g})"


def test_the_pick_for_each_model_is_as_it_was_judged() -> None:
    """Each line names a model and the pick; what has no pick does its small work itself."""
    catalog = ModelCatalog(today=TODAY)
    models = [line.split(" ", 1)[0] for line in TABLE.read_text("utf-8").splitlines()]
    lines = []
    for model in models:
        sibling = catalog.facts(model).cheap_sibling
        lines.append(f"{shown(catalog, model)} -> {shown(catalog, sibling) if sibling else 'itself'}")
    assert TABLE.read_text("utf-8").splitlines() == lines


def test_no_pick_is_dearer_than_the_model_or_of_another_provider() -> None:
    """Of one in forty-one that the map knows."""
    catalog = ModelCatalog(today=TODAY)
    for model in list(catalog.names)[::41]:
        facts = catalog.facts(model)
        if facts.cheap_sibling:
            sibling = catalog.facts(facts.cheap_sibling)
            assert 4 * sibling.prices_usd["prompt"] + sibling.prices_usd["completion"] < (
                4 * facts.prices_usd["prompt"] + facts.prices_usd["completion"]
            )
            assert sibling.cheap_sibling == ""
            assert (
                model.rpartition("/")[0].partition("/")[0] == facts.cheap_sibling.rpartition("/")[0].partition("/")[0]
            )


def test_a_model_that_retires_soon_is_no_pick() -> None:
    """Nor is its name without a date, which ends with it."""
    assert ModelCatalog(today=date(2026, 1, 1)).facts("gpt-4o").cheap_sibling == "gpt-5-nano"
    assert ModelCatalog(today=TODAY).facts("gpt-4o").cheap_sibling == "gpt-6-luna"
