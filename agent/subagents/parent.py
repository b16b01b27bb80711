"""The work of a parent for one child: asks the model, runs tools, records what was said and what it cost.

Nothing that a child says is trusted. Its identity, its model and its permissions are decided here; its messages
are scrubbed before a model reads them; its tools are checked as its model's calls would be; tokens and money
are counted from what the provider said."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Final

import structlog

from agent.limits import ROUND_TIMEOUT_S
from agent.models import requests
from agent.models.client import ModelClient
from agent.models.metering import usage_of, usage_unanswered
from agent.prompts.library import PROMPTS
from agent.subagents import protocol
from agent.subagents.catalog import placed
from agent.subagents.rounds import told_apart
from agent.subagents.runs import Assignment, SubagentRun, TranscriptWriter
from agent.subagents.supervisor import ChildEnding, ChildOrder, Host
from agent.tools.arguments import clean_call
from agent.tools.files.workspace import Workspaces
from agent.tools.registry import ToolRegistry
from agent.tools.tool import ToolContext
from gateway.contracts.errors import BudgetSpent, ContextTooLong, ModelError, Reason, ToolError
from gateway.contracts.messages import CleanText, joined, literal_text
from gateway.contracts.ports import Clock
from gateway.contracts.sessions import Entry, EntryKind, Role, ToolCall, Usage
from gateway.contracts.subagents import Doing, Occupation
from gateway.scrub import Scrubber

_log = structlog.get_logger(__name__)

_Answered = tuple[str, str]
"""A tool call's id and what the child says was answered to it."""


_CUT_OFF: Final = literal_text("… [cut off]")
"""After what a model had said when nobody could hear the rest. What might have become a secret is not there."""

_ENDED: Final = {
    requests.StopReason.CUT: literal_text("… [cut off: the answer reached its limit of length]"),
    requests.StopReason.FILTERED: literal_text("… [stopped by the filter of the model's provider]"),
    requests.StopReason.REFUSED: literal_text("… [the model refused to go on]"),
}
"""After an answer that is not whole: neither the sub-agent nor its parent takes it for all."""

_NOT_RUN: Final = "the answer ended in the middle of its calls, so none of them was run: write shorter arguments"


class ChildConversation:
    """Clean messages for one child. A cleaned message is remembered as long as the child repeats it, so a
    growing conversation costs only its new part."""

    def __init__(self, tools: ToolRegistry, context: ToolContext, scrubber: Scrubber) -> None:
        """Start with an empty conversation. `scrubber` is that of the child's chat."""
        self._tools = tools
        self._context = context
        self._scrubber = scrubber
        self._ours: dict[_Answered, CleanText] = {}
        self._results: dict[_Answered, CleanText] = {}
        self._texts: dict[str, CleanText] = {}
        self._calls: dict[protocol.CalledTool, ToolCall] = {}

    def answered(self, call_id: str, text: CleanText) -> None:
        """Note that the parent itself answered this call: its text stays as it is when the child repeats it."""
        self._ours[call_id, text] = text

    async def messages(self, said: Sequence[protocol.ChildMessage]) -> tuple[requests.PromptMessage, ...]:
        """Clean what the child said; results of its own tools get their envelopes."""
        known, known_calls, known_results = self._texts, self._calls, self._results
        self._texts, self._calls, self._results = {}, {}, {}
        names: dict[str, str] = {}
        found: list[requests.PromptMessage] = []
        for message in said:
            names |= {call.id: call.name for call in message.calls}
            if message.role == Role.TOOL:
                key = (message.call_id, message.text)
                self._results[key] = known_results.get(key) or await self._result(key, names.get(key[0], ""))
                clean_id = self._scrubber.scrub(message.call_id)
                found.append(requests.PromptMessage(Role.TOOL, self._results[key], tool_call_id=clean_id))
                continue
            self._texts[message.text] = known.get(message.text) or self._scrubber.scrub(message.text)
            for call in message.calls:
                self._calls[call] = known_calls.get(call) or self.clean_call(call)
            found.append(_message(message, self._texts[message.text], [self._calls[call] for call in message.calls]))
        return tuple(found)

    def clean_call(self, call: protocol.CalledTool | requests.RequestedCall) -> ToolCall:
        """Clean a call of the child's model."""
        return clean_call(call.id, call.name, call.arguments, self._scrubber.scrub)

    async def _result(self, key: _Answered, name: str) -> CleanText:
        """Wrap a result in its envelope, even if it belongs to no known call."""
        return self._ours.get(key) or await self._tools.wrapped(self._context, name, key[1])


def _message(said: protocol.ChildMessage, text: CleanText, calls: Sequence[ToolCall]) -> requests.PromptMessage:
    """Build a prompt message: only a model speaks as the assistant, all else has the role of the user."""
    if said.role == Role.ASSISTANT:
        return requests.PromptMessage(Role.ASSISTANT, text, tuple(calls))
    return requests.PromptMessage(Role.USER, text)


class UnderWay:
    """The calls of the last answer that have no result yet, and the questions to people.

    Of a call only the name is passed on, and only where there is such a tool: else the model made the word up."""

    def __init__(self, names: Collection[str]) -> None:
        """Start with no calls. `names` are those of all tools."""
        self._names = names
        self._calls: dict[str, str] = {}
        self._asked: list[str] = []

    def begin(self, calls: Iterable[ToolCall]) -> None:
        """Note that the model has answered, with these calls."""
        self._calls = {call.id: call.name for call in calls}

    def end(self, call_id: str) -> None:
        """Note that the call has a result."""
        self._calls.pop(call_id, None)

    @contextmanager
    def asking(self, name: str) -> Iterator[None]:
        """Mark, for the length of the block, that a person is asked about a call of this tool."""
        self._asked.append(name)
        try:
            yield
        finally:
            self._asked.remove(name)

    @property
    def now(self) -> Doing:
        """Return what the child does now. A child without calls asks its model, or is about to."""
        if self._asked:
            return Doing(Occupation.APPROVAL, self._known(self._asked))
        if self._calls:
            return Doing(Occupation.TOOLS, self._known(self._calls.values()))
        return Doing(Occupation.MODEL)

    def _known(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for name in names if name in self._names))


@dataclass(frozen=True, slots=True)
class ParentServices:
    """The services that a parent has and a child has not."""

    client: ModelClient
    tools: ToolRegistry
    scrubber: Scrubber
    clock: Clock


@dataclass(eq=False, repr=False)
class ChildHost:
    """`agent.subagents.supervisor.Host` for one child. `local` are the tools that the child runs itself."""

    prompt: CleanText
    assignment: Assignment
    services: ParentServices
    transcript: TranscriptWriter
    _: KW_ONLY
    local: frozenset[str]

    def __post_init__(self) -> None:
        self._scrubber = self.services.scrubber.for_chat(str(self.assignment.context.key))
        self._conversation = ChildConversation(self.services.tools, self.assignment.context, self._scrubber)
        self._allotment = self.assignment.context.allotment
        self._one_call = asyncio.Lock()
        self._answers = 0
        self._open_calls: dict[str, ToolCall] = {}
        self._thoughts: dict[str, requests.Thoughts] = {}
        self._are_whole = True  # the calls of the model's last answer
        self._under_way = UnderWay(self.services.tools.names)
        self._context = replace(self.assignment.context, asking=self._asking)
        self._told: set[CleanText] = {self.prompt}
        self._note(Role.USER, self.prompt)

    # --- the model

    async def model(self, call: protocol.ModelCall) -> AsyncIterator[protocol.ModelDelta | protocol.ModelResult]:
        """Ask the model what the child asks, as who it is. A child that has used up its rounds gets no answer."""
        async with self._one_call:
            if self._answers > self.assignment.sub_type.rounds_max:
                yield protocol.ModelResult(call.id, error=Reason.ROUNDS_SPENT)
                return
            self._under_way.begin(())
            messages = await self._conversation.messages(call.messages)
            for raw, message in zip(call.messages, messages, strict=True):
                if message.role is Role.TOOL:
                    self._keep_result(message.tool_call_id, message.text, is_error=raw.is_error)
                elif message.role is Role.USER and message.text not in self._told:
                    self._told.add(message.text)
                    self._note(Role.USER, message.text, kind=EntryKind.NOTE)
            if self._allotment is not None:
                self._allotment.check()
            try:
                async with aclosing(self._heard(call.id, self._request(call, messages))) as frames:
                    async for frame in frames:
                        yield frame
            except BudgetSpent:
                raise
            except ContextTooLong:
                yield protocol.ModelResult(call.id, error=Reason.PROMPT_TOO_LONG, is_too_long=True)
            except ModelError as error:
                _log.warning("subagent.model_failed", reason=f"{type(error).__name__}: {error}")
                yield protocol.ModelResult(call.id, error=Reason.MODEL_FAILED)

    def _request(self, call: protocol.ModelCall, messages: tuple[requests.PromptMessage, ...]) -> requests.ModelRequest:
        assignment, wanted = self.assignment, frozenset(call.tools)
        specs = self.services.tools.specs_for(assignment.context)
        return requests.ModelRequest(
            assignment.model,
            assignment.purpose,
            assignment.context.key,
            assignment.sub_type.prompt,
            messages,
            tools=tuple(spec for spec in specs if spec.name in wanted),
            timeout_s=ROUND_TIMEOUT_S,
            turn_id=assignment.context.turn_id,
            task_id=assignment.context.call_origin.task_id,
            otherwise=assignment.otherwise,
            thoughts=self._thoughts,
            permit=assignment.context.permit,
        )

    async def _heard(
        self, call_id: str, request: requests.ModelRequest
    ) -> AsyncGenerator[protocol.ModelDelta | protocol.ModelResult]:
        """Stream one answer to the child, scrubbed as it comes, page by page. When the stream starts again, the child
        gets no more pages, since it already has some that are void; the result holds the whole answer. A stream that
        ends without an answer, because it broke or the child is gone, is paid for as far as it came."""
        hearing, is_whole, is_answered = requests.CleanStream(self._scrubber), True, False
        try:
            async for event in self.services.client.stream(request):
                match event:
                    case requests.TextDelta(text=text):
                        page = hearing.add(text)
                        if is_whole and page:
                            yield protocol.ModelDelta(call_id, page)
                    case requests.StreamRestarted():
                        hearing.begin_anew()
                        is_whole = False
                    case requests.ModelAnswer():
                        is_answered = True
                        result = self._answer(call_id, request, event, hearing.to_the_end())
                        if not self.local.isdisjoint(call.name for call in result.calls):
                            await request.permit()  # for what the child runs itself nobody is asked again
                        yield result
        finally:
            if not is_answered and (usage := self._unanswered(request)):
                self._note(Role.ASSISTANT, joined(hearing.so_far(), _CUT_OFF), usage=usage)

    def _answer(
        self, call_id: str, request: requests.ModelRequest, answer: requests.ModelAnswer, text: CleanText
    ) -> protocol.ModelResult:
        """Build the result for the child, after the answer is noted and charged."""
        self._are_whole = answer.ending is requests.StopReason.OWN
        if (behind := _ENDED.get(answer.ending)) is not None:
            text = joined(text, behind)
        made = (call if self._are_whole else replace(call, arguments="{}") for call in answer.calls if request.tools)
        clean = [self._conversation.clean_call(call) for call in made]
        calls = told_apart(protocol.CalledTool(call.id, call.name, call.arguments) for call in clean)
        kept = tuple(replace(call, id=apart.id) for call, apart in zip(clean, calls, strict=True))
        if kept and answer.thoughts is not None:
            self._thoughts[kept[0].id] = answer.thoughts
        self._answers += 1
        self._open_calls = {call.id: call for call in kept}
        self._under_way.begin(kept)
        usage = usage_of(
            answer, request.key, request.purpose, now_ms=self.services.clock.now_ms(), turn_id=request.turn_id
        )
        self._note(Role.ASSISTANT, text, calls=kept, usage=(*self._unanswered(request), usage))
        fitting, refused = self._checked(calls) if self._are_whole else (calls, _not_run(calls))
        return protocol.ModelResult(
            call_id, text, fitting, answer.tokens.prompt, answer.tokens.completion, answer.cost_usd, outcomes=refused
        )

    def _unanswered(self, request: requests.ModelRequest) -> tuple[Usage, ...]:
        """Return the usage of the call that no answer carries, if any."""
        usage = usage_unanswered(request, now_ms=self.services.clock.now_ms())
        return () if usage is None else (usage,)

    def _checked(
        self, calls: Sequence[protocol.CalledTool]
    ) -> tuple[tuple[protocol.CalledTool, ...], tuple[protocol.ToolOutcome, ...]]:
        """Check the calls: repair the arguments of those that the child runs itself, and return an outcome for each of
        those that do not fit. A child has neither the schemas nor the means to read broken arguments."""
        fitting, refused = [], []
        for call in calls:
            try:
                fitting.append(self._fitting(call))
            except ToolError as error:
                fitting.append(call)
                refused.append(protocol.ToolOutcome(call.id, str(error), is_error=True))
        return tuple(fitting), tuple(refused)

    def _fitting(self, call: protocol.CalledTool) -> protocol.CalledTool:
        if call.name not in self.local:
            return call
        requested = requests.RequestedCall(call.id, call.name, call.arguments)
        return replace(call, arguments=self.services.tools.fitting(requested))

    # --- tools

    async def tool(self, call: protocol.ToolCallFrame) -> protocol.ToolOutcome:
        """Run a call of the model's last answer here, once and as the model wrote it, with all that a model's own call
        goes through. A child only says which it is."""
        if call.name in self.local:
            return protocol.ToolOutcome(call.id, f"{call.name} runs in the sub-agent's own process", is_error=True)
        asked = self._open_calls.get(call.id)
        if asked is None or asked.name != call.name:
            return protocol.ToolOutcome(call.id, "the model has not asked for this", is_error=True)
        if not self._are_whole:
            return protocol.ToolOutcome(call.id, _NOT_RUN, is_error=True)
        del self._open_calls[call.id]
        requested = requests.RequestedCall(asked.id, asked.name, asked.arguments)
        (result,) = await self.services.tools.run_round(self._context, [requested])
        self._under_way.end(call.id)
        self._conversation.answered(call.id, result.text)
        self._note(Role.TOOL, result.text, call_id=call.id, is_error=result.is_error)
        return protocol.ToolOutcome(call.id, result.text, result.is_error)

    @contextmanager
    def _asking(self, name: str) -> Iterator[None]:
        with self._under_way.asking(name):
            self.transcript.show(self._under_way.now)
            yield
        self.transcript.show(self._under_way.now)

    # --- what is kept

    def _keep_result(self, call_id: str, text: CleanText, *, is_error: bool) -> None:
        """Record a result once for each call of the model's last answer."""
        if call_id in self._open_calls:
            del self._open_calls[call_id]
            self._note(Role.TOOL, text, call_id=call_id, is_error=is_error)

    def _note(
        self,
        role: Role,
        text: CleanText,
        *,
        kind: EntryKind = EntryKind.MESSAGE,
        calls: tuple[ToolCall, ...] = (),
        call_id: str = "",
        is_error: bool = False,
        usage: tuple[Usage, ...] = (),
    ) -> None:
        """Record an entry. Its `usage` is charged to the owner of the child, and to the budget that several share."""
        if self._allotment is not None:
            for call in usage:
                self._allotment.take(call.prompt_tokens + call.completion_tokens, call.cost_usd)
        self.transcript.note(
            Entry(
                role,
                text,
                kind=kind,
                tool_calls=calls,
                tool_call_id=call_id,
                is_error=is_error,
                turn_id=self.assignment.context.turn_id,
                created_at_ms=self.services.clock.now_ms(),
            ),
            usage=usage,
            doing=self._under_way.now,
        )


def _not_run(calls: Sequence[protocol.CalledTool]) -> tuple[protocol.ToolOutcome, ...]:
    return tuple(protocol.ToolOutcome(call.id, _NOT_RUN, is_error=True) for call in calls)


@dataclass(eq=False, repr=False)
class ChildRunner:
    """Carries out orders: for each a process, and a host for it. `workspaces` are those of the file tools."""

    services: ParentServices
    supervise: Callable[[ChildOrder, Host], Awaitable[ChildEnding]]
    workspaces: Workspaces

    async def carry_out(self, run: SubagentRun) -> ChildEnding:
        """Run one child, from the start of its process to its end."""
        tools, assignment = self.services.tools, run.assignment
        specs = tools.specs_for(assignment.context)
        place = placed(tuple(spec.name for spec in specs), partial(tools.permission, assignment.context))
        host = ChildHost(run.task.prompt, assignment, self.services, run.transcript, local=place.here)
        offered = tuple(
            protocol.OfferedTool(spec.name, spec.description, spec.schema, spec.name in place.here) for spec in specs
        )
        workspace = await asyncio.to_thread(self.workspaces.of, assignment.context.key) if place.here else None
        home, share = (workspace.files.parent, workspace.share) if workspace is not None else (None, None)
        order = ChildOrder(_init(run, offered), home, place.writes, assignment.limit_s, share)
        return await self.supervise(order, host)


def _init(run: SubagentRun, tools: tuple[protocol.OfferedTool, ...]) -> protocol.InitFrame:
    """Build the first frame, without home and confinement: the supervisor adds these."""
    sub_type = run.assignment.sub_type
    return protocol.InitFrame(
        task_id=run.task.id,
        rounds_max=sub_type.rounds_max,
        sub_type=sub_type.name,
        system=sub_type.prompt,
        messages=(protocol.ChildMessage(Role.USER, run.task.prompt),),
        tools=tools,
        wrap_up=PROMPTS.wrap_up,
    )
