"""Writing, changing and taking back messages in the workspace: the rules that hold for apps and people alike."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from channels.emulators.slack.errors import Refused
from channels.emulators.slack.herald import Herald
from channels.emulators.slack.switches import Switches
from channels.emulators.slack.world import Conversation, File, Message, User, World
from channels.emulators.traffic import Json

_LINK: Final = re.compile(r"https?://[^\s<>|)]+")


@dataclass(frozen=True, slots=True)
class Draft:
    """A message before it has a ts; `text` is already as Slack stores it."""

    text: str = ""
    blocks: Sequence[Json] = ()
    thread_ts: str | None = None
    is_broadcast: bool = False
    subtype: str | None = None
    client_msg_id: str | None = None
    metadata: Json | None = None
    files: tuple[File, ...] = ()
    attachments: tuple[Json, ...] = ()
    username: str | None = None
    only_for: str | None = None
    streams_until_s: float | None = None
    unfurls: bool = True


class Posting:
    def __init__(self, world: World, herald: Herald, switches: Switches) -> None:
        self._world = world
        self._herald = herald
        self._switches = switches

    def post(self, place: Conversation, author: User, draft: Draft) -> Message:
        """Keep the message under a new ts and tell everybody. A reply to a reply goes to the thread's root."""
        root = place.root_of(draft.thread_ts) if draft.thread_ts else None
        if draft.thread_ts and (root is None or root.only_for is not None):
            raise Refused("thread_not_found")
        opens_thread = root is not None and not place.replies_to(root.ts)
        subtype = "thread_broadcast" if root is not None and draft.is_broadcast else draft.subtype
        message = Message(
            ts=self._world.new_ts(place),
            channel_id=place.id,
            author=author,
            text=draft.text,
            blocks=[{"block_id": f"b{number}"} | block for number, block in enumerate(draft.blocks)],
            thread_ts=root.ts if root else None,
            is_broadcast=root is not None and draft.is_broadcast,
            subtype=subtype,
            client_msg_id=draft.client_msg_id,
            metadata=draft.metadata,
            files=draft.files,
            attachments=draft.attachments,
            username=draft.username,
            only_for=draft.only_for,
            streams_until_s=draft.streams_until_s,
        )
        place.keep(message)
        for file in draft.files:
            file.shares.append((place.id, message.ts))
        if opens_thread and root is not None:
            self._herald.thread_opened(place, root.ts)
        self._herald.said(message)
        if draft.unfurls:
            self.unfurl(message)
        return message

    def unfurl(self, message: Message) -> None:
        """What stands behind the first link is fetched and shown below."""
        link = _LINK.search(message.text)
        if self._switches.unfurls_links and link is not None and not message.attachments:
            previous = message.copy()
            message.attachments = ({"from_url": link.group(0)},)
            self._herald.changed(message, previous, is_seen=False)

    def change(self, message: Message, *, text: str, blocks: Sequence[Json], is_edit: bool = True) -> None:
        """Put new content in place; `is_edit` leaves the "(edited)" mark, which a growing stream does not."""
        previous = message.copy()
        message.text = text
        message.blocks = [{"block_id": f"b{number}"} | block for number, block in enumerate(blocks)]
        if is_edit:
            message.edited_ts = f"{int(self._world.now_s())}.000000"
        self._herald.changed(message, previous)

    def delete(self, message: Message) -> None:
        """Gone; but a root with replies leaves a tombstone, so that the thread still hangs on something."""
        place = self._world.conversations[message.channel_id]
        if place.replies_to(message.ts):
            previous = message.copy()
            message.text, message.blocks, message.files = "This message was deleted.", [], ()
            message.subtype = "tombstone"
            self._herald.changed(message, previous)
            return
        place.forget(message)
        self._herald.deleted(message)
