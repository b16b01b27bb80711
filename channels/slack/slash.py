"""A slash command becomes an `Incoming`. Never raises on any JSON. Pure.

It has no timestamp and does not exist in threads, and it may be given where we are no member. What Slack gives along
is an address that takes a few answers for half an hour; here it is only named, and kept elsewhere.
"""

from __future__ import annotations

import re
from typing import Final

from channels.normalized import Addressing, Ignored, IgnoreReason, Incoming
from channels.raw import Raw, mapping, text
from channels.slack.address import SlackTarget, make_target
from channels.slack.commands import is_for_one, meant_by, picks_below
from channels.slack.normalize import SlackIdentity, realm_of
from channels.slack.wording import readable
from gateway.contracts.commands import find_command
from gateway.contracts.ids import ReplyAddress

_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TRIGGER: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")


def is_slash(body: Raw) -> bool:
    """Whether somebody gave a slash command."""
    return "command" in body


def normalize_slash(raw: object, me: SlackIdentity) -> Incoming | Ignored:
    """Read one slash command (`/trivet status`): the text becomes the command itself, `/status`.

    `trigger_id` is unique for each. The answer to a command is for the one who gave it.
    """
    payload = mapping(raw)
    channel, user = text(payload.get("channel_id")), text(payload.get("user_id"))
    trigger, team = text(payload.get("trigger_id")), text(payload.get("team_id"))
    if not (_ID.fullmatch(channel) and _ID.fullmatch(user) and _TRIGGER.fullmatch(trigger)):
        return Ignored(IgnoreReason.MALFORMED)
    words = meant_by(text(payload.get("command")), readable(text(payload.get("text")), {}))
    command = find_command(words)
    target = SlackTarget(
        channel,
        user_id=user,
        team_id=team if _ID.fullmatch(team) else me.team_id,
        link=trigger,
        is_aside=is_for_one(words) and not channel.startswith("D"),  # a direct message is for one anyway
        picks=picks_below(command),
    )
    return Incoming(
        id=f"{me.channel}:{me.account}:{channel}:{trigger}",
        channel=me.channel,
        account=me.account,
        user_id=user,
        author_name=text(payload.get("user_name")) or user,
        place=() if target.is_direct else (channel,),
        is_private=target.is_direct,
        addressing=Addressing.PRIVATE if target.is_direct else Addressing.COMMAND,
        text=words,
        address=ReplyAddress(me.channel, target.lane, make_target(target)),
        sent_at_ms=0,
        command=command,
        realm=realm_of(payload, me),
    )


def response_url_of(body: Raw) -> str:
    """Where the one who gave a command, or pressed a button, may be answered: five times, for half an hour."""
    return text(body.get("response_url"))
