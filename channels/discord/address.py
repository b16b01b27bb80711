"""Where a Discord answer goes: the part of a `ReplyAddress` that only this channel reads."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from channels.raw import canonical, target_fields, text
from gateway.contracts.errors import BadEnvelope


@dataclass(frozen=True, slots=True)
class DiscordTarget:
    """`channel_id` is where to post (a thread is a channel); `reply_to_message_id` is the message to
    reference, None in direct messages. A thread that is yet to be begun has the id of the message that it begins with,
    which stands in the channel `begun_in`. `link` is the interaction of a command that was chosen from the menu, the
    name under which the bus keeps its token; what `is_aside` is meant for the one who chose it alone."""

    channel_id: str
    reply_to_message_id: str | None = None
    link: str | None = None
    is_aside: bool = False
    begun_in: str | None = None

    @property
    def lane(self) -> str:
        """Order and pacing are by channel; a thread is one of its own."""
        return self.channel_id


def make_target(target: DiscordTarget) -> str:
    """Canonical JSON."""
    return canonical(asdict(target) | {"is_aside": target.is_aside or None})


def parse_target(target: str) -> DiscordTarget:
    """The inverse of `make_target`. Raises `BadEnvelope`."""
    fields = target_fields(target)
    channel_id = text(fields.get("channel_id"))
    if not channel_id.isdecimal():
        raise BadEnvelope("a Discord target without channel_id")
    return DiscordTarget(
        channel_id,
        text(fields.get("reply_to_message_id")) or None,
        text(fields.get("link")) or None,
        fields.get("is_aside") is True,
        text(fields.get("begun_in")) or None,
    )
