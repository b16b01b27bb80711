"""The scrubber of a role: it knows what this installation must not say, and makes its placeholders."""

from __future__ import annotations

from gateway.config import Loaded, placeholder_key
from gateway.scrub import Scrubber


def scrubber_of(loaded: Loaded, *more: str) -> Scrubber:
    """A scrubber that knows the configured secrets and `more`; its placeholders are the same in every role.

    Raises `ConfigError` when the installation's key can neither be read nor written.
    """
    key = placeholder_key(loaded.settings)
    return Scrubber((*loaded.secrets, key, *more), placeholder_key=key.encode())
