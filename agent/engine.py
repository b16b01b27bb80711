"""The values of a turn (its batch, steps and end) and the protocol of the engine that takes its steps.

`agent.runtime.steps` is the engine of every litellm model, `agent.runtime.claude` that of the Claude Agent SDK.
An engine keeps nothing from one turn to the next: it is given the whole history each time, so there is nothing
in it to reset."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from agent.models.requests import PromptMessage, Thoughts
from agent.tools.policy import Permissions, Visibility
from agent.tools.tool import CallOrigin, Enclosures, Reading, Suspension, ToolContext
from gateway.contracts.commands import find_command
from gateway.contracts.ids import SessionKey, is_firing, is_wake
from gateway.contracts.messages import CleanText, InboundMessage, literal_text
from gateway.contracts.sessions import Entry, GrantRole, PromptStart, Session, TurnCommit, Usage
from gateway.contracts.subagents import WakeAddress

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
        """Return the last message that a person wrote; if no person wrote one, the last."""
        return newest_of(self.messages)

    @property
    def authors(self) -> tuple[SessionKey, ...]:
        """List everybody whose words are answered; the one to whom the answer goes comes last."""
        newest = self.newest.author
        others = dict.fromkeys(message.author for message in self.messages if message.author != newest)
        return (*others, newest)

    @property
    def wakes(self) -> int:
        """Count the wakes that have led to one another since a person spoke; 0: a person speaks in this batch."""
        return max(message.wakes for message in self.messages) if is_wake(self.newest.id) else 0

    @property
    def is_command(self) -> bool:
        """Tell whether the batch is a command, which is always alone (`agent.runtime.run.first_batch`)."""
        return find_command(self.messages[0].text) is not None


def reply_id_of(turn_id: str) -> str:
    """Return the id of the one reply that a turn leaves, known before there is any."""
    return f"{turn_id}{_ONLY}"


def turn_of_reply(reply_id: str) -> str:
    """Return the turn that left this reply; "" for a status line, a title, or a reply without a turn."""
    return reply_id.removesuffix(_ONLY) if reply_id.endswith(_ONLY) and reply_id.count(":") == 1 else ""


def newest_of(messages: Sequence[InboundMessage]) -> InboundMessage:
    """Return the message that decides who is answered, and where: a message of a person takes precedence over the end
    of a sub-agent."""
    return (tuple(message for message in messages if not is_wake(message.id)) or messages)[-1]


@dataclass(frozen=True, slots=True)
class Joined:
    """A message that joined a running turn, and what it became in the transcript."""

    message: InboundMessage
    entry: Entry


class Hold(Protocol):
    """The requests of a turn to the run that holds its lane."""

    async def permit(self) -> None:
        """Return when the turn may call a model or a tool; raise `CancelledError` when it has ended."""

    async def join(self) -> Sequence[Joined]:
        """Return messages that came meanwhile and belong to this turn from now on, in order."""

    def showing(self, text: Callable[[], CleanText]) -> AbstractContextManager[None]:
        """Show people `text()`, the answer so far, while the block lasts, without waiting for its delivery."""


@dataclass(slots=True)
class Turn:
    """One turn that has begun: what it answers, and what it leaves behind, filled as it goes, so that a failure keeps
    what was done.

    `hold` says whether it may go on. `said` is what the user said in this turn, once the transcript holds it; of a
    command nothing is held. `authors` are all whose words are answered: the turn may do what each of them may.
    `notes` are for the person, under the answer; `finish_reason` is the model's, of its last words. A turn that yields
    leaves a barrier in its `suspension`. `thoughts` are those that led to its calls, by the id of the first one.
    `receive` makes of messages that join what the transcript and the model get. `prompt` is what was read with its
    begin, `used_facts` are those of memory, by their ids, that have to do with `said`; `advice` is what the hooks of
    plug-ins tell the model beside it."""

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
    finish_reason: str = ""
    thoughts: dict[str, Thoughts] = field(default_factory=dict)
    notes: list[CleanText] = field(default_factory=list)
    receive: Callable[[Turn, Sequence[Joined]], Awaitable[Sequence[Joined]]] | None = None
    prompt: PromptStart | None = None
    used_facts: tuple[int, ...] = ()
    advice: tuple[CleanText, ...] = ()

    @property
    def answered(self) -> tuple[InboundMessage, ...]:
        """Return the messages that the turn answers, those that joined it included."""
        return (*self.batch.messages, *self.joined)

    def tool_context(self, person: SessionKey, role: GrantRole, ceiling: Permissions) -> ToolContext:
        """Return the context of this turn's tool calls: they run for `person`, the one of its authors who may do
        least, with the role of that person and at most `ceiling`."""
        batch, session, newest = self.batch, self.session, self.batch.newest
        named = (message.author_name for message in reversed(batch.messages) if message.author == person)
        return ToolContext(
            batch.key,
            batch.turn_id,
            role=role,
            place=Visibility.of(newest),
            asked_by=person,
            address=None if is_firing(newest.id) else newest.address,
            fence=batch.fence,
            ceiling=ceiling,
            permit=self.hold.permit,
            enclosures=self.enclosures,
            call_origin=CallOrigin(session.id),
            suspension=self.suspension,
            reading=self.reading,
            wake=WakeAddress(
                batch.key,
                newest.address,
                person.user,
                next(named, literal_text("")),
                newest.is_private,
                newest.place,
                batch.wakes,
            ),
            language=session.language,
            place_ids=newest.place,
        )

    async def join(self) -> Sequence[Joined]:
        """Return the messages that came meanwhile and belong to this turn from now on, in order."""
        newcomers = await self.hold.join()
        if self.receive is not None:
            newcomers = await self.receive(self, newcomers)
        self.joined.extend(newcomer.message for newcomer in newcomers)
        return newcomers


class PromptWindow(Protocol):
    """Keeps the prompt of a turn inside its model's window."""

    async def condensed(
        self, in_flight: Sequence[Entry], *, counted: int, is_refused: bool = False
    ) -> Sequence[PromptMessage] | None:
        """Build the prompt anew, with all that the turn has added (`in_flight`), if it does not fit any more or was
        refused as too long; None while it may stay as it is. `counted`: the provider's count of the last one. Raises
        `ContextTooLong` when nothing helps."""


@dataclass(frozen=True, slots=True)
class FirstPrompt:
    """The prompt with which a turn begins, and its model; `window` keeps what it grows to inside the model's."""

    model: str
    system: CleanText
    messages: Sequence[PromptMessage]
    window: PromptWindow


class Engine(Protocol):
    """Takes the steps of a turn: model calls and the tools they ask for, until there is an answer."""

    async def take_steps(self, turn: Turn, context: ToolContext, first: FirstPrompt) -> None:
        """Fill `turn` until it has an answer, or until the suspension of `context` has a barrier: then the turn yields
        after the round. Raises the `ModelError` tree; cancellable at every await. The window is asked between rounds.

        What the model says is heard as a stream and scrubbed as it comes; every call is charged."""


# The steps after a turn: work that never delays its reply and whose failures are only logged.


@dataclass(frozen=True, slots=True)
class Finished:
    """A turn whose commit is in SQL and on the bus, however it ended (`commit.state`). `has_boundary` is that of
    `Committed`."""

    turn: Turn
    commit: TurnCommit
    has_boundary: bool


AfterTurn = Callable[[Finished], Coroutine[Any, Any, None]]
"""Runs in the background once a turn is finished; what it raises is logged. It may be lost with its process."""
