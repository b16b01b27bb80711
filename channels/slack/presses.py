"""A `block_actions` payload becomes the press of a button, or the reason why it does not. Never raises on any JSON.

Who pressed stands in `user`, which Slack fills in; a button's `value` is only what it says. A press has no id of its
own: message, person and time of the action make one. It belongs to the person, not to the channel: its place is empty.
"""

from __future__ import annotations

import re
from typing import Final

from channels.normalized import Addressing, Ignored, IgnoreReason, Incoming
from channels.raw import Raw, mapping, mappings, text
from channels.slack.address import SlackTarget, make_target
from channels.slack.normalize import SlackIdentity, presser
from gateway.contracts.commands import find_command
from gateway.contracts.ids import ReplyAddress

_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TS: Final = re.compile(r"\d{1,12}\.\d{1,6}")


def is_press(body: Raw) -> bool:
    """Whether somebody did something with a block of ours."""
    return body.get("type") == "block_actions"


def normalize_press(body: Raw, me: SlackIdentity) -> Incoming | Ignored:
    """Read one press."""
    container, person = mapping(body.get("container")), mapping(body.get("user"))
    action = next(iter(mappings(body.get("actions"))), {})
    channel, user_id = text(container.get("channel_id")), text(person.get("id"))
    message_ts, action_ts = text(container.get("message_ts")), text(action.get("action_ts"))
    is_whole = all(map(_ID.fullmatch, (channel, user_id))) and all(map(_TS.fullmatch, (message_ts, action_ts)))
    if not is_whole:
        return Ignored(IgnoreReason.MALFORMED)
    if action.get("type") != "button":
        return Ignored(IgnoreReason.UNSUPPORTED)
    target, said = SlackTarget(channel), text(action.get("value"))
    return Incoming(
        id=f"{me.channel}:{me.account}:press:{channel}.{message_ts}.{user_id}.{action_ts}",
        channel=me.channel,
        account=me.account,
        user_id=presser(person, me),
        author_name=text(person.get("name")) or text(person.get("username")) or user_id,
        place=(),
        is_private=True,
        addressing=Addressing.COMMAND,
        text=said,
        address=ReplyAddress(me.channel, target.lane, make_target(target)),
        sent_at_ms=0,
        command=find_command(said),
    )
