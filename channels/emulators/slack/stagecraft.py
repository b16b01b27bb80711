"""The workspace as a person in front of Slack sees it: its conversations and threads in the stage's words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from typing import Final

from channels.emulators.slack import markup
from channels.emulators.slack.mrkdwn import plain
from channels.emulators.slack.world import Conversation, Message, User, World, ts_key
from channels.emulators.stage import Button, Person, Place, PlaceKind, Said
from channels.emulators.traffic import Json

TITLE_CHARS_MAX: Final = 60
_CONTROL: Final = re.compile(r"<([@#!]?)([^<>|\n]+)(?:\|([^<>\n]*))?>")


def as_person(user: User) -> Person:
    return Person(user.id, user.real_name, user.handle, user.bot_id is not None)


def as_place(place: Conversation) -> Place:
    kind = PlaceKind.DM if place.is_im else PlaceKind.GROUP
    return Place(place.id, kind, place.name, place.id, person_id=place.person_id)


def as_thread(place: Conversation, root: Message) -> Place:
    title = root.title or plain(root.text).strip().partition("\n")[0][:TITLE_CHARS_MAX] or "Thread"
    address = f"{place.id} {root.ts}"
    return Place(thread_id(place.id, root.ts), PlaceKind.THREAD, title, address, parent_id=place.id, root_id=root.ts)


def thread_id(channel_id: str, root_ts: str) -> str:
    """The stage's name of a thread: a thread of Slack is no conversation of its own."""
    return f"{channel_id}/{root_ts}"


def split_id(place_id: str) -> tuple[str, str | None]:
    """Conversation, and the thread's root in it."""
    channel_id, _, root_ts = place_id.partition("/")
    return channel_id, root_ts or None


def place_of(message: Message) -> str:
    """Where people see the message: a reply stands in its thread."""
    if message.is_reply and not message.is_broadcast:
        return thread_id(message.channel_id, message.thread_ts or "")
    return message.channel_id


def as_said(world: World, message: Message, place_id: str | None = None) -> Said:
    seconds, micros = ts_key(message.ts)
    return Said(
        id=message.ts,
        place_id=place_id or place_of(message),
        author=as_person(message.author),
        text=shown_text(world, message),
        html=_html(world, message),
        at_ms=seconds * 1000 + micros // 1000,
        edited=message.edited_ts is not None,
        reply_to=message.thread_ts if message.is_reply else None,
        files=tuple(file.name for file in message.files),
        buttons=tuple(Button(str(each["action_id"]), _label(each)) for each in buttons_of(message)),
        only_for=message.only_for,
    )


def buttons_of(message: Message) -> Iterator[Json]:
    """The buttons of all its blocks, as the app made them; a link is none."""
    for block in message.blocks:
        elements = [*(block.get("elements") or []), block.get("accessory") or {}]
        for element in elements if block.get("type") in ("actions", "section") else []:
            if element.get("type") == "button" and "action_id" in element and "url" not in element:
                yield element


def list_of(message: Message) -> str:
    """The name of the list below a message that the app fills. Raises `ValueError` for a message without one."""
    for block in message.blocks:
        for element in block.get("elements") or []:
            if isinstance(element, dict) and element.get("type") == "external_select":
                return str(element["action_id"])
    raise ValueError("there is no list below the message")


def _label(button: Json) -> str:
    return str((button.get("text") or {}).get("text", ""))


def name_in(world: World, some_id: str) -> str | None:
    if some_id in world.users:
        return world.users[some_id].real_name
    place = world.conversations.get(some_id)
    return place.name if place else None


def shown_text(world: World, message: Message) -> str:
    def shown(found: re.Match[str]) -> str:
        sign, target, label = found.groups()
        if sign == "!":
            return label or "@" + target.partition("^")[0]
        if sign:
            return sign + (name_in(world, target) or label or target)
        return label or target

    return plain(_CONTROL.sub(shown, message.text))


def _html(world: World, message: Message) -> str:
    def name_of(some_id: str) -> str | None:
        return name_in(world, some_id)

    passed_on = "".join(
        f"<blockquote><b>{escape(str(each.get('author_name', '')))}</b><br>"
        f"{markup.mrkdwn_html(str(each.get('text', '')), name_of)}</blockquote>"
        for each in message.attachments
    )
    if message.blocks:
        shown = [block for block in message.blocks if block.get("type") != "actions"]
        return markup.blocks_html(shown, name_of) + passed_on
    return markup.mrkdwn_html(message.text, name_of) + passed_on
