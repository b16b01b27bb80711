"""A tool, and the values that the calling turn hands to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Final

from agent.limits import SENT_BYTES_MAX, SENT_FILES_MAX, TOOL_TIMEOUT_S
from agent.models.requests import Permit, ToolSpec, always
from agent.tools.policy import EVERYTHING, Permissions, Risk, Visibility
from gateway.contracts.errors import FailureCause, ToolError, TrivetError
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import CleanText, ReplyFile
from gateway.contracts.sessions import FileContent, GrantRole
from gateway.contracts.subagents import Barrier, WakeAddress

# How a tool makes its turn yield to sub-agents: it names the barrier, and the turn ends without an answer. Pure.


class Suspension:
    """The one barrier, at most, for which a turn waits after the round; and the tasks whose results it has
    read. Both count when the turn is committed: of a turn that is taken again nothing stays."""

    def __init__(self) -> None:
        self._barrier: Barrier | None = None
        self._collected: dict[str, None] = {}

    @property
    def barrier(self) -> Barrier | None:
        """Return the barrier for which the turn waits; None if it goes on."""
        return self._barrier

    @property
    def collected(self) -> Sequence[str]:
        """Return the tasks whose results the turn has read."""
        return tuple(self._collected)

    def wait_for(self, barrier: Barrier) -> None:
        """Yield after this round. Raises `ToolError` when the turn waits for something else already."""
        if self._barrier is not None:
            raise ToolError("this turn waits for sub-agents already: wait for all of them in one call")
        self._barrier = barrier

    def collect(self, task_ids: Iterable[str]) -> None:
        """Note that the turn has read the results of these tasks."""
        self._collected.update(dict.fromkeys(task_ids))


# The origin of a call: a user's conversation, or a sub-agent of one. Pure.


@dataclass(frozen=True, slots=True)
class CallOrigin:
    """`session_id` is the session in which a call is made; `task_id` the sub-agent that makes it, "" for none;
    `depth` how many sub-agents are between it and the user."""

    session_id: str = ""
    task_id: str = ""
    depth: int = 0


NO_ORIGIN: Final = CallOrigin()


# What several sub-agents may take together, counted while they work. Pure.


class AllotmentSpent(TrivetError):
    """The sub-agents that work together have used all that they may, so the model was not asked."""


class Allotment:
    """One budget of tokens and, unless `usd_max` is None, of dollars, for all that works under it.

    What is taken counts at once, and for those `above`, too: a part of a larger work has no more than is left of
    that. Each model call is asked for before it is made, so what is taken beyond it is at most the call that each of
    them has open."""

    def __init__(self, tokens_max: int, usd_max: float | None, *, above: Allotment | None) -> None:
        self._tokens_max = tokens_max
        self._usd_max = usd_max
        self._above = above
        self.tokens = 0
        self.cost_usd = 0.0

    def take(self, tokens: int, cost_usd: float) -> None:
        """Count what a model call took."""
        self.tokens += tokens
        self.cost_usd += cost_usd
        if self._above is not None:
            self._above.take(tokens, cost_usd)

    @property
    def problem(self) -> str:
        """Say in a clause why no more may be used; "" if it may."""
        if self.tokens >= self._tokens_max:
            return f"the budget of {self._tokens_max} tokens was spent"
        if self._usd_max is not None and self.cost_usd >= self._usd_max:
            return f"the budget of ${self._usd_max:g} was spent"
        return self._above.problem if self._above is not None else ""

    def check(self) -> None:
        """Check the allotment before each model call. Raises `AllotmentSpent`."""
        if problem := self.problem:
            raise AllotmentSpent(problem)


# The files that go out with a turn's answer, captured when the model asked for it.
#
# They are held in memory until the turn is committed; then SQL has them. So a later edit changes nothing of what is
# sent, and a turn that ends otherwise sends nothing.


@dataclass(frozen=True, slots=True)
class Enclosed:
    """One captured file: its bytes as they will be sent. `caption` is plain text, "" for none."""

    name: CleanText
    media_type: str
    content: bytes = field(repr=False)
    caption: CleanText


class Enclosures:
    """The files of one turn, in the order in which they were asked for."""

    def __init__(self) -> None:
        self._files: list[Enclosed] = []
        self._shown: list[CleanText] = []

    def take_shown(self) -> Sequence[CleanText]:
        """Return the elements of the images that the model is to be shown before its next step."""
        shown, self._shown = self._shown, []
        return shown

    def add(self, file: Enclosed, *, shown: CleanText | None = None) -> None:
        """Take one more along; with its element of a transcript, an image of the workspace is `shown` to the model,
        too. Raises `ToolError` when there are too many, or too many bytes."""
        if len(self._files) >= SENT_FILES_MAX:
            raise ToolError(f"{SENT_FILES_MAX} files go with this answer already, and that is the limit")
        if sum(len(each.content) for each in self._files) + len(file.content) > SENT_BYTES_MAX:
            raise ToolError(f"the files of one answer may have {SENT_BYTES_MAX} bytes together: this one is too many")
        self._files.append(file)
        self._shown += () if shown is None else (shown,)

    @property
    def files(self) -> tuple[ReplyFile, ...]:
        """Return the files as the reply lists them."""
        return tuple(ReplyFile(each.name, each.media_type, len(each.content), each.caption) for each in self._files)

    def contents(self, reply_id: str) -> tuple[FileContent, ...]:
        """Return the contents as they are committed with the reply of this id."""
        return tuple(FileContent(reply_id, position, each.content) for position, each in enumerate(self._files))


def _unseen(_name: str) -> AbstractContextManager[None]:
    return nullcontext()


@dataclass(slots=True)
class Reading:
    """The share of foreign words in a turn so far: `is_foreign` once it included words of others."""

    is_foreign: bool = False


@dataclass(frozen=True, slots=True)
class ToolContext:
    """For whom a tool runs. `permit` is asked before each call.

    `role` and `place` choose the permissions, and the defaults are those with the fewest; `place_ids` is the place of
    the message that began the turn (`InboundMessage.place`), for what outlives it; `asked_by` is the
    person who asked, where that is not the owner (a shared place), `address` where a question to that person goes
    (None: nobody can be asked), `fence` the fencing token of the run. `ceiling` narrows what the policy grants: a
    sub-agent's is its parent's, intersected with its type's. `enclosures` collects the files that go out with the
    turn's answer; None where no answer follows. `call_origin` says in which session a call is made, a user's or a
    sub-agent's. `suspension` takes what the turn waits for, and what it has read; None where it cannot be suspended.
    `wake` says in whose name that session is woken by what outlives its turn; None where nothing can wake it.
    `language` is that of the person who asked, for what is said past the model. `allotment` bounds what sub-agents that
    work together take, and all below them; None: only the day's limits do. `asking` is entered with a tool's name
    while a person is asked about it, for the display of what goes on. `reading` is one for a turn and its sub-agents,
    and so are the tools that an admin `approved` for the rest of it. `is_lent` says that this very call was given a
    secret that it asked for."""

    key: SessionKey
    turn_id: str
    role: GrantRole = GrantRole.GUEST
    place: Visibility = Visibility.GROUP
    asked_by: SessionKey | None = None
    address: ReplyAddress | None = None
    fence: int = 0
    ceiling: Permissions = EVERYTHING
    permit: Permit = field(default=always, compare=False, repr=False)
    enclosures: Enclosures | None = field(default=None, compare=False, repr=False)
    call_origin: CallOrigin = NO_ORIGIN
    suspension: Suspension | None = field(default=None, compare=False, repr=False)
    wake: WakeAddress | None = None
    language: str = ""
    place_ids: tuple[str, ...] = ()
    allotment: Allotment | None = field(default=None, compare=False, repr=False)
    asking: Callable[[str], AbstractContextManager[None]] = field(default=_unseen, compare=False, repr=False)
    reading: Reading = field(default_factory=Reading, compare=False, repr=False)
    approved: set[str] = field(default_factory=set, compare=False, repr=False)
    is_lent: bool = False

    @property
    def owner(self) -> SessionKey:
        """Return the person to whom memory and tasks belong."""
        return self.key.owner


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

    `fits` is what the arguments have to fit where the model is told less; None: `spec.schema`. `told` is what the model
    is told in one context, which may be less than `spec`; None: `spec`.

    In its `secret_arguments` a tool is given the values, where there is a vault and a person approves. It keeps them
    to itself, or says to which origin they go (`secrets_go_to`)."""

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
    told: Callable[[ToolContext], ToolSpec] | None = None

    def with_secrets(
        self, name: str, schema: Mapping[str, Any], goes_to: Callable[[Mapping[str, Any]], str] | None = None
    ) -> Tool:
        """Return the tool with one more argument, which takes secrets."""
        told = {**self.spec.schema, "properties": {**self.spec.schema["properties"], name: schema}}
        return replace(self, spec=replace(self.spec, schema=told), secret_arguments=(name,), secrets_go_to=goes_to)

    def spec_in(self, context: ToolContext) -> ToolSpec:
        """Return the tool as the model sees it in this context."""
        return self.spec if self.told is None else self.told(context)

    @property
    def checked(self) -> Mapping[str, Any]:
        """Return the schema that the arguments of a call have to fit."""
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
    """The envelope of one result: clean, bounded, and marked by a `cause` if it is a failure, not by a prefix."""

    call_id: str
    name: str
    text: CleanText
    is_truncated: bool
    duration_ms: int
    cause: FailureCause | None = None

    @property
    def is_error(self) -> bool:
        """Tell whether the tool failed."""
        return self.cause is not None
