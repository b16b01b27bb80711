"""Slack on loopback: the Web API, Socket Mode or signed HTTP events, and the stage on which people use it."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final
from uuid import uuid4

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp

from channels.emulators import stage
from channels.emulators.slack import shapes
from channels.emulators.slack.api import Limits, Lookup, Tokens, WebApi
from channels.emulators.slack.delivery import Delivery, EventDelivery, HttpEvents, SocketMode
from channels.emulators.slack.messages import ResponseLinks, SlackEvents, SlackInteractions, SlackPosting
from channels.emulators.slack.methods import ChatApi, ConversationsApi, FilesApi, PeopleApi, StreamsApi
from channels.emulators.slack.text import (
    as_person,
    as_place,
    as_said,
    as_thread,
    buttons_of,
    list_of,
    mentioned,
    plain,
    rich_text,
    split_id,
    typed,
)
from channels.emulators.slack.world import Conversation, SlackDraft, SlackMessage, SlackState, SlackSwitches, SlackUser

TEAM_ID: Final = "T0EMULATOR"
APP_ID: Final = "A0EMULATOR"


class SlackEmulator(stage.EmulatedStage):
    """One workspace with one app installed: `app` speaks to the app, the `Stage` methods to people.

    Threads are places of the stage, named `C…/ts`. Counted faults hit what delivers something to people;
    `faults.other["any_request"] = 1` lets them hit every method. Further switches in `faults.other`:
    `server_error_status` (502) and `fatal_error` (that many calls answer `fatal_error` with nothing done,
    with `fatal_error_after` though all was done).
    What is the vendor's to choose is in `switches`."""

    platform: Final = "slack"

    def __init__(
        self,
        *,
        bot_token: str,
        app_token: str,
        signing_secret: str = "emulated-signing-secret",  # noqa: S107 - a stand-in, not a secret
        switches: SlackSwitches | None = None,
        clock_s: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self.switches = switches or SlackSwitches()
        self._signing_secret = signing_secret
        self._clock_s = clock_s
        bot = SlackUser("U0EMULATOR", "trivet", "Trivet", bot_id="B0EMULATOR", team_id=TEAM_ID)
        self.world = SlackState(bot=bot, team_id=TEAM_ID, app_id=APP_ID, clock_s=clock_s)
        self.sockets = SocketMode(app_id=APP_ID, switches=self.switches)
        self.http_events: HttpEvents | None = None
        self.delivery = Delivery(self.sockets, self.switches)
        self._events = SlackEvents(self.world, self.delivery, self._audience, self.switches, self.faults)
        self._posting = SlackPosting(self.world, self._events, self.switches)
        self._responses = ResponseLinks(self.world, self._posting, self.switches, self.faults, clock_s)
        self._interactions = SlackInteractions(self.world, self.delivery, self._responses)
        self.web_api, files = self._methods(Tokens(bot_token, app_token))
        self.app: ASGIApp = Starlette(routes=self._routes(files), lifespan=self._lifespan)

    def _methods(self, tokens: Tokens) -> tuple[WebApi, FilesApi]:
        world, posting, events, switches = self.world, self._posting, self._events, self.switches
        lookup = Lookup(world)
        files = FilesApi(world, posting, lookup, tokens, switches)
        self.streams_api = StreamsApi(world, posting, events, lookup, switches)
        methods = (
            ChatApi(world, posting, lookup, switches).methods()
            | self.streams_api.methods()
            | ConversationsApi(world, lookup, switches).methods()
            | PeopleApi(world, self.sockets).methods()
            | files.methods()
        )
        limits = Limits(switches, self._clock_s)
        return WebApi(world, tokens, limits, switches, self.faults, methods), files

    def _routes(self, files: FilesApi) -> list[BaseRoute]:
        return [
            Route("/api/{method}", self.web_api.endpoint, methods=["GET", "POST"]),
            Route("/upload/v1/{file_id}", files.receive, methods=["POST"]),
            Route("/files-pri/{team_file}/{name}", files.download),
            Route("/files-pri/download/{team_file}/{name}", files.download),
            Route("/commands/{team_id}/{token}", self._responses.endpoint, methods=["POST"]),
            WebSocketRoute("/link/", self.sockets.connection),
            WebSocketRoute("/link", self.sockets.connection),
        ]

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """End redeliveries when the server stops; the emulator cannot be used afterwards."""
        yield
        await self.delivery.aclose()
        if self.http_events is not None:
            await self.http_events.aclose()

    # --- the owner of the app

    async def use_http(self, url: str) -> bool:
        """Send events to the app's own address from now on; whether it answered the challenge."""
        if self.http_events is not None:
            await self.http_events.aclose()
        self.http_events = HttpEvents(
            url=url, signing_secret=self._signing_secret, switches=self.switches, clock_s=self._clock_s
        )
        is_verified = await self.http_events.verify(self.world.app_id)
        self.delivery.transport = self.http_events
        return is_verified

    def use_sockets(self) -> None:
        self.delivery.transport = self.sockets

    # --- the stage: who and where

    @property
    def bot(self) -> stage.Person:
        return as_person(self.world.bot)

    def people(self) -> Sequence[stage.Person]:
        return [as_person(user) for user in self.world.users.values() if user.id != self.world.bot.id]

    def places(self) -> Sequence[stage.Place]:
        """List conversations, and every thread that has a reply or was opened as a place."""
        found: list[stage.Place] = []
        for place in self.world.conversations.values():
            found.append(as_place(place))
            roots = {m.thread_ts: None for m in place.messages.values() if m.thread_ts is not None}
            found += [as_thread(place, place.messages[ts]) for ts in roots if ts in place.messages]
        return found

    def add_person(self, name: str) -> stage.Person:
        """Add a person to every channel, with a direct chat to the bot."""
        user = self._join(name, is_bot=False)
        self._events.opened(self.world.dm_with(user))
        return as_person(user)

    def set_language(self, person_id: str, language: str) -> None:
        """Set the language that the person has Slack in, a locale such as `de-DE`."""
        self.world.set_locale(self.world.users[person_id], language)

    def add_bot(self, name: str) -> stage.Person:
        """Add another app's bot to every channel."""
        return as_person(self._join(name, is_bot=True))

    def _join(self, name: str, *, is_bot: bool) -> SlackUser:
        handle = re.sub(r"[^a-z0-9._-]+", "", name.lower()) or "user"
        user = self.world.new_user(handle, name, is_bot=is_bot)
        for place in self.world.conversations.values():
            if not place.is_im:
                place.member_ids.append(user.id)
        return user

    def add_place(self, kind: stage.PlaceKind, title: str, *, parent_id: str | None = None) -> stage.Place:
        """Add a channel, or a thread under a first message that says its title."""
        if kind is stage.PlaceKind.DM:
            raise ValueError("A direct chat comes with its person: use add_person.")
        if kind is stage.PlaceKind.GROUP:
            place = self.world.new_channel(re.sub(r"[^\w-]+", "-", title.strip().lower()))
            self._events.opened(place)
            return as_place(place)
        channels = [c for c in self.world.conversations.values() if not c.is_im]
        parent = self.world.conversations[parent_id] if parent_id else next(iter(channels), None)
        if parent is None:
            raise ValueError("A thread needs a channel: add a group first.")
        author = next((u for u in self.world.users.values() if u.bot_id is None), self.world.bot)
        root = self._posting.post(parent, author, SlackDraft(typed(title), client_msg_id=str(uuid4())))
        root.thread_ts = root.ts
        self._events.thread_opened(parent, root.ts)
        return as_thread(parent, root)

    def remove_bot(self, place_id: str) -> None:
        """Put the bot out of a channel: it hears nothing more and gets `not_in_channel`."""
        place = self.world.conversations[place_id]
        self._events.bot_left(place)
        place.member_ids.remove(self.world.bot.id)

    def share_channel(self, place_id: str) -> stage.Place:
        """Let a person share a channel with another workspace: it has another id from now on."""
        channel = self.world.conversations[place_id]
        self._events.id_changed(self.world.share(channel), channel)
        return as_place(channel)

    # --- the stage: what is said

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
        """Write as a person: `reply_to` answers in the thread of that message."""
        place, thread_ts = self._place(place_id)
        author = self.world.users[person_id]
        spoken = self._typed(f"<@{self.world.bot.id}> {text}" if mention_bot else text)
        attached = tuple(self.world.new_file(each.name, each.content, each.media_type, author.id) for each in files)
        draft = SlackDraft(
            text=spoken,
            blocks=rich_text(plain(spoken), mentioned(spoken)) if spoken else [],
            thread_ts=reply_to or thread_ts,
            subtype="file_share" if attached else None,
            client_msg_id=None if attached or author.bot_id else str(uuid4()),
            files=attached,
        )
        return as_said(self.world, self._posting.post(place, author, draft))

    def _typed(self, text: str) -> str:
        """Return what the client sends for a text in which people are called by their names."""
        users = self.world.users.values()
        return typed(
            stage.mentioning(text, {name: f"<@{user.id}>" for user in users for name in (user.handle, user.real_name)})
        )

    def thread_from(self, person_id: str, place_id: str, message_id: str, title: str) -> stage.Place:
        """Open the thread of a message. Nobody hears of it before the first reply, and it is called as its root."""
        message = self._message(message_id, place_id)
        conversation, _ = self._place(place_id)
        root = conversation.messages[message.thread_ts] if message.thread_ts else message
        return as_thread(conversation, root)

    async def share(self, person_id: str, message_id: str, place_id: str, to_id: str, text: str = "") -> stage.Said:
        """Pass a message on into another place, with or without words of one's own."""
        place, thread_ts = self._place(to_id)
        inner = shapes.shared(self.world, self._message(message_id, place_id))
        draft = SlackDraft(typed(text), thread_ts=thread_ts, client_msg_id=str(uuid4()), attachments=(inner,))
        return as_said(self.world, self._posting.post(place, self.world.users[person_id], draft))

    async def say_as_webhook(self, name: str, place_id: str, text: str) -> stage.Said:
        """Write as an incoming webhook: subtype `bot_message`, a bot id and no user."""
        place, thread_ts = self._place(place_id)
        author = SlackUser("", name.lower(), name, bot_id=self.world.new_id("B"), is_user=False)
        draft = SlackDraft(typed(text), thread_ts=thread_ts, subtype="bot_message", username=name)
        return as_said(self.world, self._posting.post(place, author, draft))

    async def edit(self, message_id: str, place_id: str, text: str) -> None:
        message = self._message(message_id, place_id)
        spoken = self._typed(text)
        self._posting.change(message, text=spoken, blocks=rich_text(plain(spoken), mentioned(spoken)))

    async def delete(self, message_id: str, place_id: str) -> None:
        self._posting.delete(self._message(message_id, place_id))

    def said(self, place_id: str) -> Sequence[stage.Said]:
        """List the messages of a channel, or of a thread its root and the replies."""
        place, root_ts = self._place(place_id)
        if root_ts is None:
            shown = [m for m in place.messages.values() if not m.is_reply]
        else:
            shown = [m for m in place.messages.values() if root_ts in (m.ts, m.thread_ts)]
        return [as_said(self.world, message, place_id) for message in shown]

    def file(self, message_id: str, place_id: str, number: int) -> stage.SharedFile:
        files = self._message(message_id, place_id).files
        if not 0 <= number < len(files):
            raise KeyError("no such file")
        return stage.SharedFile(files[number].name, files[number].mimetype, files[number].content)

    async def cut_connections(self) -> None:
        self.sockets.cut()

    # --- the stage: commands, buttons, the home tab

    def run_command(self, person_id: str, place_id: str, command: str, text: str = "") -> EventDelivery:
        """Send a slash command: not in threads, and possible where the bot is no member."""
        return self._interactions.command(self.world.users[person_id], self._place(place_id)[0], command, text)

    def press(self, person_id: str, message_id: str, place_id: str, action_id: str, value: str = "") -> EventDelivery:
        """Press a button of a message."""
        message = self._message(message_id, place_id)
        return self._interactions.press(self.world.users[person_id], message, action_id, value)

    def menu(self, person_id: str, place_id: str) -> Sequence[stage.MenuEntry]:
        """List the app's slash commands; in a thread Slack has none."""
        if split_id(place_id)[1] is not None:
            return ()
        return [stage.MenuEntry(each.name, each.description, each.usage_hint) for each in self.switches.slash_commands]

    async def invoke(self, person_id: str, place_id: str, name: str, argument: str = "") -> None:
        """Send a slash command; returns when the app has acknowledged it, or Slack gave up on it."""
        if name.removeprefix("/") not in {entry.name for entry in self.menu(person_id, place_id)}:
            raise ValueError(f"no command {name!r} is offered there")
        delivery = self.run_command(person_id, place_id, f"/{name.removeprefix('/')}", argument)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.switches.ack_within_s):
                await delivery.answered.wait()

    async def suggest(self, person_id: str, place_id: str, name: str, typed: str) -> Sequence[str]:
        raise ValueError("Slack asks nobody while a person types behind a slash command")

    async def press_button(self, person_id: str, place_id: str, message_id: str, button_id: str) -> None:
        shown = {str(each["action_id"]): each for each in buttons_of(self._message(message_id, place_id))}
        if button_id not in shown:
            raise ValueError("the message shows no such button")
        self.press(person_id, message_id, place_id, button_id, str(shown[button_id].get("value", "")))

    async def options(self, person_id: str, message_id: str, place_id: str, typed: str = "") -> list[tuple[str, str]]:
        """List what a person is shown in the list below a message. Raises `ValueError` for one without a list."""
        message = self._message(message_id, place_id)
        return await self._interactions.options(self.world.users[person_id], message, list_of(message), typed)

    def pick(self, person_id: str, message_id: str, place_id: str, line: tuple[str, str]) -> EventDelivery:
        """Pick one of its lines as a person. Raises `ValueError` likewise."""
        message = self._message(message_id, place_id)
        return self._interactions.pick(self.world.users[person_id], message, list_of(message), line)

    def stop_stream(self, message_id: str, place_id: str) -> None:
        """Press "stop" under an answer that grows. Raises `ValueError` for one that does not."""
        self.streams_api.interrupt(self._message(message_id, place_id))

    def open_home(self, person_id: str) -> None:
        self._events.home_opened(self.world.users[person_id])

    def open_assistant(self, person_id: str) -> stage.Place:
        """Open the assistant as a person: a thread in their direct chat, in which all goes on."""
        user = self.world.users[person_id]
        place = self.world.dm_with(user)
        root = self._posting.post(
            place, self.world.bot, SlackDraft("New Assistant Thread", subtype="assistant_app_thread")
        )
        root.thread_ts = root.ts
        self._events.assistant_opened(user, root)
        return as_thread(place, root)

    def _place(self, place_id: str) -> tuple[Conversation, str | None]:
        channel_id, root_ts = split_id(place_id)
        return self.world.conversations[channel_id], root_ts

    def _message(self, message_id: str, place_id: str) -> SlackMessage:
        return self._place(place_id)[0].messages[message_id]
