"""Runs the tools of one round: validated, permitted, in parallel, results in call order, scrubbed and bounded."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256
from itertools import islice
from typing import Any, Final, NamedTuple
from weakref import WeakValueDictionary

import structlog
from jsonschema import Draft202012Validator
from referencing import Registry

from agent.limits import FRAME_CHARS, NOTE_CHARS_MAX, PERMISSIONS_KEPT, TOOL_RESULT_CHARS_MAX, TOOLS_PARALLEL_MAX
from agent.models.requests import RequestedCall, ToolSpec
from agent.tokens import failure_note, readable
from agent.tools.approvals import ApprovalOutcome, ApprovalRequest, Approvals, Lasting, NobodyToAsk
from agent.tools.arguments import parse_arguments, schema_problem
from agent.tools.policy import Permission, Permissions, Policy, Risk, Visibility
from agent.tools.questions import FOREIGN, tool_question
from agent.tools.results import (
    READ_MORE,
    KeptElsewhere,
    ResultStore,
    abridged,
    frame_chars,
    framed,
    grapheme_start,
    unframed,
)
from agent.tools.secrets import NotAvailable, SecretInjector, refuse_placeholders
from agent.tools.tool import AbsentTool, Tool, ToolContext, ToolResult
from gateway.contracts.access import PlaceApproval, room_of
from gateway.contracts.errors import FailureCause, ToolError
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText, literal_text
from gateway.contracts.ports import Clock, SpanSink, TraceSpan
from gateway.contracts.profiles import MCP_PREFIX
from gateway.contracts.sessions import GrantRole
from gateway.i18n import words_for
from gateway.scrub import Scrubber
from gateway.scrub.known import WHOLE_TEXT
from gateway.tasks import Deadline
from gateway.telemetry.spans import OTHER, NoSpans, under

# One call between the model that makes it and the tool that runs: checked, and timed.


_PROBLEMS_SHOWN: Final = 5


class Fitting:
    """Makes arguments of what a model wrote, if they fit the schema of a tool."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        # With an empty registry: without one, a `$ref` in a stranger's schema would be fetched from wherever.
        self._validator = Draft202012Validator(schema, registry=Registry())

    def arguments(self, text: str) -> Mapping[str, Any]:
        """Parse the arguments; broken JSON is repaired where that is possible. Raises `ToolError`."""
        try:
            arguments = parse_arguments(text)
        except ToolError as error:
            raise ToolError(str(error), FailureCause.ARGUMENTS) from error
        problems = list(islice(self._validator.iter_errors(arguments), _PROBLEMS_SHOWN))
        if problems:
            said = "; ".join(map(schema_problem, sorted(problems, key=lambda problem: list(problem.path))))
            raise ToolError(said, FailureCause.ARGUMENTS)
        return arguments


async def run_in_time(tool: Tool, context: ToolContext, arguments: Mapping[str, Any]) -> str:
    """Run a tool. Raises `ToolError`, also when its time is over."""
    limit = Deadline(tool.timeout_s)
    try:
        async with limit:
            return await tool.run(context, arguments)
    except TimeoutError as error:
        if not limit.has_passed:
            raise
        said = f"{tool.spec.name} did not finish within {tool.timeout_s:g} s"
        raise ToolError(said, FailureCause.BUSY) from error


# From what a tool returned to what the model may see: bounded, scrubbed, cut with a handle, framed if foreign.


_ADVICE: Final = ": ask for less at once"

_UNCHECKED: Final = literal_text(
    "[redacted:text#0000] This result could not be looked through for secrets, so it is left out: ask for less."
)


class Envelope(NamedTuple):
    """A result fit to be shown, stored and logged."""

    text: CleanText
    is_truncated: bool


class Envelopes:
    """Makes envelopes; long results go to the shelf."""

    def __init__(self, shelf: ResultStore, scrubber: Scrubber, clock: Clock) -> None:
        self._shelf = shelf
        self._scrubber = scrubber
        self._clock = clock

    def wrap(self, key: SessionKey, raw: str, *, foreign: bool, reads_on: bool = True) -> Envelope:
        """Wrap what a tool returned for `key` in an envelope of at most TOOL_RESULT_CHARS_MAX characters. It offers a
        handle to the rest only if the caller `reads_on`: a sub-agent may not have `read_more`."""
        scrubber = self._scrubber.for_chat(str(key))
        clean = scrubber.scrub(readable(raw))
        if clean == WHOLE_TEXT:
            return Envelope(_UNCHECKED, is_truncated=False)
        room = TOOL_RESULT_CHARS_MAX - (frame_chars(FRAME_CHARS) if foreign else 0)
        is_truncated = len(clean) > room
        shown = self._cut(key, clean, room, foreign=foreign, reads_on=reads_on) if is_truncated else clean
        if foreign:
            shown = framed(shown, self._clock.code(FRAME_CHARS))
        # Scrubbed once more: the cut brought together what was apart.
        return Envelope(scrubber.scrub(shown), is_truncated)

    def _cut(self, key: SessionKey, clean: CleanText, room: int, *, foreign: bool, reads_on: bool) -> str:
        """Cut only after scrubbing: a cut through a secret would hide it from the scrubber."""
        handle = self._shelf.keep(key, clean, foreign=foreign) if reads_on else ""
        return abridged(clean, room, handle=handle, advice=_ADVICE)


# The note after a round with failures: what failed, in the model's ear, so that it looks for the cause. Pure.


def correction_note(results: Sequence[ToolResult], scrubber: Scrubber) -> CleanText | None:
    """Write one note on all failures of a round, None if there are none.

    It repeats results that are clean already, and is scrubbed all the same, because the model made up the calls' names.
    """
    failures = [(result.name, _in_short(result.text)) for result in results if result.is_error]
    causes = [result.cause for result in results if result.cause is not None]
    return scrubber.scrub(failure_note(failures, causes)) if failures else None


def _in_short(text: str) -> str:
    """Shorten a result to one line. A few words say that the text is foreign, because the usual frame would be longer
    than the quotation."""
    foreign = unframed(text)
    said = text if foreign is None else f"(written by others) {foreign}"
    line = " ".join(said[: 8 * NOTE_CHARS_MAX].split())
    if len(line) <= NOTE_CHARS_MAX:
        return line
    return line[: grapheme_start(line, NOTE_CHARS_MAX - 1)] + "…"


_log = structlog.get_logger(__name__)


_REFUSALS: Final = {
    ApprovalOutcome.DENIED: "{tool} was not approved: do without it",
    ApprovalOutcome.EXPIRED: "nobody approved {tool} in time: do without it",
    ApprovalOutcome.TOO_LONG: "this call of {tool} is too long to be shown to the person who approves it, so nobody "
    "was asked and nothing was done: split it into smaller calls",
    ApprovalOutcome.NO_ADMIN: "{tool} needs the approval of an admin, and none can be asked: no admin has written to "
    "me in private yet. Nothing was done; tell the user so",
}
"""A model's notice of a call that was not approved."""

_HIDDEN: Final = (
    "a part of this call of {tool} looks like a secret and would not be shown to the person who approves it, so nobody "
    "was asked and nothing was done: do it without that part, or write it differently"
)


class _Shown(NamedTuple):
    """The tools that are not denied under some permissions: themselves, their names, by category with those that are
    off; and our own that are denied."""

    tools: tuple[Tool, ...]
    usable: frozenset[str]
    overview: Mapping[str, tuple[str, ...]]
    denied: tuple[str, ...]


class ToolRegistry:
    """All tools of an agent process, by name. Refuses two tools of one name. That a schema is valid is for those to see
    to who bring tools of others: our own are checked by tests, since each start would spend 35 ms on that.

    `read_more` is always among them: it belongs to the results, which are kept here, or `elsewhere`. `absent` tools
    are listed with their reasons, and a call of one says so. What touches the same thing runs one after the other in
    all rounds of one conversation: its sub-agents have rounds of their own."""

    def __init__(
        self,
        tools: Sequence[Tool],
        scrubber: Scrubber,
        clock: Clock,
        *,
        policy: Policy | None = None,
        approvals: Approvals | None = None,
        lender: SecretInjector | None = None,
        absent: Sequence[AbsentTool] = (),
        elsewhere: KeptElsewhere | None = None,
        spans: SpanSink | None = None,
    ) -> None:
        shelf = ResultStore(clock, elsewhere)
        self._tools: dict[str, Tool] = {}
        self._fitting: dict[str, Fitting] = {}
        self._absent = {tool.name: tool for tool in absent}
        self._envelopes = Envelopes(shelf, scrubber, clock)
        self._policy = policy or Policy()
        self._approvals = approvals or NobodyToAsk()
        self._lender = lender
        self._scrubber = scrubber
        self._clock = clock
        self._spans = spans or NoSpans()
        self._locks: WeakValueDictionary[tuple[SessionKey, str], asyncio.Lock] = WeakValueDictionary()
        self._shown = lru_cache(maxsize=PERMISSIONS_KEPT)(self._show)
        self.add((*tools, shelf.tool()))

    def add(self, tools: Iterable[Tool], *, absent: Sequence[AbsentTool] = ()) -> None:
        """Offer more tools from now on, all of them or none. `absent` ones are off."""
        self._offer(tuple(tools), self._tools)
        self._absent |= {tool.name: tool for tool in absent}
        self._shown.cache_clear()

    def offer_instead(self, tools: Sequence[Tool], category: str) -> None:
        """Offer these in place of all of `category`: of an MCP server that tells of others now."""
        self._offer(tools, {name: tool for name, tool in self._tools.items() if tool.category != category})

    def exchange(self, tools: Sequence[Tool]) -> None:
        """Offer these from the next round on, in place of those of the same names; what runs goes on as it began."""
        names = {tool.spec.name for tool in tools}
        if not names <= self._tools.keys():
            raise ValueError("only a tool that is there can be exchanged")
        self._offer(tools, {name: tool for name, tool in self._tools.items() if name not in names})

    def _offer(self, new: Sequence[Tool], kept: Mapping[str, Tool]) -> None:
        """Offer these and those that are `kept`. Raises `ValueError` where two share a name."""
        tools = {tool.spec.name: tool for tool in new}
        if len(tools) != len(new) or not kept.keys().isdisjoint(tools):
            raise ValueError("two tools share a name")
        self._tools = {**kept, **tools}
        self._fitting |= {name: Fitting(tool.checked) for name, tool in tools.items()}
        self._shown.cache_clear()

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """List the tools as the model sees them, in a fixed order: the prompt's prefix must not change."""
        return tuple(tool.spec for _, tool in sorted(self._tools.items()))

    @property
    def names(self) -> frozenset[str]:
        """Return the names of all tools, including those that are switched off here."""
        return frozenset(self._tools.keys() | self._absent.keys())

    def permission(self, context: ToolContext, name: str) -> Permission:
        """Return what the policy decides about a call of the tool `name`, which must exist, in this context."""
        return self._granted(context).of(name, self._tools[name].risk)

    def usable(self, context: ToolContext) -> frozenset[str]:
        """Return the names of the tools that are not denied in this context."""
        return self._shown(self._granted(context)).usable

    def specs_for(self, context: ToolContext) -> tuple[ToolSpec, ...]:
        """List the tools that are not denied in this context, in the same fixed order."""
        return tuple(tool.spec_in(context) for tool in self._shown(self._granted(context)).tools)

    def overview(self, context: ToolContext) -> Mapping[str, tuple[str, ...]]:
        """Group the names of the tools that are not denied in this context by category, for the system prompt; a tool
        that is off is listed with its reason."""
        return self._shown(self._granted(context)).overview

    def denied(self, context: ToolContext) -> tuple[str, ...]:
        """List our own tools that are denied in this context. Those of MCP servers are the operator's, and nobody who
        may not use them hears of them."""
        return self._shown(self._granted(context)).denied

    def _show(self, granted: Permissions) -> _Shown:
        """Choose what those who have these permissions are shown of the tools that there are now."""
        known = sorted((self._tools | self._absent).items())
        denied = {name for name, tool in known if granted.of(name, tool.risk) is Permission.DENY}
        tools = tuple(tool for name, tool in sorted(self._tools.items()) if name not in denied)
        categories: defaultdict[str, list[str]] = defaultdict(list)
        for tool in tools:
            categories[tool.category].append(tool.spec.name)
        for name, absent in sorted(self._absent.items()):
            if name not in denied:
                categories[absent.category].append(f"{name} (off: {absent.reason})")
        return _Shown(
            tools,
            frozenset(tool.spec.name for tool in tools),
            {category: tuple(names) for category, names in sorted(categories.items())},
            tuple(name for name, _ in known if name in denied and not name.startswith(MCP_PREFIX)),
        )

    @property
    def protected_names(self) -> frozenset[str]:
        """Return the tools whose old results are never pruned."""
        return frozenset(name for name, tool in self._tools.items() if tool.protected)

    async def run_round(self, context: ToolContext, calls: Sequence[RequestedCall]) -> tuple[ToolResult, ...]:
        """Run a round of calls and give every call a result, in call order. Cancelling cancels every tool."""
        slots = asyncio.Semaphore(TOOLS_PARALLEL_MAX)
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(self._run_one(context, slots, call)) for call in calls]
        return tuple(task.result() for task in running)

    def note_on(self, context: ToolContext, results: Sequence[ToolResult]) -> CleanText | None:
        """Write what the model is told after a round with failures, None if nothing failed."""
        return correction_note(results, self._scrubber.for_chat(str(context.key)))

    async def _run_one(self, context: ToolContext, slots: asyncio.Semaphore, call: RequestedCall) -> ToolResult:
        began_s = self._clock.monotonic_s()
        tool = self._tools.get(call.name)
        cause, is_foreign = None, tool is not None and tool.foreign
        try:
            raw = await self._attempt(context, slots, call)
        except NotAvailable as error:
            raw, cause, is_foreign = str(error), error.cause, False
        except ToolError as error:
            raw, cause = str(error), error.cause
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raw, cause = f"{call.name} was interrupted from within", FailureCause.REFUSED
        except Exception as error:  # noqa: BLE001 - the tool boundary: the model gets an error result, the log the rest
            _log.exception("tool.crashed", tool=call.name)
            raw, cause = f"{call.name} failed: {type(error).__name__}", FailureCause.REFUSED
        duration_ms = int((self._clock.monotonic_s() - began_s) * 1000)
        envelope = await self._envelope(context, raw, is_foreign=is_foreign)
        _log.info("tool.ran", tool=call.name, ok=cause is None, duration_ms=duration_ms)
        self._tell(context, call, duration_ms, failure="tool_error" if cause else "")
        return ToolResult(call.id, call.name, envelope.text, envelope.is_truncated, duration_ms, cause)

    def _tell(self, context: ToolContext, call: RequestedCall, duration_ms: int, *, failure: str) -> None:
        """Record the call as a span. A name that no tool has is recorded as `OTHER`, because the model made it up and
        it may be anything."""
        name, now_ms = call.name if call.name in self.names else OTHER, self._clock.now_ms()
        self._spans.record(
            TraceSpan(
                context.turn_id,
                f"tool:{self._clock.new_id()}",
                under(context.call_origin.task_id),
                "execute_tool",
                now_ms - duration_ms,
                now_ms,
                subject=name,
                failure=failure,
                attributes={"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name},
            )
        )

    def fitting(self, call: RequestedCall) -> str:
        """Return the fitting arguments, as JSON, of a call that runs in a sub-agent's own process. Raises
        `ToolError`."""
        tool, arguments = self._tools[call.name], self._fitting[call.name].arguments(call.arguments)
        if not tool.quotes:
            refuse_placeholders(call.name, arguments, instead=tool.instead)
        return json.dumps(arguments, ensure_ascii=False)

    async def wrapped(self, context: ToolContext, name: str, raw: str) -> CleanText:
        """Wrap what the tool `name` returned where it ran: in a sub-agent's own process."""
        tool = self._tools.get(name)
        envelope = await self._envelope(context, raw, is_foreign=tool is None or tool.foreign)
        return envelope.text

    async def _envelope(self, context: ToolContext, raw: str, *, is_foreign: bool) -> Envelope:
        context.reading.is_foreign |= is_foreign
        if self._lender is not None:
            raw = await self._lender.lent_lately(context.key).out_of(raw)
        reads_on = self.permission(context, READ_MORE.name) is not Permission.DENY
        return self._envelopes.wrap(context.key, raw, foreign=is_foreign, reads_on=reads_on)

    async def _attempt(self, context: ToolContext, slots: asyncio.Semaphore, call: RequestedCall) -> str:
        tool = self._find(context, call.name)
        if self.permission(context, call.name) is Permission.DENY:
            raise ToolError(f"{call.name} is not permitted to this user in this place", FailureCause.REFUSED)
        arguments = self._fitting[call.name].arguments(call.arguments)
        wanted = self._wanted(tool, arguments)
        async with AsyncExitStack() as held:
            for name in sorted(set(tool.locks(arguments))):
                lock = self._locks.setdefault((context.key, name), asyncio.Lock())
                await held.enter_async_context(lock)
            approved = await self._ask_if_needed(context, tool, arguments, is_lent=bool(wanted))
            if not tool.only_waits:
                await held.enter_async_context(slots)
            await context.permit()
            if approved and approved != _digest(tool, arguments):
                raise ToolError(f"what {call.name} was to do is not what was approved any more: nothing was done")
            if wanted:
                return await self._run_lent(tool, context, arguments, wanted)
            return await run_in_time(tool, context, arguments)

    def _wanted(self, tool: Tool, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        """Find the placeholders whose values the call needs. Raises `ToolError` for a placeholder anywhere else."""
        name, secret = tool.spec.name, tool.secret_arguments if self._lender else ()
        if not tool.quotes:
            refuse_placeholders(name, arguments, instead=tool.instead, secret=secret)
        return self._lender.wanted(tool, arguments) if self._lender else ()

    async def _run_lent(
        self, tool: Tool, context: ToolContext, arguments: Mapping[str, Any], wanted: tuple[str, ...]
    ) -> str:
        """Run a tool with secrets. Neither its result nor its error has any of them in it, and nothing is logged of
        how it crashed: a traceback would."""
        assert self._lender is not None
        lent = await self._lender.lend(context, tool, wanted)
        given = lent.into(arguments, tool.secret_arguments)
        try:
            return await lent.out_of(await run_in_time(tool, replace(context, is_lent=True), given))
        except ToolError as error:
            said, cause = await lent.out_of(str(error)), error.cause
        except Exception as error:  # noqa: BLE001 - the tool boundary: its words, and its traceback, may hold a secret
            said, cause = f"{tool.spec.name} failed: {type(error).__name__}", FailureCause.REFUSED
        raise ToolError(said, cause)

    def _find(self, context: ToolContext, name: str) -> Tool:
        if name in self._tools:
            return self._tools[name]
        if name in self._absent:
            raise ToolError(f"{name} is off here: {self._absent[name].reason}", FailureCause.REFUSED)
        offered = ", ".join(spec.name for spec in self.specs_for(context))
        raise ToolError(f"there is no tool {name[:64]!r}; there are: {offered}", FailureCause.REFUSED)

    def _granted(self, context: ToolContext) -> Permissions:
        return self._policy.permissions(context.role, context.place) & context.ceiling

    async def _ask_if_needed(
        self, context: ToolContext, tool: Tool, arguments: Mapping[str, Any], *, is_lent: bool
    ) -> str:
        """Return the digest of what was approved, "" where nothing had to be. Raises `ToolError` for a call that needs
        an approval and gets none; one that is lent a secret needs one in any case. Waiting takes none of its time."""
        permission = self.permission(context, tool.spec.name)
        is_led = context.reading.is_foreign and tool.keeps(arguments)
        if permission is Permission.ALLOW and not (is_lent or is_led):
            return ""
        why = FOREIGN if is_led else tool.risk.value
        asked = tool_question(tool.spec.name, why, arguments, words_for(context.language))
        clean = self._scrubber.for_chat(str(context.key)).scrub(asked)
        if clean != asked:  # the arguments were clean as the model wrote them, and would run as they are
            raise ToolError(_HIDDEN.format(tool=tool.spec.name), FailureCause.REFUSED)
        digest = _digest(tool, arguments)
        question = ApprovalRequest(
            key=context.key,
            turn_id=context.turn_id,
            fence=context.fence,
            asked_by=context.asked_by or context.owner,
            address=context.address,
            text=clean,
            digest=digest,
            language=context.language,
            task_id="" if context.fence else context.call_origin.task_id,
            needs_admin=permission is Permission.ASK,
            goes_to_admins=permission is Permission.ASK and context.role is not GrantRole.ADMIN,
            lasting=None if is_lent or is_led else _lasting(context, tool, digest, permission),
        )
        with context.asking(tool.spec.name):
            verdict = await self._approvals.ask(question)
        _log.info("tool.asked", tool=tool.spec.name, verdict=verdict.value)
        if verdict is not ApprovalOutcome.APPROVED:
            raise ToolError(_REFUSALS[verdict].format(tool=tool.spec.name), FailureCause.REFUSED)
        return question.digest


def _lasting(context: ToolContext, tool: Tool, digest: str, permission: Permission) -> Lasting:
    """Decide what an answer may approve beyond one call: for a tool that executes, only repetitions of the same call;
    else any call of the tool. A sub-agent that outlives its turn cannot be approved for a turn."""
    where = () if context.place is Visibility.DM else context.key.place or context.place_ids
    which = digest if tool.risk is Risk.EXECUTE else ""
    return Lasting(
        PlaceApproval(room_of(context.owner, where), tool.spec.name, context.role, which),
        of_turn=context.approved if context.fence else None,
        is_offered=context.role is GrantRole.ADMIN or permission is Permission.ASK,
    )


def _digest(tool: Tool, arguments: Mapping[str, Any]) -> str:
    written = json.dumps([tool.spec.name, arguments], sort_keys=True)
    return sha256(written.encode()).hexdigest()
