"""What a parent does for one child: asks the model, runs tools, keeps what was said and what it cost.

A child is believed nothing. Who it is, which model it has and what it may use is decided here; what it says of its
conversation is looked through before a model reads it; its tools are checked as its model's calls would be; tokens
and money are counted from what the provider said.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Protocol

import structlog

from agent.hearing import Hearing
from agent.limits import ROUND_TIMEOUT_S
from agent.model.calling import ModelClient
from agent.model.client import (
    Ending,
    ModelAnswer,
    ModelRequest,
    PromptMessage,
    RequestedCall,
    StreamRestarted,
    TextDelta,
)
from agent.prompts.library import PROMPTS
from agent.subagents.cage.orders import ChildEnding, ChildOrder, Host
from agent.subagents.ceilings import placed
from agent.subagents.hosting.conversation import Conversation
from agent.subagents.hosting.occupations import UnderWay
from agent.subagents.inside.rounds import told_apart
from agent.subagents.life.lives import Charge, Life
from agent.subagents.life.scribe import Scribe
from agent.subagents.wire.frames import (
    Call,
    Chunk,
    Init,
    Limits,
    ModelCall,
    ModelDelta,
    ModelResult,
    OfferedTool,
    Said,
    ToolCall,
    ToolOutcome,
)
from agent.tools.files.workspace import Workspaces
from agent.tools.registry import ToolRegistry
from agent.usage.ledger import usage_of, usage_unanswered
from gateway.contracts.entries import Entry, EntryKind, Role, Usage
from gateway.contracts.entries import ToolCall as KeptCall
from gateway.contracts.errors import BudgetSpent, ContextTooLong, ModelError, ToolError
from gateway.contracts.messages import CleanText, joined, own_words
from gateway.contracts.ports import Clock, Scrubber
from gateway.contracts.reasons import Reason

_log = structlog.get_logger(__name__)
_CUT_OFF: Final = own_words("… [cut off]")
_ENDED: Final = {
    Ending.CUT: own_words("… [cut off: the answer reached its limit of length]"),
    Ending.FILTERED: own_words("… [stopped by the filter of the model's provider]"),
    Ending.REFUSED: own_words("… [the model refused to go on]"),
}
"""Behind an answer that is not whole: neither the sub-agent nor whoever asked it takes it for all."""

_NOT_RUN: Final = "the answer ended in the middle of its calls, so none of them was run: write shorter arguments"
"""Behind what a model had said when nobody could hear the rest. What might have become a secret is not there."""


@dataclass(frozen=True, slots=True)
class Means:
    """What the parent has and a child has not."""

    client: ModelClient
    tools: ToolRegistry
    scrubber: Scrubber
    clock: Clock


class Runs(Protocol):
    """The supervisor, as it is needed here."""

    async def run(self, order: ChildOrder, host: Host) -> ChildEnding:
        """One child, from its start to its end."""
        ...


class ChildHost:
    """`agent.subagents.cage.orders.Host` for one child."""

    def __init__(
        self, prompt: CleanText, charge: Charge, means: Means, scribe: Scribe, *, local: frozenset[str]
    ) -> None:
        """`local` are the tools that the child runs itself."""
        self._charge = charge
        self._means = means
        self._scribe = scribe
        self._scrubber = means.scrubber.for_chat(str(charge.context.key))
        self._conversation = Conversation(means.tools, charge.context, self._scrubber)
        self._local = local
        self._allotment = charge.context.allotment
        self._one_call = asyncio.Lock()
        self._answers = 0
        self._open_calls: dict[str, KeptCall] = {}
        self._are_whole = True  # the calls of the model's last answer
        self._under_way = UnderWay(means.tools.names)
        self._context = replace(charge.context, asking=self._asking)
        self._told: set[CleanText] = {prompt}
        self._note(Role.USER, prompt)

    # --- the model

    async def model(self, call: ModelCall) -> AsyncIterator[ModelDelta | ModelResult]:
        """Ask the model what the child asks, as who it is. A child that has used up its rounds gets no answer."""
        async with self._one_call:
            if self._answers > self._charge.sub_type.rounds_max:
                yield ModelResult(call.id, error=Reason.ROUNDS_SPENT)
                return
            self._under_way.begin(())
            messages = await self._conversation.messages(call.messages)
            self._keep(call.messages, messages)
            if self._allotment is not None:
                self._allotment.check()
            try:
                async with aclosing(self._heard(call.id, self._request(call, messages))) as frames:
                    async for frame in frames:
                        yield frame
            except BudgetSpent:
                raise
            except ContextTooLong:
                yield ModelResult(call.id, error=Reason.PROMPT_TOO_LONG, is_too_long=True)
            except ModelError as error:
                _log.warning("subagent.model_failed", reason=f"{type(error).__name__}: {error}")
                yield ModelResult(call.id, error=Reason.MODEL_FAILED)

    def _request(self, call: ModelCall, messages: tuple[PromptMessage, ...]) -> ModelRequest:
        charge, wanted = self._charge, frozenset(call.tools)
        specs = self._means.tools.specs_for(charge.context)
        return ModelRequest(
            charge.model,
            charge.purpose,
            charge.context.key,
            charge.sub_type.prompt,
            messages,
            tools=tuple(spec for spec in specs if spec.name in wanted),
            timeout_s=ROUND_TIMEOUT_S,
            turn_id=charge.context.turn_id,
            task_id=charge.context.lineage.task_id,
            permit=charge.context.permit,
        )

    async def _heard(self, call_id: str, request: ModelRequest) -> AsyncGenerator[ModelDelta | ModelResult]:
        """One stream, scrubbed as it comes and told page by page. Of one that starts again the child hears no pages any
        more: it has some already that are void, and the whole is in the result. One that ends without an answer,
        because it broke or the child is gone, is paid for as far as it came."""
        hearing, is_whole, is_answered = Hearing(self._scrubber), True, False
        try:
            async for event in self._means.client.stream(request):
                match event:
                    case TextDelta(text=text):
                        page = hearing.add(text)
                        if is_whole and page:
                            yield ModelDelta(call_id, page)
                    case StreamRestarted():
                        hearing.begin_anew()
                        is_whole = False
                    case ModelAnswer():
                        is_answered = True
                        result = self._answer(call_id, request, event, hearing.to_the_end())
                        if not self._local.isdisjoint(call.name for call in result.calls):
                            await request.permit()  # for what the child runs itself nobody is asked again
                        yield result
        finally:
            if not is_answered and (usage := self._unanswered(request)):
                self._note(Role.ASSISTANT, joined(hearing.so_far(), _CUT_OFF), usage=usage)

    def _answer(self, call_id: str, request: ModelRequest, answer: ModelAnswer, text: CleanText) -> ModelResult:
        """What the child is told, once it is noted and charged."""
        self._are_whole = answer.ending is Ending.OWN
        if (behind := _ENDED.get(answer.ending)) is not None:
            text = joined(text, behind)
        made = (call if self._are_whole else replace(call, arguments="{}") for call in answer.calls if request.tools)
        clean = [self._conversation.clean_call(call) for call in made]
        calls = told_apart(Call(call.id, call.name, call.arguments) for call in clean)
        kept = tuple(replace(call, id=apart.id) for call, apart in zip(clean, calls, strict=True))
        self._answers += 1
        self._open_calls = {call.id: call for call in kept}
        self._under_way.begin(kept)
        usage = usage_of(answer, request.key, request.purpose, now_ms=self._now_ms(), turn_id=request.turn_id)
        self._note(Role.ASSISTANT, text, calls=kept, usage=(*self._unanswered(request), usage))
        fitting, refused = self._checked(calls) if self._are_whole else (calls, _not_run(calls))
        return ModelResult(
            call_id,
            text,
            fitting,
            answer.tokens.prompt,
            answer.tokens.completion,
            answer.cost_usd,
            outcomes=refused,
        )

    def _unanswered(self, request: ModelRequest) -> tuple[Usage, ...]:
        """What the call has cost beside an answer, if anything."""
        usage = usage_unanswered(request, now_ms=self._now_ms())
        return () if usage is None else (usage,)

    def _checked(self, calls: Sequence[Call]) -> tuple[tuple[Call, ...], tuple[ToolOutcome, ...]]:
        """The calls, those that the child runs itself mended, and what is said of those of them that do not fit: a
        child has neither schemas nor the means to read what a model broke."""
        fitting, refused = [], []
        for call in calls:
            try:
                fitting.append(self._fitting(call))
            except ToolError as error:
                fitting.append(call)
                refused.append(ToolOutcome(call.id, str(error), is_error=True))
        return tuple(fitting), tuple(refused)

    def _fitting(self, call: Call) -> Call:
        if call.name not in self._local:
            return call
        requested = RequestedCall(call.id, call.name, call.arguments)
        return replace(call, arguments=self._means.tools.fitting(requested))

    # --- tools

    async def tool(self, call: ToolCall) -> ToolOutcome:
        """Run a call of the model's last answer here, once and as the model wrote it, with all that a model's own call
        goes through. A child only says which it is."""
        if call.name in self._local:
            return ToolOutcome(call.id, f"{call.name} runs in the sub-agent's own process", is_error=True)
        asked = self._open_calls.get(call.id)
        if asked is None or asked.name != call.name:
            return ToolOutcome(call.id, "the model has not asked for this", is_error=True)
        if not self._are_whole:
            return ToolOutcome(call.id, _NOT_RUN, is_error=True)
        del self._open_calls[call.id]
        requested = RequestedCall(asked.id, asked.name, asked.arguments)
        (result,) = await self._means.tools.run_round(self._context, [requested])
        self._under_way.end(call.id)
        self._conversation.answered(call.id, result.text)
        self._note(Role.TOOL, result.text, call_id=call.id, is_error=result.is_error)
        return ToolOutcome(call.id, result.text, result.is_error)

    @contextmanager
    def _asking(self, name: str) -> Iterator[None]:
        with self._under_way.asking(name):
            self._scribe.show(self._under_way.now)
            yield
        self._scribe.show(self._under_way.now)

    def heard(self, chunk: Chunk) -> None:
        """Nobody watches word by word: what a child says is shown when it is done."""

    # --- what is kept

    def _keep(self, said: Sequence[Said], messages: Sequence[PromptMessage]) -> None:
        """What is new to us in the child's conversation: results of its own tools, words of ours that it passes on."""
        for raw, message in zip(said, messages, strict=True):
            if message.role is Role.TOOL:
                self._keep_result(message.tool_call_id, message.text, is_error=raw.is_error)
            elif message.role is Role.USER and message.text not in self._told:
                self._told.add(message.text)
                self._note(Role.USER, message.text, kind=EntryKind.NOTE)

    def _keep_result(self, call_id: str, text: CleanText, *, is_error: bool) -> None:
        """Once for each call of the model's last answer."""
        if call_id in self._open_calls:
            del self._open_calls[call_id]
            self._note(Role.TOOL, text, call_id=call_id, is_error=is_error)

    def _note(
        self,
        role: Role,
        text: CleanText,
        *,
        kind: EntryKind = EntryKind.MESSAGE,
        calls: tuple[KeptCall, ...] = (),
        call_id: str = "",
        is_error: bool = False,
        usage: tuple[Usage, ...] = (),
    ) -> None:
        """With `usage` it is charged, too: to whom the child belongs, and to what several may take together."""
        if self._allotment is not None:
            for call in usage:
                self._allotment.take(call.prompt_tokens + call.completion_tokens, call.cost_usd)
        self._scribe.note(
            Entry(
                role,
                text,
                kind=kind,
                tool_calls=calls,
                tool_call_id=call_id,
                is_error=is_error,
                turn_id=self._charge.context.turn_id,
                created_at_ms=self._now_ms(),
            ),
            usage=usage,
            doing=self._under_way.now,
        )

    def _now_ms(self) -> int:
        return self._means.clock.now_ms()


def _not_run(calls: Sequence[Call]) -> tuple[ToolOutcome, ...]:
    return tuple(ToolOutcome(call.id, _NOT_RUN, is_error=True) for call in calls)


class Hosting:
    """Carries out orders: for each a process, and a host for it. `workspaces` are those of the file tools."""

    def __init__(self, means: Means, supervisor: Runs, workspaces: Workspaces) -> None:
        self._means = means
        self._supervisor = supervisor
        self._workspaces = workspaces

    async def carry_out(self, life: Life) -> ChildEnding:
        """`agent.subagents.life.dispatcher.Processes`."""
        tools, charge = self._means.tools, life.charge
        specs = tools.specs_for(charge.context)
        place = placed(tuple(spec.name for spec in specs), partial(tools.permission, charge.context))
        host = ChildHost(life.task.prompt, charge, self._means, life.scribe, local=place.here)
        offered = tuple(
            OfferedTool(spec.name, spec.description, spec.schema, spec.name in place.here) for spec in specs
        )
        workspace = await asyncio.to_thread(self._workspaces.of, charge.context.key) if place.here else None
        home, share = (workspace.files.parent, workspace.share) if workspace is not None else (None, None)
        order = ChildOrder(_init(life, offered), home, place.writes, charge.limit_s, share)
        return await self._supervisor.run(order, host)


def _init(life: Life, tools: tuple[OfferedTool, ...]) -> Init:
    """Where its home is and what confines it, the supervisor adds."""
    sub_type = life.charge.sub_type
    return Init(
        task_id=life.task.id,
        workspace="",
        rounds_max=sub_type.rounds_max,
        limits=Limits(),
        confinement="",
        sub_type=sub_type.name,
        system=sub_type.prompt,
        messages=(Said(Role.USER, life.task.prompt),),
        tools=tools,
        wrap_up=PROMPTS.wrap_up,
    )
