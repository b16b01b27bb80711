"""A model with a small window that summarises as a test wants it to: what it was asked, and what it did instead."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import AsyncIterator, Callable

from agent.models.demo import ScriptedClient
from agent.models.requests import ModelAnswer, ModelEvent, ModelFacts, ModelRequest, TokenCount, ToolSpec, request_chars
from agent.tokens import estimate_tokens
from gateway.contracts.errors import ContextTooLong
from gateway.contracts.sessions import UsagePurpose

Behaviour = Callable[[ModelRequest], ModelAnswer]


def prompt_tokens(request: ModelRequest) -> int:
    """The size of a prompt as this model counts it: everything, tools included."""
    return request_chars(request.system, request.messages) // 4 + sum(map(_tool_tokens, request.tools))


def _tool_tokens(spec: ToolSpec) -> int:
    return estimate_tokens(f"{spec.name}{spec.description}{spec.schema}")


def said(request: ModelRequest, text: str, *, finish: str = "stop") -> ModelAnswer:
    """An answer of that text."""
    tokens = TokenCount(prompt_tokens(request), estimate_tokens(text))
    return ModelAnswer(text, (), finish, tokens, 0.01, request.model)


def saying(text: str, *, finish: str = "stop") -> Behaviour:
    """Whatever it is asked to summarise, this is its summary."""
    return lambda request: said(request, text, finish=finish)


def raising(error: Exception) -> Behaviour:
    """It does not work."""

    def behave(_request: ModelRequest) -> ModelAnswer:
        raise error

    return behave


def remembering(request: ModelRequest) -> ModelAnswer:
    """A summary of the facts alone: what stands as `fact <word>` in the conversation or the earlier summary."""
    material = "\n".join(message.text for message in request.messages)
    facts = dict.fromkeys(re.findall(r"fact \w+", material))
    return said(request, "Goal: to remember. Progress: " + ", ".join(facts))


class Summarist(ScriptedClient):
    """The demo model with a window of `window` tokens, which it really enforces. `summaries` are the calls it got;
    `behaviours` are used up one by one, then it is `usual`."""

    def __init__(self, window: int = 8_192, *, behaviours: tuple[Behaviour, ...] = (), strict: bool = True) -> None:
        self.window = window
        self.summaries: list[ModelRequest] = []
        self.turns: list[ModelRequest] = []
        self.behaviours = deque(behaviours)
        self.usual: Behaviour = remembering
        self._is_strict = strict

    def facts(self, model: str) -> ModelFacts:
        return ModelFacts(context_window=self.window, output_max=self.window // 4)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if self._is_strict and prompt_tokens(request) > self.window:
            raise ContextTooLong("more tokens than the window has")
        if request.purpose is UsagePurpose.COMPACTION:
            self.summaries.append(request)
            behave = self.behaviours.popleft() if self.behaviours else self.usual
            yield behave(request)
            return
        if request.purpose is UsagePurpose.TURN:
            self.turns.append(request)
        async for event in super().stream(request):
            yield event
