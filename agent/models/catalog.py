"""The facts that litellm's price map has of each model, and the endpoint and key with which each is called."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from agent.limits import CHEAP_MODEL_DAYS_MIN, CHEAP_MODEL_SIZE_MIN, CHEAP_MODEL_WINDOW_MIN, EMBEDDING_WINDOW_MIN
from agent.models.requests import ModelFacts
from gateway.config import Settings, called
from gateway.contracts.errors import ConfigError

_PRICES: Final = "model_prices_and_context_window_backup.json"
_CACHES_WHEN_TOLD: Final = "claude"
"""Most models cache what prompts have in common by themselves; these where they are told to, at any provider."""
_PROVIDERS: Final = "provider_endpoints_support_backup.json"


class ModelCatalog:
    """Windows, prices and providers, from the files of the installed litellm."""

    def __init__(self, *, today: date | None = None) -> None:
        """Find the installed litellm. `today` decides which models retire soon."""
        self._folder = _litellm_folder()
        self._today = today or datetime.now(UTC).date()
        self._known: dict[str, ModelFacts] = {}

    def release(self) -> None:
        """Forget the map, 5 MB, which is read again for a model that nobody has asked for yet. What was found stays."""
        self.__dict__.pop("_models", None)

    @cached_property
    def _models(self) -> Mapping[str, Mapping[str, Any]]:
        models: dict[str, Mapping[str, Any]] = json.loads((self._folder / _PRICES).read_text("utf-8"))
        return models

    @cached_property
    def names(self) -> frozenset[str]:
        """List every model that the map knows."""
        return frozenset(self._models)

    @cached_property
    def _provider_names(self) -> frozenset[str]:
        table = json.loads((self._folder / _PROVIDERS).read_text("utf-8"))["providers"]
        return frozenset(table)

    def check_name(self, model: str) -> None:
        """Check that a model can be called. Raises `ConfigError` for one that neither the map nor a provider prefix
        makes callable."""
        if model in self.names or self._prefix(model):
            return
        raise ConfigError(
            f"{model!r} is no model that litellm knows; write <provider>/<model>, "
            "for example openai/gpt-4o-mini or ollama/llama3.2, or demo/scripted"
        )

    def facts(self, model: str) -> ModelFacts:
        """Return the facts of a model, with zeros where nothing is known."""
        if model not in self._known:
            self._known[model] = self._look_up(model)
        return self._known[model]

    def _look_up(self, model: str) -> ModelFacts:
        row = self._row(model)
        if row is None:
            return ModelFacts(provider=self._prefix(model))
        return ModelFacts(
            provider=self._prefix(model) or str(row.get("litellm_provider") or ""),
            context_window=whole(row.get("max_input_tokens") or row.get("max_tokens")),
            output_max=whole(row.get("max_output_tokens")),
            is_reasoning=bool(row.get("supports_reasoning")),
            sees=bool(row.get("supports_vision")),
            is_told_to_cache=bool(row.get("supports_prompt_caching")) and _CACHES_WHEN_TOLD in model,
            prices_usd={
                "prompt": number(row.get("input_cost_per_token")),
                "completion": number(row.get("output_cost_per_token")),
                "second": number(row.get("input_cost_per_second")),
                "character": number(row.get("input_cost_per_character")),
                "written": number(row.get("cache_creation_input_token_cost", row.get("input_cost_per_token"))),
                "cached": number(row.get("cache_read_input_token_cost", row.get("input_cost_per_token"))),
            },
            cheap_sibling=self._cheap_sibling(model),
            embedding_sibling=self._sibling(model, self._embeds, lambda row: number(row.get("input_cost_per_token"))),
        )

    def _cheap_sibling(self, model: str) -> str:
        """Return the cheapest sufficient chat model of the same route; empty where there is none that is cheaper, or
        where the model itself has no price to compare with."""
        dearest = _small_work_usd(self._row(model) or {})
        return self._sibling(
            model, lambda name, row: _small_work_usd(row) < dearest and self._is_sufficient(name, row), _small_work_usd
        )

    def _sibling(
        self,
        model: str,
        is_fit: Callable[[str, Mapping[str, Any]], bool],
        price_usd: Callable[[Mapping[str, Any]], float],
    ) -> str:
        """Return the cheapest model of the same route that is fit, by the name that it is called on it; empty where
        there is none."""
        key = model if model in self._models else model.partition("/")[2]
        row = self._models[key]
        if str(row.get("litellm_provider")) in _NAMED_BY_THEIR_OWNERS:
            return ""
        route = _route(key, row)
        siblings = (
            (price_usd(other), bool(_DATED.search(name)), len(name), name)
            for name, other in self._models.items()
            if is_fit(name, other) and _route(name, other) == route
        )
        cheapest = min(siblings, default=None)
        return model.removesuffix(key) + cheapest[-1] if cheapest else ""

    def _embeds(self, name: str, row: Mapping[str, Any]) -> bool:
        """Tell whether a model embeds texts of any matter and language, of a paragraph at least, has a price, and does
        not retire soon."""
        return (
            row.get("mode") == "embedding"
            and number(row.get("input_cost_per_token")) > 0
            and whole(row.get("max_input_tokens")) >= EMBEDDING_WINDOW_MIN
            and not _EMBEDS_ELSE.search(name.lower())
            and not self._retires_soon(name, row)
        )

    def _is_sufficient(self, name: str, row: Mapping[str, Any]) -> bool:
        """Tell whether a model can do small work: chats, calls functions, writes JSON by a schema, reads enough, is not
        made for something else, and does not retire soon."""
        sizes = [float(size) for size in _SIZE.findall(name.lower())]
        return (
            row.get("mode") == "chat"
            and bool(row.get("supports_function_calling"))
            and bool(row.get("supports_response_schema"))
            and _small_work_usd(row) > 0  # no price is none that is known
            and whole(row.get("max_input_tokens")) >= CHEAP_MODEL_WINDOW_MIN
            and min(sizes, default=CHEAP_MODEL_SIZE_MIN) >= CHEAP_MODEL_SIZE_MIN
            and not _MADE_FOR_ELSE.search(name.lower())
            and not self._retires_soon(name, row)
        )

    def _retires_soon(self, name: str, row: Mapping[str, Any]) -> bool:
        """Tell whether a model is gone within `CHEAP_MODEL_DAYS_MIN`. A name without a date retires with the last of
        its dated ones, where the map has a day for it."""
        day = row.get("deprecation_date") or self._last_days.get(name)
        return bool(day) and str(day) < (self._today + timedelta(days=CHEAP_MODEL_DAYS_MIN)).isoformat()

    @cached_property
    def _last_days(self) -> Mapping[str, str]:
        days = dict[str, str]()
        for name, row in self._models.items():
            alias = _DATED.sub("", name)
            if alias != name and (day := str(row.get("deprecation_date") or "9")) > days.get(alias, ""):
                days[alias] = day
        return days

    def _prefix(self, model: str) -> str:
        """Return the provider with which a name begins; empty if there is none."""
        provider, slash, _ = model.partition("/")
        return provider if slash and provider in self._provider_names else ""

    def _row(self, model: str) -> Mapping[str, Any] | None:
        names = (name for name in (model, model.partition("/")[2]) if name in self.names)
        return next((self._models[name] for name in names), None)


_NAMED_BY_THEIR_OWNERS: Final = frozenset({"azure", "azure_ai", "azure_text", "sagemaker", "sagemaker_chat"})
"""Providers that serve what somebody has deployed there, under names of their own: none of them can be guessed."""
_ONE_PROVIDER: Final = {
    "bedrock_converse": "bedrock",
    "vertex_ai-embedding-models": "vertex_ai",
    "vertex_ai-language-models": "vertex_ai",
}
_OF_MANY_VENDORS: Final = frozenset(
    {"bedrock", "bedrock_mantle", "vertex_ai", "openrouter", "vercel_ai_gateway", "aihubmix"}
)
"""Routes to the models of many vendors: what was said to one vendor is not passed on to another for its price."""
_LEAD: Final = re.compile(r"(?:[^/]*/)*(?:[a-z-]+\.)*")
"""The beginning of a name on such a route: folders, region and vendor (`bedrock/us-gov-west-1/`, `eu.anthropic.`)."""
_DATED: Final = re.compile(r"[-@](?:20\d\d-?\d\d-?\d\d(?:-v\d:\d)?|\d{4}|default)$")
_SIZE: Final = re.compile(r"(?<![a-z0-9.])(?:\d+x)?(\d+(?:\.\d+)?)b(?![a-z0-9])")
"""The billions of parameters in a name."""
_MADE_FOR_ELSE: Final = re.compile(
    r"(?:^|[-/._:@])(?:ft|preview|exp|beta|labs|free|audio|voxtral|omni|realtime|live|transcribe|tts|speech|search|"
    r"research|embed\w*|image|images|ocr|moderation|guard|safeguard|robotics|computer|cyber|customtools|container|"
    r"vision|vl|math|code|coder|codex|codestral|devstral|build|fim|agent|cli)(?:$|[-/._:@])"
)
"""Words of models that are no plain, lasting ones for texts."""
_EMBEDS_ELSE: Final = re.compile(
    r"(?:^|[-/._:@])(?:00[45]|ada|code|codestral|context|en|english|exp|finance|image|law|light|lite|multimodal\w*|preview)"
    r"(?:$|[-/._:@])"
)
"""Words of embedding models of one language or matter, of an older kind, or that may be gone soon."""


def _route(name: str, row: Mapping[str, Any]) -> tuple[str, str]:
    """Return the way to a model: its provider and what the names on that way begin with."""
    own = str(row.get("litellm_provider") or "")
    provider = _ONE_PROVIDER.get(own, own)
    if provider in _OF_MANY_VENDORS:
        lead = _LEAD.match(name)
        return provider, lead.group() if lead else ""
    folder, slash, _ = name.partition("/")
    return provider, folder + slash if provider.startswith(folder) else ""


def _small_work_usd(row: Mapping[str, Any]) -> float:
    """Return the price of small work: about four tokens are read for one that is written."""
    return 4 * number(row.get("input_cost_per_token")) + number(row.get("output_cost_per_token"))


def whole(value: object) -> int:
    """Read a whole number from a table or an answer; 0 for anything else."""
    return int(number(value))


def number(value: object) -> float:
    """Read a number from a table or an answer; 0 for anything else."""
    return float(value) if isinstance(value, int | float) else 0.0


def _litellm_folder() -> Path:
    spec = importlib.util.find_spec("litellm")  # finds the folder, runs nothing of it
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError("litellm is not installed: run `make setup`")
    return Path(spec.submodule_search_locations[0])


# The address and the key with which each model is called. A key is sent only to the provider it belongs to.
#
# an entry with an address       its own key, or none
# an entry with a key            that key, at its provider
# everything else                agent.api_key and agent.api_base for models of the provider of agent.model,
#                                for all others what their own provider's variables say


NO_KEY: Final = "no-key"
"""The key for a model that has an address of its own and no key: with none, litellm would send there the key that the
environment holds for its provider."""


@dataclass(frozen=True, slots=True)
class ModelEndpoint:
    """The call of one model: litellm's name of it, and what goes along. An empty address or key is its provider's."""

    model: str
    api_base: str = ""
    api_key: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    temperature: float | None = None
    max_tokens: int | None = None
    reasoning_effort: str = ""

    def is_called_as(self, other: ModelEndpoint) -> bool:
        """Tell whether both are called at one address, with one key and the same headers."""
        return (self.api_base, self.api_key, self.headers) == (other.api_base, other.api_key, other.headers)


class ModelEndpoints:
    """The endpoint of every name that a setting or a person may give a model."""

    def __init__(self, settings: Settings, catalog: ModelCatalog) -> None:
        """Read the endpoints of the settings, and the files that hold keys. Raises `ConfigError`."""
        self._agent = settings.agent
        self._catalog = catalog
        self._home = self._provider(called(settings, settings.agent.model))
        self._entries = {
            name: ModelEndpoint(
                entry.model,
                entry.api_base,
                entry.key(name),
                entry.headers,
                entry.temperature,
                entry.max_tokens,
                entry.reasoning_effort,
            )
            for name, entry in settings.models.items()
        }

    def of(self, name: str) -> ModelEndpoint:
        """Return the endpoint of that name; for a name without an entry, an endpoint of the model of that name."""
        entry = self._entries.get(name, ModelEndpoint(name))
        if entry.api_base:
            return replace(entry, api_key=entry.api_key or NO_KEY)
        if entry.api_key or self._provider(entry.model) != self._home:
            return entry
        key = self._agent.api_key.get_secret_value() if self._agent.api_key else ""
        return replace(entry, api_base=self._agent.api_base, api_key=key)

    def _provider(self, model: str) -> str:
        """Return the provider as litellm calls it; models without a known provider have nothing in common."""
        return self._catalog.facts(model).provider or model
