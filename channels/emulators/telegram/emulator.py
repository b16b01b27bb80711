"""Telegram as two sides see it: the Bot API on `app`, and the stage in front of the people.

Vendor switches in `faults.other` (0 or absent is off):

- `conflict` n: the next n polls end with 409, as if a second process polled the same bot;
- `poll_errors` n: the next n polls get a 502;
- `hang_polls` n: the next n polls never come back, whatever there is to tell;
- `migrate` n: the next send into a basic group finds that it has become a supergroup (400 with the new id);
- `basic_groups` 1: new groups are basic groups instead of supergroups;
- `clock_offset_s` s: the server's clock runs ahead, so that updates older than 24 hours are gone;
- `privacy` 1: privacy mode, a group shows the bot only commands and replies to it;
- `can_delete_messages` 1: in groups the bot is an administrator that may delete what others wrote;
- `text_mention` 1: people mention the bot by its name (an entity with the user) instead of `@username`;
- `bot_to_bot` 1: the bot sees what other bots write;
- `utf16_length` 1: message length counts UTF-16 units instead of code points;
- `general_topic_is_1` 1: sending with `message_thread_id=1` works;
- `refuses_edits` 400 or 403: nothing of the bot's can be edited any more ("message can't be edited"), or the bot has
  no right to write ("not enough rights");
- `costly_edits` 1: an edit takes a message's worth of the chat's allowance also where it is refused;
- `no_media_edits` 404: a server that does not know editMessageMedia; 400: one before Bot API 7.11, which makes no
  document of a text;
- `no_drafts` 1: a server that does not know sendMessageDraft (404);
- `no_voices` 1: people who take no voice messages (VOICE_MESSAGES_FORBIDDEN);
- `only_basics` 1: a server that knows getMe, getUpdates, deleteWebhook and sendMessage only; 2: whose framework answers
  other calls with a page;
- `before_10_3` 1: a server that does not know the kinds of updates that came with Bot API 10.3;
- `lean_chats` 1: getChat tells no more of a chat than a message does, as an old server;
- `lean_answers` 1: of a user, a message, a file and a webhook no answer tells more than what it is known by;
- `status_200` 1: refusals come with the status 200, so that only their `error_code` tells;
- `front_pages` n: the next n calls are answered by a proxy in front of the server, which knows no such page;
- `hasty_polls` 1: polls are answered at once, whatever they ask for;
- `no_reply_targets` 1: nothing can be answered, not even with `allow_sending_without_reply`;
- `unlimited` 1: no token buckets, so no 429 but those of `faults.rate_limit`;
- `revoked` 1: the token is not accepted any more;
- `faults_everywhere` 1: the counted faults strike all methods, not only those that write;
- `webhook_retry_s` s: pause before the first retry of a webhook call, 1 when absent.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import chain, repeat
from typing import Final

from starlette.types import ASGIApp

from channels.emulators import stage
from channels.emulators.telegram import world
from channels.emulators.telegram.api import BotApi
from channels.emulators.telegram.server import STOP, Press, Quotas, TelegramServer
from channels.emulators.telegram.text import Entity, FormattedText, tidy, utf16_length, with_found
from channels.emulators.telegram.updates import PollCut, UpdateQueue, WebhookSender

BOT_USERNAME: Final = "trivet_demo_bot"
PERSON_TEXT_MAX: Final = 4096  # a client cuts what is longer into several messages
FIRST_RETRY_S: Final = 1.0
UPDATE_IDS_APART: Final = 700_000_000  # so that nobody takes an update id for a message id and gets away with it


class TelegramEmulator(stage.EmulatedStage):
    """One bot on a Telegram of its own. `token` is `<bot id>:<secret>`."""

    platform = "telegram"

    def __init__(self, *, token: str) -> None:
        bot_id, colon, secret = token.partition(":")
        if not bot_id.isdecimal() or not colon or not secret:
            raise ValueError("a bot token is '<bot id>:<secret>', such as '123456:ABC-DEF'")
        self.token = token
        super().__init__()
        self._world = world.TelegramState(
            world.TelegramUser(int(bot_id), "Trivet", BOT_USERNAME, is_bot=True),
            lambda: time.time() + self.faults.switch("clock_offset_s"),
        )
        self.updates = UpdateQueue(self._world.now, UPDATE_IDS_APART + self._world.fresh_id())
        webhook = WebhookSender(
            self.updates, self._world.now, lambda: self.faults.other.get("webhook_retry_s", FIRST_RETRY_S)
        )
        self.server = TelegramServer(self._world, self.updates, webhook, Quotas(), self._audience, self.faults)
        self._api = BotApi(token, self.server)

    @property
    def app(self) -> ASGIApp:
        return self._api.app

    # --- the stage

    @property
    def bot(self) -> stage.Person:
        return world.person(self._world.bot)

    def people(self) -> Sequence[stage.Person]:
        return [world.person(user) for user in self._world.users.values() if user.id != self._world.bot.id]

    def places(self) -> Sequence[stage.Place]:
        return [self._place(place_id, location) for place_id, location in self._world.locations.items()]

    def add_person(self, name: str) -> stage.Person:
        return world.person(self._add_user(name))

    def add_bot(self, name: str) -> stage.Person:
        """Add another bot, a member of every group."""
        return world.person(self._add_user(name, is_bot=True))

    def _add_user(self, name: str, *, is_bot: bool = False) -> world.TelegramUser:
        if not name.strip():
            raise ValueError("a person needs a name")
        user = self._world.add_user(name.strip(), is_bot=is_bot)
        for chat in self._world.groups():
            joined = self._world.add_message(chat, user, service={"new_chat_members": [user.as_json()]})
            self.server.tell_bot("message", chat, joined)
        if not is_bot:
            chat = self._world.add_private_chat(user)
            self._audience.tell(stage.StageEvent(stage.EventKind.PLACE, self._world.place_id(chat.id)))
        return user

    def add_place(self, kind: stage.PlaceKind, title: str, *, parent_id: str | None = None) -> stage.Place:
        """Add a group, or a topic in the group or direct chat `parent_id`.

        A group becomes a forum supergroup if it is none; in a direct chat the client names the topic."""
        if not title.strip():
            raise ValueError("a place needs a title")
        if kind is stage.PlaceKind.DM:
            raise ValueError("a direct chat comes with its person")
        place_id = (
            self._add_topic(title.strip(), parent_id) if kind is stage.PlaceKind.THREAD else self._add_group(title)
        )
        self._audience.tell(stage.StageEvent(stage.EventKind.PLACE, place_id))
        return self._place(place_id, self._world.locations[place_id])

    def _add_group(self, title: str) -> str:
        kind = world.ChatType.GROUP if self.faults.switch("basic_groups") else world.ChatType.SUPERGROUP
        chat = self._world.add_group(title.strip(), kind)
        by, bot = self._somebody(), self._world.bot
        joined = self._world.add_message(chat, by, service={"new_chat_members": [bot.as_json()]})
        self._tell_membership(chat, by, before="left", after="member")
        self.server.tell_bot("message", chat, joined)
        return self._world.add_location(stage.PlaceKind.GROUP, chat)

    def add_channel(self, title: str, *, discussed_in: str | None = None) -> stage.Place:
        """Add a channel of which the bot is an administrator. The group `discussed_in` gets each of its posts."""
        chat = self._world.add_group(title, world.ChatType.CHANNEL)
        if discussed_in is not None:
            chat.discussed_in = self._location(discussed_in).chat_id
        self._tell_membership(chat, self._somebody(), before="left", after="administrator")
        place_id = self._world.add_location(stage.PlaceKind.GROUP, chat)
        self._audience.tell(stage.StageEvent(stage.EventKind.PLACE, place_id))
        return self._place(place_id, self._world.locations[place_id])

    def _add_topic(self, title: str, parent_id: str | None) -> str:
        location = self._world.locations.get(parent_id or "")
        if location is None or location.kind is stage.PlaceKind.THREAD:
            raise ValueError("a topic needs the group it is in, or the chat with the bot")
        chat = self._world.chats[location.chat_id]
        if chat.type is world.ChatType.GROUP:
            chat = self.server.upgrade(chat)
        by = chat.user or self._somebody()
        topic, created = self._world.add_topic(chat, title, by, is_name_implicit=chat.user is not None)
        self.server.tell_bot("message", chat, created)
        return self._world.add_location(stage.PlaceKind.THREAD, chat, topic.id)

    def delete_topic(self, place_id: str) -> None:
        """Delete a topic, with all that was said in it."""
        location = self._world.locations.pop(place_id)
        del self._world.chats[location.chat_id].topics[location.thread_id or 0]
        self._audience.tell(stage.StageEvent(stage.EventKind.PLACE, place_id))

    async def say(
        self,
        person_id: str,
        place_id: str,
        text: str,
        *,
        mention_bot: bool = False,
        reply_to: str | None = None,
        files: Sequence[stage.SharedFile] = (),
    ) -> stage.Said:
        """Write as a person. Text for more than one message is cut, as a client would; the first is returned.

        Files are messages of their own, the words below the first of them."""
        user, location = self._user(person_id), self._location(place_id)
        content = tidy(self._mentioning(text) if mention_bot else FormattedText(text))
        if not content.text and not files:
            raise ValueError("an empty message cannot be sent")
        if files:
            album = f"1{self._world.chats[location.chat_id].next_message_id:015d}"
            captions = chain([with_found(content)], repeat(FormattedText()))
            said = [
                self._speak(user, place_id, location, caption, reply_to=reply_to, media=media, files=(name,))
                for caption, (media, name) in zip(captions, world.shared(self._world, files, album), strict=False)
            ]
            return said[0]
        parts = [content]
        if len(content.text) > PERSON_TEXT_MAX:
            starts = range(0, len(content.text), PERSON_TEXT_MAX)
            parts = [FormattedText(content.text[start : start + PERSON_TEXT_MAX]) for start in starts]
        said = [self._speak(user, place_id, location, with_found(part), reply_to=reply_to) for part in parts]
        return said[0]

    def _speak(
        self,
        user: world.TelegramUser,
        place_id: str,
        location: world.Location,
        content: FormattedText,
        *,
        reply_to: str | None = None,
        media: world.Json | None = None,
        files: tuple[str, ...] = (),
        origin: world.Json | None = None,
    ) -> stage.Said:
        chat = self._world.chats[location.chat_id]
        if chat.user is not None and chat.user.id != user.id:
            raise ValueError("this direct chat is somebody else's")
        if reply_to is not None and (not reply_to.isdecimal() or int(reply_to) not in chat.messages):
            raise ValueError("the message to reply to is not in this chat")
        message = self._world.add_message(
            chat,
            user,
            content,
            thread_id=location.thread_id,
            reply_to=int(reply_to) if reply_to else None,
            media=media,
            files=files,
            origin=origin,
        )
        self.server.show(stage.EventKind.SAID, chat, message)
        if self._is_seen_by_bot(chat, message):
            self.server.tell_bot("channel_post" if chat.type is world.ChatType.CHANNEL else "message", chat, message)
        self.server.discuss(chat, message)
        return self._world.said(chat, message, place_id)

    async def share(self, person_id: str, message_id: str, place_id: str, to_id: str, text: str = "") -> stage.Said:
        """Forward a message after one with the words, without its buttons and what it answered."""
        user, location = self._user(person_id), self._location(to_id)
        _, message = self._message(message_id, place_id)
        if text:
            await self.say(person_id, to_id, text)
        media, origin = message.media_alone, message.as_origin
        return self._speak(user, to_id, location, message.content, media=media, files=message.files, origin=origin)

    async def edit(self, message_id: str, place_id: str, text: str) -> None:
        chat, message = self._message(message_id, place_id)
        content = with_found(tidy(FormattedText(text)))
        if not content.text:
            raise ValueError("an empty message cannot be sent")
        message.content, message.edited_at = content, int(self._world.now())
        self.server.show(stage.EventKind.EDITED, chat, message)
        if message.sender.id != self._world.bot.id and self._is_seen_by_bot(chat, message):
            kind = "edited_channel_post" if chat.type is world.ChatType.CHANNEL else "edited_message"
            self.server.tell_bot(kind, chat, message)

    async def delete(self, message_id: str, place_id: str) -> None:
        """Delete a message; the bot hears nothing of it, for Telegram has no update for deletions."""
        chat, message = self._message(message_id, place_id)
        del chat.messages[message.id]
        self.server.show(stage.EventKind.DELETED, chat, message)

    def said(self, place_id: str) -> Sequence[stage.Said]:
        location = self._location(place_id)
        chat = self._world.chats[location.chat_id]
        return [
            self._world.said(chat, message, place_id)
            for message in chat.messages.values()
            if not message.service and message.topic_id == location.thread_id
        ]

    async def press_button(self, person_id: str, place_id: str, message_id: str, button_id: str) -> None:
        shown = self.server.draft(place_id)
        if shown is not None and (shown.id, button_id) == (message_id, STOP.id):
            self.server.stop_draft(place_id)
            return
        _, message = self._message(message_id, place_id)
        if all(button.id != button_id for button in world.buttons_of(message)):
            raise ValueError("the message shows no such button")
        self.press(person_id, place_id, message_id, button_id)

    def set_language(self, person_id: str, language: str) -> None:
        """Set the language of the person's client, of which Telegram tells the first part."""
        self._world.set_language(self._user(person_id), language)

    def menu(self, person_id: str, place_id: str) -> Sequence[stage.MenuEntry]:
        """List the commands; Telegram knows nothing of arguments."""
        user, chat = self._user(person_id), self._world.chats[self._location(place_id).chat_id]
        shown = self.server.commands.shown(user, chat)
        return [stage.MenuEntry(command.name, command.description) for command in shown]

    @property
    def menu_traffic(self) -> tuple[int, int]:
        """Count how often the bot has asked for a list of commands, and how often it has set or deleted one."""
        return self.server.commands.reads, self.server.commands.writes

    async def invoke(self, person_id: str, place_id: str, name: str, argument: str = "") -> None:
        """Write the command as a text, as the client does; where there may be other bots, with our name."""
        if all(entry.name != name for entry in self.menu(person_id, place_id)):
            raise ValueError("the menu offers no such command")
        chat = self._world.chats[self._location(place_id).chat_id]
        suffix = "" if chat.user is not None else f"@{self._world.bot.username}"
        await self.say(person_id, place_id, f"/{name}{suffix} {argument}".strip())

    async def suggest(self, person_id: str, place_id: str, name: str, typed: str) -> Sequence[str]:
        raise ValueError("Telegram asks no bot what a command could be followed by")

    def file(self, message_id: str, place_id: str, number: int) -> stage.SharedFile:
        _, message = self._message(message_id, place_id)
        stored = self._world.file_of(message)
        if stored is None or number != 0:  # a message of Telegram has one file at most
            raise KeyError("no such file")
        return stage.SharedFile(stored.name, stored.mime_type, stored.content)

    async def cut_connections(self) -> None:
        self.updates.end_polls(PollCut())

    # --- what only Telegram has

    def upgrade_group(self, place_id: str) -> stage.Place:
        """Turn a basic group into a supergroup: new chat id, two service messages, errors for the old id."""
        chat = self._world.chats[self._location(place_id).chat_id]
        if chat.type is not world.ChatType.GROUP:
            raise ValueError("only a basic group can become a supergroup")
        self.server.upgrade(chat)
        return self._place(place_id, self._world.locations[place_id])

    def block(self, place_id: str) -> None:
        """Block the bot as a person, or remove it from the group; the bot is told in `my_chat_member`."""
        chat = self._world.chats[self._location(place_id).chat_id]
        chat.is_lost = True
        self._tell_membership(chat, chat.user or self._somebody(), before="member", after="kicked")

    def press(self, person_id: str, place_id: str, message_id: str, data: str) -> str:
        """Press an inline button; the id of the callback query."""
        user = self._user(person_id)
        chat, message = self._message(message_id, place_id)
        query_id = f"{user.id}{len(self.server.callbacks) + 1:08d}"
        self.server.callbacks[query_id] = Press(self._world.now(), user.id, place_id)
        payload = {
            "id": query_id,
            "from": user.as_json(),
            "message": chat.message_json(message, self._world.users),
            "chat_instance": str(chat.id),
            "data": data,
        }
        self.updates.put("callback_query", payload, lane=user.id)
        return query_id

    @property
    def unanswered_presses(self) -> int:
        """Count the people whose clients show that they wait."""
        return sum(not press.is_answered for press in self.server.callbacks.values())

    # --- leaves

    def _mentioning(self, text: str) -> FormattedText:
        bot = self._world.bot
        if not self.faults.switch("text_mention"):
            return FormattedText(f"@{bot.username} {text}")
        length = utf16_length(bot.first_name)
        return FormattedText(f"{bot.first_name} {text}", (Entity("text_mention", 0, length, user_id=bot.id),))

    def _is_seen_by_bot(self, chat: world.Chat, message: world.TelegramMessage) -> bool:
        if chat.is_lost or (message.sender.is_bot and not self.faults.switch("bot_to_bot")):
            return False
        if chat.type in (world.ChatType.PRIVATE, world.ChatType.CHANNEL) or not self.faults.switch("privacy"):
            return True
        bot, text = self._world.bot, message.content.text
        target = chat.messages.get(message.reply_to) if message.reply_to else None
        if target is not None and target.sender.id == bot.id:
            return True
        if all(entity.type != "bot_command" for entity in message.content.entities):
            return False
        return f"@{bot.username}".lower() in text.lower() or ("@" not in text and chat.last_bot_id == bot.id)

    def _tell_membership(self, chat: world.Chat, by: world.TelegramUser, *, before: str, after: str) -> None:
        bot = self._world.bot.as_json()
        payload = {
            "chat": chat.as_json(),
            "from": by.as_json(),
            "date": int(self._world.now()),
            "old_chat_member": _membership(bot, before),
            "new_chat_member": _membership(bot, after),
        }
        self.updates.put("my_chat_member", payload, lane=chat.id)

    def _somebody(self) -> world.TelegramUser:
        """Return the one who sets up groups: the first person there is."""
        return next((user for user in self._world.users.values() if not user.is_bot), self._world.bot)

    def _user(self, person_id: str) -> world.TelegramUser:
        user = self._world.users.get(int(person_id)) if person_id.isdecimal() else None
        if user is None or user.id == self._world.bot.id:
            raise ValueError("there is no such person")
        return user

    def _location(self, place_id: str) -> world.Location:
        location = self._world.locations.get(place_id)
        if location is None:
            raise ValueError("there is no such place")
        return location

    def _message(self, message_id: str, place_id: str) -> tuple[world.Chat, world.TelegramMessage]:
        chat = self._world.chats[self._location(place_id).chat_id]
        message = chat.messages.get(int(message_id)) if message_id.isdecimal() else None
        if message is None:
            raise ValueError("there is no such message")
        return chat, message

    def _place(self, place_id: str, location: world.Location) -> stage.Place:
        chat = self._world.chats[location.chat_id]
        person_id = None if chat.user is None else str(chat.user.id)
        if location.thread_id is None:
            name = chat.title if chat.user is None else chat.user.first_name
            return stage.Place(place_id, location.kind, name, str(chat.id), person_id=person_id)
        title, address = chat.topics[location.thread_id].name, f"{chat.id}/{location.thread_id}"
        parent_id = self._world.place_id(chat.id)
        return stage.Place(place_id, location.kind, title, address, parent_id=parent_id, person_id=person_id)


def _membership(bot: world.Json, status: str) -> world.Json:
    shape: world.Json = {"status": status, "user": bot}
    return shape | {"until_date": 0} if status == "kicked" else shape
