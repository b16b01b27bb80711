"""What litellm's own price map says of a model, read from its file: importing litellm costs seconds."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from agent.model.client import ModelFacts
from gateway.contracts.errors import ConfigError
from gateway.contracts.ports import Clock

_PRICES: Final = "model_prices_and_context_window_backup.json"
_PROVIDERS: Final = "provider_endpoints_support_backup.json"
_UTILITY_WINDOW_MIN: Final = 32_000  # a utility model has to read what it compacts
_UNFIT_WORDS: Final = ("ft:", "audio", "realtime", "search", "image", "preview", "latest", "guard", "-exp", "safety")


class ModelCatalog:
    """Windows, prices and providers, from the files of the installed litellm."""

    def __init__(self, clock: Clock, folder: Path | None = None) -> None:
        self._folder = folder if folder is not None else _litellm_folder()
        self._today = datetime.fromtimestamp(clock.now_ms() / 1000, UTC).date().isoformat()
        self._known: dict[str, ModelFacts] = {}

    @cached_property
    def _models(self) -> Mapping[str, Mapping[str, Any]]:
        models: dict[str, Mapping[str, Any]] = json.loads((self._folder / _PRICES).read_text("utf-8"))
        return models

    @cached_property
    def _provider_names(self) -> frozenset[str]:
        table = json.loads((self._folder / _PROVIDERS).read_text("utf-8"))["providers"]
        return frozenset(table)

    def check_name(self, model: str) -> None:
        """Raises `ConfigError` for a model that neither the map nor a provider prefix makes callable."""
        provider = model.partition("/")[0]
        if model in self._models or ("/" in model and provider in self._provider_names):
            return
        raise ConfigError(
            f"agent.model: {model!r} is no model that litellm knows; write <provider>/<model>, "
            "for example openai/gpt-4o-mini or ollama/llama3.2, or demo/scripted"
        )

    def facts(self, model: str) -> ModelFacts:
        """Zeros where nothing is known."""
        if model not in self._known:
            self._known[model] = self._look_up(model)
        return self._known[model]

    def _look_up(self, model: str) -> ModelFacts:
        row = self._row(model)
        if row is None:
            return ModelFacts(cheapest_sibling=model)
        return ModelFacts(
            context_window=_whole(row.get("max_input_tokens") or row.get("max_tokens")),
            output_max=_whole(row.get("max_output_tokens")),
            is_reasoning=bool(row.get("supports_reasoning")),
            cheapest_sibling=self._cheapest_of(row.get("litellm_provider"), model),
            prices_usd={
                "prompt": _money(row.get("input_cost_per_token")),
                "completion": _money(row.get("output_cost_per_token")),
                "cached": _money(row.get("cache_read_input_token_cost", row.get("input_cost_per_token"))),
            },
        )

    def _row(self, model: str) -> Mapping[str, Any] | None:
        return self._models.get(model) or self._models.get(model.partition("/")[2])

    def _cheapest_of(self, provider: object, model: str) -> str:
        """The cheapest chat model of the same provider that can do a utility's work; `model` if none is."""
        fit = [
            (_money(row.get("input_cost_per_token")) + _money(row.get("output_cost_per_token")), name)
            for name, row in self._models.items()
            if row.get("litellm_provider") == provider and _is_fit(name, row, self._today)
        ]
        cheapest = min(fit, default=(0.0, model))[1]
        return cheapest if "/" in cheapest or "/" not in model else f"{model.partition('/')[0]}/{cheapest}"


def _is_fit(name: str, row: Mapping[str, Any], today: str) -> bool:
    return (
        row.get("mode") == "chat"
        and bool(row.get("supports_function_calling"))
        and _whole(row.get("max_input_tokens")) >= _UTILITY_WINDOW_MIN
        and _money(row.get("input_cost_per_token")) > 0
        and str(row.get("deprecation_date") or "9999") > today
        and not any(word in name for word in _UNFIT_WORDS)
    )


def _whole(value: object) -> int:
    return int(value) if isinstance(value, int | float) else 0


def _money(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _litellm_folder() -> Path:
    spec = importlib.util.find_spec("litellm")  # finds the folder, runs nothing of it
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError("litellm is not installed: run `make setup`")
    return Path(spec.submodule_search_locations[0])
