"""Chats and who is in them. Everybody is in every group; the bot is an ordinary member."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from channels.emulators.stage import EventKind, PlaceKind, StageEvent
from channels.emulators.telegram.backstage import Backstage
from channels.emulators.telegram.call import Call
from channels.emulators.telegram.errors import bad_request
from channels.emulators.telegram.methods.method import Method
from channels.emulators.telegram.people import Json, User

REACTIONS_PER_MESSAGE: Final = 11
TOPIC_NAME_MAX: Final = 128
_NO_GIFTS: Final = {
    "unlimited_gifts": False,
    "limited_gifts": False,
    "unique_gifts": False,
    "premium_subscription": False,
    "gifts_from_channels": False,
}


async def get_chat(backstage: Backstage, call: Call) -> Json:
    if backstage.switch("lean_chats"):
        return backstage.chat_of(call).as_json()
    return backstage.chat_of(call).as_json() | {
        "accent_color_id": 0,
        "max_reaction_count": REACTIONS_PER_MESSAGE,
        "accepted_gift_types": dict(_NO_GIFTS),
    }


async def get_chat_member(backstage: Backstage, call: Call) -> Json:
    backstage.chat_of(call)
    user = backstage.world.users.get(call.number("user_id"))
    if user is None:
        raise bad_request("PARTICIPANT_ID_INVALID")
    return _member(user)


async def get_chat_member_count(backstage: Backstage, call: Call) -> int:
    chat = backstage.chat_of(call)
    return 2 if chat.user is not None else len(backstage.world.users)


async def get_chat_administrators(backstage: Backstage, call: Call) -> list[Json]:
    chat = backstage.chat_of(call)
    if chat.user is not None:
        raise bad_request("there are no administrators in the private chat")
    first = next((user for user in backstage.world.users.values() if not user.is_bot), None)
    return [] if first is None else [{"status": "creator", "user": first.as_json(), "is_anonymous": False}]


async def leave_chat(backstage: Backstage, call: Call) -> bool:
    chat = backstage.chat_of(call)
    if chat.user is not None:
        raise bad_request("chat member status can't be changed in private chats")
    chat.is_lost = True
    return True


async def create_forum_topic(backstage: Backstage, call: Call) -> Json:
    chat = backstage.chat_of(call)
    if not chat.is_forum:
        raise bad_request("the chat is not a forum")
    _check_name(call.text("name"))
    topic, _ = backstage.world.add_topic(chat, call.text("name"), backstage.world.bot)
    place_id = backstage.world.add_spot(PlaceKind.THREAD, chat, topic.id)
    backstage.audience.tell(StageEvent(EventKind.PLACE, place_id))
    return {"message_thread_id": topic.id, "name": topic.name, "icon_color": 7322096}


async def edit_forum_topic(backstage: Backstage, call: Call) -> bool:
    """A new name, which the topic itself announces. In a group only the topics that the bot created are its to name,
    for it is no administrator."""
    chat, bot = backstage.chat_of(call), backstage.world.bot
    topic = chat.topics.get(call.number("message_thread_id"))
    if topic is None:
        raise bad_request("TOPIC_ID_INVALID")
    if chat.user is None and topic.creator_id != bot.id:
        raise bad_request("not enough rights to manage topics")
    name = call.text("name") or topic.name
    _check_name(name)
    if name == topic.name:
        raise bad_request("TOPIC_NOT_MODIFIED")
    chat.topics[topic.id] = replace(topic, name=name)
    told = backstage.world.add_message(chat, bot, service={"forum_topic_edited": {"name": name}})
    told.thread_id, told.is_topic_message = topic.id, True
    backstage.audience.tell(StageEvent(EventKind.PLACE, backstage.world.place_id(chat.id, topic.id)))
    return True


def _check_name(name: str) -> None:
    if not name:
        raise bad_request("TOPIC_TITLE_EMPTY")
    if len(name) > TOPIC_NAME_MAX:
        raise bad_request("TOPIC_TITLE_TOO_LONG")


async def agree(backstage: Backstage, call: Call) -> bool:
    """For what this stage does not show, such as pins; the chat must exist."""
    backstage.chat_of(call)
    return True


def _member(user: User) -> Json:
    return {"status": "member", "user": user.as_json()}


METHODS: Final = (
    Method("getChat", get_chat),
    Method("getChatMember", get_chat_member),
    Method("getChatMemberCount", get_chat_member_count),
    Method("getChatAdministrators", get_chat_administrators),
    Method("leaveChat", leave_chat, is_write=True),
    Method("createForumTopic", create_forum_topic, is_write=True),
    Method("editForumTopic", edit_forum_topic, is_write=True),
    Method("pinChatMessage", agree),
    Method("unpinChatMessage", agree),
)
