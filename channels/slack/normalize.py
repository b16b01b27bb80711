"""Make an `Incoming` of a raw Slack payload, or say why it is none. Never raise on any JSON. Pure.

A mention in a channel arrives twice, as `message` and as `app_mention`; both get the same id here. The account in
that id is the installation, not the event's team: in a channel shared between workspaces the same message comes once
per team."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, TypeAlias

from channels.core.message import (
    TARGETS_KEPT,
    Addressing,
    Ignored,
    IgnoreReason,
    Incoming,
    Migrated,
    Raw,
    Retraction,
    canonical,
    fields_of,
    mapping,
    mappings,
    target_fields,
    text,
    without,
)
from channels.slack.content import TOKEN, forwarded, readable, references, said_in
from channels.slack.render import PICK
from gateway.contracts.commands import COMMANDS, Command, Suggests, command_behind_name, find_command
from gateway.contracts.errors import BadEnvelope
from gateway.contracts.ids import ReplyAddress

# Where a Slack answer goes: the part of a `ReplyAddress` that only this channel reads.


@dataclass(frozen=True, slots=True)
class SlackTarget:
    """The target of a message. `thread_ts` is None at the top level of a channel or a direct message. `message_ts`
    is the message answered. Timestamps stay text: as numbers they would lose digits.

    `user_id` and `team_id` are the person who is answered, by Slack's ids: a stream has to name its recipient.
    `link` is the name under which the bus keeps the `response_url` of a slash command, never the address itself;
    `is_aside`: only the person who asked shall see the answer. `picks`: the command whose argument can be picked
    from a list below the answer."""

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
        """Tell whether this is a direct message, of the person to us or to somebody else."""
        return self.channel.startswith("D")

    @property
    def is_nameable(self) -> bool:
        """Tell whether the place can have a name: the threads of an app's direct messages are listed by their titles;
        no other thread has a name."""
        return self.is_direct and self.thread_ts is not None and not self.is_aside


def make_target(target: SlackTarget) -> str:
    """Write canonical JSON, without the fields that are empty or false."""
    return canonical({name: value or None for name, value in fields_of(target).items()})


@lru_cache(maxsize=TARGETS_KEPT)
def parse_target(target: str) -> SlackTarget:
    """Read what `make_target` wrote. Raises `BadEnvelope`."""
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
    """Return the same place under the other id of its channel. Raises `BadEnvelope`."""
    target = parse_target(address.target)
    if target.channel == channel:
        return address
    target = replace(target, channel=channel)
    return ReplyAddress(address.channel, target.lane, make_target(target))


# The words after `/trivet`: a command of ours, or words that are said to us. Pure.

SLASH: Final = "/trivet"

_TYPED: Final = re.compile(rf"\s*{SLASH}(?:\s+(.*))?", re.DOTALL | re.IGNORECASE)
_MARKED: Final = re.compile(r"\s*!([a-z].*)", re.DOTALL | re.IGNORECASE)
_NAMES: Final = frozenset(spec.name for spec in COMMANDS)
SUGGESTED: Final = frozenset(spec.name for spec in COMMANDS if spec.suggests is not Suggests.NOTHING)
"""Commands whose argument we can suggest."""
_LISTED_BY: Final[Mapping[str, str]] = {"sessions": "resume"} | {name: name for name in SUGGESTED}
_SPOKEN_ARGUMENTS: Final = frozenset({"retry", "plan"})
"""Commands that the model answers: what it says belongs to the conversation."""


def picks_below(command: Command | None) -> str | None:
    """Return the command whose argument can be picked below the answer to this one."""
    return _LISTED_BY.get(command.name) if command is not None and not command.arguments else None


def meant(words: str) -> str:
    """Return the text of the message: `new` is `/new`, nothing is `/help`, and a text that is no command is a plain
    message."""
    said = words.strip()
    command = None if said.startswith("/") else command_behind_name(said)
    return command.text if command is not None else said


def meant_by(slash: str, words: str) -> str:
    """Return the text for any slash command of the app: one that is named after a command of ours is that command, for
    any other see `meant`."""
    name = slash.removeprefix("/").lower()
    return f"/{name} {words.strip()}".strip() if name in _NAMES else meant(words)


def spelled_out(text: str) -> str:
    """Read a message in which somebody typed `/trivet …` as the slash command would be read, and so `!new`, since Slack
    takes no slash commands in threads; any other message stays as it is."""
    if match := _TYPED.fullmatch(text):
        return meant(match[1] or "")
    match = _MARKED.fullmatch(text)
    command = command_behind_name(match[1]) if match else None
    return command.text if command is not None else text


def is_for_one(text: str) -> bool:
    """Tell whether the answer interests only the person who asked."""
    command = find_command(text)
    return command is not None and command.name not in _SPOKEN_ARGUMENTS


TakesPart: TypeAlias = Callable[[str, str], bool]
"""`takes_part(channel, thread_ts)`: the bot has spoken in that thread, or was called into it."""

USER_SUBTYPES: Final = frozenset({"", "file_share", "thread_broadcast", "me_message"})

_SLACKBOT: Final = "USLACKBOT"
"""Slack itself: it has neither a bot id nor a profile of one."""
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TS: Final = re.compile(r"(\d{1,12})\.(\d{1,6})")


@dataclass(frozen=True, slots=True)
class SlackIdentity:
    """Our identity, from auth.test. `channel` is the first part of session keys: `slack`, or `slack.T123` where several
    workspaces are served. `bots` are other bots that we hear, by either of their ids. With `begins_threads` a mention
    in a channel is answered in its own thread."""

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

    `names` are the display names known for user ids; unknown users appear by id."""
    payload = mapping(raw)
    event = mapping(payload.get("event"))
    if event.get("type") not in ("message", "app_mention"):
        return Ignored(IgnoreReason.UNSUPPORTED)
    if _is_for_another(payload, event, me):
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
    """Return the move if a channel has got another id."""
    event = mapping(body.get("event"))
    old, new = text(event.get("old_channel_id")), text(event.get("new_channel_id"))
    is_one = event.get("type") == "channel_id_changed" and _ID.fullmatch(old) and _ID.fullmatch(new)
    return Migrated(old, new) if is_one else None


def _is_for_another(payload: Raw, event: Raw, me: SlackIdentity) -> bool:
    """Tell whether the event is for another workspace's installation. One app may be installed in several workspaces,
    whose events all come over each of its sockets. In a channel that they share any of them may be named; what is said
    there to the app by name is said to the one that the text names."""
    installs = mappings(payload.get("authorizations"))
    named = {text(each.get(name)) for each in installs for name in ("team_id", "user_id")}
    in_organisation = me.enterprise_id in {text(each.get("enterprise_id")) for each in installs} - {""}
    is_of_all = in_organisation and any(each.get("is_enterprise_install") is True for each in installs)
    if not (me.team_id and installs) or is_of_all or named & {me.team_id, me.user_id}:
        return False
    if event.get("channel_type") == "im" or not (in_organisation or payload.get("is_ext_shared_channel") is True):
        return True
    return event.get("type") == "app_mention" and not any(_own_mentions(said_in(event), me))


def _called_late(event: Raw) -> int | None:
    """Return the time of the edit by which an author adds our name to an earlier message: Slack reports that as a
    mention."""
    if event.get("type") != "app_mention":
        return None
    return _ms(text(mapping(event.get("edited")).get("ts")))


def _edit(
    event: Raw, payload: Raw, me: SlackIdentity, takes_part: TakesPart, names: Mapping[str, str]
) -> Incoming | Ignored:
    """Understand an edit. Unfurls and our own updates fire `message_changed` too: a person's edit has an `edited` mark
    and a text that differs."""
    message, previous = mapping(event.get("message")), mapping(event.get("previous_message"))
    edited_at_ms = _ms(text(mapping(message.get("edited")).get("ts")))
    by_author = text(mapping(message.get("edited")).get("user")) in ("", text(message.get("user")))
    if edited_at_ms is None or not by_author or said_in(message) == said_in(previous):
        return Ignored(IgnoreReason.NOT_AN_EDIT)
    inner = {**message, "channel": event.get("channel"), "channel_type": event.get("channel_type")}
    return _message(inner, payload, me, takes_part, names, edited_at_ms=edited_at_ms)


def _deletion(ts: str, event: Raw, payload: Raw, me: SlackIdentity, takes_part: TakesPart) -> Retraction | Ignored:
    """Understand the deletion of the message `ts`. Its former content is in `previous_message`, unless Slack says
    nothing of it any more; a root that has replies is not taken away but becomes a tombstone."""
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
    """Return the author of a message. A bot that posts by an old webhook is no user of the workspace."""
    return text(event.get("user")) or text(event.get("bot_id"))


def _ms(ts: str) -> int | None:
    """Convert a Slack timestamp to milliseconds, without ever being a float."""
    match = _TS.fullmatch(ts)
    return int(match[1]) * 1000 + int(match[2].ljust(6, "0")) // 1000 if match else None


def _place(channel: str, thread_ts: str | None, *, is_private: bool) -> tuple[str, ...]:
    """Return the place: a thread is a place of its own; so is the top level of a channel, where everything has one
    session."""
    if thread_ts:
        return (channel, thread_ts)
    return () if is_private else (channel,)


def _thread(event: Raw) -> str | None:
    """Return the thread a message lies in. A root that has replies names itself: it is still top level."""
    thread_ts = text(event.get("thread_ts"))
    return thread_ts if _TS.fullmatch(thread_ts) and thread_ts != event.get("ts") else None


def _person(event: Raw, payload: Raw, me: SlackIdentity) -> str:
    """Return the user's id; that of another workspace's user (Slack Connect) carries the workspace."""
    user = _speaker(event)
    team = text(event.get("user_team")) or text(event.get("source_team"))
    is_foreign = payload.get("is_ext_shared_channel") is True and team not in ("", me.team_id, me.enterprise_id)
    return f"{team}.{user}" if is_foreign and _ID.fullmatch(team) else user


def presser(user: Raw, me: SlackIdentity) -> str:
    """Return the id of a user who pressed a button or picked a line. Slack names that user's workspace, but does not
    say whether the channel is shared; in an organisation-wide installation all people have ids of their own."""
    user_id, team = text(user.get("id")), text(user.get("team_id"))
    is_foreign = not me.enterprise_id and team not in ("", me.team_id) and _ID.fullmatch(team)
    return f"{team}.{user_id}" if is_foreign else user_id


def _team(event: Raw, me: SlackIdentity) -> str:
    """Return the workspace of the author."""
    said = (text(event.get(name)) for name in ("user_team", "source_team", "team"))
    return next(filter(_ID.fullmatch, said), me.team_id)


def realm_of(payload: Raw, me: SlackIdentity) -> str:
    """Return our own workspace, also for a message from a foreign one; for an app of a whole organisation, the
    workspace in which the message was said."""
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


# A `block_actions` payload becomes the press of a button, or the reason why it does not. Never raises on any JSON.
#
# The person who pressed is in `user`, which Slack fills in; a button's `value` is only a claim. A press has no id of
# its own: message, person and time of the action make one. It belongs to the person, not to the channel: its place is
# empty.

_MESSAGE_TS: Final = re.compile(r"\d{1,12}\.\d{1,6}")


def _action(body: Raw) -> Raw:
    return next(iter(mappings(body.get("actions"))), {})


def is_press(body: Raw) -> bool:
    """Tell whether somebody used a block of ours."""
    return body.get("type") == "block_actions"


def normalize_press(body: Raw, me: SlackIdentity) -> Incoming | Ignored:
    """Read one press."""
    container, person = mapping(body.get("container")), mapping(body.get("user"))
    action = _action(body)
    channel, user_id = text(container.get("channel_id")), text(person.get("id"))
    message_ts, action_ts = text(container.get("message_ts")), text(action.get("action_ts"))
    is_whole = all(map(_ID.fullmatch, (channel, user_id))) and all(map(_MESSAGE_TS.fullmatch, (message_ts, action_ts)))
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
        command=find_command(said),
    )


def stopped_stream(target: SlackTarget, ts: str, me: SlackIdentity) -> Incoming:
    """Return what Slack's own stop below a growing answer means: /stop, by the person who is answered, where the answer
    grows. Slack names nobody, and shows it to that person."""
    said, place = "/stop", _place(target.channel, target.thread_ts, is_private=target.is_direct)
    return Incoming(
        id=f"{me.channel}:{me.account}:stopped:{target.channel}.{ts}",
        channel=me.channel,
        account=me.account,
        user_id=presser({"id": target.user_id, "team_id": target.team_id}, me),
        author_name=target.user_id or "",
        place=place,
        is_private=target.is_direct,
        addressing=Addressing.COMMAND,
        text=said,
        address=ReplyAddress(me.channel, target.lane, make_target(target)),
        command=find_command(said),
        realm=me.team_id,
    )


# A slash command becomes an `Incoming`. Never raises on any JSON. Pure.
#
# It has no timestamp and does not exist in threads, and it may be given where we are no member. With it Slack gives an
# address that takes a few answers for half an hour; here it is only named, and kept elsewhere.

_TRIGGER: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")


def is_slash(body: Raw) -> bool:
    """Tell whether somebody gave a slash command."""
    return "command" in body


def normalize_slash(raw: object, me: SlackIdentity) -> Incoming | Ignored:
    """Read one slash command (`/trivet status`): the text becomes the command itself, `/status`.

    `trigger_id` is unique for each. The answer to a command is for the person who gave it."""
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
        command=command,
        realm=realm_of(payload, me),
    )


def response_url_of(body: Raw) -> str:
    """Return the URL that answers the person who gave a command, or pressed a button: five times, for half an hour."""
    return text(body.get("response_url"))


# Lists below an answer, from which the argument of a command is picked: Slack's questions, and the picks.
#
# Never raises on any JSON. Pure. To pick an argument is to give the command, as if it had been typed.


def is_question(body: Raw) -> bool:
    """Tell whether Slack asks for the content of a list."""
    return body.get("type") == "block_suggestion"


def is_pick(body: Raw) -> bool:
    """Tell whether somebody picked something from a list of ours."""
    return is_press(body) and _action(body).get("type") == "external_select"


def normalize_question(body: Raw, me: SlackIdentity) -> Incoming | Ignored:
    """Return the command as far as somebody has typed it while picking."""
    return _chosen(body, me, text(body.get("action_id")), text(body.get("value")), "")


def normalize_pick(body: Raw, me: SlackIdentity) -> Incoming | Ignored:
    """Return the command with the picked value."""
    action = _action(body)
    action_ts, trigger = text(action.get("action_ts")), text(body.get("trigger_id"))
    if not (_MESSAGE_TS.fullmatch(action_ts) and _TRIGGER.fullmatch(trigger)):
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
    if not (_ID.fullmatch(channel) and _ID.fullmatch(user_id) and _MESSAGE_TS.fullmatch(message_ts)):
        return Ignored(IgnoreReason.MALFORMED)
    if name not in SUGGESTED:
        return Ignored(IgnoreReason.UNSUPPORTED)
    is_direct, is_reply = channel.startswith("D"), bool(_MESSAGE_TS.fullmatch(thread_ts)) and thread_ts != message_ts
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
        command=find_command(words),
        realm=realm_of(body, me),
        is_nameable=target.is_nameable,
    )
