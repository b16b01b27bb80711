"""Suggestions for a person who types: asked by a channel, said by whichever agent process is free."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gateway.contracts.suggestions import Suggestion, Wanted


class SuggestionSource(Protocol):
    """What the channels role may ask. A question that nobody answers at once is forgotten. Raises `BusUnavailable`."""

    async def ask(self, wanted: Wanted, *, wait_s: float) -> Sequence[Suggestion]:
        """What an agent process suggests; nothing if none of them says anything within `wait_s`, and at once nothing to
        one who asks too often."""
        ...


class SuggestionBus(SuggestionSource, Protocol):
    """Both ends. Raises `BusUnavailable`."""

    async def wanted(self, *, wait_s: float) -> Wanted | None:
        """A question that waits for an answer, each to one caller; None when nobody asked any within `wait_s`."""
        ...

    async def suggest(self, wanted: Wanted, suggestions: Sequence[Suggestion]) -> None:
        """Answer whoever asked."""
        ...
