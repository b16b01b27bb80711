"""Writing, changing and taking back messages, and starting threads: the rules that hold for bots and people alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from channels.emulators.discord.content import Mentions
from channels.emulators.discord.errors import Refused, empty_message, invalid_form, unknown
from channels.emulators.discord.herald import Herald
from channels.emulators.discord.world import (
    Channel,
    ChannelKind,
    File,
    Message,
    MessageFlag,
    MessageKind,
    User,
    World,
)
from channels.emulators.traffic import Json

THREAD_NAME_MAX: Final = 100
FORWARD: Final = 1  # a kind of reference; 0 is that of an answer
ARCHIVE_CHOICES_MIN: Final = (60, 1440, 4320, 10080)


@dataclass(frozen=True, slots=True)
class Draft:
    """A message before it has an id."""

    content: str = ""
    mentions: Mentions = field(default_factory=Mentions)
    files: tuple[File, ...] = ()
    embeds: Sequence[Json] = ()
    components: Sequence[Json] = ()
    flags: int = 0
    tts: bool = False
    nonce: str | None = None
    reply_to: Message | None = None
    kind: MessageKind | None = None
    interaction: Json | None = None
    reference: Json | None = None
    passed_on: Message | None = None

    @property
    def is_empty(self) -> bool:
        return not (self.content or self.files or self.embeds or self.components)


class Posting:
    def __init__(self, world: World, herald: Herald) -> None:
        self._world = world
        self._herald = herald

    def post(self, channel: Channel, author: User, draft: Draft) -> Message:
        """Keep the message, wake an archived thread, and tell everybody."""
        if channel.is_thread and channel.archived:
            if channel.locked:
                raise Refused(
                    400, 50083, "Tried to perform an operation on an archived thread, such as editing a message"
                )
            channel.archived = False
            self._herald.thread_changed(channel)
        message = self._message(channel, author, draft)
        channel.messages[message.id] = message
        if channel.is_thread and author.id not in channel.member_ids:
            channel.member_ids.append(author.id)
        self._herald.said(message)
        return message

    def forward(self, channel: Channel, author: User, message: Message) -> Message:
        """A message without words of its own: it refers to another one and carries it as it stands now."""
        source = message.passed_on or message
        reference = self._reference(message) | {"type": FORWARD}
        return self.post(
            channel, author, Draft(flags=MessageFlag.HAS_SNAPSHOT, reference=reference, passed_on=replace(source))
        )

    def _message(self, channel: Channel, author: User, draft: Draft) -> Message:
        target = draft.reply_to
        kind = draft.kind or (MessageKind.REPLY if target else MessageKind.DEFAULT)
        return Message(
            id=self._world.new_id(),
            channel_id=channel.id,
            author=author,
            content=draft.content,
            at_ms=self._world.now_ms(),
            kind=kind,
            user_mentions=draft.mentions.users,
            role_mentions=draft.mentions.roles,
            mentions_everyone=draft.mentions.everyone,
            files=draft.files,
            embeds=list(draft.embeds),
            components=list(draft.components),
            flags=draft.flags,
            tts=draft.tts,
            nonce=draft.nonce,
            reference=self._reference(target) if target else draft.reference,
            interaction=draft.interaction,
            passed_on=draft.passed_on,
        )

    def _reference(self, target: Message) -> Json:
        guild_id = self._world.channels[target.channel_id].guild_id
        reference: Json = {"type": 0, "channel_id": str(target.channel_id), "message_id": str(target.id)}
        return reference if guild_id is None else reference | {"guild_id": str(guild_id)}

    def edit(self, message: Message, draft: Draft) -> None:
        """Put the draft's content in the message's place; an edit that changes nothing is still an edit."""
        self._put(message, draft)
        message.edited_ms = self._world.now_ms()
        self._herald.changed(message)

    def fill(self, message: Message, draft: Draft) -> None:
        """The first content of a message that was waiting for it, which is no edit. Whether it is ephemeral was decided
        before."""
        kept = message.flags & MessageFlag.EPHEMERAL
        self._put(message, replace(draft, flags=draft.flags & ~MessageFlag.EPHEMERAL & ~MessageFlag.LOADING | kept))
        self._herald.filled(message)

    def _put(self, message: Message, draft: Draft) -> None:
        if draft.is_empty:
            raise empty_message()
        message.content = draft.content
        message.user_mentions = draft.mentions.users
        message.role_mentions = draft.mentions.roles
        message.mentions_everyone = draft.mentions.everyone
        message.files = draft.files
        message.embeds, message.components = list(draft.embeds), list(draft.components)
        message.flags = draft.flags

    def delete(self, message: Message) -> None:
        del self._world.channels[message.channel_id].messages[message.id]
        self._herald.deleted(message)

    # --- threads

    def thread_from(self, message: Message, author: User, name: str, auto_archive_min: int = 1440) -> Channel:
        """A public thread with the message's id; its first message (type 21) only points back at the message."""
        parent = self._world.channels[message.channel_id]
        if parent.guild_id is None or parent.is_thread:
            raise Refused(400, 50024, "Cannot execute action on this channel type")
        if message.id in self._world.channels:
            raise Refused(400, 160004, "A thread has already been created for this message")
        self._check_thread(name, auto_archive_min)
        thread = self._world.new_thread(
            parent, name, owner_id=author.id, started_from=message, auto_archive_min=auto_archive_min
        )
        message.flags |= MessageFlag.HAS_THREAD
        self._herald.thread_opened(thread)
        self._herald.changed(message)
        starter = Draft(kind=MessageKind.THREAD_STARTER, reference=self._reference(message))
        self.post(thread, author, starter)
        return thread

    def thread_in(
        self, parent: Channel, author: User, name: str, *, kind: ChannelKind, auto_archive_min: int = 1440
    ) -> Channel:
        """A thread that hangs on no message; a public one is announced in its channel (type 18)."""
        if parent.guild_id is None or parent.is_thread:
            raise Refused(400, 50024, "Cannot execute action on this channel type")
        self._check_thread(name, auto_archive_min)
        thread = self._world.new_thread(parent, name, owner_id=author.id, kind=kind, auto_archive_min=auto_archive_min)
        self._herald.thread_opened(thread)
        if kind is ChannelKind.PUBLIC_THREAD and parent.takes_messages:
            reference: Json = {"type": 0, "channel_id": str(thread.id), "guild_id": str(parent.guild_id)}
            self.post(parent, author, Draft(name, kind=MessageKind.THREAD_CREATED, reference=reference))
        return thread

    def change_thread(self, thread: Channel, author: User, asked: Json) -> None:
        """Name, state and time to archive; a new name is announced in the thread (type 4). What is archived has to be
        woken first, or by the same request."""
        name, archive_min = str(asked.get("name", thread.name)), int(asked.get("auto_archive_duration", 0))
        self._check_thread(name, archive_min or thread.auto_archive_min)
        if thread.archived and asked.get("archived") is not False:
            raise Refused(400, 50083, "Tried to perform an operation on an archived thread")
        is_renamed = name != thread.name
        thread.name, thread.auto_archive_min = name, archive_min or thread.auto_archive_min
        thread.locked = bool(asked.get("locked", thread.locked))
        thread.archived = False
        if is_renamed:
            self.post(thread, author, Draft(name, kind=MessageKind.NAME_CHANGED))
        thread.archived = bool(asked.get("archived", False))
        self._herald.thread_changed(thread)

    def _check_thread(self, name: str, auto_archive_min: int) -> None:
        if not 1 <= len(name) <= THREAD_NAME_MAX:
            raise invalid_form("name", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length.")
        if auto_archive_min not in ARCHIVE_CHOICES_MIN:
            choices = ", ".join(map(str, ARCHIVE_CHOICES_MIN))
            raise invalid_form("auto_archive_duration", "BASE_TYPE_CHOICES", f"Value must be one of ({choices}).")

    # --- looking up

    def channel(self, channel_id: int) -> Channel:
        """Raises `Refused` 404 / 10003."""
        channel = self._world.channels.get(channel_id)
        if channel is None:
            raise unknown("Channel")
        return channel

    def message(self, channel_id: int, message_id: int) -> Message:
        """Raises `Refused` 404 / 10003 or 10008."""
        message = self.channel(channel_id).messages.get(message_id)
        if message is None:
            raise unknown("Message")
        return message


def unchanged(message: Message) -> Draft:
    """The message as a draft, to be changed in part."""
    return Draft(
        content=message.content,
        mentions=Mentions(message.user_mentions, message.role_mentions, message.mentions_everyone),
        files=message.files,
        embeds=tuple(message.embeds),
        components=tuple(message.components),
        flags=message.flags,
    )


def rewritten(message: Message, content: str, mentions: Mentions) -> Draft:
    return replace(unchanged(message), content=content, mentions=mentions)
