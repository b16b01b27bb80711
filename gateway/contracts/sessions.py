"""The parts of a session: entries, turns, usage, grants, task lists and schedules."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from gateway.contracts.ids import FIRING, ReplyAddress, SessionKey
from gateway.contracts.messages import Button, CleanText, Reply
from gateway.contracts.subagents import Barrier

if TYPE_CHECKING:
    from gateway.contracts.memory import Recollection

UNTITLED: Final = CleanText("New Chat")
"""The sentinel: a session with this title may still be titled by the titler."""


class Role(StrEnum):
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class EntryKind(StrEnum):
    MESSAGE = "message"
    COMPACTION = "compaction"
    NOTE = "note"
    """A note of the gateway to the model in the role of the user: it begins no turn and nobody said it."""


GATEWAY: Final = "gateway"
"""The speaker of a note, as people are told: no role of a model's protocol."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call the model asked for. `arguments` is the model's JSON text, scrubbed."""

    id: str
    name: str
    arguments: CleanText


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a transcript. Append-only; `seq` is assigned by the store (0 = not yet stored).

    A `COMPACTION` entry is a summary: the entries below `tail_start_seq` are out of the model's view.
    A `TOOL` entry answers `tool_call_id`; `is_error` is the flag of its result envelope.
    `message_id` is the platform message a user entry came from (unique per store). What was undone is kept
    and marked (`is_undone`): it is in no view any more. `author` is the owner key of the person who wrote a user entry
    in a shared place; empty elsewhere, and where nobody knows."""

    role: Role
    text: CleanText
    seq: int = 0
    kind: EntryKind = EntryKind.MESSAGE
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    is_error: bool = False
    tail_start_seq: int = 0
    message_id: str = ""
    turn_id: str = ""
    created_at_ms: int = 0
    is_undone: bool = False
    author: str = ""

    @property
    def speaker(self) -> str:
        """Name who said it, for people who read the transcript: its role, but for notes."""
        return GATEWAY if self.kind is EntryKind.NOTE else self.role.value


class UsagePurpose(StrEnum):
    TURN = "turn"
    TITLE = "title"
    COMPACTION = "compaction"
    MEMORY = "memory"
    PLAN = "plan"
    EMBEDDING = "embedding"
    SUBAGENT = "subagent"
    TRANSCRIPTION = "transcription"
    SPEECH = "speech"
    VISION = "vision"


@dataclass(frozen=True, slots=True)
class Usage:
    """The cost of one model call, charged to the owner of `key`. Money in US dollars."""

    key: SessionKey
    purpose: UsagePurpose
    model: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    cost_usd: float = 0.0
    turn_id: str = ""
    created_at_ms: int = 0


class TurnState(StrEnum):
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"


class SessionStatus(StrEnum):
    ACTIVE = "active"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Session:
    """One conversation under a key, as lists show it. `number` counts a key's sessions from 1.

    `prompt_tokens` is what the provider counted for the last prompt (0 = unknown); `prompt_seq` is the
    last entry that prompt held, so that only what came after it has to be estimated. `model` and `profile`
    are what the user chose with /model and /agent; empty: the configured ones. The session of a sub-agent has the
    `channel` `subagent:<type>`, a parent and the number 0; it is never a key's current one. `language` is what was last
    known of who speaks under the key (a `gateway.i18n.Language`; empty: nothing yet); with `is_voiced` that person
    wants answers spoken, too, which is told where a turn begins and nowhere else."""

    id: str
    key: SessionKey
    number: int
    title: CleanText
    status: SessionStatus
    parent_session_id: str | None
    created_at_ms: int
    updated_at_ms: int
    message_count: int
    tokens: int
    cost_usd: float
    is_current: bool = False
    title_tries: int = 0
    model: str = ""
    profile: str = ""
    prompt_tokens: int = 0
    prompt_seq: int = 0
    channel: str = ""
    language: str = ""
    is_voiced: bool = False


@dataclass(frozen=True, slots=True)
class TurnStart:
    """The result of `TurnStore.begin`: the session, the messages that are new, the replies that still wait to be sent.

    `fresh_ids` empty means that all messages were answered before: publish `unsent` and commit. `is_first`: nobody has
    begun the turn before, so nobody has left anything of it. `prompt` answers the `PromptQuery` that came along."""

    session: Session
    fresh_ids: frozenset[str]
    unsent: tuple[Reply, ...]
    is_first: bool
    prompt: PromptStart | None = None


@dataclass(frozen=True, slots=True)
class Committed:
    """The result of `TurnStore.commit`: the current session of the key, and whether anything of the key has left the
    view that nobody has gone through yet."""

    session: Session
    has_boundary: bool


@dataclass(frozen=True, slots=True)
class OpenSession:
    """Effect of /new: close the current session of the key and open the next."""


@dataclass(frozen=True, slots=True)
class SetTitle:
    """Effect of /title: the user's title always wins."""

    title: CleanText


@dataclass(frozen=True, slots=True)
class Undo:
    """Effect of /undo: everything in the current session from entry `from_seq` on is taken out of every view,
    the summaries among it too, so that what they had replaced is in view again."""

    from_seq: int


@dataclass(frozen=True, slots=True)
class NewestView:
    """The newest part of a view, its summary in front. `is_whole`: nothing of the view is missing."""

    entries: tuple[Entry, ...]
    is_whole: bool


@dataclass(frozen=True, slots=True)
class PromptQuery:
    """The query for a prompt: the newest `chars_max` characters of the view, the task list, at most `known_max` of the
    facts that are always known, and at most so many facts and snippets that have to do with `said` ("": none)."""

    chars_max: int
    said: str = ""
    known_max: int = 0
    facts_max: int = 0
    snippets_max: int = 0


@dataclass(frozen=True, slots=True)
class PromptStart:
    """The answer to `query`, read in one. `zone`: the time zone that the owner named, "" for none."""

    query: PromptQuery
    view: NewestView
    todos: tuple[Todo, ...]
    recollection: Recollection
    zone: str = ""


@dataclass(frozen=True, slots=True)
class TurnSaid:
    """One user-led turn that is in force: where it begins, and what the user said first."""

    first_seq: int
    text: CleanText


@dataclass(frozen=True, slots=True)
class SetModel:
    """Effect of /model: the session's own model; empty for the configured one."""

    model: str


@dataclass(frozen=True, slots=True)
class ResumeSession:
    """Effect of /resume: close the current session of the key and go on with its session `number`."""

    number: int


@dataclass(frozen=True, slots=True)
class SetProfile:
    """Effect of /agent: the agent profile of the current session; empty for none."""

    profile: str


@dataclass(frozen=True, slots=True)
class SetVoice:
    """Effect of /voice: whether answers under the key are spoken, too."""

    is_on: bool


Effect = OpenSession | SetTitle | SetModel | SetProfile | ResumeSession | SetVoice | Undo


@dataclass(frozen=True, slots=True)
class FileContent:
    """The bytes of one file of a reply of the same commit: `Reply.files[position]`."""

    reply_id: str
    position: int
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class TurnCommit:
    """Everything one turn leaves behind, written in one transaction guarded by `fence`.

    `entries` excludes the user entries that `TurnStore.begin` already stored; those of messages that joined on
    the way are where the model read them. `consumed` are the ids of the inbound messages this turn
    answered. `effects` apply after the entries, in order.
    `prompt_tokens` is the provider's count for the turn's last prompt (0 = unknown). A turn with a `barrier` has
    yielded: it answers nobody, and its session is woken when the barrier is met. `buttons` hang under its replies.
    `collected` are the sub-agents' tasks whose results its model has read, so that they wake nobody any more."""

    turn_id: str
    session_id: str
    key: SessionKey
    fence: int
    state: TurnState
    consumed: tuple[str, ...]
    entries: tuple[Entry, ...] = ()
    usage: tuple[Usage, ...] = ()
    outbox: tuple[Reply, ...] = ()
    contents: tuple[FileContent, ...] = ()
    effects: tuple[Effect, ...] = ()
    error_reference: str = ""
    finished_at_ms: int = 0
    prompt_tokens: int = 0
    barrier: Barrier | None = None
    buttons: tuple[Button, ...] = ()
    collected: tuple[str, ...] = ()


class GrantRole(StrEnum):
    GUEST = "guest"
    MEMBER = "member"
    ADMIN = "admin"
    BLOCKED = "blocked"


@dataclass(frozen=True, slots=True)
class Grant:
    """An operator's decision about one user (`key` is an owner key), and its reason, if one was given."""

    key: SessionKey
    role: GrantRole
    granted_by: str
    created_at_ms: int
    reason: CleanText = CleanText("")  # noqa: RUF009 - a NewType


class TodoState(StrEnum):
    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Todo:
    """One task of a key, shown to the model in its prompt until it is done."""

    position: int
    text: CleanText
    state: TodoState


# What is to happen later: reminders and scheduled tasks. Written by the agent, kept by the store.


class ScheduleKind(StrEnum):
    REMINDER = "reminder"
    """Its text is delivered as it is."""
    TASK = "task"
    """Its text is a prompt: the agent takes a turn with nobody present."""
    HEARTBEAT = "heartbeat"
    """A task of ours: the agent looks whether something is to be done."""


class ScheduleState(StrEnum):
    ACTIVE = "active"
    DONE = "done"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Schedule:
    """One reminder or task of a user, and when it is due next.

    `number` is what its owner calls it: counted from 1, never used twice (0 = not yet stored). `recurrence` is
    the text form of a rule in the wall-clock time of `zone`; empty: it happens once. `address` is where it was
    asked for and `author_id` who asked, as the channel wrote them; `place` is as in the message that asked for it."""

    id: str
    key: SessionKey
    address: ReplyAddress
    author_id: str
    author_name: CleanText
    is_private: bool
    kind: ScheduleKind
    text: CleanText
    recurrence: str
    zone: str
    next_due_ms: int
    created_at_ms: int
    number: int = 0
    state: ScheduleState = ScheduleState.ACTIVE
    place: tuple[str, ...] = ()

    @property
    def owner(self) -> SessionKey:
        """Return the owner of the schedule: nobody else sees or cancels it."""
        return self.key.owner

    @property
    def firing_id(self) -> str:
        """Return the message id of the next firing, the same for every process and attempt."""
        return f"{FIRING}{self.id}:{self.next_due_ms}"
