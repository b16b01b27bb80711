"""The bounded model <-> tool loop: steps until the model answers without asking for a tool.

Everything the model says passes the scrubber as it streams; everything it saw and said becomes an entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from agent.ledger import usage_of
from agent.limits import ROUND_TIMEOUT_S, TOOL_ROUNDS_MAX
from agent.model.client import (
    ModelAnswer,
    ModelClient,
    ModelRequest,
    PromptMessage,
    RequestedCall,
    StreamRestarted,
    TextDelta,
    ToolSpec,
)
from agent.prompts.library import PROMPTS
from agent.tools.arguments import written_out
from agent.tools.enclosures import Enclosures
from agent.tools.registry import ToolRegistry
from agent.tools.tool import ToolContext, ToolResult
from gateway.contracts.entries import Entry, EntryKind, Role, ToolCall, Usage, UsagePurpose
from gateway.contracts.messages import CleanText, InboundMessage, joined
from gateway.contracts.ports import Clock, Scrubber


@dataclass(slots=True)
class StepsTaken:
    """What a run of the loop leaves behind; filled as it goes, so that a failure keeps what was done."""

    entries: list[Entry] = field(default_factory=list)
    usage: list[Usage] = field(default_factory=list)
    prompt_tokens: int = 0
    answer: CleanText | None = None
    joined: list[InboundMessage] = field(default_factory=list)
    enclosures: Enclosures = field(default_factory=Enclosures)


@dataclass(frozen=True, slots=True)
class Joined:
    """A message that joined a running turn, and what it became in the transcript."""

    message: InboundMessage
    entry: Entry


class Hold(Protocol):
    """What a turn may ask of the run that holds its lane."""

    async def permit(self) -> None:
        """Return when the turn may call a model or a tool; raise `CancelledError` when it has ended."""
        ...

    async def join(self) -> Sequence[Joined]:
        """Messages that came meanwhile and belong to this turn from now on, in order."""
        ...


@dataclass(frozen=True, slots=True)
class _Spoken:
    """One model answer, clean."""

    answer: ModelAnswer
    text: CleanText
    calls: tuple[ToolCall, ...]


class Steps:
    """The loop, for any model and any tools."""

    def __init__(self, client: ModelClient, tools: ToolRegistry, scrubber: Scrubber, clock: Clock) -> None:
        self._client = client
        self._tools = tools
        self._scrubber = scrubber
        self._clock = clock

    async def run(
        self,
        taken: StepsTaken,
        hold: Hold,
        context: ToolContext,
        *,
        model: str,
        system: CleanText,
        prompt: Sequence[PromptMessage],
    ) -> None:
        """Fill `taken` until it has an answer. Raises the `ModelError` tree.

        Between two rounds the messages that `hold` lets in are put before the model. After
        `TOOL_ROUNDS_MAX` rounds one last call without tools asks for a wrap-up.
        """
        messages = list(prompt)
        for _ in range(TOOL_ROUNDS_MAX):
            spoken = await self._speak(taken, context, model, system, messages, self._tools.specs_for(context))
            if not spoken.calls:
                taken.answer = spoken.text
                return
            results = await self._tools.run_round(context, _as_run(spoken))
            self._keep_results(taken, context, messages, results)
            self._note_failures(taken, context, messages, results)
            _let_in(taken, messages, await hold.join())
        messages.append(PromptMessage(Role.USER, PROMPTS.wrap_up))
        spoken = await self._speak(taken, context, model, system, messages, ())
        taken.answer = spoken.text

    async def _speak(
        self,
        taken: StepsTaken,
        context: ToolContext,
        model: str,
        system: CleanText,
        messages: list[PromptMessage],
        tools: tuple[ToolSpec, ...],
    ) -> _Spoken:
        request = ModelRequest(
            model,
            UsagePurpose.TURN,
            context.key,
            system,
            tuple(messages),
            tools=tools,
            timeout_s=ROUND_TIMEOUT_S,
            permit=context.permit,
        )
        spoken = await self._hear(request)
        now_ms = self._clock.now_ms()
        taken.usage.append(
            usage_of(spoken.answer, context.key, UsagePurpose.TURN, now_ms=now_ms, turn_id=context.turn_id)
        )
        taken.prompt_tokens = spoken.answer.tokens.prompt
        taken.entries.append(
            Entry(
                Role.ASSISTANT,
                spoken.text,
                tool_calls=spoken.calls,
                turn_id=context.turn_id,
                created_at_ms=now_ms,
            )
        )
        messages.append(PromptMessage(Role.ASSISTANT, spoken.text, spoken.calls))
        return spoken

    async def _hear(self, request: ModelRequest) -> _Spoken:
        """Listen to one stream; the text is scrubbed delta by delta, the arguments when they are whole."""
        scrubbing = self._scrubber.stream()
        heard: list[CleanText] = []
        async for event in self._client.stream(request):
            match event:
                case TextDelta(text=text):
                    heard.append(scrubbing.feed(text))
                case StreamRestarted():
                    scrubbing = self._scrubber.stream()
                    heard.clear()
                case ModelAnswer(calls=calls):
                    text = joined(*heard, scrubbing.flush())
                    return _Spoken(event, text, tuple(map(self._clean_call, calls)) if request.tools else ())
        raise RuntimeError("a model stream ended without an answer")

    def _clean_call(self, call: RequestedCall) -> ToolCall:
        return ToolCall(call.id, call.name, self._scrubber.scrub(written_out(call.arguments)))

    def _keep_results(
        self,
        taken: StepsTaken,
        context: ToolContext,
        messages: list[PromptMessage],
        results: Sequence[ToolResult],
    ) -> None:
        now_ms = self._clock.now_ms()
        for result in results:
            messages.append(PromptMessage(Role.TOOL, result.text, tool_call_id=result.call_id))
            taken.entries.append(
                Entry(
                    Role.TOOL,
                    result.text,
                    tool_call_id=result.call_id,
                    is_error=result.is_error,
                    turn_id=context.turn_id,
                    created_at_ms=now_ms,
                )
            )

    def _note_failures(
        self,
        taken: StepsTaken,
        context: ToolContext,
        messages: list[PromptMessage],
        results: Sequence[ToolResult],
    ) -> None:
        note = self._tools.note_on(results)
        if note is not None:
            messages.append(PromptMessage(Role.USER, note))
            now_ms = self._clock.now_ms()
            taken.entries.append(
                Entry(Role.USER, note, kind=EntryKind.NOTE, turn_id=context.turn_id, created_at_ms=now_ms)
            )


def _let_in(taken: StepsTaken, messages: list[PromptMessage], newcomers: Sequence[Joined]) -> None:
    """One user message for all of them, as providers expect; an entry for each."""
    if newcomers:
        text = joined(*(newcomer.entry.text for newcomer in newcomers), by="\n\n")
        messages.append(PromptMessage(Role.USER, text))
        taken.entries.extend(newcomer.entry for newcomer in newcomers)
        taken.joined.extend(newcomer.message for newcomer in newcomers)


def _as_run(spoken: _Spoken) -> tuple[RequestedCall, ...]:
    """The calls with clean arguments: a tool never sees a secret that the model could not have seen."""
    return tuple(RequestedCall(call.id, call.name, call.arguments) for call in spoken.calls)
