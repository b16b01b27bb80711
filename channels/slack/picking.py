"""Lists below an answer, from which the argument of a command is picked: what Slack asks us for, and what was picked.

Never raises on any JSON. Pure. Whoever picks has given the command, as if he had typed it.
"""

from __future__ import annotations

import re
from typing import Final

from channels.normalized import Addressing, Ignored, IgnoreReason, Incoming
from channels.raw import Raw, mapping, mappings, text
from channels.slack.address import SlackTarget, make_target
from channels.slack.blocks import PICK
from channels.slack.commands import SUGGESTED
from channels.slack.normalize import SlackIdentity, presser, realm_of
from gateway.contracts.commands import find_command
from gateway.contracts.ids import ReplyAddress

_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TS: Final = re.compile(r"\d{1,12}\.\d{1,6}")
_TRIGGER: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")


def is_question(body: Raw) -> bool:
    """Whether Slack asks what is in a list."""
    return body.get("type") == "block_suggestion"


def is_pick(body: Raw) -> bool:
    """Whether somebody picked something from a list of ours."""
    action = next(iter(mappings(body.get("actions"))), {})
    return body.get("type") == "block_actions" and action.get("type") == "external_select"


def normalize_question(body: Raw, me: SlackIdentity) -> Incoming | Ignored:
    """As far as somebody has come with his command while he picks."""
    return _chosen(body, me, text(body.get("action_id")), text(body.get("value")), "")


def normalize_pick(body: Raw, me: SlackIdentity) -> Incoming | Ignored:
    """The command with what was picked."""
    action = next(iter(mappings(body.get("actions"))), {})
    action_ts, trigger = text(action.get("action_ts")), text(body.get("trigger_id"))
    if not (_TS.fullmatch(action_ts) and _TRIGGER.fullmatch(trigger)):
        return Ignored(IgnoreReason.MALFORMED)
    picked = text(mapping(action.get("selected_option")).get("value"))
    return _chosen(body, me, text(action.get("action_id")), picked, trigger, action_ts)


def _chosen(
    body: Raw, me: SlackIdentity, action_id: str, argument: str, link: str, at: str = "0"
) -> Incoming | Ignored:
    container, user = mapping(body.get("container")), mapping(body.get("user"))
    channel, user_id = text(container.get("channel_id")), text(user.get("id"))
    message_ts, thread_ts = text(container.get("message_ts")), text(container.get("thread_ts"))
    name = action_id.removeprefix(PICK)
    if not (_ID.fullmatch(channel) and _ID.fullmatch(user_id) and _TS.fullmatch(message_ts)):
        return Ignored(IgnoreReason.MALFORMED)
    if name not in SUGGESTED:
        return Ignored(IgnoreReason.UNSUPPORTED)
    is_direct, is_reply = channel.startswith("D"), bool(_TS.fullmatch(thread_ts)) and thread_ts != message_ts
    team_id = text(user.get("team_id"))
    target = SlackTarget(
        channel,
        thread_ts if is_reply else None,
        user_id=user_id,
        team_id=team_id if _ID.fullmatch(team_id) else me.team_id,
        link=link or None,
        is_aside=bool(link) and not is_direct,
    )
    words = f"/{name} {argument}".strip()
    place = (channel, thread_ts) if is_reply else () if is_direct else (channel,)
    return Incoming(
        id=f"{me.channel}:{me.account}:pick:{channel}.{message_ts}.{user_id}.{at}",
        channel=me.channel,
        account=me.account,
        user_id=presser(user, me),
        author_name=text(user.get("name")) or text(user.get("username")) or user_id,
        place=place,
        is_private=is_direct,
        addressing=Addressing.PRIVATE if is_direct else Addressing.COMMAND,
        text=words,
        address=ReplyAddress(me.channel, target.lane, make_target(target)),
        sent_at_ms=0,
        command=find_command(words),
        realm=realm_of(body, me),
        is_nameable=target.is_nameable,
    )
