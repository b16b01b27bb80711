"""Records what the Claude SDK reports while it works: entries, tokens, money, the answer or the failure."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any, Final

from agent.engine import Turn
from agent.models.requests import CleanStream, StopReason, TokenCount, price_usd
from agent.texts import ending_note
from agent.tools.arguments import cleaned
from agent.tools.tool import ToolContext
from gateway.contracts import errors
from gateway.contracts.messages import CleanText, joined, literal_text
from gateway.contracts.ports import Clock
from gateway.contracts.sessions import Entry, Role, ToolCall, Usage, UsagePurpose
from gateway.i18n import words_for
from gateway.scrub import Scrubber

TOOL_PREFIX: Final = "mcp__trivet__"
"""The CLI's prefix for our tools; everywhere else they have their own names."""

_MEANWHILE: Final = literal_text("Meanwhile the user has written to you. It is no part of the tool's result:")
_TRANSIENT_STATUS: Final = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
_TRANSIENT_ERRORS: Final = frozenset({"rate_limit", "server_error", "overloaded"})
_KEY_STATUS: Final = frozenset({401, 403})
_KEY_ERROR: Final = "authentication_failed"
_SPENT_STATUS: Final = 402
_SPENT_ERROR: Final = "billing_error"
_ENDINGS: Final = {
    "max_tokens": StopReason.CUT,
    "model_context_window_exceeded": StopReason.CUT,
    "refusal": StopReason.REFUSED,
}
_TOO_LONG_WORDS: Final = ("prompt is too long", "context window", "context length", "input is too long")


@dataclass(slots=True)
class _Speech:
    """One model answer, which the CLI tells in pieces."""

    id: str
    texts: list[str] = field(default_factory=list)
    calls: list[Any] = field(default_factory=list)


class ClaudeRecorder:
    """Records one attempt at a turn as its events arrive, and fills the turn as it goes. `draft` is the answer that is
    being made."""

    def __init__(
        self,
        sdk: ModuleType,
        turn: Turn,
        context: ToolContext,
        scrubber: Scrubber,
        clock: Clock,
        *,
        model: str,
        prices_usd: Mapping[str, float],
    ) -> None:
        self._sdk = sdk
        self._turn = turn
        self._context = context
        self._scrubber = scrubber.for_chat(str(context.key))
        self._clock = clock
        self._model = model
        self._prices_usd = prices_usd
        self._speech: _Speech | None = None
        self._counts: dict[str, TokenCount] = {}
        self._error = ""
        self._stop_reason = ""
        self._result: Any = None
        self.draft = CleanStream(self._scrubber)
        self._newcomers: list[Entry] = []
        self._told: set[str] = set()
        self.rounds = 0

    def let_in(self, newcomers: Sequence[Entry], told: CleanText) -> CleanText:
        """Take down who joined the turn, and return what the model gets to read after the result of a tool. In the
        transcript they follow all results of that round."""
        block = joined(_MEANWHILE, told, by="\n")
        self._newcomers += newcomers
        self._told.add(block)
        return block

    def hear(self, message: Any) -> None:
        """Take one message of the SDK down."""
        match message:
            case self._sdk.StreamEvent(parent_tool_use_id=None, event=event):
                match event:
                    case {"type": "message_start"}:
                        self.draft.begin_anew()
                    case {"type": "content_block_delta", "delta": {"type": "text_delta", "text": str(text)}}:
                        self.draft.add(text)
            case self._sdk.AssistantMessage(error=None, parent_tool_use_id=None):
                self._hear_speech(message)
            case self._sdk.AssistantMessage(error=str(error)):  # the program speaks here, not the model
                self._error = error
            case self._sdk.UserMessage(content=list(blocks)):
                self._write_speech()
                self._write_results(blocks)
            case self._sdk.ResultMessage():
                self._write_speech()
                self._result = message

    def cleaned(self, arguments: object) -> CleanText:
        """Scrub the arguments of a call, as the transcript and the tool get them."""
        return cleaned(json.dumps(arguments), self._scrubber.scrub)

    def _hear_speech(self, message: Any) -> None:
        id_ = message.message_id or message.uuid or ""
        if self._speech is None or self._speech.id != id_:
            self._write_speech()
            self._write_newcomers()
            self._speech = _Speech(id_)
        self._stop_reason = message.stop_reason or ""
        for block in message.content:
            match block:
                case self._sdk.TextBlock(text=text):
                    self._speech.texts.append(text)
                case self._sdk.ToolUseBlock():
                    self.rounds += not self._speech.calls
                    self._speech.calls.append(block)
        if message.usage:
            self._counts[id_] = _counted(message.usage)
            self._turn.prompt_tokens = self._counts[id_].prompt

    def _write_speech(self) -> None:
        speech, self._speech = self._speech, None
        if speech is None or not (speech.texts or speech.calls):
            return
        scrub = self._scrubber.scrub
        calls = tuple(
            ToolCall(scrub(call.id), scrub(call.name.removeprefix(TOOL_PREFIX)), self.cleaned(call.input))
            for call in speech.calls
        )
        text = scrub("".join(speech.texts))
        self._turn.answer = None if calls else text
        self._write(Entry(Role.ASSISTANT, text, tool_calls=calls))

    def _write_results(self, blocks: Iterable[Any]) -> None:
        for block in blocks:
            if isinstance(block, self._sdk.ToolResultBlock):
                text = self._scrubber.scrub(_text_of(block.content, self._told))
                call_id = self._scrubber.scrub(block.tool_use_id)
                self._write(Entry(Role.TOOL, text, tool_call_id=call_id, is_error=bool(block.is_error)))

    def _write_newcomers(self) -> None:
        self._turn.entries += self._newcomers
        self._newcomers.clear()

    def _write(self, entry: Entry) -> None:
        now_ms = self._clock.now_ms()
        self._turn.entries.append(replace(entry, turn_id=self._context.turn_id, created_at_ms=now_ms))

    def charge(self) -> None:
        """Put what it cost into the ledger, also when it was cut short: then what was counted until then. Who joined
        is on record either way."""
        self._write_newcomers()
        counts = self._counts.values()
        tokens = TokenCount(
            sum(count.prompt for count in counts),
            sum(count.completion for count in counts),
            sum(count.cached for count in counts),
        )
        cost_usd = price_usd(tokens, self._prices_usd)
        if self._result is not None:
            tokens = _counted(self._result.usage) if self._result.usage else tokens
            cost_usd = self._result.total_cost_usd if self._result.total_cost_usd is not None else cost_usd
        if tokens.prompt or tokens.completion or cost_usd:
            self._turn.usage.append(
                Usage(
                    key=self._context.key,
                    purpose=UsagePurpose.TURN,
                    model=self._model,
                    prompt_tokens=tokens.prompt,
                    completion_tokens=tokens.completion,
                    cached_tokens=tokens.cached,
                    cost_usd=cost_usd,
                    turn_id=self._context.turn_id,
                    created_at_ms=self._clock.now_ms(),
                )
            )

    def conclude(self) -> None:
        """Conclude the run, and raise what went wrong, if anything did. The error never quotes the provider."""
        result = self._result
        if result is None:
            raise errors.ModelUnavailable("the Claude CLI ended without a result")
        if not result.is_error and self._turn.answer is not None:
            self._mark(self._turn.answer, result.stop_reason or self._stop_reason)
            return
        self._turn.answer = None
        said = " ".join(map(str, (result.result or "", *(result.errors or ())))).lower()
        what = f"Claude ended with {self._error or result.subtype} (status {result.api_error_status})"
        if any(words in said for words in _TOO_LONG_WORDS):
            raise errors.ContextTooLong(what)
        if result.api_error_status in _TRANSIENT_STATUS or self._error in _TRANSIENT_ERRORS:
            raise errors.ModelUnavailable(what)
        if result.api_error_status in _KEY_STATUS or self._error == _KEY_ERROR:
            raise errors.KeyRejected(what)
        if result.api_error_status == _SPENT_STATUS or self._error == _SPENT_ERROR:
            raise errors.QuotaSpent(what)
        if result.api_error_status is not None or self._error:
            raise errors.ModelRejected(what)
        raise errors.ModelError(what)

    def _mark(self, answer: CleanText, stop_reason: str) -> None:
        """Tell the reader of an answer that is not whole. Without a word, that is the answer."""
        ending = _ENDINGS.get(stop_reason)
        if ending is None:
            return
        note = ending_note(ending, words_for(self._context.language))
        if answer.strip():
            self._turn.notes.append(note)
        else:
            self._turn.answer = note


def _counted(usage: Mapping[str, Any]) -> TokenCount:
    """Add up the counts: Anthropic counts tokens read from the prompt cache, and those written to it, apart from the
    rest."""
    cached = int(usage.get("cache_read_input_tokens") or 0)
    fresh = int(usage.get("input_tokens") or 0) + int(usage.get("cache_creation_input_tokens") or 0)
    return TokenCount(fresh + cached, int(usage.get("output_tokens") or 0), cached)


def _text_of(content: object, told: Collection[str]) -> str:
    """Return the text of a tool result: a string, or blocks of which some are text; without what was `told` besides."""
    if isinstance(content, list):
        texts = (str(block.get("text") or "") for block in content if isinstance(block, dict))
        return "\n".join(text for text in texts if text not in told)
    return str(content or "")
