"""A command chosen from Discord's own menu becomes an `Incoming`, or the reason why it does not: what a person would
have typed, said in that channel. A command that is still being typed reads the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from channels.discord.address import DiscordTarget, make_target
from channels.discord.normalize import DiscordIdentity
from channels.normalized import Addressing, Ignored, IgnoreReason, Incoming
from gateway.contracts.commands import COMMANDS, find_command
from gateway.contracts.ids import ReplyAddress

_SNOWFLAKE: Final = re.compile(r"\d{1,20}")


@dataclass(frozen=True, slots=True)
class DiscordInvocation:
    """What INTERACTION_CREATE says of a command, as far as we read it. In a thread, `parent_id` is that of its channel.
    `is_direct`: a chat of one person with us."""

    id: str
    channel_id: str
    user_id: str
    user_name: str
    name: str
    argument: str = ""
    created_at_ms: int = 0
    guild_id: str = ""
    parent_id: str = ""
    is_direct: bool = False
    is_bot: bool = False
    locale: str = ""
    roles: tuple[str, ...] = ()


def normalize_invocation(invocation: DiscordInvocation, me: DiscordIdentity) -> Incoming | Ignored:
    """Read one command. Where others read along, what it leads to is for the one who asked, unless its row in the
    table says otherwise."""
    if not all(map(_SNOWFLAKE.fullmatch, (invocation.id, invocation.channel_id, invocation.user_id))):
        return Ignored(IgnoreReason.MALFORMED)
    if invocation.is_bot:
        return Ignored(IgnoreReason.BOT)
    said = f"/{invocation.name} {invocation.argument}".strip()
    command = find_command(said)
    if command is None:
        return Ignored(IgnoreReason.UNSUPPORTED)
    is_aside = not invocation.is_direct and all(spec.name != command.name or not spec.is_aloud for spec in COMMANDS)
    target = DiscordTarget(invocation.channel_id, link=invocation.id, is_aside=is_aside)
    return Incoming(
        id=f"{me.channel}:{me.user_id}:interaction:{invocation.id}",
        channel=me.channel,
        account=me.user_id,
        user_id=invocation.user_id,
        author_name=invocation.user_name or invocation.user_id,
        place=_place(invocation),
        is_private=invocation.is_direct,
        addressing=Addressing.COMMAND,
        text=said,
        address=ReplyAddress(me.channel, target.lane, make_target(target)),
        sent_at_ms=invocation.created_at_ms,
        command=command,
        language=invocation.locale,
        realm=invocation.guild_id,
        roles=invocation.roles,
        is_nameable=bool(invocation.parent_id),
    )


def _place(invocation: DiscordInvocation) -> tuple[str, ...]:
    if invocation.is_direct:
        return ()
    return tuple(filter(None, (invocation.parent_id, invocation.channel_id)))
