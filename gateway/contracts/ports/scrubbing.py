"""The way from raw text to clean text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gateway.contracts.messages import (
    CleanText,
    Finding,
)


class Scrubber(Protocol):
    """The one maker of `CleanText`. Never raises: a failure inside replaces the whole text."""

    def for_chat(self, chat: str) -> Scrubber:
        """Return the same scrubber with the placeholders of one chat (a session key's text), for the texts of its lane.
        Equal secrets are recognisable inside the chat and cannot be linked with those of another chat."""
        ...

    def scrub(self, text: str) -> CleanText: ...

    def findings(self, text: str) -> Sequence[Finding]: ...

    def stream(self) -> ScrubStream: ...


class ScrubStream(Protocol):
    """For any way of cutting a text into chunks, the joined output equals `scrub(text)`."""

    def feed(self, chunk: str) -> CleanText: ...

    def flush(self) -> CleanText: ...
