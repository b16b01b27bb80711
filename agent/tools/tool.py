"""What a tool is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from agent.limits import TOOL_TIMEOUT_S
from agent.model.client import Permit, ToolSpec, always
from agent.tools.allotment import Allotment
from agent.tools.enclosures import Enclosures
from agent.tools.lineage import NOBODYS, Lineage
from agent.tools.permissions import EVERYTHING, Permissions, Place, Risk
from agent.tools.suspension import Suspension
from gateway.contracts.entries import GrantRole
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.subagents import WakeAddress


def _unseen(_name: str) -> AbstractContextManager[None]:
    return nullcontext()


@dataclass(slots=True)
class Reading:
    """What a turn has read so far: `is_foreign` once there were words of others among it."""

    is_foreign: bool = False


@dataclass(frozen=True, slots=True)
class ToolContext:
    """For whom a tool runs. `owner` is whom memory and tasks belong to; `permit` is asked before each call.

    `role` and `place` choose the permissions, and the defaults are those with the fewest; `place_ids` is the place of
    the message that began the turn (`InboundMessage.place`), for what outlives it; `asked_by` is the
    person who asked, where that is not the owner (a shared place), `address` where a question to that person goes
    (None: nobody can be asked), `fence` the fencing token of the run. `ceiling` narrows what the policy grants: a
    sub-agent's is its parent's, intersected with its type's. `enclosures` collects the files that go out with the
    turn's answer; None where no answer follows. `lineage` says in which session a call is made, a user's or a
    sub-agent's. `suspension` takes what the turn waits for, and what it has read; None where it cannot be suspended.
    `wake` says in whose name that session is woken by what outlives its turn; None where nothing can wake it.
    `language` is that of the person who asked, for what is said past the model. `allotment` bounds what sub-agents that
    work together take, and all below them; None: only the day's limits do. `asking` is entered with a tool's name
    while a person is asked about it, for whoever shows what goes on. `reading` is one for a turn and its sub-agents,
    and so are the tools that an admin `approved` for the rest of it. `is_lent` says that this very call was given a
    secret that it asked for.
    """

    key: SessionKey
    owner: SessionKey
    turn_id: str
    role: GrantRole = GrantRole.GUEST
    place: Place = Place.GROUP
    asked_by: SessionKey | None = None
    address: ReplyAddress | None = None
    fence: int = 0
    ceiling: Permissions = EVERYTHING
    permit: Permit = field(default=always, compare=False, repr=False)
    enclosures: Enclosures | None = field(default=None, compare=False, repr=False)
    lineage: Lineage = NOBODYS
    suspension: Suspension | None = field(default=None, compare=False, repr=False)
    wake: WakeAddress | None = None
    language: str = ""
    place_ids: tuple[str, ...] = ()
    allotment: Allotment | None = field(default=None, compare=False, repr=False)
    asking: Callable[[str], AbstractContextManager[None]] = field(default=_unseen, compare=False, repr=False)
    reading: Reading = field(default_factory=Reading, compare=False, repr=False)
    approved: set[str] = field(default_factory=set, compare=False, repr=False)
    is_lent: bool = False


def _keeps_nothing(_arguments: Mapping[str, Any]) -> bool:
    return False


def _locks_nothing(_arguments: Mapping[str, Any]) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool. `run` returns raw text, which is scrubbed before anyone sees it; it raises `ToolError`
    for what the model did wrong. `arguments` have passed the schema.

    `locks` names what a call touches: calls of one round that touch the same run one after the other, in call
    order. A `protected` tool's old results are never pruned. What a `foreign` tool returns was written by
    strangers and is marked as such for the model. No tool is run with the placeholder of a secret among its
    arguments, but for one that only `quotes` them: it reads, searches or tells the user. `instead` is what is
    advised to a model that did it.

    One that `only_waits`, for sub-agents that have limits of their own, is not counted among those that run at once.

    `keeps` says of a call that it leaves something which later turns believe: after words of others were read, the
    person is asked first, for they may have led the model to it.

    `fits` is what the arguments have to fit where the model is told less; None: `spec.schema`.

    In its `secret_arguments` a tool is given the values, where there is a vault and a person approves. It keeps them
    to itself, or says to which origin they go (`secrets_go_to`).
    """

    spec: ToolSpec
    category: str
    risk: Risk
    run: Callable[[ToolContext, Mapping[str, Any]], Awaitable[str]]
    timeout_s: float = TOOL_TIMEOUT_S
    protected: bool = False
    foreign: bool = False
    locks: Callable[[Mapping[str, Any]], tuple[str, ...]] = _locks_nothing
    quotes: bool = False
    only_waits: bool = False
    instead: str = ""
    secret_arguments: tuple[str, ...] = ()
    secrets_go_to: Callable[[Mapping[str, Any]], str] | None = None
    fits: Mapping[str, Any] | None = None
    keeps: Callable[[Mapping[str, Any]], bool] = _keeps_nothing

    @property
    def checked(self) -> Mapping[str, Any]:
        """The schema that the arguments of a call have to fit."""
        return self.spec.schema if self.fits is None else self.fits


@dataclass(frozen=True, slots=True)
class AbsentTool:
    """A tool that this machine or this configuration cannot offer, and why, as a short clause."""

    name: str
    category: str
    reason: str
    risk: Risk


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The envelope of one result: clean, bounded, and marked by a flag, not by a prefix."""

    call_id: str
    name: str
    text: CleanText
    is_error: bool
    is_truncated: bool
    duration_ms: int
