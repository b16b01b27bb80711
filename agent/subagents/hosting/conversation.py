"""A child's conversation as its model may see it: whatever a child says of it is looked through, each piece once."""

from __future__ import annotations

from collections.abc import Sequence

from agent.model.client import PromptMessage, RequestedCall
from agent.subagents.wire.frames import Call, Said
from agent.tools.arguments import cleaned
from agent.tools.registry import ToolRegistry
from agent.tools.tool import ToolContext
from gateway.contracts.entries import Role, ToolCall
from gateway.contracts.messages import CleanText
from gateway.contracts.ports import Scrubber

_Answered = tuple[str, str]
"""A tool call's id and what the child says was answered to it."""


class Conversation:
    """Clean messages for one child. What has been cleaned once is known as long as the child goes on saying it, so a
    conversation that grows costs no more than what is new in it."""

    def __init__(self, tools: ToolRegistry, context: ToolContext, scrubber: Scrubber) -> None:
        """`scrubber` is that of the child's chat."""
        self._tools = tools
        self._context = context
        self._scrubber = scrubber
        self._ours: dict[_Answered, CleanText] = {}
        self._results: dict[_Answered, CleanText] = {}
        self._texts: dict[str, CleanText] = {}
        self._calls: dict[Call, ToolCall] = {}

    def answered(self, call_id: str, text: CleanText) -> None:
        """The parent itself answered this call: its words stay as they are when the child repeats them."""
        self._ours[call_id, text] = text

    async def messages(self, said: Sequence[Said]) -> tuple[PromptMessage, ...]:
        """What the child said, clean; results of its own tools in their envelopes."""
        known, known_calls, known_results = self._texts, self._calls, self._results
        self._texts, self._calls, self._results = {}, {}, {}
        names: dict[str, str] = {}
        found: list[PromptMessage] = []
        for message in said:
            names |= {call.id: call.name for call in message.calls}
            if message.role == Role.TOOL:
                key = (message.call_id, message.text)
                self._results[key] = known_results.get(key) or await self._result(key, names.get(key[0], ""))
                clean_id = self._scrubber.scrub(message.call_id)
                found.append(PromptMessage(Role.TOOL, self._results[key], tool_call_id=clean_id))
                continue
            self._texts[message.text] = known.get(message.text) or self._scrubber.scrub(message.text)
            for call in message.calls:
                self._calls[call] = known_calls.get(call) or self.clean_call(call)
            found.append(_message(message, self._texts[message.text], [self._calls[call] for call in message.calls]))
        return tuple(found)

    def clean_call(self, call: Call | RequestedCall) -> ToolCall:
        """The name and the id, too, are what a model wrote."""
        scrub = self._scrubber.scrub
        return ToolCall(scrub(call.id), scrub(call.name), cleaned(call.arguments, scrub))

    async def _result(self, key: _Answered, name: str) -> CleanText:
        """The envelope of a result; of one that no call is known for, too."""
        return self._ours.get(key) or await self._tools.wrapped(self._context, name, key[1])


def _message(said: Said, text: CleanText, calls: Sequence[ToolCall]) -> PromptMessage:
    """Only a model speaks as the assistant; all else is said in the role of the user."""
    if said.role == Role.ASSISTANT:
        return PromptMessage(Role.ASSISTANT, text, tuple(calls))
    return PromptMessage(Role.USER, text)
