"""What a child does now, as far as its parent sees it: it asks its model, or runs what the model called, or a person is
asked first.

Of a call only the name is told on, and only where there is such a tool: else it is a word that a model made up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

from gateway.contracts.entries import ToolCall
from gateway.contracts.subagents import Doing, Occupation


class UnderWay:
    """The calls of the last answer that have no result yet, and what people are asked about."""

    def __init__(self, names: Collection[str]) -> None:
        """`names` of the tools there are."""
        self._names = names
        self._calls: dict[str, str] = {}
        self._asked: list[str] = []

    def begin(self, calls: Iterable[ToolCall]) -> None:
        """The model has answered, with these calls."""
        self._calls = {call.id: call.name for call in calls}

    def end(self, call_id: str) -> None:
        """There is a result."""
        self._calls.pop(call_id, None)

    @contextmanager
    def asking(self, name: str) -> Iterator[None]:
        """A person is asked about a call of this tool."""
        self._asked.append(name)
        try:
            yield
        finally:
            self._asked.remove(name)

    @property
    def now(self) -> Doing:
        """A child without calls asks its model, or is about to."""
        if self._asked:
            return Doing(Occupation.APPROVAL, self._known(self._asked))
        if self._calls:
            return Doing(Occupation.TOOLS, self._known(self._calls.values()))
        return Doing(Occupation.MODEL)

    def _known(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for name in names if name in self._names))
