"""What follows from the settings: the database's address, the model for small things, the values to hide."""

from __future__ import annotations

import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from pydantic import SecretStr

from gateway.config.catalog import catalog
from gateway.config.providers import are_siblings, cheapest_sibling
from gateway.config.settings import SCRIPTED_MODEL, Settings

_SECRET_VARIABLE: Final = re.compile(
    r"(_API_KEY|_API_TOKEN|_ACCESS_KEY|_SECRET_KEY|_AUTH_TOKEN|_SESSION_TOKEN|_PASSWORD)$"
)
_PASSWORD: Final = re.compile(r"(?<=://)([^/@:]*):[^/]*@")
_PASSWORD_OPTION: Final = re.compile(r"([?&][a-z_]*password=)[^&]*")


def database_url(settings: Settings) -> str:
    """The SQLAlchemy URL in force: the configured one or SQLite in the data directory."""
    return settings.database.url or f"sqlite+aiosqlite:///{settings.data_dir / 'trivet.db'}"


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


def value_of(settings: Settings, key: str) -> object:
    """The value under a dotted key that `catalog()` lists."""
    value: object = settings
    for name in key.split("."):
        value = getattr(value, name)
    return value


def settings_secrets(settings: Settings) -> tuple[str, ...]:
    """Every secret value in the settings, passwords inside URLs included: what the scrubber shall know."""
    found: list[str] = []
    for key in catalog():
        value = value_of(settings, key)
        if isinstance(value, SecretStr):
            found.append(value.get_secret_value())
        elif isinstance(value, str):
            found.extend(_passwords(value))
        elif isinstance(value, tuple):
            lines = (item.get_secret_value() for item in value if isinstance(item, SecretStr))
            found += (secret for line in lines for secret in _secrets_in(line))
    return tuple(dict.fromkeys(found))


def environment_secrets(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Values of variables whose name says that they are secret, such as OPENAI_API_KEY."""
    return tuple(value for name, value in environ.items() if value and _SECRET_VARIABLE.search(name.upper()))


def masked_url(url: str) -> str:
    """A URL with its password replaced, fit for a screen or a log."""
    return _PASSWORD_OPTION.sub(r"\1***", _PASSWORD.sub(r"\1:***@", url))


def is_readable_by_others(path: Path) -> bool:
    """True when somebody but the owner may read the file."""
    return bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))


def _secrets_in(line: str) -> list[str]:
    """Of a secret line `name=value`: the passwords of a URL, else the value and the token behind `Bearer`."""
    value = line.partition("=")[2]
    return _passwords(value) if "://" in value else [value, value.rpartition(" ")[2]]


def _passwords(url: str) -> list[str]:
    """That of the login, and those of options such as `sentinel_password`."""
    try:
        parts = urlsplit(url)
        options = parse_qs(parts.query)
    except ValueError:
        return []
    found = [unquote(parts.password or ""), *(words[0] for name, words in options.items() if name.endswith("password"))]
    return [password for password in found if password]
