"""The types of sub-agents: thirteen rows. A row says who a child is and what it may use at most."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.contracts.messages import CleanText


@dataclass(frozen=True, slots=True)
class SubType:
    """One row. `tools` None: all that its parent may use. `rounds_max`: rounds of tools before it has to wrap up."""

    name: str
    label: CleanText
    description: CleanText
    tools: tuple[str, ...] | None
    rounds_max: int
    prompt: CleanText
