"""Secrets of the installation that are kept in files of `data_dir`, made at their first use. Standard library only.

A file is readable by its owner only and appears whole: of several processes that start at once, one makes it and all of
them read the same. What is made here has a face (`trivet_admin_token_…`), so that a process that does not know it
recognises it all the same, by a rule of the scrubber."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final

from gateway.contracts.errors import ConfigError

REDIS_PASSWORD_FILE: Final = "redis-password"  # noqa: S105 - a file's name
_BYTES: Final = 32


def kept_secret(path: Path, setting: str) -> str:
    """Return the secret in the file, which is made if it is not there. Raises `ConfigError`, which names `setting`."""
    try:
        secret = _read(path) or _make(path)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be used for {setting} ({error.strerror}): make data_dir writable or set {setting}"
        ) from error
    if not secret:
        raise ConfigError(f"{path} is empty: delete it, and a new one will be made")
    return secret


def redis_password(data_dir: Path) -> str:
    """Return what the embedded server asks of its clients, made at its first start. Raises `ConfigError`."""
    return kept_secret(data_dir / REDIS_PASSWORD_FILE, "the embedded Valkey")


def redis_password_if_made(data_dir: Path) -> str:
    """Return the same, "" where no server was started that asks for one. Raises `ConfigError`."""
    path = data_dir / REDIS_PASSWORD_FILE
    try:
        return _read(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}): run this as the user who runs Trivet") from error


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        return ""


def _make(path: Path) -> str:
    """Create the file with its secret in it; who comes second takes what the first one wrote."""
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
