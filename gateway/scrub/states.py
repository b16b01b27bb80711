"""What the machine may be in the middle of, as a Protocol, and the answer each step gives."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from gateway.scrub.rules import Span


class Step(NamedTuple):
    """How far a state came in the closed text.

    `at` is the new position; `cut` a secret that ends at or before it. `waits` means: no verdict without
    more text, and nothing from `at` on may leave. `is_over` gives the text from `at` on back to the machine.
    """

    at: int
    is_over: bool = False
    waits: bool = False
    cut: Span | None = None


class State(Protocol):
    """Something open that spans several units: an announced value, a key block, a list of cookies."""

    def step(self, text: str, at: int, end: int, *, is_last: bool) -> Step:
        """Read on in `text[at:end]`, which consists of closed units; `is_last` says that nothing follows.

        The outcome may depend on the text alone, never on where `end` happens to be.
        """
        ...

    def moved(self, by: int) -> None:
        """The text lost `by` characters at its front."""
        ...
