"""A raw Events API payload becomes an `Incoming`, or the reason why it does not. Never raises on any JSON.

A mention in a channel arrives twice, as `message` and as `app_mention`; both get the same id here. The
account in that id is the installation, not the event's team: in a channel shared between workspaces the
same message comes once per team.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from channels.normalized import Addressing, Ignored, IgnoreReason, Incoming, Migrated, Retraction, without
from channels.raw import Raw, mapping, mappings, text
from channels.slack.address import SlackTarget, make_target
from channels.slack.commands import picks_below, spelled_out
from channels.slack.quotes import forwarded
from channels.slack.references import references
from channels.slack.rich_text import said_in
from channels.slack.wording import TOKEN, readable
from gateway.contracts.commands import find_command
from gateway.contracts.ids import ReplyAddress

TakesPart: TypeAlias = Callable[[str, str], bool]
"""`takes_part(channel, thread_ts)`: the bot has spoken in that thread, or was called into it."""

USER_SUBTYPES: Final = frozenset({"", "file_share", "thread_broadcast", "me_message"})

_SLACKBOT: Final = "USLACKBOT"
"""Slack itself: it has neither a bot id nor a profile of one."""
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TS: Final = re.compile(r"(\d{1,12})\.(\d{1,6})")


@dataclass(frozen=True, slots=True)
class SlackIdentity:
    """Who we are, from auth.test. `channel` is the first part of session keys: `slack`, or `slack.T123`
    where several workspaces are served. `bots` are other bots that we hear, by either of their ids.
    With `begins_threads` a mention in a channel is answered in its own thread."""

    team_id: str
    user_id: str
    bot_id: str = ""
    enterprise_id: str = ""
    channel: str = "slack"
    bots: frozenset[str] = frozenset()
    begins_threads: bool = False

    @property
    def account(self) -> str:
        return self.enterprise_id or self.team_id


def normalize(
    raw: object, me: SlackIdentity, *, takes_part: TakesPart, names: Mapping[str, str] | None = None
) -> Incoming | Retraction | Ignored:
    """Read one `event_callback` payload (the outer object that holds `event`).

    `names` are the display names known for user ids; unknown users appear by id.
    """
    payload = mapping(raw)
    event = mapping(payload.get("event"))
    if event.get("type") not in ("message", "app_mention"):
        return Ignored(IgnoreReason.UNSUPPORTED)
    if _is_for_another(payload, me):
        return Ignored(IgnoreReason.OTHER_BOT)
    message = mapping(event.get("message"))
    if event.get("subtype") == "message_deleted":
        return _deletion(text(event.get("deleted_ts")), event, payload, me, takes_part)
    if event.get("subtype") == "message_changed" and message.get("subtype") == "tombstone":
        return _deletion(text(message.get("ts")), event, payload, me, takes_part)
    if event.get("subtype") == "message_changed":
        return _edit(event, payload, me, takes_part, names or {})
    return _message(event, payload, me, takes_part, names or {}, edited_at_ms=_called_late(event))


def moved(body: Raw) -> Migrated | None:
    """Whether a channel has got another id."""
    event = mapping(body.get("event"))
    old, new = text(event.get("old_channel_id")), text(event.get("new_channel_id"))
    is_one = event.get("type") == "channel_id_changed" and _ID.fullmatch(old) and _ID.fullmatch(new)
    return Migrated(old, new) if is_one else None


def _is_for_another(payload: Raw, me: SlackIdentity) -> bool:
    """One app may be installed in several workspaces, whose events all come over each of its sockets. In a channel
    that they share any of them may be named."""
    installs = mappings(payload.get("authorizations"))
    if not (me.team_id and installs) or payload.get("is_ext_shared_channel") is True:
        return False
    ours = {me.team_id, me.enterprise_id, me.user_id} - {""}
    return not any(
        ours & {text(each.get(name)) for name in ("team_id", "enterprise_id", "user_id")} for each in installs
    )


def _called_late(event: Raw) -> int | None:
    """Whoever writes our name into a message that he wrote before mentions us with an edit."""
    if event.get("type") != "app_mention":
        return None
    return _ms(text(mapping(event.get("edited")).get("ts")))


def _edit(
    event: Raw, payload: Raw, me: SlackIdentity, takes_part: TakesPart, names: Mapping[str, str]
) -> Incoming | Ignored:
    """Unfurls and our own updates fire `message_changed` too: a person's edit has an `edited` mark and a
    text that differs."""
    message, previous = mapping(event.get("message")), mapping(event.get("previous_message"))
    edited_at_ms = _ms(text(mapping(message.get("edited")).get("ts")))
    by_author = text(mapping(message.get("edited")).get("user")) in ("", text(message.get("user")))
    if edited_at_ms is None or not by_author or said_in(message) == said_in(previous):
        return Ignored(IgnoreReason.NOT_AN_EDIT)
    inner = {**message, "channel": event.get("channel"), "channel_type": event.get("channel_type")}
    return _message(inner, payload, me, takes_part, names, edited_at_ms=edited_at_ms)


def _deletion(ts: str, event: Raw, payload: Raw, me: SlackIdentity, takes_part: TakesPart) -> Retraction | Ignored:
    """The message `ts`. What it was stands in `previous_message`, unless Slack says nothing of it any more; a root
    that has replies is not taken away but becomes a tombstone."""
    previous = mapping(event.get("previous_message"))
    reason = _reason_to_ignore(previous, me)
    if reason:
        return Ignored(reason)
    channel, user = text(event.get("channel")), _speaker(previous)
    if not _ID.fullmatch(channel) or (user and not _ID.fullmatch(user)) or _ms(ts) is None:
        return Ignored(IgnoreReason.MALFORMED)
    is_private = event.get("channel_type") == "im" or channel.startswith("D")
    begun = ts if me.begins_threads and takes_part(channel, ts) else None
    return Retraction(
        id=f"{me.channel}:{me.account}:{channel}:{ts}",
        channel=me.channel,
        place=_place(channel, _thread(previous) or begun, is_private=is_private),
        user_id=_person(previous, payload, me) if user else "",
    )


def _message(
    event: Raw,
    payload: Raw,
    me: SlackIdentity,
    takes_part: TakesPart,
    names: Mapping[str, str],
    *,
    edited_at_ms: int | None = None,
) -> Incoming | Ignored:
    reason = _reason_to_ignore(event, me)
    if reason:
        return Ignored(reason)
    channel, ts = text(event.get("channel")), text(event.get("ts"))
    user, sent_at_ms = _speaker(event), _ms(ts)
    if not (_ID.fullmatch(channel) and _ID.fullmatch(user)) or sent_at_ms is None:
        return Ignored(IgnoreReason.MALFORMED)
    content = said_in(event)
    attachments = tuple(references(event))
    mentions = tuple(_own_mentions(content, me))
    quotes = tuple(forwarded(event, names))
    if not (content.strip() or attachments or quotes):
        return Ignored(IgnoreReason.EMPTY)
    words = spelled_out(readable(without(content, mentions) or content, names))
    is_private = event.get("channel_type") == "im" or channel.startswith("D")
    thread_ts = _thread(event)
    if thread_ts is None and me.begins_threads and not is_private:
        is_called = bool(mentions) or event.get("type") == "app_mention"
        thread_ts = ts if (is_called if edited_at_ms is None else takes_part(channel, ts)) else None
    command = find_command(words)
    target = SlackTarget(channel, thread_ts, ts, user, _team(event, me), picks=picks_below(command))
    return Incoming(
        id=f"{me.channel}:{me.account}:{channel}:{ts}",
        channel=me.channel,
        account=me.account,
        user_id=_person(event, payload, me),
        author_name=_author_name(event, user, names),
        place=_place(channel, thread_ts, is_private=is_private),
        is_private=is_private,
        addressing=Addressing.PRIVATE if is_private else _addressing(event, target, me, takes_part, mentions),
        text=words,
        address=ReplyAddress(me.channel, target.lane, make_target(target)),
        sent_at_ms=sent_at_ms,
        edited_at_ms=edited_at_ms,
        attachments=attachments,
        command=command,
        realm=realm_of(payload, me),
        quotes=quotes,
        is_bot=_is_bot(event),
        is_nameable=target.is_nameable,
    )


def _reason_to_ignore(event: Raw, me: SlackIdentity) -> IgnoreReason | None:
    if event.get("user") == me.user_id or (me.bot_id and event.get("bot_id") == me.bot_id):
        return IgnoreReason.OWN
    if _is_bot(event):
        if not me.bots & {text(event.get("user")), text(event.get("bot_id"))}:
            return IgnoreReason.BOT
        if event.get("subtype") == "bot_message":
            return None
    if text(event.get("subtype")) not in USER_SUBTYPES or event.get("hidden") is True:
        return IgnoreReason.SERVICE
    return None


def _is_bot(event: Raw) -> bool:
    is_marked = bool(event.get("bot_id") or event.get("bot_profile") or event.get("subtype") == "bot_message")
    return is_marked or event.get("user") == _SLACKBOT


def _speaker(event: Raw) -> str:
    """Whose message it is. A bot that posts by an old webhook is no user of the workspace."""
    return text(event.get("user")) or text(event.get("bot_id"))


def _ms(ts: str) -> int | None:
    """A Slack timestamp in milliseconds, without ever being a float."""
    match = _TS.fullmatch(ts)
    return int(match[1]) * 1000 + int(match[2].ljust(6, "0")) // 1000 if match else None


def _place(channel: str, thread_ts: str | None, *, is_private: bool) -> tuple[str, ...]:
    """A thread is a place of its own; so is the top level of a channel, where everything has one session."""
    if thread_ts:
        return (channel, thread_ts)
    return () if is_private else (channel,)


def _thread(event: Raw) -> str | None:
    """The thread a message lies in. A root that has replies names itself: it is still top level."""
    thread_ts = text(event.get("thread_ts"))
    return thread_ts if _TS.fullmatch(thread_ts) and thread_ts != event.get("ts") else None


def _person(event: Raw, payload: Raw, me: SlackIdentity) -> str:
    """The user's id; that of another workspace's user (Slack Connect) carries the workspace."""
    user = _speaker(event)
    team = text(event.get("user_team")) or text(event.get("source_team"))
    is_foreign = payload.get("is_ext_shared_channel") is True and team not in ("", me.team_id, me.enterprise_id)
    return f"{team}.{user}" if is_foreign and _ID.fullmatch(team) else user


def presser(user: Raw, me: SlackIdentity) -> str:
    """The same for somebody who pressed a button or picked a line. What he is a member of is said, and not whether the
    channel is shared; of a whole organisation all people have ids of their own."""
    user_id, team = text(user.get("id")), text(user.get("team_id"))
    is_foreign = not me.enterprise_id and team not in ("", me.team_id) and _ID.fullmatch(team)
    return f"{team}.{user_id}" if is_foreign else user_id


def _team(event: Raw, me: SlackIdentity) -> str:
    """The workspace of the one who wrote."""
    said = (text(event.get(name)) for name in ("user_team", "source_team", "team"))
    return next(filter(_ID.fullmatch, said), me.team_id)


def realm_of(payload: Raw, me: SlackIdentity) -> str:
    """Our own workspace, also for what comes from a foreign one; of an app for a whole organisation, the one in which
    it was said."""
    team_id = text(payload.get("team_id"))
    return me.team_id or (team_id if _ID.fullmatch(team_id) else "")


def _author_name(event: Raw, user: str, names: Mapping[str, str]) -> str:
    profile = mapping(event.get("user_profile"))
    said = text(profile.get("display_name")) or text(profile.get("real_name"))
    bot = text(mapping(event.get("bot_profile")).get("name")) or text(event.get("username"))
    return names.get(user) or said or bot or user


def _addressing(
    event: Raw, target: SlackTarget, me: SlackIdentity, takes_part: TakesPart, mentions: tuple[tuple[int, int], ...]
) -> Addressing:
    if mentions or event.get("type") == "app_mention":
        return Addressing.MENTION
    thread_ts = _thread(event)
    if thread_ts and (event.get("parent_user_id") == me.user_id or takes_part(target.channel, thread_ts)):
        return Addressing.THREAD
    return Addressing.NOT_ADDRESSED


def _own_mentions(content: str, me: SlackIdentity) -> Iterator[tuple[int, int]]:
    for match in TOKEN.finditer(content):
        if match[1] == f"@{me.user_id}":
            yield match.span()
