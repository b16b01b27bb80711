"""The types of sub-agents: thirteen rows. A row says who a child is and what it may use at most.

A row as it comes with Trivet is changed by the configuration, and that by what an operator said since. The rows are
`gateway.contracts.sub_types`, so that the operator's API shows what is in force here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Final

import structlog

from agent.limits import SUB_TYPES_SEEN_WITHIN_S
from agent.prompts.library import PROMPTS, sub_type_prompt
from gateway.contracts.messages import CleanText, joined
from gateway.contracts.ports import Clock
from gateway.contracts.sub_types import SUB_TYPE_ROWS, SubTypeRow, SubTypeRows, changed_rows
from gateway.contracts.toolsets import DELEGATING, EVERY_TOOL
from gateway.store.subagents import SubTypeStore

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SubType:
    """One row. `tools` None: all that its parent may use. `rounds_max`: rounds of tools before it has to wrap up.
    `prompt` is all that the child is told of itself: what its type says, and what every sub-agent has to know."""

    name: str
    label: CleanText
    description: CleanText
    tools: tuple[str, ...] | None
    rounds_max: int
    prompt: CleanText

    @property
    def is_off(self) -> bool:
        """True when an operator has left it no tool: nobody is sent out with empty hands."""
        return self.tools == ()


_PROMPTS: Final = {name: sub_type_prompt(name) for name in SUB_TYPE_ROWS}


def sub_type_of(row: SubTypeRow) -> SubType:
    """The type that a row describes."""
    own = _PROMPTS[row.name] if row.prompt is None else row.prompt
    return SubType(
        name=row.name,
        label=row.label,
        description=row.description,
        tools=None if EVERY_TOOL in row.tools else row.tools,
        rounds_max=row.rounds_max,
        prompt=joined(own, PROMPTS.delegated, by="\n\n"),
    )


class Catalog:
    """The rows in force, in every process within `SUB_TYPES_SEEN_WITHIN_S` of an operator's change."""

    def __init__(
        self,
        book: SubTypeStore,
        clock: Clock,
        *,
        rows: SubTypeRows = SUB_TYPE_ROWS,
        known_tools: Callable[[], Container[str]],
    ) -> None:
        """`rows` are those of the configuration. A tool that is not among `known_tools` is told to the log and left in
        its row: it belongs to an MCP server that is down, or to one that is yet to come."""
        self._book = book
        self._clock = clock
        self._rows = rows
        self._known_tools = known_tools
        self._read_at_s = -SUB_TYPES_SEEN_WITHIN_S
        self._in_force: SubTypeRows = {}
        self._types: Mapping[str, SubType] = {}
        self._reading = asyncio.Lock()

    async def current(self) -> Mapping[str, SubType]:
        """By name, in the order of the table. Raises `StoreUnavailable`."""
        async with self._reading:
            if self._clock.monotonic_s() - self._read_at_s >= SUB_TYPES_SEEN_WITHIN_S:
                rows = changed_rows(self._rows, await self._book.changes())
                self._read_at_s = self._clock.monotonic_s()
                if rows != self._in_force:
                    self._types = {name: sub_type_of(row) for name, row in rows.items()}
                    self._in_force = rows
                    self._warn()
            return self._types

    def _warn(self) -> None:
        known = self._known_tools()  # without those that are made of this catalog
        for row in self._types.values():
            strangers = [tool for tool in row.tools or () if tool not in known and tool not in DELEGATING]
            if strangers:
                _log.warning("subagents.unknown_tools", sub_type=row.name, tools=strangers)
