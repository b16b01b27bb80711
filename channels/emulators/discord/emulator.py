"""Discord on loopback: REST under /api/v10, the gateway at /gateway, and the stage on which people use it."""

from __future__ import annotations

import base64
import binascii
import contextlib
import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp

from channels.emulators import stage
from channels.emulators.discord import shapes
from channels.emulators.discord.api import Api, Buckets, not_found
from channels.emulators.discord.gateway import DiscordEvents, Gateway
from channels.emulators.discord.interactions import DiscordInteractions, HttpInteractions, as_entry
from channels.emulators.discord.messages import DiscordPosting, mentions_in
from channels.emulators.discord.routes import CommandsApi, InteractionsApi, MessagesApi, PlacesApi
from channels.emulators.discord.view import as_person, as_place, as_said, buttons_of, files_of
from channels.emulators.discord.world import (
    AttachmentObject,
    Channel,
    DiscordDraft,
    DiscordState,
    DiscordSwitches,
    DiscordUser,
    Mentions,
    MessageFlag,
    MessageObject,
)

PREFIX: Final = "/api/v10"
VOICE_TYPE: Final = "audio/ogg"
BOT_NAME: Final = "Trivet"
_FALLBACK_APPLICATION_ID: Final = 1_100_000_000_000_000_000


class DiscordEmulator(stage.EmulatedStage):
    """One bot's Discord: `app` speaks to the bot, the `Stage` methods to people.

    The application's id is read from the token, whose first part is the id in base64, as for every bot made today;
    the bot's user id is the same number.

    Counted faults hit what delivers something to people (messages, threads, interaction answers), not typing or
    reads; `faults.other["any_request"] = 1` lets them hit everything. Further switches in `faults.other`:
    `forbidden_code` (with `blocked`; 50013 to write and 50001 to read are the defaults), `no_via` (429 as from
    Cloudflare's ban), `charset` (JSON comes with its charset, as from other servers than Discord's), `global_limit`
    (the counted 429 is global), `server_error_status` (502).
    What is the vendor's to choose is in `switches`."""

    platform: Final = "discord"

    def __init__(
        self, *, token: str, switches: DiscordSwitches | None = None, clock_s: Callable[[], float] = time.time
    ) -> None:
        super().__init__()
        self.switches = switches or DiscordSwitches()
        self.application_id = _id_in(token)
        bot = DiscordUser(self.application_id, BOT_NAME, BOT_NAME, is_bot=True)
        self.world = DiscordState(bot=bot, clock_s=clock_s)
        self.guild = self.world.new_guild("Guild")
        self.gateway = Gateway(self.world, token, self.application_id, self.switches, self.faults, clock_s)
        self._events = DiscordEvents(self.world, self.gateway, self._audience, self.switches, self.faults)
        self._posting = DiscordPosting(self.world, self._events)
        self.interactions = DiscordInteractions(self.world, self._events, self.switches, self.application_id, clock_s)
        self._signing_key = Ed25519PrivateKey.generate()
        self.http_interactions: HttpInteractions | None = None
        self._clock_s = clock_s
        self._buckets = Buckets(self.switches, clock_s)
        self.api = Api(token=token, world=self.world, buckets=self._buckets, faults=self.faults)
        self.app: ASGIApp = Starlette(
            routes=self._routes(clock_s), exception_handlers={404: not_found}, lifespan=self._lifespan
        )

    def _routes(self, clock_s: Callable[[], float]) -> list[BaseRoute]:
        world, posting, switches, application_id = self.world, self._posting, self.switches, self.application_id
        messages = MessagesApi(world, posting, self._events, switches, clock_s)
        places = PlacesApi(world, posting, switches, self._buckets, application_id, self._endpoint)
        interactions = InteractionsApi(world, posting, self.interactions, application_id)
        commands = CommandsApi(world, self.interactions, application_id)
        return [
            *self.api.mount(PREFIX, [*places.routes(), *messages.routes(), *interactions.routes(), *commands.routes()]),
            Route("/attachments/{channel_id:int}/{file_id:int}/{name}", self._download),
            WebSocketRoute("/gateway", self.gateway.connection),
            WebSocketRoute("/gateway/", self.gateway.connection),
        ]

    async def _download(self, request: Request) -> Response:
        """Serve a signed link: right until the hour in `ex`, then 404 as from the vendor's content network."""
        expires = request.query_params.get("ex", "")
        is_valid = re.fullmatch(r"[0-9a-f]{1,12}", expires) and int(expires, 16) * 1000 > self.world.now_ms()
        channel = self.world.channels.get(request.path_params["channel_id"])
        files = [f for m in channel.messages.values() for f in m.files] if channel else []
        file = next((f for f in files if f.id == request.path_params["file_id"]), None)
        is_ours = request.query_params.get("hm") == shapes.link_signature(request.path_params["file_id"], expires)
        if file is None or not is_valid or not is_ours:
            return Response("This content is no longer available.", 404, media_type="text/plain")
        return Response(file.content, headers={"Content-Type": file.content_type})

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        yield
        if self.http_interactions is not None:
            await self.http_interactions.aclose()

    # --- the owner of the application

    @property
    def public_key(self) -> str:
        """Return the key by which the application knows that a request is Discord's."""
        return self._signing_key.public_key().public_bytes_raw().hex()

    async def use_http(self, url: str) -> bool:
        """Set the Interactions Endpoint URL. Without the right answers to both probes it is refused."""
        http = HttpInteractions(
            url=url, key=self._signing_key, application_id=self.application_id, api=self.app, clock_s=self._clock_s
        )
        if not await http.verify():
            await http.aclose()
            return False
        self.http_interactions, self._events.endpoint = http, http.send
        return True

    def _endpoint(self) -> stage.Json:
        url = self.http_interactions.url if self.http_interactions else None
        return {"verify_key": self.public_key, "interactions_endpoint_url": url}

    # --- the stage: who and where

    @property
    def bot(self) -> stage.Person:
        return as_person(self.world.bot)

    def people(self) -> Sequence[stage.Person]:
        return [as_person(user) for user in self.world.users.values() if user.id != self.world.bot.id]

    def places(self) -> Sequence[stage.Place]:
        return [as_place(channel) for channel in self.world.channels.values()]

    def add_person(self, name: str) -> stage.Person:
        """Add a person to the guild, with a direct chat to the bot."""
        person = self._join(name, is_bot=False)
        self._events.opened(self.world.dm_with(person))
        return as_person(person)

    def give_role(self, person_id: str, name: str) -> str:
        """Give this person a new role of the guild and return its id. Clients that are connected hear nothing of it."""
        role_id = self.world.new_id()
        self.guild.role_names[role_id] = name
        self.guild.roles_of.setdefault(int(person_id), []).append(role_id)
        return str(role_id)

    def add_bot(self, name: str) -> stage.Person:
        """Add another bot to the guild: its messages reach ours like everybody's."""
        return as_person(self._join(name, is_bot=True))

    def _join(self, name: str, *, is_bot: bool) -> DiscordUser:
        handle = re.sub(r"[^a-z0-9_.]+", "_", name.lower()).strip("_") or "user"
        user = self.world.new_user(handle, name, is_bot=is_bot)
        self.guild.member_ids.append(user.id)
        return user

    def add_place(self, kind: stage.PlaceKind, title: str, *, parent_id: str | None = None) -> stage.Place:
        """Add a text channel to the guild, or a thread to one (`parent_id`, else the first channel)."""
        if kind is stage.PlaceKind.GROUP:
            name = re.sub(r"\s+", "-", title.strip().lower())
            channel = self.world.new_channel(self.guild, name)
            self._events.opened(channel)
            return as_place(channel)
        if kind is stage.PlaceKind.DM:
            raise ValueError("A direct chat comes with its person: use add_person.")
        parents = [self.world.channels[int(parent_id)]] if parent_id else self.world.channels_of(self.guild)
        if not parents:
            raise ValueError("A thread needs a channel: add a group first.")
        owner = next((u for u in self.world.users.values() if not u.is_bot), self.world.bot)
        return as_place(self._posting.thread_in(parents[0], owner, title))

    def thread_from(self, person_id: str, place_id: str, message_id: str, title: str) -> stage.Place:
        """Start a thread from a message as a person: it gets that message's id, so there can be but one."""
        message = self._message(message_id, place_id)
        if message.id in self.world.channels:
            return as_place(self.world.channels[message.id])
        return as_place(self._posting.thread_from(message, self.world.users[int(person_id)], title))

    # --- the stage: what is said

    async def say(
        self,
        person_id: str,
        place_id: str,
        text: str,
        *,
        mention_bot: bool = False,
        reply_to: str | None = None,
        mention_role: bool = False,
        ping_reply: bool = True,
        files: Sequence[stage.SharedFile] = (),
    ) -> stage.Said:
        """Write as a person; also with the bot's managed role mentioned, or with a reply that does not ping.

        One recording without words is a voice message."""
        author, channel = self.world.users[int(person_id)], self._channel(place_id)
        text = self._typed(text)
        front = f"<@{self.world.bot.id}> " if mention_bot else ""
        front += f"<@&{self.guild.bot_role_id}> " if mention_role else ""
        target = channel.messages.get(int(reply_to)) if reply_to else None
        draft = DiscordDraft(
            content=front + text,
            mentions=_spoken(front + text, target if ping_reply else None),
            files=tuple(
                AttachmentObject(self.world.new_id(), file.name, file.content, file.media_type) for file in files
            ),
            flags=MessageFlag.VOICE if not text and [file.media_type for file in files] == [VOICE_TYPE] else 0,
        )
        return as_said(self.world, self._posting.post(channel, author, draft, reply_to=target))

    def _typed(self, text: str) -> str:
        """Return what the client sends for a text in which people are called by their names."""
        users = self.world.users.values()
        return stage.mentioning(
            text, {name: f"<@{user.id}>" for user in users for name in (user.username, user.shown_as)}
        )

    async def share(self, person_id: str, message_id: str, place_id: str, to_id: str, text: str = "") -> stage.Said:
        """Forward a message; the words are a message of their own after it."""
        author = self.world.users[int(person_id)]
        said = self._posting.forward(self._channel(to_id), author, self._message(message_id, place_id))
        if text:
            await self.say(person_id, to_id, text)
        return as_said(self.world, said)

    async def say_as_webhook(self, name: str, place_id: str, text: str) -> stage.Said:
        """Write as a webhook: `webhook_id` is set and there is no member."""
        webhook_id = self.world.new_id()
        author = DiscordUser(webhook_id, name, name, is_bot=True, webhook_id=webhook_id)
        message = self._posting.post(self._channel(place_id), author, DiscordDraft(text, mentions_in(text)))
        return as_said(self.world, message)

    async def edit(self, message_id: str, place_id: str, text: str) -> None:
        message, text = self._message(message_id, place_id), self._typed(text)
        self._posting.edit(message, replace(message, content=text, mentions=_spoken(text, None)))

    async def delete(self, message_id: str, place_id: str) -> None:
        self._posting.delete(self._message(message_id, place_id))

    async def press_button(self, person_id: str, place_id: str, message_id: str, button_id: str) -> None:
        shown = buttons_of(self._message(message_id, place_id).components)
        if all(button.id != button_id for button in shown):
            raise ValueError("the message shows no such button")
        self.interactions.press(person_id, message_id, place_id, button_id)

    def set_language(self, person_id: str, language: str) -> None:
        """Set the language of the person's client to one of Discord's locales."""
        user = self.world.users[int(person_id)]
        self.world.users[user.id] = replace(user, locale=language)

    def menu(self, person_id: str, place_id: str) -> Sequence[stage.MenuEntry]:
        locale = self.world.users[int(person_id)].locale
        return [as_entry(command, locale) for command in self.interactions.offered(person_id, place_id)]

    async def invoke(self, person_id: str, place_id: str, name: str, argument: str = "") -> None:
        self.interactions.invoke(person_id, place_id, name, argument)

    async def suggest(self, person_id: str, place_id: str, name: str, typed: str) -> Sequence[str]:
        return [choice["name"] for choice in await self.interactions.suggest(person_id, place_id, name, typed)]

    def said(self, place_id: str) -> Sequence[stage.Said]:
        messages = self._channel(place_id).messages.values()
        return [as_said(self.world, message) for message in messages if not message.flags & MessageFlag.LOADING]

    def file(self, message_id: str, place_id: str, number: int) -> stage.SharedFile:
        files = files_of(self._message(message_id, place_id))
        if not 0 <= number < len(files):
            raise KeyError("no such file")
        return stage.SharedFile(files[number].name, files[number].content_type, files[number].content)

    async def cut_connections(self) -> None:
        self.gateway.cut()

    def _channel(self, place_id: str) -> Channel:
        return self.world.channels[int(place_id)]

    def _message(self, message_id: str, place_id: str) -> MessageObject:
        return self._channel(place_id).messages[int(message_id)]


def _spoken(text: str, target: MessageObject | None) -> Mentions:
    """Return what a person's message pings; Discord's own client adds the author of the message replied to."""
    found = mentions_in(text)
    users = found.users if target is None else tuple(dict.fromkeys((*found.users, target.author.id)))
    return Mentions(users, found.roles, found.everyone)


def _id_in(token: str) -> int:
    """Return the application id at the front of a bot token; of a token that has none, one that will do."""
    head = token.partition(".")[0]
    try:
        decoded = base64.b64decode(head + "=" * (-len(head) % 4), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return _FALLBACK_APPLICATION_ID
    return int(decoded) if re.fullmatch(r"\d{17,20}", decoded) else _FALLBACK_APPLICATION_ID
