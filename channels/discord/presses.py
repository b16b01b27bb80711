"""The press of a button becomes an `Incoming`, or the reason why it does not.

Who pressed is in the interaction, which Discord fills in; `custom_id` is only what the button says. A press belongs
to the person, not to the channel: its place is empty. What a command leads to that was pressed where only he reads
comes to him alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from channels.discord.address import DiscordTarget, make_target
from channels.discord.normalize import DiscordIdentity
from channels.normalized import Addressing, Ignored, IgnoreReason, Incoming
from gateway.contracts.commands import find_command
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import ControlKind

_SNOWFLAKE: Final = re.compile(r"\d{1,20}")


@dataclass(frozen=True, slots=True)
class DiscordPress:
    """What INTERACTION_CREATE says of a press, as far as we read it."""

    id: str
    channel_id: str
    user_id: str
    user_name: str
    custom_id: str
    is_bot: bool = False
    locale: str = ""
    is_aside: bool = False
    """It stands under a message that nobody else sees."""


def normalize_press(press: DiscordPress, me: DiscordIdentity) -> Incoming | Ignored:
    """Read one press."""
    if not all(map(_SNOWFLAKE.fullmatch, (press.id, press.channel_id, press.user_id))):
        return Ignored(IgnoreReason.MALFORMED)
    if press.is_bot:
        return Ignored(IgnoreReason.BOT)
    command = find_command(press.custom_id)
    is_aside = press.is_aside and command is not None and command.name == ControlKind.PRESS
    target = DiscordTarget(press.channel_id, link=press.id if is_aside else None, is_aside=is_aside)
    return Incoming(
        id=f"{me.channel}:{me.user_id}:press:{press.id}",
        channel=me.channel,
        account=me.user_id,
        user_id=press.user_id,
        author_name=press.user_name or press.user_id,
        place=(),
        is_private=True,
        addressing=Addressing.COMMAND,
        text=press.custom_id,
        address=ReplyAddress(me.channel, target.lane, make_target(target)),
        sent_at_ms=0,
        command=command,
        language=press.locale,
        is_aside=is_aside,
    )
