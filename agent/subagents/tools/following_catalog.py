"""The tools that ask for sub-agents follow the catalog as it reads now: what an operator says of a type reaches the
model in its next turn, and changes the beginning of its prompts once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import structlog

from agent.limits import SUB_TYPES_LOOK_EVERY_S
from agent.subagents.catalog import Catalog, SubType
from agent.tools.registry import ToolRegistry
from agent.tools.tool import Tool
from gateway.contracts.errors import StoreUnavailable

_log = structlog.get_logger(__name__)

SubTypes = Mapping[str, SubType]


class FollowingCatalog:
    """`made` makes the tools for the types that a model may choose from, always the same ones by name."""

    def __init__(self, catalog: Catalog, registry: ToolRegistry, made: Callable[[SubTypes], tuple[Tool, ...]]) -> None:
        self._catalog = catalog
        self._registry = registry
        self._made = made
        self._types: SubTypes = {}

    async def tools(self) -> tuple[Tool, ...]:
        """To begin with. Raises `StoreUnavailable`."""
        self._types = await self._catalog.current()
        return self._made(_on(self._types))

    async def keep(self) -> None:
        """Until cancelled: offer them anew when the catalog reads differently."""
        while True:
            await asyncio.sleep(SUB_TYPES_LOOK_EVERY_S)
            try:
                types = await self._catalog.current()
            except StoreUnavailable:  # whoever orders a sub-agent is told; what is offered can wait
                continue
            if types != self._types:
                self._types = types
                self._registry.exchange(self._made(_on(types)))
                _log.info("subagents.offered_anew")


def _on(types: SubTypes) -> SubTypes:
    return {name: sub_type for name, sub_type in types.items() if not sub_type.is_off}
