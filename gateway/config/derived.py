"""Values that follow from the settings: the database's address, the model of the key that is there."""

from __future__ import annotations

import importlib.util
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from gateway.config.settings import SCRIPTED_MODEL, Settings
from gateway.contracts.errors import ConfigError

# Model providers we have a default for: whose key is in the environment, which model to take.


@dataclass(frozen=True, slots=True)
class Provider:
    """One row. `family` is how its litellm model names begin; the model is a litellm name."""

    variable: str
    family: tuple[str, ...]
    model: str


PROVIDERS: Final = (
    Provider("ANTHROPIC_API_KEY", ("anthropic/", "claude-"), "anthropic/claude-sonnet-4-6"),
    Provider("OPENAI_API_KEY", ("openai/", "gpt-", "o3", "o4"), "openai/gpt-5.4-mini"),
    Provider("GEMINI_API_KEY", ("gemini/",), "gemini/gemini-flash-latest"),
    Provider("MISTRAL_API_KEY", ("mistral/",), "mistral/mistral-medium-latest"),
    Provider("DEEPSEEK_API_KEY", ("deepseek/",), "deepseek/deepseek-chat"),
    Provider("GROQ_API_KEY", ("groq/",), "groq/openai/gpt-oss-120b"),
)


def found_provider(environ: Mapping[str, str]) -> Provider | None:
    """Return the first provider whose key is set and not empty."""
    return next((provider for provider in PROVIDERS if environ.get(provider.variable)), None)


def provider_of(model: str) -> Provider | None:
    """Return the row that a litellm model name belongs to."""
    return next((provider for provider in PROVIDERS if model.startswith(provider.family)), None)


EXTRAS: Final = {
    "discord": ("discord", "discord"),
    "slack": ("slack_bolt", "slack"),
    "postgresql": ("asyncpg", "postgres"),
}
"""The package that a platform or a kind of database needs, and the extra that brings it, where there is one."""


def is_installed(needed: str) -> bool:
    """Tell whether the package of a platform or of a kind of database is there."""
    return needed not in EXTRAS or importlib.util.find_spec(EXTRAS[needed][0]) is not None


def check_installed(needed: str, setting: str) -> None:
    """Raise `ConfigError` when `setting` wants a platform or a kind of database whose package is not installed."""
    if not is_installed(needed):
        package, extra = EXTRAS[needed]
        raise ConfigError(
            f"{setting} needs the package {package}, which a light installation does without: install "
            f"`trivet[{extra}]`, or all by `make install`"
        )


def database_url(settings: Settings) -> str:
    """Return the SQLAlchemy URL in force: the configured one or SQLite in the data directory."""
    return settings.database.url or f"sqlite+aiosqlite:///{settings.data_dir / 'trivet.db'}"


def hook_path(channel: str) -> str:
    """Return the path of a platform's calls to us: `/webhooks/telegram`, `/webhooks/telegram/support`."""
    return "/webhooks/" + channel.replace(".", "/")


def hook_url(settings: Settings, channel: str) -> str:
    """Return the same as the platform sees it; empty while nobody said how we are reached."""
    return settings.http.public_url + hook_path(channel) if settings.http.public_url else ""


def webhook_host(settings: Settings) -> str:
    """Return the address that webhooks are listened for on."""
    return settings.http.webhook_host or settings.http.host


def own_hosts(settings: Settings) -> frozenset[str]:
    """Return the names under which our HTTP ports may be asked, besides localhost and addresses."""
    http = settings.http
    public = urlsplit(http.public_url).hostname or ""
    return frozenset({*http.hosts, public, http.host.lower(), webhook_host(settings).lower()} - {""})


def called(settings: Settings, name: str) -> str:
    """Return litellm's name of the model that a setting or a person calls `name`."""
    entry = settings.models.get(name)
    return entry.model if entry else name


def auto_consolidate(settings: Settings) -> bool:
    """Tell whether a model looks for lasting facts: as configured, else where there is a real one."""
    memory = settings.memory
    if memory.auto_consolidate is not None:
        return memory.enabled and memory.auto_consolidate
    agent = settings.agent
    return memory.enabled and not (agent.utility_model or agent.model).startswith(SCRIPTED_MODEL)


def house_language(settings: Settings) -> str:
    """Return the one language that everybody is spoken to in; empty: everybody's own."""
    return "" if settings.words.language == "auto" else settings.words.language


def is_readable_by_others(path: Path) -> bool:
    """Tell whether somebody but the owner may read the file."""
    return bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))
