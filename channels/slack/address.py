"""Where a Slack answer goes: the part of a `ReplyAddress` that only this channel reads."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from channels.raw import canonical, target_fields, text
from gateway.contracts.errors import BadEnvelope
from gateway.contracts.ids import ReplyAddress


@dataclass(frozen=True, slots=True)
class SlackTarget:
    """`thread_ts` is None at the top level of a channel or a direct message. `message_ts` is the message answered.
    Timestamps stay text: as numbers they would lose digits.

    `user_id` and `team_id` are the person who is answered, as Slack names him: a stream has to say for whom it is.
    `link` is the name under which the bus keeps the `response_url` of a slash command, never the address itself;
    `is_aside`: only the one who asked shall see the answer. `picks`: the command whose argument can be picked from a
    list below the answer.
    """

    channel: str
    thread_ts: str | None = None
    message_ts: str | None = None
    user_id: str | None = None
    team_id: str | None = None
    link: str | None = None
    is_aside: bool = False
    picks: str | None = None

    @property
    def lane(self) -> str:
        """Order is kept within `<channel>` or `<channel>/<thread>`; Slack paces by what is before the slash."""
        return f"{self.channel}/{self.thread_ts}" if self.thread_ts else self.channel

    @property
    def is_direct(self) -> bool:
        """A direct message, of the person to us or to somebody else."""
        return self.channel.startswith("D")

    @property
    def is_nameable(self) -> bool:
        """The threads of an app's direct messages are listed by their titles; no other thread has a name."""
        return self.is_direct and self.thread_ts is not None and not self.is_aside


def make_target(target: SlackTarget) -> str:
    """Canonical JSON, without what does not hold."""
    return canonical({name: value or None for name, value in asdict(target).items()})


def parse_target(target: str) -> SlackTarget:
    """The inverse of `make_target`. Raises `BadEnvelope`."""
    fields = target_fields(target)
    channel = text(fields.get("channel"))
    if not channel:
        raise BadEnvelope("a Slack target without channel")
    return SlackTarget(
        channel,
        text(fields.get("thread_ts")) or None,
        text(fields.get("message_ts")) or None,
        text(fields.get("user_id")) or None,
        text(fields.get("team_id")) or None,
        text(fields.get("link")) or None,
        is_aside=fields.get("is_aside") is True,
        picks=text(fields.get("picks")) or None,
    )


def relocated(address: ReplyAddress, channel: str) -> ReplyAddress:
    """The same place under the other id of its channel. Raises `BadEnvelope`."""
    target = replace(parse_target(address.target), channel=channel)
    return ReplyAddress(address.channel, target.lane, make_target(target))
