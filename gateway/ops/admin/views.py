"""The JSON of the API, spelled as types, and the conversion of our values into them. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Final, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from gateway.contracts.ports import DeadLetter
from gateway.contracts.profiles import DELEGATING
from gateway.contracts.sessions import Session
from gateway.contracts.subagents import Doing, Occupation, SubTask
from gateway.i18n.reasons import in_words

_IS_CHANNEL: Final = re.compile(r"(subagent:)?[a-z][a-z0-9_-]{0,63}").fullmatch


def moment(at_ms: int) -> datetime:
    """Convert a time to the form that the API shows."""
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def known_moment(at_ms: int) -> datetime | None:
    """Convert a time of which 0 says that it is not known, or has not come."""
    return moment(at_ms) if at_ms else None


Moment = Annotated[datetime, BeforeValidator(moment)]
"""A time that is milliseconds in the value of ours."""
KnownMoment = Annotated[datetime | None, BeforeValidator(known_moment)]
KeyText = Annotated[str, BeforeValidator(str)]


class ApiView(BaseModel):
    """A value of ours as the API shows it. A `validation_alias` names the attribute that a field is read of, where the
    API has another name for it."""

    model_config = ConfigDict(from_attributes=True, populate_by_name=True)

    @classmethod
    def of(cls, value: object, **more: object) -> Self:
        """Show a value of ours by its attributes, but for those fields that are given besides."""
        aliases = {name: str(field.validation_alias or name) for name, field in cls.model_fields.items()}
        return cls.model_validate({name: getattr(value, aliases[name]) for name in aliases.keys() - more} | more)


class SessionView(ApiView):
    """One conversation."""

    id: str
    key: KeyText = Field(description="The session key, such as `telegram:123456789`.")
    owner: KeyText = Field(description="The person, or the shared place, that the key belongs to.")
    name: str = Field(description="The person's own name; empty where it is not known.")
    title: str
    channel: str = Field(description="The platform, or `subagent:<type>` for the session of a sub-agent.")
    status: str = Field(description="`active` or `closed`.")
    is_current: bool = Field(description="True when the key's next message belongs to this session.")
    parent_session_id: str | None = Field(description="Of a sub-agent: the session it works for.")
    created_at: Moment = Field(validation_alias="created_at_ms")
    updated_at: Moment = Field(validation_alias="updated_at_ms")
    message_count: int
    children_count: int = Field(description="Sub-agents that work, or worked, for it directly.")
    tokens: int = Field(description="Of its own model calls and of those of the sub-agents below it.")
    cost: float = Field(validation_alias="cost_usd", description="US dollars, likewise.")


class ToolCallView(ApiView):
    """One tool call of the model."""

    id: str
    name: str
    arguments: str = Field(description="The model's JSON text.")


class MessageView(ApiView):
    """One entry of a transcript."""

    seq: int
    role: str = Field(
        validation_alias="speaker", description="Who said it: `user`, `assistant`, `tool`, or `gateway` for a note."
    )
    kind: str = Field(
        description="`message`; `compaction` for a summary of what came before; `note` for what the gateway told the "
        "model, such as the time, and no person said."
    )
    text: str
    tool_calls: list[ToolCallView]
    tool_call_id: str
    is_error: bool
    tail_start_seq: int = Field(description="Of a compaction: the first entry it left in the model's view; else 0.")
    is_undone: bool = Field(description="Taken back by its user: the model does not see it any more.")
    message_id: str = Field(description="The platform message that a user entry came from.")
    turn_id: str
    created_at: Moment = Field(validation_alias="created_at_ms")


class QueueView(ApiView):
    """The queue at this moment."""

    at: datetime
    messages: int = Field(validation_alias="queued", description="What waits for an answer, running turns included.")
    oldest_wait_ms: int = Field(description="How long the oldest has waited, of the lanes that are next.")
    lanes_ready: int = Field(validation_alias="ready")
    lanes_running: int = Field(validation_alias="running")
    lanes_delayed: int = Field(validation_alias="delayed")
    dead_letters: int
    agent_processes: int = Field(validation_alias="workers_alive")
    replies_unsent: dict[str, int] = Field(
        validation_alias="outbound_pending", description="Committed replies on their way, by channel."
    )
    channels: dict[str, str] = Field(
        validation_alias="channels_connected", description="The state of each channel, such as `connected`."
    )


class QueueMomentView(ApiView):
    """The length of the queue at a moment that is over."""

    at: Moment = Field(validation_alias="at_ms")
    messages: int = Field(validation_alias="queued")
    oldest_wait_ms: int


class HopView(ApiView):
    """Something that happened to a message on its way."""

    at: KnownMoment = Field(validation_alias="at_ms", description="Null when only that it happened is known.")
    name: str
    detail: str


class DeliveryView(ApiView):
    """The progress of one committed reply."""

    reply_id: str
    turn_id: str
    channel: str
    state: str = Field(description="`pending`, or how it ended: `sent`, `failed`, `unknown`.")
    chunks_sent: int
    chunks: int
    attempts: int
    reason: str
    created_at: Moment = Field(validation_alias="created_at_ms")
    updated_at: Moment = Field(validation_alias="updated_at_ms")


class DeadLetterView(ApiView):
    """A message that was given up."""

    id: str = Field(validation_alias="entry_id")
    died_at: Moment = Field(validation_alias="died_at_ms")
    reason: str
    attempts: int
    error: str
    message_id: str = Field(description="Empty for what is no inbound message.")
    key: KeyText
    text: str


class CompactOrder(BaseModel):
    """The options of a compaction."""

    focus: str = Field(default="", max_length=1000, description="What the summary should dwell on.")


class SayOrder(BaseModel):
    """A text for a chat."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(min_length=1, max_length=4000)


class Interjected(BaseModel):
    """It is committed, and on its way."""

    reply_id: str


class Erased(BaseModel):
    """The counts of what is gone."""

    key: str = Field(description="Whose it was.")
    rows: dict[str, int] = Field(description="How many rows, by the name of their table.")


class Accepted(BaseModel):
    """The order waits in its lane."""

    message_id: str


class Readiness(BaseModel):
    """The readiness of everything together, and what is not ready."""

    ready: bool
    reasons: list[str]
    models: list[str] = Field(description="Models that do not answer for want of a key or of credit; others may.")


def checked_channel(channel: str) -> str:
    """Check a channel by which sessions may be selected. Raises `ValueError`."""
    if _IS_CHANNEL(channel) is None:
        raise ValueError("a channel is a platform, such as telegram, or a type of sub-agents, such as subagent:explore")
    return channel


def session_view(session: Session, *, children_count: int, name: str = "") -> SessionView:
    """Convert a session to the form that the API shows."""
    return SessionView.of(session, **_said_of(session), children_count=children_count, name=name)


def _said_of(session: Session) -> dict[str, object]:
    return {"owner": session.key.owner, "channel": session.channel or session.key.platform}


def dead_letter_view(letter: DeadLetter) -> DeadLetterView:
    """Convert a dead letter to the form that the API shows."""
    message = letter.message
    id_, key, text = (message.id, message.key, message.text) if message else ("", "", "")
    return DeadLetterView.of(letter, message_id=id_, key=key, text=text)


# The task board as the API shows it. Pure.


class DoingView(BaseModel):
    """The present work of a sub-agent that runs."""

    what: str = Field(
        description="`model`: it asks its model; `tools`: it runs some; `sub_agents`: it waits for its own; "
        "`approval`: a person is asked about a tool."
    )
    tools: list[str] = Field(description="The names of the tools it is about, such as `file_read`.")
    sub_agents: int = Field(description="How many live ones work for it.")


class TaskView(ApiView):
    """One sub-agent at work, or over."""

    id: str
    state: str = Field(description="`queued`, `running`, `completed`, `failed`, `cancelled` or `timed_out`.")
    type: str = Field(validation_alias="sub_type", description="Its row in the catalog, such as `explore`.")
    label: str = Field(description="A few words: what it does.")
    mode: str = Field(description="`inline`: its parent waits for it; `background`: it outlives the turn.")
    depth: int = Field(description="1 for a sub-agent of a conversation, 2 for a sub-agent of such a one.")
    key: KeyText = Field(description="Whose it is: the session key, such as `telegram:123456789`.")
    session_id: str = Field(description="Its own session.")
    parent_session_id: str = Field(description="The session it works for.")
    parent_task_id: str | None = Field(description="The sub-agent it works for, if it is one of such a one.")
    turn_id: str
    created_at: Moment = Field(validation_alias="created_at_ms")
    started_at: KnownMoment = Field(validation_alias="started_at_ms")
    finished_at: KnownMoment = Field(validation_alias="finished_at_ms")
    duration_ms: int = Field(description="From its start to its end; so far, while it runs.")
    tokens: int = Field(description="In and out, those of its own sub-agents included.")
    cost: float = Field(validation_alias="cost_usd", description="US dollars, likewise.")
    reason: str = Field(description="The code of why it did not complete, such as `worker_lost`; empty if it did.")
    why: str = Field(description="The same in words, for people.")
    confinement: str = Field(description="What held its process.")
    worker: str = Field(validation_alias="worker_id", description="The agent process that ran it.")
    doing: DoingView | None = Field(description="What it does now; null unless it runs.")


class WholeTaskView(TaskView):
    """One sub-agent with what it was asked and what it answered."""

    prompt: str
    result: str = Field(description="Its answer, or what is left of it.")


class TypeRecordView(ApiView):
    """The counts of one type's tasks that are still on the board."""

    type: str = Field(validation_alias="sub_type")
    running: int = Field(description="Queued ones too.")
    completed: int
    failed: int
    cancelled: int
    timed_out: int
    success_rate: float | None = Field(
        description="Of those that completed, failed or timed out, the share that completed; null if there are none."
    )


class BoardRevision(BaseModel):
    """The content of an event `board`: ask again."""

    revision: int


def task_views(tasks: Iterable[SubTask], *, others: Sequence[SubTask], now_ms: int) -> list[TaskView]:
    """Convert tasks to the form that the API shows. `others` are all that may work for them."""
    live = Counter(task.parent_task_id for task in others if not task.state.is_over)
    return [TaskView.of(task, **_worked_out(task, live_below=live[task.id], now_ms=now_ms)) for task in tasks]


def _worked_out(task: SubTask, *, live_below: int, now_ms: int) -> dict[str, object]:
    """Return the fields of a view that are no field of a task."""
    runs_since_ms = task.started_at_ms if task.started_at_ms and not task.state.is_over else 0
    return {
        "parent_task_id": task.parent_task_id or None,
        "duration_ms": max(now_ms - runs_since_ms, 0) if runs_since_ms else task.duration_ms,
        "why": in_words(task.reason),
        "doing": None if task.doing is None else _doing_view(task.doing, live_below),
    }


def _doing_view(doing: Doing, live_below: int) -> DoingView:
    """Convert an occupation; an agent that runs a tool which sends out sub-agents waits for those that live."""
    waits = live_below > 0 and doing.occupation is Occupation.TOOLS and not set(DELEGATING).isdisjoint(doing.tools)
    what = "sub_agents" if waits else doing.occupation.value
    return DoingView(what=what, tools=list(doing.tools), sub_agents=live_below)


def whole_task_view(task: SubTask, *, below: Sequence[SubTask], now_ms: int) -> WholeTaskView:
    """Convert one task, with its prompt and its result. `below` are those that work for it."""
    live_below = sum(each.parent_task_id == task.id and not each.state.is_over for each in below)
    return WholeTaskView.of(task, **_worked_out(task, live_below=live_below, now_ms=now_ms))


# A session with its sub-agents, as the API and the command line show it. Pure.


class SessionTree(SessionView):
    """A session with all that works for it."""

    depth: int = Field(description="0 for the session that was asked for.")
    task: TaskView | None = Field(
        description="Null for a person's conversation, and where the board keeps the task no more."
    )
    children: list[SessionTree] = Field(description="Those that work for it directly, oldest first.")


def nested(family: Sequence[Session], tasks: Sequence[SubTask], *, now_ms: int) -> SessionTree:
    """Build one nested value from a family, which `TaskStore.tree` gives root first."""
    by_session = {view.session_id: view for view in task_views(tasks, others=tasks, now_ms=now_ms)}
    nodes: dict[str, SessionTree] = {}
    for session in family:
        above = nodes.get(session.parent_session_id or "")
        nodes[session.id] = _node(session, by_session.get(session.id), depth=above.depth + 1 if above else 0)
        if above is not None:
            above.children.append(nodes[session.id])
            above.children_count += 1
    return nodes[family[0].id]


def _node(session: Session, task: TaskView | None, *, depth: int) -> SessionTree:
    seen = {**_said_of(session), "children_count": 0, "name": ""}
    return SessionTree.of(session, **seen, depth=depth, task=task, children=[])
