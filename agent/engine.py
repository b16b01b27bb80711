"""The values of a turn (its batch, steps and end) and the protocol of the engine that takes its steps.

`agent.runtime.steps` is the engine of every litellm model, `agent.runtime.claude` that of the Claude Agent SDK. An
engine keeps nothing from one turn to the next: it is given the whole history each time, so there is nothing in it to
reset.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from agent.models.requests import PromptMessage
from agent.tools.tool import Enclosures, Reading, Suspension, ToolContext
from gateway.contracts.commands import find_command
from gateway.contracts.ids import SessionKey
from gateway.contracts.memory import CachedQuestion
from gateway.contracts.messages import CleanText, InboundMessage
from gateway.contracts.sessions import Entry, Session, TurnCommit, Usage
from gateway.contracts.subagents import is_wake

# The messages of one turn, and the id of the one reply that it leaves. Pure.


_ONLY: Final = ":1"


@dataclass(frozen=True, slots=True)
class Batch:
    """The messages one turn answers, all of one place, with the fence that guards their lane. `is_first`: no run of it
    was begun before; this one was at `begun_at_ms`."""

    turn_id: str
    key: SessionKey
    fence: int
    messages: tuple[InboundMessage, ...]
    is_first: bool = False
    begun_at_ms: int = 0

    @property
    def newest(self) -> InboundMessage:
        """The last that somebody wrote; where nobody did, the last."""
        return newest_of(self.messages)

    @property
    def authors(self) -> tuple[SessionKey, ...]:
        """Everybody whose words are answered; the one who is answered comes last."""
        newest = self.newest.author
        others = dict.fromkeys(message.author for message in self.messages if message.author != newest)
        return (*others, newest)

    @property
    def wakes(self) -> int:
        """How many wakes have led to one another since a person spoke; 0: one speaks here."""
        return max(message.wakes for message in self.messages) if is_wake(self.newest) else 0

    @property
    def is_command(self) -> bool:
        """A command is always alone in its batch (`agent.runtime.run.first_batch`)."""
        return find_command(self.messages[0].text) is not None


def reply_id_of(turn_id: str) -> str:
    """The id of the one reply that a turn leaves, known before there is any."""
    return f"{turn_id}{_ONLY}"


def turn_of_reply(reply_id: str) -> str:
    """The turn that left this reply; "" for a status line, a title, or what no turn left."""
    return reply_id.removesuffix(_ONLY) if reply_id.endswith(_ONLY) and reply_id.count(":") == 1 else ""


def newest_of(messages: Sequence[InboundMessage]) -> InboundMessage:
    """Who is answered, and where: what the end of a sub-agent sent comes behind what a person wrote."""
    return (tuple(message for message in messages if not is_wake(message)) or messages)[-1]


@dataclass(frozen=True, slots=True)
class Joined:
    """A message that joined a running turn, and what it became in the transcript."""

    message: InboundMessage
    entry: Entry


class Hold(Protocol):
    """What a turn may ask of whoever holds its lane."""

    async def permit(self) -> None:
        """Return when the turn may call a model or a tool; raise `CancelledError` when it has ended."""
        ...

    async def join(self) -> Sequence[Joined]:
        """Messages that came meanwhile and belong to this turn from now on, in order."""
        ...

    def showing(self, text: Callable[[], CleanText]) -> AbstractContextManager[None]:
        """While the block lasts people may see `text()`, what there is of an answer so far; nobody waits for that."""
        ...


@dataclass(slots=True)
class Turn:
    """One turn that has begun: what it answers, and what it leaves behind, filled as it goes, so that a failure keeps
    what was done.

    `hold` says whether it may go on. `said` is what the user said in this turn, once the transcript holds it; of a
    command nothing is held. `authors` are all whose words are answered: the turn may do what each of them may.
    `is_plain`: one message that is text and nothing else. `notes` are for the person, under the answer. `asked` is
    what the answer may be kept under; `finish_reason` is the model's, of its last words. A turn that yields leaves a
    barrier in its `suspension`. `receive` makes of messages that join what the transcript and the model get.
    """

    batch: Batch
    session: Session
    hold: Hold
    said: CleanText | None = None
    authors: tuple[SessionKey, ...] = ()
    entries: list[Entry] = field(default_factory=list)
    usage: list[Usage] = field(default_factory=list)
    prompt_tokens: int = 0
    answer: CleanText | None = None
    joined: list[InboundMessage] = field(default_factory=list)
    enclosures: Enclosures = field(default_factory=Enclosures)
    suspension: Suspension = field(default_factory=Suspension)
    reading: Reading = field(default_factory=Reading)
    is_plain: bool = False
    asked: CachedQuestion | None = None
    finish_reason: str = ""
    notes: list[CleanText] = field(default_factory=list)
    receive: Callable[[Sequence[Joined]], Awaitable[Sequence[Joined]]] | None = None

    @property
    def answered(self) -> tuple[InboundMessage, ...]:
        """Return the messages that the turn answers, those that joined it included."""
        return (*self.batch.messages, *self.joined)

    async def permit(self) -> None:
        """Return when the turn may call a model or a tool; raise `CancelledError` when it has ended."""
        await self.hold.permit()

    async def join(self) -> Sequence[Joined]:
        """Return the messages that came meanwhile and belong to this turn from now on, in order."""
        newcomers = await self.hold.join()
        if self.receive is not None:
            newcomers = await self.receive(newcomers)
        self.joined.extend(newcomer.message for newcomer in newcomers)
        return newcomers


class PromptWindow(Protocol):
    """Keeps the prompt of a turn inside its model's window."""

    async def condensed(
        self, in_flight: Sequence[Entry], *, counted: int, is_refused: bool = False
    ) -> Sequence[PromptMessage] | None:
        """The prompt anew, with all that the turn has added (`in_flight`), if it does not fit any more or was
        refused as too long; None while it may stay as it is. `counted`: the provider's count of the last one.
        Raises `ContextTooLong` when nothing helps."""
        ...


class Engine(Protocol):
    """Takes the steps of a turn: model calls and the tools they ask for, until there is an answer."""

    async def run(
        self,
        turn: Turn,
        context: ToolContext,
        *,
        model: str,
        system: CleanText,
        prompt: Sequence[PromptMessage],
        room: PromptWindow,
    ) -> None:
        """Fill `turn` until it has an answer, or until the suspension of `context` has a barrier: then the turn yields
        behind the round. Raises the `ModelError` tree; cancellable at every await. `room` is asked between two rounds.

        What the model says is heard as a stream and scrubbed as it comes; every call is charged.
        """
        ...


# What happens after a turn: work that never delays its reply and whose failures nobody is told.


@dataclass(frozen=True, slots=True)
class Finished:
    """A turn whose commit is in SQL and on the bus, however it ended (`commit.state`). `has_boundary` is that of
    `Committed`."""

    turn: Turn
    commit: TurnCommit
    has_boundary: bool


AfterTurn = Callable[[Finished], Coroutine[Any, Any, None]]
"""Runs in the background once a turn is finished; what it raises is logged. It may be lost with its process."""
