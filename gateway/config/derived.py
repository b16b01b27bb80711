"""What follows from the settings: the database's address, the models for small work, the operator's token."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import Final

from gateway.config.providers import are_siblings, cheapest_sibling
from gateway.config.settings import SCRIPTED_MODEL, Settings
from gateway.contracts.errors import ConfigError

ADMIN_TOKEN_FILE: Final = "admin-token"  # noqa: S105 - a file's name
ADMIN_TOKEN_PREFIX: Final = "trivet_admin_"  # noqa: S105 - by which those who do not know the token recognise it


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


def admin_token(settings: Settings) -> str:
    """The operator's bearer token: the configured one, else that of `<data_dir>/admin-token`, made on first use.

    Raises `ConfigError` when the file can neither be read nor written.
    """
    if settings.http.admin_token:
        return settings.http.admin_token.get_secret_value()
    path = settings.data_dir / ADMIN_TOKEN_FILE
    try:
        token = _read_token(path) or _make_token(path)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be used for the admin token ({error.strerror}): "
            "make data_dir writable or set http.admin_token"
        ) from error
    if not token:
        raise ConfigError(f"{path} is empty: delete it, and a new admin token will be made")
    return token


def is_readable_by_others(path: Path) -> bool:
    """True when somebody but the owner may read the file."""
    return bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))


def _read_token(path: Path) -> str:
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        return ""


def _make_token(path: Path) -> str:
    """Create the file with its token in it; whoever comes second takes what the first one wrote."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    token = ADMIN_TOKEN_PREFIX + secrets.token_urlsafe(32)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(token + "\n")
        try:
            path.hardlink_to(draft)
        except FileExistsError:
            return _read_token(path)
    finally:
        draft.unlink()
    return token
