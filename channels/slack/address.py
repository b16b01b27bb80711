"""Where a Slack answer goes: the part of a `ReplyAddress` that only this channel reads."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from channels.raw import canonical, target_fields, text
from gateway.contracts.errors import BadEnvelope


@dataclass(frozen=True, slots=True)
class SlackTarget:
    """`thread_ts` is None at the top level of a direct message. `message_ts` is the message answered, for
    reactions. Timestamps stay text: as numbers they would lose digits."""

    channel: str
    thread_ts: str | None = None
    message_ts: str | None = None

    @property
    def lane(self) -> str:
        """Order is kept within `<channel>` or `<channel>/<thread>`; Slack paces by what is before the slash."""
        return f"{self.channel}/{self.thread_ts}" if self.thread_ts else self.channel


def make_target(target: SlackTarget) -> str:
    """Canonical JSON."""
    return canonical(asdict(target))


def parse_target(target: str) -> SlackTarget:
    """The inverse of `make_target`. Raises `BadEnvelope`."""
    fields = target_fields(target)
    channel = text(fields.get("channel"))
    if not channel:
        raise BadEnvelope("a Slack target without channel")
    return SlackTarget(channel, text(fields.get("thread_ts")) or None, text(fields.get("message_ts")) or None)
