"""Scrubbing: secrets do not get past the first process they enter.

from gateway.scrub import Scrubber

scrubber = Scrubber(known_values=settings.secrets())
clean = scrubber.scrub("my key is ghp_…")           # "my key is [redacted:github#3f1c9e]"
stream = scrubber.stream()                           # the same, for text that arrives in pieces"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.scrub.scrubber import Scrubbed, Scrubber, StreamScrubber, findings, removed_secrets, scrub
else:

    def __getattr__(name: str) -> object:
        """Load the scrubber when it is asked for: the process of a sub-agent, which only cuts texts and leaves the
        scrubbing to its parent, starts without its rules."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module("gateway.scrub.scrubber"), name)


__all__ = ["Scrubbed", "Scrubber", "StreamScrubber", "findings", "removed_secrets", "scrub"]
