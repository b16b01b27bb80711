"""Usage as Prometheus sees it: what was spent today, by purpose and model.

The counters begin anew with each UTC day, as Prometheus expects of a process that was started again: `rate()`
and `increase()` know how to read that. So a scrape sums one day and not the whole ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client.core import CounterMetricFamily, Metric

from gateway.contracts.entries import UsagePurpose
from gateway.contracts.spending import UsageSum

MODELS_SHOWN_MAX: Final = 20  # each is a label value, and every label value costs memory for ever
LABEL_CHARS_MAX: Final = 80
OTHERS: Final = "other"

Sums = Mapping[tuple[UsagePurpose, str], UsageSum]
_LABELS: Final = ("purpose", "model")


@dataclass(frozen=True, slots=True)
class _Row:
    """One row of the table of names."""

    name: str
    meaning: str
    of: Callable[[UsageSum], float]


TABLE: Final = (
    _Row("trivet_model_calls", "Calls of models.", lambda found: found.calls),
    _Row("trivet_model_prompt_tokens", "Tokens in, cached ones included.", lambda found: found.prompt_tokens),
    _Row("trivet_model_completion_tokens", "Tokens out.", lambda found: found.completion_tokens),
    _Row("trivet_model_cached_tokens", "Tokens in that a prompt cache had.", lambda found: found.cached_tokens),
    _Row("trivet_model_cost_usd", "What models cost, in US dollars.", lambda found: found.cost_usd),
)


def usage_families(sums: Sums, *, clean: Callable[[str], str]) -> Iterator[Metric]:
    """The counters. `clean` makes a model's name fit to be shown; all but the busiest are one label together."""
    shown = _bounded(sums, clean)
    for row in TABLE:
        family = CounterMetricFamily(row.name, row.meaning, labels=_LABELS)
        for (purpose, model), found in sorted(shown.items()):
            family.add_metric([purpose.value, model], row.of(found))
        yield family


def _bounded(sums: Sums, clean: Callable[[str], str]) -> Sums:
    tokens: dict[str, int] = {}
    for (_, model), found in sums.items():
        tokens[model] = tokens.get(model, 0) + found.tokens
    busiest = sorted(tokens, key=lambda model: (-tokens[model], model))[:MODELS_SHOWN_MAX]
    names = {model: clean(model)[:LABEL_CHARS_MAX] for model in busiest}
    bounded: dict[tuple[UsagePurpose, str], UsageSum] = {}
    for (purpose, model), found in sums.items():
        label = purpose, names.get(model, OTHERS)
        bounded[label] = bounded.get(label, UsageSum()) + found
    return bounded
