"""What a document is that only a password opens."""

from __future__ import annotations


class Locked(Exception):
    """Nobody reads it without its password."""
