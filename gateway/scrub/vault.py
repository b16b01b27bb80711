"""The vault's seal, and the scrubber and the seal of a process, made from its settings.

A secret is sealed with AES-GCM under a key that is neither in Redis nor in the database. The seal binds the lane, the
sender, the placeholder and the time: what is kept under one name cannot be read under another."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Final

from gateway.config import Loaded, Settings, placeholder_key, vault_key
from gateway.contracts.messages import SealedSecret, SecretName
from gateway.scrub import Scrubber
from gateway.scrub.known import PLACEHOLDER, VALUE_CHARS_MIN, WHOLE_TEXT
from gateway.scrub.known import RULE as KNOWN
from gateway.scrub.own_rules import own_rules

SECRET_CHARS_MAX: Final = 4096  # a private key of 4,096 bits takes 3,300; what is longer is a file, and no header
_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_PURPOSE: Final = b"trivet vault 1"


class Unreadable(Exception):
    """Not sealed under this key, or not under this name and time."""


class Seal:
    """Seals and opens under one key, given as a text that nobody can guess."""

    def __init__(self, key: str) -> None:
        # Two megabytes of each process, and most installations have no vault.
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415
        from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415

        derived = HKDF(SHA256(), _KEY_BYTES, salt=None, info=_PURPOSE).derive(key.encode())
        self._cipher = AESGCM(derived)
        self._invalid = (InvalidTag, ValueError)

    def sealed(self, name: SecretName, secret: str, *, expires_at_ms: int) -> SealedSecret:
        """Seal a secret, so that it is readable under this name and time only."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        content = self._cipher.encrypt(nonce, secret.encode(errors="surrogatepass"), _bound_to(name, expires_at_ms))
        return SealedSecret(name, expires_at_ms, nonce + content)

    def opened(self, kept: SealedSecret) -> str:
        """Return the secret. Raises `Unreadable`."""
        nonce, content = kept.sealed[:_NONCE_BYTES], kept.sealed[_NONCE_BYTES:]
        try:
            plain = self._cipher.decrypt(nonce, content, _bound_to(kept.name, kept.expires_at_ms))
        except self._invalid as error:
            raise Unreadable from error
        return plain.decode(errors="surrogatepass")


def worth_keeping(removed: Mapping[str, str]) -> Mapping[str, str]:
    """Return those secrets, by their placeholders, that a tool could need: none of this installation's own, nothing
    that is a word or a file, nothing that was not understood."""
    return {
        placeholder: secret
        for placeholder, secret in removed.items()
        if placeholder != WHOLE_TEXT
        and PLACEHOLDER.fullmatch(placeholder)
        and not placeholder.startswith(f"[redacted:{KNOWN}#")
        and VALUE_CHARS_MIN <= len(secret) <= SECRET_CHARS_MAX
    }


def _bound_to(name: SecretName, expires_at_ms: int) -> bytes:
    """Write everything that a seal holds for, in one spelling."""
    return json.dumps([str(name.key), str(name.sent_by), name.placeholder, expires_at_ms]).encode()


def scrubber_of(loaded: Loaded, *more: str) -> Scrubber:
    """Make a scrubber that knows the configured secrets and `more`; its placeholders are the same in every role.

    Raises `ConfigError` when the installation's key can neither be read nor written, and as `own_rules` does."""
    key = placeholder_key(loaded.settings)
    own = own_rules(loaded.settings.scrub)
    return Scrubber((*loaded.secrets, key, *more), placeholder_key=key.encode(), own=own)


def vault_keys(settings: Settings) -> tuple[str, ...]:
    """Return the key of the vault, for the scrubber of a role that uses it; none where there is no vault."""
    return (vault_key(settings),) if settings.scrub.vault.enabled else ()


def seal_of(settings: Settings) -> Seal | None:
    """Make the vault's seal; None where there is no vault. Raises `ConfigError` as `scrubber_of` does."""
    return next(map(Seal, vault_keys(settings)), None)
