"""Scrubbing: secrets do not get past the first process they enter.

from gateway.scrub import Scrubber

scrubber = Scrubber(known_values=settings.secrets())
clean = scrubber.scrub("my key is ghp_…")           # "my key is [redacted:github#3f1c9e]"
stream = scrubber.stream()                           # the same, for text that arrives in pieces
"""

from gateway.scrub.scrubber import (
    Scrubbed,
    Scrubber,
    StreamScrubber,
    findings,
    removed_secrets,
    report,
    scrub,
)

__all__ = ["Scrubbed", "Scrubber", "StreamScrubber", "findings", "removed_secrets", "report", "scrub"]
