"""Model providers we have a default for: whose key is in the environment, which model to take, the cheap sibling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gateway.config.settings import SCRIPTED_MODEL


@dataclass(frozen=True, slots=True)
class Provider:
    """One row. `family` is how its litellm model names begin; models are litellm names."""

    variable: str
    family: tuple[str, ...]
    model: str
    utility_model: str


PROVIDERS: Final = (
    Provider(
        "ANTHROPIC_API_KEY", ("anthropic/", "claude-"), "anthropic/claude-sonnet-4-6", "anthropic/claude-haiku-4-5"
    ),
    Provider("OPENAI_API_KEY", ("openai/", "gpt-", "o3", "o4"), "openai/gpt-5.4-mini", "openai/gpt-5.4-nano"),
    Provider("GEMINI_API_KEY", ("gemini/",), "gemini/gemini-flash-latest", "gemini/gemini-flash-lite-latest"),
    Provider("MISTRAL_API_KEY", ("mistral/",), "mistral/mistral-medium-latest", "mistral/mistral-small-latest"),
    Provider("DEEPSEEK_API_KEY", ("deepseek/",), "deepseek/deepseek-chat", "deepseek/deepseek-chat"),
    Provider("GROQ_API_KEY", ("groq/",), "groq/openai/gpt-oss-120b", "groq/openai/gpt-oss-20b"),
)


def found_provider(environ: Mapping[str, str]) -> Provider | None:
    """The first provider whose key is set and not empty."""
    return next((provider for provider in PROVIDERS if environ.get(provider.variable)), None)


def provider_of(model: str) -> Provider | None:
    """The row that a litellm model name belongs to."""
    return next((provider for provider in PROVIDERS if model.startswith(provider.family)), None)


def family_of(model: str) -> str:
    """What the names of a provider's models have in common: the same for two models of one provider."""
    provider = provider_of(model)
    return provider.family[0] if provider else model.partition("/")[0]


def cheapest_sibling(model: str) -> str:
    """A cheap model of the same provider, or `model` itself where we know none. Never another provider."""
    provider = None if model == SCRIPTED_MODEL else provider_of(model)
    return provider.utility_model if provider else model
