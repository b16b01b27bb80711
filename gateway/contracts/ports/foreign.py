"""Databases of the operator's, as the agent role may read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Rows:
    """What a question to a foreign database gave, as text; None is NULL. `is_cut`: there was more."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]
    is_cut: bool


class ForeignDatabases(Protocol):
    """Databases of the operator's that Trivet may read and never write."""

    @property
    def names(self) -> tuple[str, ...]:
        """How they are called, in the order of the configuration."""
        ...

    async def check(self) -> None:
        """Raises `ConfigError` for a database whose user may do more than read."""
        ...

    async def ask(self, name: str, statement: str) -> Rows:
        """Run one reading statement. Raises `QueryRefused` with a sentence fit for whoever wrote it."""
        ...
