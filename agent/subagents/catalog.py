"""The types of sub-agents, and what a sub-agent may use.

A type is one of thirteen rows: it describes a child and the most that it may use. A row as it comes with Trivet
is changed by the configuration, and then by an operator's latest choice. The rows are
`gateway.contracts.profiles`, so that the operator's API shows those in force here.

A child never may use more than its parent, its type and the operator's policy all grant. The policy is asked
again for every call, with the child's context. The rest is a ceiling: the parent's, joined with that of the
type and that of all sub-agents. Ceilings only ever join, so a grandchild is under all of those above it, and a
deny anywhere is a deny for good."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Final

import structlog

from agent.limits import SUB_TYPES_SEEN_WITHIN_S, SUBAGENT_DEPTH_MAX
from agent.prompts.library import PROMPTS, load_prompt
from agent.tools.policy import EVERYTHING, Permission, Permissions, permissions
from agent.tools.tool import CallOrigin, ToolContext
from gateway.contracts import profiles
from gateway.contracts.messages import CleanText, joined
from gateway.contracts.ports import Clock
from gateway.store.subagents import SubTypeStore

_log = structlog.get_logger(__name__)


_READ_MORE: Final = "read_more"

NOT_AT_THE_BOTTOM: Final = ("sub_agent", "orchestrate")
"""Tools that the deepest sub-agents do not have, besides those of conversations: theirs would be too deep."""


@dataclass(frozen=True, slots=True)
class SubType:
    """One row. `tools` None: all that its parent may use. `rounds_max`: rounds of tools before it has to wrap up.
    `prompt` is the whole description of its role for the child: that of its type, and that of every sub-agent. `model`:
    a name or `CHEAP`; "": that of all sub-agents, or of the one that asks. `needs` are those of its row."""

    name: str
    label: CleanText
    description: CleanText
    tools: tuple[str, ...] | None
    rounds_max: int
    prompt: CleanText
    model: str = ""
    needs: tuple[tuple[str, ...], ...] = ()

    @property
    def is_off(self) -> bool:
        """Tell whether an operator has left the type no tool: then no sub-agent of it is started."""
        return self.tools == ()

    def is_able(self, usable: Container[str]) -> bool:
        """Tell whether the type can do what it is for, where these tools can be used. What an operator took out of its
        row it does not need any more."""
        own = None if self.tools is None else frozenset(self.tools)
        needed = ([name for name in group if own is None or name in own] for group in self.needs)
        return not self.is_off and all(any(name in usable for name in group) for group in needed if group)


_PROMPTS: Final = {name: load_prompt(f"subagents/{name}") for name in profiles.SUB_TYPE_ROWS}


def sub_type_of(row: profiles.SubTypeRow) -> SubType:
    """Build the type that a row describes."""
    own = _PROMPTS[row.name] if row.prompt is None else row.prompt
    return SubType(
        name=row.name,
        label=row.label,
        description=row.description,
        tools=None if profiles.EVERY_TOOL in row.tools else row.tools,
        rounds_max=row.rounds_max,
        prompt=joined(own, PROMPTS.delegated, by="\n\n"),
        model=row.model,
        needs=row.needs,
    )


@dataclass(eq=False, repr=False)
class Catalog:
    """The rows in force, in every process within `SUB_TYPES_SEEN_WITHIN_S` of an operator's change. `own` reads the
    operator's own types, which replace none of ours. A tool that is not among `known_tools` is logged and left in its
    row: it belongs to an MCP server that is down, or to one that is yet to come."""

    book: SubTypeStore
    clock: Clock
    _: KW_ONLY
    rows: profiles.SubTypeRows = field(default_factory=lambda: profiles.SUB_TYPE_ROWS)
    own: Callable[[], profiles.SubTypeRows] = dict
    known_tools: Callable[[], Container[str]]
    _read_at_s: float = field(init=False, default=-SUB_TYPES_SEEN_WITHIN_S)
    _in_force: profiles.SubTypeRows = field(init=False, default_factory=dict)
    _types: Mapping[str, SubType] = field(init=False, default_factory=dict)
    _reading: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)

    async def current(self) -> Mapping[str, SubType]:
        """Return the types by name, in the order of the table. Raises `StoreUnavailable`."""
        async with self._reading:
            if self.clock.monotonic_s() - self._read_at_s >= SUB_TYPES_SEEN_WITHIN_S:
                rows = profiles.changed_rows({**self.own(), **self.rows}, await self.book.changes())
                self._read_at_s = self.clock.monotonic_s()
                if rows != self._in_force:
                    self._types = {name: sub_type_of(row) for name, row in rows.items()}
                    self._in_force = rows
                    self._warn()
            return self._types

    def _warn(self) -> None:
        known = self.known_tools()  # without those that are made of this catalog
        for row in self._types.values():
            strangers = [tool for tool in row.tools or () if tool not in known and tool not in profiles.DELEGATING]
            if strangers:
                _log.warning("subagents.unknown_tools", sub_type=row.name, tools=strangers)


def child_context(parent: ToolContext, sub_type: SubType, *, session_id: str, task_id: str) -> ToolContext:
    """Build the context for the calls of a child: its parent's person, place and fence, with fewer permissions.

    It encloses no file and suspends no turn, since no answer to a person follows from it."""
    call_origin = CallOrigin(session_id, task_id, parent.call_origin.depth + 1)
    ceiling = parent.ceiling & _of_type(sub_type) & _of_depth(call_origin.depth)
    return replace(parent, ceiling=ceiling, call_origin=call_origin, enclosures=None, suspension=None)


def _of_type(sub_type: SubType) -> Permissions:
    """Return the permissions of a type. `read_more` comes with any tool that is not a file tool: it serves results that
    were cut, and of a file the model can ask for less."""
    if sub_type.tools is None:
        return EVERYTHING
    reads_on = [] if set(sub_type.tools) <= set(profiles.FILES) else [_READ_MORE]
    return Permissions.only([*sub_type.tools, *reads_on])


def _of_depth(depth: int) -> Permissions:
    denied = profiles.CONVERSING if depth < SUBAGENT_DEPTH_MAX else (*profiles.CONVERSING, *NOT_AT_THE_BOTTOM)
    return permissions(tools=dict.fromkeys(denied, Permission.DENY), otherwise=Permission.ALLOW)


@dataclass(frozen=True, slots=True)
class Placement:
    """The place where each tool of a child runs: `here`, in its own process, or in its parent's."""

    here: frozenset[str]
    parent: frozenset[str]

    @property
    def writes(self) -> bool:
        """Tell whether the child changes files itself, so that its confinement has to allow that."""
        return not self.here.isdisjoint(profiles.WRITING)


def placed(tools: tuple[str, ...], permission: Callable[[str], Permission]) -> Placement:
    """Divide the tools: a child runs the file tools that need no approval; its parent runs those that a person has to
    approve first, and all that need more than files. Denied tools run nowhere."""
    granted = {name: permission(name) for name in tools}
    here = {name for name, word in granted.items() if word is Permission.ALLOW and name in profiles.FILES}
    parent = {name for name, word in granted.items() if word is not Permission.DENY} - here
    return Placement(frozenset(here), frozenset(parent))
