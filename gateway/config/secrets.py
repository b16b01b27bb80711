"""The secrets in a configuration, and those of the installation itself, which are made on first use.

A secret setting is one as a whole. Others hold one: the login and the options of an address, the arguments and
variables of a command, a variable of the environment whose name says what it is."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import BaseModel, SecretStr

from gateway.config.catalog import catalog, value_of
from gateway.config.settings import Settings
from gateway.contracts.errors import ConfigError
from gateway.key_files import kept_secret
from gateway.limits import ADMIN_TOKEN_CHARS_MIN

_SECRET_WORDS: Final = frozenset(
    {"auth", "authorization", "bearer", "cookie", "credential", "key", "pass", "pat", "pwd", "sig", "signature"}
)
_SECRET_ENDINGS: Final = ("apikey", "credentials", "passphrase", "passwd", "password", "secret", "secrets", "token")
_HARMLESS_WORDS: Final = frozenset({"public", "fingerprint", "sock", "oldpwd"})
_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NO_LETTER: Final = re.compile(r"[^a-z]+")
_ADDRESS: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^\s\"']+", re.IGNORECASE)
_LOGIN_TOKEN_CHARS_MIN: Final = 12  # of a name without a password in an address: shorter ones are names
_LOGIN: Final = re.compile(rf"(?<=://)(?:([^/@:\s\"']*):[^/@\s\"']*|[^/@:\s\"']{{{_LOGIN_TOKEN_CHARS_MIN},}})@")
_OPTION: Final = re.compile(r"([?&]([A-Za-z0-9_.-]+)=)[^&#\s\"']*")


def settings_secrets(settings: Settings) -> tuple[str, ...]:
    """Return every secret value in the settings: what the scrubber shall know."""
    values = (*(value_of(settings, key) for key in catalog()), settings.channels.of_plugins())
    return tuple(dict.fromkeys(secret for value in values for secret in _in_setting(value)))


def secrets_in_files(settings: Settings, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the secrets in the files of keys and of MCP servers, for the scrubber of a role that uses them. Raises
    `ConfigError`."""
    keys = [entry.key(name) for name, entry in settings.models.items() if entry.api_key_file is not None]
    for server in settings.tools.every_mcp_server(environ):
        keys += [*_in_text(shlex.join(server.command)), *_in_text(server.url)]
        lines = (f"{name}={value}" for name, value in server.given.items() if names_a_secret(name))
        keys += [secret for line in lines for secret in _in_secret_line(line)]
    return tuple(dict.fromkeys(keys))


def environment_secrets(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return values of variables whose name says that they are secret, such as OPENAI_API_KEY, and what is in
    addresses. Where a file is, is no secret."""
    found: list[str] = []
    for name, value in environ.items():
        found += _in_text(value)
        if names_a_secret(name) and value and not _is_path(value):
            found.append(value)
    return tuple(found)


def names_a_secret(name: str) -> bool:
    """Tell whether a name (`OPENAI_API_KEY`, `sentinel_password`, `X-Api-Key`, `accessToken`) is that of a secret."""
    words = _NO_LETTER.split(_HUMP.sub("_", name).lower())
    if not _HARMLESS_WORDS.isdisjoint(words):
        return False
    return any(word in _SECRET_WORDS or word.endswith(_SECRET_ENDINGS) for word in words)


def masked_url(url: str) -> str:
    """Return a URL (or a text with some in it) without passwords and keys, fit for a screen or a log."""
    return _OPTION.sub(_masked_option, _LOGIN.sub(_masked_login, url))


def _masked_login(found: re.Match[str]) -> str:
    return "***@" if found[1] is None else f"{found[1]}:***@"


def _masked_option(found: re.Match[str]) -> str:
    return f"{found[1]}***" if names_a_secret(found[2]) else found[0]


def _in_setting(value: object) -> Iterator[str]:
    match value:
        case SecretStr():
            yield value.get_secret_value()
        case str():
            yield from _in_text(value)
        case Mapping():
            for entry in value.values():
                for _, held in entry:
                    yield from _in_setting(held)
        case tuple():
            for line in value:
                if isinstance(line, BaseModel):
                    yield from (secret for _, held in line for secret in _in_setting(held))
                elif isinstance(line, SecretStr):
                    yield from _in_secret_line(line.get_secret_value())
                else:
                    yield from _in_text(line)


def _in_secret_line(line: str) -> Iterator[str]:
    """Return, of a secret line `name=value`, what is secret in an address, else the value and the token after
    `Bearer`."""
    value = line.partition("=")[2]
    if "://" in value:
        yield from _in_text(value)
    else:
        yield from (value, value.rpartition(" ")[2])


def _in_text(text: object) -> Iterator[str]:
    """Find logins and options of every address, `name=value` and `--name value` where the name says it."""
    words = _words(str(text))
    for before, word in zip(("", *words), words, strict=False):
        name, equals, value = word.partition("=")
        if equals and "://" not in name and names_a_secret(name):
            yield value
        if before.startswith("--") and "=" not in before and names_a_secret(before):
            yield word
        for address in _ADDRESS.findall(word):
            yield from _in_address(address)


def _words(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError:
        return tuple(text.split())


def _in_address(address: str) -> Iterator[str]:
    """Return the password of the login (or the login alone, where it is long: a token), and the options whose names say
    it. A password that anybody would guess from the rest of the address is no secret, and hiding it would hide
    words."""
    try:
        parts = urlsplit(address)
        options = parse_qsl(parts.query)
    except ValueError:
        return
    login = parts.password or ""
    if not login and len(parts.username or "") >= _LOGIN_TOKEN_CHARS_MIN:
        login = parts.username or ""
    if login and login not in {parts.username if parts.password else "", parts.path.strip("/"), parts.hostname}:
        yield unquote(login)
        yield login
    for name, value in options:
        if value and names_a_secret(name):
            yield value


def _is_path(value: str) -> bool:
    return "/" in value and os.path.exists(value)  # noqa: PTH110 - unlike Path.exists, it never raises


# Secrets of the installation itself: as configured, else kept in a file of `data_dir`.


ADMIN_TOKEN_FILE: Final = "admin-token"  # noqa: S105 - a file's name
PLACEHOLDER_KEY_FILE: Final = "placeholder-key"
VAULT_KEY_FILE: Final = "vault-key"
CLIENT_KEY_FILE: Final = "client-key"


def admin_token(settings: Settings) -> str:
    """Return the operator's bearer token. Raises `ConfigError` when the file can neither be read nor written, and for a
    file whose token is too short."""
    path = settings.data_dir / ADMIN_TOKEN_FILE
    token = _kept(settings.http.admin_token, path, "http.admin_token")
    if len(token) < ADMIN_TOKEN_CHARS_MIN:
        raise ConfigError(
            f"the admin token in {path} has fewer than {ADMIN_TOKEN_CHARS_MIN} characters: "
            "delete the file, and a new one will be made"
        )
    return token


def placeholder_key(settings: Settings) -> str:
    """Return the key of placeholders: equal in every process of an installation. Raises `ConfigError`."""
    return _kept(settings.scrub.placeholder_key, settings.data_dir / PLACEHOLDER_KEY_FILE, "scrub.placeholder_key")


def vault_key(settings: Settings) -> str:
    """Return what the vault encrypts with: equal in every process of an installation. Raises `ConfigError`."""
    return _kept(settings.scrub.vault.key, settings.data_dir / VAULT_KEY_FILE, "scrub.vault.key")


def client_key(settings: Settings) -> str:
    """Return what clients' tokens are made with: equal in every process of an installation. Raises `ConfigError`."""
    return _kept(settings.channels.api.key, settings.data_dir / CLIENT_KEY_FILE, "channels.api.key")


def _kept(configured: SecretStr | None, path: Path, setting: str) -> str:
    return configured.get_secret_value() if configured else kept_secret(path, setting)
