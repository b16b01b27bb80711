"""The bounded model <-> tool loop: steps until the model answers without asking for a tool.

Everything the model says passes the scrubber as it streams; everything it saw and said becomes an entry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import count
from typing import Final

import structlog

from agent.engine import FirstPrompt, Turn
from agent.limits import OUTPUT_RAISED, ROUND_TIMEOUT_S
from agent.models.client import ModelClient
from agent.models.metering import usage_of, usage_unanswered
from agent.models.requests import (
    CallCost,
    CleanStream,
    ModelAnswer,
    ModelRequest,
    PromptMessage,
    RequestedCall,
    StopReason,
    StreamRestarted,
    TextDelta,
    ToolSpec,
)
from agent.models.transcript import as_prompt
from agent.prompts.library import PROMPTS
from agent.texts import ending_note
from agent.tools.arguments import clean_call
from agent.tools.registry import ToolRegistry
from agent.tools.tool import ToolContext, ToolResult
from gateway.contracts.context_blocks import Image, block, images_in
from gateway.contracts.errors import ContextTooLong, ModelError
from gateway.contracts.messages import CleanText, joined, literal_text
from gateway.contracts.ports import Clock
from gateway.contracts.sessions import Entry, EntryKind, Role, ToolCall, Usage, UsagePurpose
from gateway.i18n import words_for
from gateway.scrub import Scrubber

_log = structlog.get_logger(__name__)
_GO_ON: Final = literal_text(
    "Your answer was cut off at its limit of length. Go on exactly where it ends, without repeating anything."
)
_CALL_LOST: Final = literal_text("(I began to call a tool.)")
_SHORTER: Final = literal_text(
    "Your answer was cut off at its limit of length, in the middle of a tool call. Nothing of it was run. Do it again "
    "with shorter arguments: a long text in several calls, one after the other."
)


@dataclass(frozen=True, slots=True)
class _Spoken:
    """One model answer, clean. `calls` are those that may be run: of an answer that was cut off, none."""

    answer: ModelAnswer
    text: CleanText
    calls: tuple[ToolCall, ...]

    @property
    def is_cut(self) -> bool:
        """Tell whether the answer was cut off at its length limit."""
        return self.answer.ending is StopReason.CUT


@dataclass(eq=False, repr=False)
class Steps:
    """The loop, for any model and any tools: the engine of every model that litellm reaches. After `rounds_max` rounds
    of tools (0: any number) the model is asked to wrap up."""

    client: ModelClient
    tools: ToolRegistry
    scrubber: Scrubber
    clock: Clock
    _: KW_ONLY
    rounds_max: int

    async def take_steps(self, turn: Turn, context: ToolContext, first: FirstPrompt) -> None:
        """Fill `turn` until it has an answer, or the turn yields. Raises the `ModelError` tree.

        Between two rounds the messages that join the turn are put before the model, and the window sees to it that
        they fit. After the last round that is allowed one more call, without tools, asks for a wrap-up."""
        messages = list(first.messages)
        for _ in range(self.rounds_max) if self.rounds_max else count():
            tools = self.tools.specs_for(context)
            spoken = await self._speak(turn, context, first, messages, tools)
            if not spoken.calls:
                turn.answer = spoken.text
                return
            results = await self.tools.run_round(
                context, tuple(RequestedCall(call.id, call.name, call.arguments) for call in spoken.calls)
            )
            self._keep_results(turn, context, messages, results)
            note = self.tools.note_on(context, results)
            if note is not None:
                self._note(turn, context, messages, note)
            if context.enclosures is not None and (shown := context.enclosures.take_shown()):
                self._note(turn, context, messages, block(shown))
            if context.suspension is not None and context.suspension.barrier is not None:
                return
            newcomers = await turn.join()
            if newcomers:
                (told,) = as_prompt([newcomer.entry for newcomer in newcomers])
                _tell(messages, told.text, told.images)
                turn.entries.extend(newcomer.entry for newcomer in newcomers)
            messages[:] = await first.window.condensed(turn.entries, counted=turn.prompt_tokens) or messages
        self._note(turn, context, messages, PROMPTS.wrap_up)
        spoken = await self._speak(turn, context, first, messages, ())
        turn.answer = spoken.text

    async def _speak(
        self,
        turn: Turn,
        context: ToolContext,
        first: FirstPrompt,
        messages: list[PromptMessage],
        tools: tuple[ToolSpec, ...],
    ) -> _Spoken:
        """Ask for one round's answer to `messages` and keep it. A prompt that the provider finds too long is condensed
        and sent once more; an answer that was cut off at its limit is requested once more, and after that marked."""
        request = ModelRequest(
            first.model,
            UsagePurpose.TURN,
            context.key,
            first.system,
            tuple(messages),
            tools=tools,
            timeout_s=ROUND_TIMEOUT_S,
            turn_id=context.turn_id,
            thoughts=turn.thoughts,
            permit=context.permit,
        )
        try:
            spoken = await self._hear(turn, request)
        except ContextTooLong:
            anew = await first.window.condensed(turn.entries, counted=turn.prompt_tokens, is_refused=True)
            if anew is None:
                raise
            messages[:] = anew
            request = replace(request, messages=tuple(anew), cost=CallCost())
            spoken = await self._hear(turn, request)
        turn.prompt_tokens = spoken.answer.tokens.prompt
        if spoken.is_cut:
            spoken = await self._go_on(turn, request, spoken)
        spoken = _marked(spoken, turn, context)
        now_ms = self.clock.now_ms()
        turn.finish_reason = spoken.answer.finish_reason
        if spoken.calls and spoken.answer.thoughts is not None:
            turn.thoughts[spoken.calls[0].id] = spoken.answer.thoughts
        turn.entries.append(
            Entry(Role.ASSISTANT, spoken.text, tool_calls=spoken.calls, turn_id=context.turn_id, created_at_ms=now_ms)
        )
        messages.append(PromptMessage(Role.ASSISTANT, spoken.text, spoken.calls))
        return spoken

    async def _go_on(self, turn: Turn, request: ModelRequest, cut: _Spoken) -> _Spoken:
        """Ask once more, for more tokens where the model has them: a text goes on where it ends, calls are written
        anew. What is there stays if that fails. Only what comes of both is kept: nobody has seen them apart."""
        before = "" if cut.answer.calls else cut.answer.text
        told: tuple[PromptMessage, ...] = ()
        if cut.answer.calls or cut.text:
            note = _SHORTER if cut.answer.calls else _GO_ON
            told = (PromptMessage(Role.ASSISTANT, cut.text or _CALL_LOST), PromptMessage(Role.USER, note))
        facts = self.client.facts(request.model)
        had = cut.answer.tokens.completion
        left = facts.context_window - cut.answer.tokens.prompt - 2 * had if facts.context_window else facts.output_max
        more = min(OUTPUT_RAISED * had, facts.output_max, left)
        again = replace(
            request,
            messages=(*request.messages, *told),
            completion_tokens_max=more if more > had else None,
            cost=CallCost(),
        )
        _log.info(
            "model.cut_off",
            model=cut.answer.model,
            tokens=cut.answer.tokens.completion,
            asked=again.completion_tokens_max,
        )
        try:
            return await self._hear(turn, again, before=before)
        except ModelError as error:
            _log.warning("model.not_gone_on", reason=f"{type(error).__name__}: {error}")
            return cut

    async def _hear(self, turn: Turn, request: ModelRequest, *, before: str = "") -> _Spoken:
        """Listen to one stream; the text is scrubbed on its way, the arguments when they are whole. It is one text with
        what is `before` it. What is paid for without an answer is kept, too: tries that broke, a call that was cut
        off."""
        scrubber = self.scrubber.for_chat(str(request.key))
        stream = CleanStream(scrubber)
        stream.add(before)
        spoken: _Spoken | None = None
        try:
            with turn.hold.showing(stream.so_far):
                # To its end: of a stream that is left open, the event loop closes each generator in a task of its own.
                async for event in self.client.stream(request):
                    match event:
                        case TextDelta(text=text):
                            stream.add(text)
                        case StreamRestarted():
                            stream.begin_anew()
                            stream.add(before)
                        case ModelAnswer():
                            turn.usage.append(self._usage(event, request))
                            is_whole = event.ending is StopReason.OWN
                            calls = event.calls if request.tools and is_whole else ()
                            clean = tuple(
                                clean_call(call.id, call.name, call.arguments, scrubber.scrub) for call in calls
                            )
                            spoken = _Spoken(event, stream.to_the_end(), clean)
        finally:
            if (unanswered := usage_unanswered(request, now_ms=self.clock.now_ms())) is not None:
                turn.usage.append(unanswered)
        if spoken is None:
            raise RuntimeError("a model stream ended without an answer")
        return spoken

    def _usage(self, answer: ModelAnswer, request: ModelRequest) -> Usage:
        now_ms = self.clock.now_ms()
        return usage_of(answer, request.key, request.purpose, now_ms=now_ms, turn_id=request.turn_id)

    def _keep_results(
        self, turn: Turn, context: ToolContext, messages: list[PromptMessage], results: Sequence[ToolResult]
    ) -> None:
        now_ms = self.clock.now_ms()
        for result in results:
            messages.append(PromptMessage(Role.TOOL, result.text, tool_call_id=result.call_id))
            turn.entries.append(
                Entry(
                    Role.TOOL,
                    result.text,
                    tool_call_id=result.call_id,
                    is_error=result.is_error,
                    turn_id=context.turn_id,
                    created_at_ms=now_ms,
                )
            )

    def _note(self, turn: Turn, context: ToolContext, messages: list[PromptMessage], text: CleanText) -> None:
        """Tell the model something in the role of the user; kept, for the next prompt begins as this one did."""
        _tell(messages, text, images_in(text))
        now_ms = self.clock.now_ms()
        turn.entries.append(Entry(Role.USER, text, kind=EntryKind.NOTE, turn_id=context.turn_id, created_at_ms=now_ms))


def _marked(spoken: _Spoken, turn: Turn, context: ToolContext) -> _Spoken:
    """Add a note for the reader on why the answer was not ended by the model. Without any text the note is the whole
    answer, except after a cut: then the model had no room for a word, and nothing is added."""
    if spoken.answer.ending is StopReason.OWN or (spoken.is_cut and not spoken.text and not spoken.answer.calls):
        return spoken
    has_calls = bool(spoken.answer.calls)
    said = ending_note(spoken.answer.ending, words_for(context.language), has_calls=has_calls)
    if not spoken.text.strip():
        return replace(spoken, text=said)
    turn.notes.append(said)
    return spoken


def _tell(messages: list[PromptMessage], text: CleanText, images: tuple[Image, ...] = ()) -> None:
    """Say `text` in the role of the user; neighbours are one message, as providers expect and as the transcript
    will be read."""
    if messages and messages[-1].role is Role.USER:
        before = messages.pop()
        text, images = joined(before.text, text, by="\n\n"), (*before.images, *images)
    messages.append(PromptMessage(Role.USER, text, images=images))
