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

from channels.normalized import (
    Addressing,
    FileReference,
    Ignored,
    IgnoreReason,
    Incoming,
    Retraction,
    find_command,
    without,
)
from channels.raw import Raw, canonical, integer, mapping, mappings, text
from channels.slack.address import SlackTarget, make_target
from channels.slack.commands import spelled_out
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import AttachmentKind

TakesPart: TypeAlias = Callable[[str, str], bool]
"""`takes_part(channel, thread_ts)`: the bot has spoken in that thread, or was called into it."""

USER_SUBTYPES: Final = frozenset({"", "file_share", "thread_broadcast", "me_message"})

_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TS: Final = re.compile(r"(\d{1,12})\.(\d{1,6})")
_TOKEN: Final = re.compile(r"<([^<>\s|][^<>|]*)(?:\|([^<>]*))?>")
_GONE_FILES: Final = ("tombstone", "hidden_by_limit")


@dataclass(frozen=True, slots=True)
class SlackIdentity:
    """Who we are, from auth.test. `channel` is the first part of session keys: `slack`, or `slack.T123`
    where several workspaces are served."""

    team_id: str
    user_id: str
    bot_id: str = ""
    enterprise_id: str = ""
    channel: str = "slack"

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
    if event.get("subtype") == "message_deleted":
        return _deletion(event, payload, me)
    if event.get("subtype") == "message_changed":
        return _edit(event, payload, me, takes_part, names or {})
    return _message(event, payload, me, takes_part, names or {})


def _edit(
    event: Raw, payload: Raw, me: SlackIdentity, takes_part: TakesPart, names: Mapping[str, str]
) -> Incoming | Ignored:
    """Unfurls and our own updates fire `message_changed` too: a person's edit has an `edited` mark and a
    text that differs."""
    message, previous = mapping(event.get("message")), mapping(event.get("previous_message"))
    edited_at_ms = _ms(text(mapping(message.get("edited")).get("ts")))
    by_author = text(mapping(message.get("edited")).get("user")) in ("", text(message.get("user")))
    if edited_at_ms is None or not by_author or message.get("text") == previous.get("text"):
        return Ignored(IgnoreReason.NOT_AN_EDIT)
    inner = {**message, "channel": event.get("channel"), "channel_type": event.get("channel_type")}
    return _message(inner, payload, me, takes_part, names, edited_at_ms=edited_at_ms)


def _deletion(event: Raw, payload: Raw, me: SlackIdentity) -> Retraction | Ignored:
    """`deleted_ts` is the message; what it was stands in `previous_message`."""
    previous = mapping(event.get("previous_message"))
    reason = _reason_to_ignore(previous, me)
    if reason:
        return Ignored(reason)
    channel, ts = text(event.get("channel")), text(event.get("deleted_ts"))
    user = text(previous.get("user"))
    if not (_ID.fullmatch(channel) and _ID.fullmatch(user)) or _ms(ts) is None:
        return Ignored(IgnoreReason.MALFORMED)
    is_private = event.get("channel_type") == "im" or channel.startswith("D")
    return Retraction(
        id=f"{me.channel}:{me.account}:{channel}:{ts}",
        channel=me.channel,
        place=_place(channel, _thread(previous), is_private=is_private),
        user_id=_person(previous, payload, me),
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
    user, sent_at_ms = text(event.get("user")), _ms(ts)
    if not (_ID.fullmatch(channel) and _ID.fullmatch(user)) or sent_at_ms is None:
        return Ignored(IgnoreReason.MALFORMED)
    content = text(event.get("text"))
    attachments = tuple(_attachments(event))
    mentions = tuple(_own_mentions(content, me))
    if not content.strip() and not attachments:
        return Ignored(IgnoreReason.EMPTY)
    words = spelled_out(_readable(without(content, mentions) or content, names))
    is_private = event.get("channel_type") == "im" or channel.startswith("D")
    thread_ts = _thread(event)
    target = SlackTarget(channel, thread_ts, ts, user, _team(event, me))
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
        command=find_command(words),
        realm=realm_of(payload, me),
    )


def _reason_to_ignore(event: Raw, me: SlackIdentity) -> IgnoreReason | None:
    if event.get("user") == me.user_id or (me.bot_id and event.get("bot_id") == me.bot_id):
        return IgnoreReason.OWN
    if event.get("bot_id") or event.get("bot_profile") or event.get("subtype") == "bot_message":
        return IgnoreReason.BOT
    if text(event.get("subtype")) not in USER_SUBTYPES or event.get("hidden") is True:
        return IgnoreReason.SERVICE
    return None


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
    user = text(event.get("user"))
    team = text(event.get("user_team")) or text(event.get("source_team"))
    is_foreign = payload.get("is_ext_shared_channel") is True and team not in ("", me.team_id, me.enterprise_id)
    return f"{team}.{user}" if is_foreign and _ID.fullmatch(team) else user


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
    return names.get(user) or said or user


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
    for match in _TOKEN.finditer(content):
        if match[1] == f"@{me.user_id}":
            yield match.span()


def _readable(content: str, names: Mapping[str, str]) -> str:
    """Mentions by name, links with their address, and only then the entities: an escaped `<@U1>` that a
    person typed is no mention."""
    return unescaped(_TOKEN.sub(lambda match: _token(match[1], match[2] or "", names), content))


def unescaped(content: str) -> str:
    """Slack escapes these three and nothing else."""
    return content.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _token(link: str, label: str, names: Mapping[str, str]) -> str:
    sign, name = link[:1], link[1:]
    if sign == "@":
        return f"@{label or names.get(name, name)}"
    if sign == "#":
        return f"#{label or name}"
    if sign == "!":
        return label or "@" + name.partition("^")[0]
    address = link.removeprefix("mailto:").removeprefix("tel:")
    is_same = label in ("", link, address) or link in (f"http://{label}", f"https://{label}")
    return address if is_same else f"{label} ({address})"


def _attachments(event: Raw) -> Iterator[FileReference]:
    for file in mappings(event.get("files")):
        file_id = text(file.get("id"))
        if not _ID.fullmatch(file_id) or file.get("mode") in _GONE_FILES:
            continue
        media_type = text(file.get("mimetype")) or "application/octet-stream"
        yield FileReference(
            kind=_kind(file, media_type),
            reference=canonical({"id": file_id}),
            name=text(file.get("name")) or text(file.get("title")) or file_id,
            media_type=media_type,
            size_bytes=integer(file.get("size")),
        )


def _kind(file: Raw, media_type: str) -> AttachmentKind:
    if file.get("subtype") == "slack_audio":
        return AttachmentKind.VOICE
    kinds = {"image": AttachmentKind.IMAGE, "audio": AttachmentKind.AUDIO, "video": AttachmentKind.VIDEO}
    return kinds.get(media_type.partition("/")[0], AttachmentKind.DOCUMENT)
