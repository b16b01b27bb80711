"""What follows from the settings: the database's address, the models for small work."""

from __future__ import annotations

import stat
from pathlib import Path

from gateway.config.providers import are_siblings, cheapest_sibling
from gateway.config.settings import SCRIPTED_MODEL, Settings


def database_url(settings: Settings) -> str:
    """The SQLAlchemy URL in force: the configured one or SQLite in the data directory."""
    return settings.database.url or f"sqlite+aiosqlite:///{settings.data_dir / 'trivet.db'}"


def hook_path(channel: str) -> str:
    """Where the platform of a channel calls us: `/webhooks/telegram`, `/webhooks/telegram/support`."""
    return "/webhooks/" + channel.replace(".", "/")


def hook_url(settings: Settings, channel: str) -> str:
    """The same as the platform sees it; empty while nobody said how we are reached."""
    return settings.http.public_url + hook_path(channel) if settings.http.public_url else ""


def utility_model(settings: Settings, of: str = "") -> str:
    """The model for titles and summaries of a conversation with the model `of` (empty: the configured one). As
    configured, else a cheap one of the same provider; never of another provider than the conversation's own."""
    agent = settings.agent
    model = of or agent.model
    if agent.utility_model and (model == agent.model or agent.api_base or are_siblings(model, agent.utility_model)):
        return agent.utility_model
    return model if agent.api_base else cheapest_sibling(model)


def auto_consolidate(settings: Settings) -> bool:
    """Whether a model looks for lasting facts: as configured, else where there is a real one."""
    memory = settings.memory
    if memory.auto_consolidate is not None:
        return memory.enabled and memory.auto_consolidate
    return memory.enabled and not utility_model(settings).startswith(SCRIPTED_MODEL)


def house_language(settings: Settings) -> str:
    """The one language that everybody is spoken to in; empty: everybody's own."""
    return "" if settings.words.language == "auto" else settings.words.language


def is_readable_by_others(path: Path) -> bool:
    """True when somebody but the owner may read the file."""
    return bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))
