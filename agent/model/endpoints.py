"""Where each model is asked, and with which key. A key goes to the provider it belongs to and to nobody else.

an entry with an address       its own key, or none
an entry with a key            that key, at its provider
everything else                agent.api_key and agent.api_base for models of the provider of agent.model,
                               for all others what their own provider's variables say
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from agent.model.catalog import ModelCatalog
from gateway.config import Settings, called

NO_KEY: Final = "no-key"
"""What a model at an address of its own is asked with that has no key: with nothing, litellm would send there what the
environment holds for its provider."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """How one model is called: litellm's name of it, and what goes along. An empty address or key is its provider's."""

    model: str
    api_base: str = ""
    api_key: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    temperature: float | None = None
    max_tokens: int | None = None
    reasoning_effort: str = ""

    def is_called_as(self, other: Endpoint) -> bool:
        """Whether both are asked at one address, with one key and the same headers."""
        return (self.api_base, self.api_key, self.headers) == (other.api_base, other.api_key, other.headers)


class Endpoints:
    """The endpoint of every name that a setting or a person may give a model."""

    def __init__(self, settings: Settings, catalog: ModelCatalog) -> None:
        """Reads the files that keys are in. Raises `ConfigError`."""
        self._agent = settings.agent
        self._catalog = catalog
        self._home = self._provider(called(settings, settings.agent.model))
        self._entries = {
            name: Endpoint(
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

    def of(self, name: str) -> Endpoint:
        """The one of a name; of one that is no entry, a model of that name."""
        entry = self._entries.get(name, Endpoint(name))
        if entry.api_base:
            return replace(entry, api_key=entry.api_key or NO_KEY)
        if entry.api_key or self._provider(entry.model) != self._home:
            return entry
        key = self._agent.api_key.get_secret_value() if self._agent.api_key else ""
        return replace(entry, api_base=self._agent.api_base, api_key=key)

    def _provider(self, model: str) -> str:
        """As litellm calls it; models of which it knows none have nothing in common."""
        return self._catalog.facts(model).provider or model
