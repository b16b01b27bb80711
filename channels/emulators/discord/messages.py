"""Messages and threads: what a request may write, and the rules that hold for bots and people alike."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from channels.emulators.discord.gateway import DiscordEvents
from channels.emulators.discord.world import (
    AttachmentObject,
    Channel,
    DiscordDraft,
    DiscordRefusal,
    DiscordState,
    DiscordUser,
    Mentions,
    MessageFlag,
    MessageKind,
    MessageObject,
    empty_message,
    invalid_form,
    unknown,
)
from channels.emulators.stage import Json, fields_of

# --- what a text mentions, and what the sender allowed it to ping


ALLOWED_LIST_MAX: Final = 100

_CODE: Final = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
_USER: Final = re.compile(r"<@!?(\d+)>")
_ROLE: Final = re.compile(r"<@&(\d+)>")
_EVERYONE: Final = re.compile(r"@(?:everyone|here)\b")


def mentions_in(content: str) -> Mentions:
    """Find everything the text names, outside code: Discord pings nobody from inside a code block."""
    spoken = _CODE.sub(" ", content)
    return Mentions(
        users=tuple(dict.fromkeys(int(found) for found in _USER.findall(spoken))),
        roles=tuple(dict.fromkeys(int(found) for found in _ROLE.findall(spoken))),
        everyone=_EVERYONE.search(spoken) is not None,
    )


def allowed(found: Mentions, permit: Json | None, *, replied_to: int | None) -> Mentions:
    """Keep what `allowed_mentions` allows; without one, everything, and the author of the message replied to.

    Raises `DiscordRefusal` (50035) for a permit that Discord rejects."""
    if permit is None:
        users = found.users if replied_to is None else (*found.users, replied_to)
        return Mentions(tuple(dict.fromkeys(users)), found.roles, found.everyone)
    parse = permit.get("parse") or []
    users = _permitted(found.users, "users", parse, permit)
    roles = _permitted(found.roles, "roles", parse, permit)
    if replied_to is not None and permit.get("replied_user"):
        users = (*users, replied_to)
    return Mentions(tuple(dict.fromkeys(users)), roles, found.everyone and "everyone" in parse)


def _permitted(found: tuple[int, ...], kind: str, parse: list[str], permit: Json) -> tuple[int, ...]:
    listed = [int(item) for item in permit.get(kind) or []]
    if len(listed) > ALLOWED_LIST_MAX:
        raise invalid_form(f"allowed_mentions.{kind}", "BASE_TYPE_BAD_LENGTH", "Must be between 0 and 100 in length.")
    if kind in parse and listed:
        raise invalid_form(
            "allowed_mentions", "MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE", f'parse:["{kind}"] and {kind}: exclude.'
        )
    return found if kind in parse else tuple(item for item in found if item in listed)


# --- writing, changing and taking back messages, and starting threads


THREAD_NAME_MAX: Final = 100
FORWARD: Final = 1  # a kind of reference; 0 is that of an answer
AUTO_ARCHIVE_MIN: Final = 1440
ARCHIVE_CHOICES_MIN: Final = (60, 1440, 4320, 10080)


@dataclass(slots=True)
class DiscordPosting:
    world: DiscordState
    events: DiscordEvents

    def post(
        self, channel: Channel, author: DiscordUser, draft: DiscordDraft, *, reply_to: MessageObject | None = None
    ) -> MessageObject:
        """Keep the message, wake an archived thread, and tell everybody."""
        if channel.is_thread and channel.archived:
            if channel.locked:
                raise DiscordRefusal(
                    400, 50083, "Tried to perform an operation on an archived thread, such as editing a message"
                )
            channel.archived = False
            self.events.thread_changed(channel)
        if reply_to is not None:
            draft = replace(draft, kind=draft.kind or MessageKind.REPLY, reference=self._reference(reply_to))
        now_ms, message_id = self.world.now_ms(), self.world.new_id()
        message = MessageObject(**fields_of(draft), id=message_id, channel_id=channel.id, author=author, at_ms=now_ms)
        channel.messages[message.id] = message
        if channel.is_thread and author.id not in channel.member_ids:
            channel.member_ids.append(author.id)
        self.events.said(message)
        return message

    def forward(self, channel: Channel, author: DiscordUser, message: MessageObject) -> MessageObject:
        """Post a message without words of its own: it refers to another one and carries it as it is now."""
        source = message.passed_on or message
        reference = self._reference(message) | {"type": FORWARD}
        return self.post(
            channel,
            author,
            DiscordDraft(flags=MessageFlag.HAS_SNAPSHOT, reference=reference, passed_on=replace(source)),
        )

    def _reference(self, target: MessageObject) -> Json:
        guild_id = self.world.channels[target.channel_id].guild_id
        reference: Json = {"type": 0, "channel_id": str(target.channel_id), "message_id": str(target.id)}
        return reference if guild_id is None else reference | {"guild_id": str(guild_id)}

    def edit(self, message: MessageObject, draft: DiscordDraft) -> None:
        """Put the draft's content in the message's place; an edit that changes nothing is still an edit."""
        self._put(message, draft)
        message.edited_ms = self.world.now_ms()
        self.events.changed(message)

    def fill(self, message: MessageObject, draft: DiscordDraft) -> None:
        """Give a waiting message its first content, which is no edit. Whether it is ephemeral was decided before."""
        kept = message.flags & MessageFlag.EPHEMERAL
        self._put(message, replace(draft, flags=draft.flags & ~MessageFlag.EPHEMERAL & ~MessageFlag.LOADING | kept))
        self.events.filled(message)

    def _put(self, message: MessageObject, draft: DiscordDraft) -> None:
        if draft.is_empty:
            raise empty_message()
        message.content = draft.content
        message.mentions = draft.mentions
        message.files = draft.files
        message.components = draft.components
        message.flags = draft.flags

    def delete(self, message: MessageObject) -> None:
        del self.world.channels[message.channel_id].messages[message.id]
        self.events.deleted(message)

    # --- threads

    def thread_from(
        self, message: MessageObject, author: DiscordUser, name: str, auto_archive_min: int = 1440
    ) -> Channel:
        """Begin a public thread with the message's id; its first message (type 21) only points back at the message."""
        parent = self.world.channels[message.channel_id]
        if parent.guild_id is None or parent.is_thread:
            raise DiscordRefusal(400, 50024, "Cannot execute action on this channel type")
        if message.id in self.world.channels:
            raise DiscordRefusal(400, 160004, "A thread has already been created for this message")
        self._check_thread(name, auto_archive_min)
        thread = self.world.new_thread(
            parent, name, owner_id=author.id, started_from=message, auto_archive_min=auto_archive_min
        )
        message.flags |= MessageFlag.HAS_THREAD
        self.events.thread_opened(thread)
        self.events.changed(message)
        starter = DiscordDraft(kind=MessageKind.THREAD_STARTER, reference=self._reference(message))
        self.post(thread, author, starter)
        return thread

    def thread_in(self, parent: Channel, author: DiscordUser, name: str) -> Channel:
        """Begin a thread that hangs on no message; it is announced in its channel (type 18)."""
        if parent.guild_id is None or parent.is_thread:
            raise DiscordRefusal(400, 50024, "Cannot execute action on this channel type")
        self._check_thread(name, AUTO_ARCHIVE_MIN)
        thread = self.world.new_thread(parent, name, owner_id=author.id)
        self.events.thread_opened(thread)
        if parent.takes_messages:
            reference: Json = {"type": 0, "channel_id": str(thread.id), "guild_id": str(parent.guild_id)}
            self.post(parent, author, DiscordDraft(name, kind=MessageKind.THREAD_CREATED, reference=reference))
        return thread

    def change_thread(self, thread: Channel, author: DiscordUser, asked: Json) -> None:
        """Name, state and time to archive; a new name is announced in the thread (type 4). What is archived has to be
        woken first, or by the same request."""
        name, archive_min = str(asked.get("name", thread.name)), int(asked.get("auto_archive_duration", 0))
        self._check_thread(name, archive_min or thread.auto_archive_min)
        if thread.archived and asked.get("archived") is not False:
            raise DiscordRefusal(400, 50083, "Tried to perform an operation on an archived thread")
        is_renamed = name != thread.name
        thread.name, thread.auto_archive_min = name, archive_min or thread.auto_archive_min
        thread.locked = bool(asked.get("locked", thread.locked))
        thread.archived = False
        if is_renamed:
            self.post(thread, author, DiscordDraft(name, kind=MessageKind.NAME_CHANGED))
        thread.archived = bool(asked.get("archived", False))
        self.events.thread_changed(thread)

    def _check_thread(self, name: str, auto_archive_min: int) -> None:
        if not 1 <= len(name) <= THREAD_NAME_MAX:
            raise invalid_form("name", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length.")
        if auto_archive_min not in ARCHIVE_CHOICES_MIN:
            choices = ", ".join(map(str, ARCHIVE_CHOICES_MIN))
            raise invalid_form("auto_archive_duration", "BASE_TYPE_CHOICES", f"Value must be one of ({choices}).")

    # --- looking up

    def channel(self, channel_id: int) -> Channel:
        """Find a channel. Raises `DiscordRefusal` 404 / 10003."""
        channel = self.world.channels.get(channel_id)
        if channel is None:
            raise unknown("Channel")
        return channel

    def message(self, channel_id: int, message_id: int) -> MessageObject:
        """Find a message. Raises `DiscordRefusal` 404 / 10003 or 10008."""
        message = self.channel(channel_id).messages.get(message_id)
        if message is None:
            raise unknown("Message")
        return message


# --- from the JSON of a request to a draft, with Discord's limits and its error for each


CONTENT_MAX: Final = 2000  # Unicode code points
NONCE_MAX: Final = 25
ROWS_MAX: Final = 5
_ACTION_ROW: Final = 1  # component type
_MAY_SET: Final = MessageFlag.SUPPRESS_EMBEDS | MessageFlag.SILENT | MessageFlag.EPHEMERAL


def new_draft(body: Json, files: tuple[AttachmentObject, ...], *, reply_to: MessageObject | None) -> DiscordDraft:
    """Read a message. Raises `DiscordRefusal`: 50006 for nothing to show, 50035 for a field beyond its limit."""
    content = _content(body.get("content"))
    flags = int(body.get("flags") or 0) & _MAY_SET
    nonce = _nonce(body.get("nonce"))
    draft = DiscordDraft(
        content=content,
        mentions=_mentions(content, body.get("allowed_mentions"), reply_to),
        files=files,
        components=_components(body),
        flags=flags,
        nonce=nonce,
    )
    if draft.is_empty:
        raise empty_message()
    return draft


def edited_draft(
    message: MessageObject, body: Json, files: tuple[AttachmentObject, ...], *, reply_to: MessageObject | None
) -> DiscordDraft:
    """Return the message with the fields of `body` in place; what `body` does not name stays."""
    given, flags = _components(body), message.flags
    if body.get("flags") is not None:
        flags = flags & ~MessageFlag.SUPPRESS_EMBEDS | int(body["flags"]) & MessageFlag.SUPPRESS_EMBEDS
    content = _content(body["content"]) if "content" in body else message.content
    named = body.get("attachments")
    kept_ids = {str(item.get("id")) for item in named or ()}
    kept_files = message.files if named is None else tuple(f for f in message.files if str(f.id) in kept_ids)
    return replace(
        message,
        content=content,
        mentions=_mentions(content, body.get("allowed_mentions"), reply_to) if "content" in body else message.mentions,
        files=kept_files + files,
        components=given if "components" in body else message.components,
        flags=flags,
    )


def _mentions(content: str, permit: Json | None, reply_to: MessageObject | None) -> Mentions:
    replied_to = reply_to.author.id if reply_to else None
    return allowed(mentions_in(content), permit, replied_to=replied_to)


def _content(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        value = str(value)  # Discord takes numbers for text
    content: str = value.strip()
    if len(content) > CONTENT_MAX:
        raise invalid_form("content", "BASE_TYPE_MAX_LENGTH", f"Must be {CONTENT_MAX} or fewer in length.")
    return content


def _nonce(value: object) -> str | None:
    if value is None:
        return None
    if len(str(value)) > NONCE_MAX:
        raise invalid_form("nonce", "BASE_TYPE_MAX_LENGTH", f"Must be {NONCE_MAX} or fewer in length.")
    return str(value)


def _components(body: Json) -> tuple[Json, ...]:
    """Read the rows of buttons. Embeds and the newer kinds of components are refused: nobody here sends them."""
    if body.get("embeds"):
        raise invalid_form("embeds", "BASE_TYPE_MAX_LENGTH", "This emulator takes no embeds.")
    rows = tuple(body.get("components") or ())
    if len(rows) > ROWS_MAX:
        raise invalid_form("components", "BASE_TYPE_BAD_LENGTH", f"Must be between 1 and {ROWS_MAX} in length.")
    if any(row.get("type") != _ACTION_ROW for row in rows):
        raise invalid_form("components", "BASE_TYPE_CHOICES", "This emulator takes action rows only.")
    return rows


def is_system(message: MessageObject) -> bool:
    """Tell whether the system said it: nobody can reply to that."""
    return message.kind not in (MessageKind.DEFAULT, MessageKind.REPLY, MessageKind.COMMAND_ANSWER)
