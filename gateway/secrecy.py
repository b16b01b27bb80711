"""What keeps secrets in a role: a scrubber that knows what this installation must not say, and the vault's seal."""

from __future__ import annotations

from gateway.config import Loaded, Settings, placeholder_key, vault_key
from gateway.scrub import Scrubber
from gateway.scrub.vault import Seal


def scrubber_of(loaded: Loaded, *more: str) -> Scrubber:
    """A scrubber that knows the configured secrets and `more`; its placeholders are the same in every role.

    Raises `ConfigError` when the installation's key can neither be read nor written.
    """
    key = placeholder_key(loaded.settings)
    return Scrubber((*loaded.secrets, key, *more), placeholder_key=key.encode())


def vault_keys(settings: Settings) -> tuple[str, ...]:
    """The key of the vault, for the scrubber of a role that uses it; none where there is no vault."""
    return (vault_key(settings),) if settings.scrub.vault.enabled else ()


def seal_of(settings: Settings) -> Seal | None:
    """The vault's seal; None where there is no vault. Raises `ConfigError` as `scrubber_of` does."""
    return next(map(Seal, vault_keys(settings)), None)
