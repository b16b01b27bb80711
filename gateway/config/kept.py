"""Secrets of the installation itself: as configured, else made on first use and kept in a file of `data_dir`.

The file is readable by its owner only and appears whole: of several processes that start at once, one makes it and
all of them read the same. What is made here has a face (`trivet_admin_token_…`), so that a process that does not
know it recognises it all the same, by a rule of the scrubber.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from gateway.config.settings import Settings
from gateway.contracts.errors import ConfigError
from gateway.limits import ADMIN_TOKEN_CHARS_MIN

ADMIN_TOKEN_FILE: Final = "admin-token"  # noqa: S105 - a file's name
PLACEHOLDER_KEY_FILE: Final = "placeholder-key"
VAULT_KEY_FILE: Final = "vault-key"
REDIS_PASSWORD_FILE: Final = "redis-password"  # noqa: S105 - likewise
_BYTES: Final = 32


def admin_token(settings: Settings) -> str:
    """The operator's bearer token. Raises `ConfigError` when the file can neither be read nor written, and for a file
    whose token is too short."""
    path = settings.data_dir / ADMIN_TOKEN_FILE
    token = _kept(settings.http.admin_token, path, "http.admin_token")
    if len(token) < ADMIN_TOKEN_CHARS_MIN:
        raise ConfigError(
            f"the admin token in {path} has fewer than {ADMIN_TOKEN_CHARS_MIN} characters: "
            "delete the file, and a new one will be made"
        )
    return token


def placeholder_key(settings: Settings) -> str:
    """What placeholders are keyed with: equal in every process of an installation. Raises `ConfigError`."""
    return _kept(settings.scrub.placeholder_key, settings.data_dir / PLACEHOLDER_KEY_FILE, "scrub.placeholder_key")


def vault_key(settings: Settings) -> str:
    """What the vault encrypts with: equal in every process of an installation. Raises `ConfigError`."""
    return _kept(settings.scrub.vault.key, settings.data_dir / VAULT_KEY_FILE, "scrub.vault.key")


def redis_password(data_dir: Path) -> str:
    """What the embedded server asks of its clients, made at its first start. Raises `ConfigError`."""
    return _kept(None, data_dir / REDIS_PASSWORD_FILE, "the embedded Valkey")


def redis_password_if_made(data_dir: Path) -> str:
    """The same, "" where no server was started that asks for one. Raises `ConfigError`."""
    path = data_dir / REDIS_PASSWORD_FILE
    try:
        return _read(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}): run this as the user who runs Trivet") from error


def _kept(configured: SecretStr | None, path: Path, setting: str) -> str:
    if configured:
        return configured.get_secret_value()
    try:
        secret = _read(path) or _make(path)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be used for {setting} ({error.strerror}): make data_dir writable or set {setting}"
        ) from error
    if not secret:
        raise ConfigError(f"{path} is empty: delete it, and a new one will be made")
    return secret


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        return ""


def _make(path: Path) -> str:
    """Create the file with its secret in it; whoever comes second takes what the first one wrote."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    secret = f"trivet_{path.name.replace('-', '_')}_{secrets.token_urlsafe(_BYTES)}"
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secret + "\n")
        try:
            path.hardlink_to(draft)
        except FileExistsError:
            return _read(path)
    finally:
        draft.unlink()
    return secret
