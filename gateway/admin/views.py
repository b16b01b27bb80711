"""What the API shows: its JSON, spelled as types, and how our values become them. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from pydantic import BaseModel, Field

from gateway.contracts.entries import Entry, Session


class SessionView(BaseModel):
    """One conversation."""

    id: str
    key: str = Field(description="The session key, such as `telegram:123456789`.")
    title: str
    channel: str
    status: str = Field(description="`active` or `closed`.")
    is_current: bool = Field(description="True when the key's next message belongs to this session.")
    parent_session_id: str | None
    created_at: datetime
    updated_at: datetime
    message_count: int
    tokens: int
    cost: float = Field(description="US dollars.")


class ToolCallView(BaseModel):
    """One tool call of the model."""

    id: str
    name: str
    arguments: str = Field(description="The model's JSON text.")


class MessageView(BaseModel):
    """One entry of a transcript."""

    seq: int
    role: str = Field(description="`user`, `assistant` or `tool`.")
    kind: str = Field(description="`message`, or `compaction` for a summary of what came before.")
    text: str
    tool_calls: list[ToolCallView]
    tool_call_id: str
    is_error: bool
    message_id: str = Field(description="The platform message that a user entry came from.")
    turn_id: str
    created_at: datetime


class CompactOrder(BaseModel):
    """How to compact."""

    focus: str = Field(default="", max_length=1000, description="What the summary should dwell on.")


class Accepted(BaseModel):
    """The order waits in its lane."""

    message_id: str


class Readiness(BaseModel):
    """Whether everything works together, and what does not."""

    ready: bool
    reasons: list[str]


def session_view(session: Session) -> SessionView:
    """A session as the API shows it."""
    return SessionView(
        id=session.id,
        key=str(session.key),
        title=session.title,
        channel=session.key.platform,
        status=session.status.value,
        is_current=session.is_current,
        parent_session_id=session.parent_session_id,
        created_at=_moment(session.created_at_ms),
        updated_at=_moment(session.updated_at_ms),
        message_count=session.message_count,
        tokens=session.tokens,
        cost=session.cost_usd,
    )


def message_view(entry: Entry) -> MessageView:
    """A transcript entry as the API shows it."""
    return MessageView(
        seq=entry.seq,
        role=entry.role.value,
        kind=entry.kind.value,
        text=entry.text,
        tool_calls=[ToolCallView(id=call.id, name=call.name, arguments=call.arguments) for call in entry.tool_calls],
        tool_call_id=entry.tool_call_id,
        is_error=entry.is_error,
        message_id=entry.message_id,
        turn_id=entry.turn_id,
        created_at=_moment(entry.created_at_ms),
    )


def _moment(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)
