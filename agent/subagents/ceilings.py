"""What a sub-agent may use: never more than its parent, its type and the operator's policy all grant.

The policy is asked again for every call, with the child's context. So what is left to say is a ceiling: the parent's,
under that of the type, under what no sub-agent has, whatever its type. Ceilings only ever join, so a grandchild is
under all of those above it, and a deny anywhere is a deny for good.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from agent.limits import SUBAGENT_DEPTH_MAX
from agent.subagents.catalog import SubType
from agent.tools.lineage import Lineage
from agent.tools.permissions import EVERYTHING, Permission, Permissions, permissions
from agent.tools.tool import ToolContext
from gateway.contracts.toolsets import CONVERSING, FILES, WRITING

_READ_MORE: Final = "read_more"

NOT_AT_THE_BOTTOM: Final = ("sub_agent", "orchestrate")
"""What the deepest sub-agents do not have, besides what belongs to conversations: theirs would be too deep."""


def child_context(parent: ToolContext, sub_type: SubType, *, session_id: str, task_id: str) -> ToolContext:
    """In what context the calls of a child are made: its parent's person, place and fence, and a lower ceiling.

    It encloses no file and suspends no turn, since no answer to a person follows from it.
    """
    lineage = Lineage(session_id, task_id, parent.lineage.depth + 1)
    ceiling = parent.ceiling & _of_type(sub_type) & _of_depth(lineage.depth)
    return replace(parent, ceiling=ceiling, lineage=lineage, enclosures=None, suspension=None)


def _of_type(sub_type: SubType) -> Permissions:
    """A type's tools. `read_more` comes with any of them that is no file tool: it belongs to results that were cut, and
    of a file one can ask for less."""
    if sub_type.tools is None:
        return EVERYTHING
    reads_on = [] if set(sub_type.tools) <= set(FILES) else [_READ_MORE]
    return Permissions.only([*sub_type.tools, *reads_on])


def _of_depth(depth: int) -> Permissions:
    denied = CONVERSING if depth < SUBAGENT_DEPTH_MAX else (*CONVERSING, *NOT_AT_THE_BOTTOM)
    return permissions(tools=dict.fromkeys(denied, Permission.DENY), otherwise=Permission.ALLOW)


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the tools of a child run: `here`, in its own process, or in its parent's."""

    here: frozenset[str]
    parent: frozenset[str]

    @property
    def writes(self) -> bool:
        """True when the child changes files by itself, so that its confinement has to let it."""
        return not self.here.isdisjoint(WRITING)


def placed(tools: tuple[str, ...], permission: Callable[[str], Permission]) -> Placement:
    """A child runs the file tools that it simply may run; what a person has to approve first, and all that takes more
    than files, is its parent's. What is denied runs nowhere."""
    granted = {name: permission(name) for name in tools}
    here = {name for name, word in granted.items() if word is Permission.ALLOW and name in FILES}
    parent = {name for name, word in granted.items() if word is not Permission.DENY} - here
    return Placement(frozenset(here), frozenset(parent))
