"""What the tools and the strategies ask of the dispatcher: one sub-agent, from order to end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from agent.tools.tool import ToolContext
from gateway.contracts.entries import UsagePurpose
from gateway.contracts.errors import ToolError
from gateway.contracts.messages import CleanText, own_words
from gateway.contracts.reasons import NoSubAgent
from gateway.contracts.subagents import SubTask
from gateway.words import ENGLISH, Words
from gateway.words.reasons import instead_of, refused

_NOTHING: Final = own_words("")


@dataclass(frozen=True, slots=True)
class SubOrder:
    """One sub-agent to be started. `label`: a few words for people ("" : made of the prompt); `limit_s`: its wall
    clock, None for the configured one (which is also the most it may be); `purpose`: what its model calls are charged
    as; `form`: how its answer has to look, said behind what its type is told."""

    sub_type: str
    prompt: CleanText
    label: CleanText = _NOTHING
    limit_s: float | None = None
    purpose: UsagePurpose = UsagePurpose.SUBAGENT
    form: CleanText = _NOTHING


class Refused(ToolError):
    """No sub-agent is to be had. The message tells a model why, and what it may do instead."""

    def __init__(self, refusal: NoSubAgent, **values: str | int) -> None:
        """`values` are what the words of this refusal name."""
        super().__init__(f"{refused(refusal, ENGLISH, values)}: {instead_of(refusal)}")
        self.refusal = refusal
        self._values = values

    def said(self, words: Words) -> str:
        """Why, as a clause for people."""
        return refused(self.refusal, words, self._values)


class Dispatcher(Protocol):
    """Starts sub-agents for whoever calls from `context`. Raises `Refused` for an order that cannot be carried out
    (unknown type, too deep, nobody's task), `StoreUnavailable`; a sub-agent that fails is a value, not an error."""

    async def run(self, context: ToolContext, order: SubOrder) -> SubTask:
        """Carry it out and return it as it ended. Waits while too many are live. Cancelling kills it."""
        ...

    async def spawn(self, context: ToolContext, order: SubOrder) -> SubTask:
        """The same in the background: returned at once, queued or running."""
        ...
