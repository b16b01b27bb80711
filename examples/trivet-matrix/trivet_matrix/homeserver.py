"""A homeserver of Matrix as two sides see it: the client-server API on `app`, the stage in front of people.

It imports nothing of ours but what every emulator has: the stage, the audience and the way to cut a connection.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from channels.emulators.serving import NoAnswer
from channels.emulators.stage import (
    EventKind,
    Faults,
    Person,
    Place,
    PlaceKind,
    Said,
    SharedFile,
    StageAudience,
    StageEvent,
)

BODY_CHARS_MAX: Final = 16_000
BOT: Final = Person("@trivet:home", "Trivet", "@trivet:home", is_bot=True)


@dataclass(frozen=True, slots=True)
class _Event:
    said: Said
    room_id: str
    json: dict[str, Any]


class Homeserver:
    """One server, one bot. `upgrade` moves a room."""

    platform = "matrix"
    bot = BOT

    def __init__(self, *, token: str) -> None:
        self.faults = Faults()
        self._token = token
        self._audience = StageAudience()
        self._people: dict[str, Person] = {BOT.id: BOT}
        self._places: dict[str, Place] = {}
        self._timeline: list[_Event] = []
        self._done: dict[str, str] = {}  # transactions
        self._moved: dict[str, str] = {}
        self._numbers = itertools.count(1)
        self._news = asyncio.Event()
        self._cuts = 0
        base = "/_matrix/client/v3"
        self.app = Starlette(
            routes=[
                Route(f"{base}/account/whoami", self._whoami),
                Route(f"{base}/sync", self._sync),
                Route(f"{base}/rooms/{{room}}/send/m.room.message/{{txn}}", self._send, methods=["PUT"]),
                Route(f"{base}/rooms/{{room}}/typing/{{user}}", self._typing, methods=["PUT"]),
            ]
        )

    # --- the stage

    def people(self) -> Sequence[Person]:
        return list(self._people.values())

    def places(self) -> Sequence[Place]:
        return list(self._places.values())

    def add_person(self, name: str) -> Person:
        user_id = f"@{name.lower()}:home"
        person = self._people[user_id] = Person(user_id, name, user_id)
        self._add(Place(f"!dm-{name.lower()}:home", PlaceKind.DM, name, "", person_id=user_id))
        return person

    def add_bot(self, name: str) -> Person:
        user_id = f"@{name.lower()}:home"
        bot = self._people[user_id] = Person(user_id, name, user_id, is_bot=True)
        return bot

    def add_place(self, kind: PlaceKind, title: str, *, parent_id: str | None = None) -> Place:
        if kind is PlaceKind.THREAD and parent_id:
            root = f"$root{next(self._numbers)}"
            return self._add(Place(f"{parent_id} {root}", kind, title, root, parent_id=parent_id))
        return self._add(Place(f"!{title.replace(' ', '-')}:home", kind, title, ""))

    def _add(self, place: Place) -> Place:
        self._places[place.id] = place
        return place

    async def say(
        self,
        person_id: str,
        place_id: str,
        text: str,
        *,
        mention_bot: bool = False,
        reply_to: str | None = None,
        files: Sequence[SharedFile] = (),
    ) -> Said:
        person = self._people[person_id]
        content: dict[str, Any] = {"msgtype": "m.notice" if person.is_bot else "m.text", "body": text}
        if mention_bot:
            content |= {"body": f"{BOT.id}: {text}", "m.mentions": {"user_ids": [BOT.id]}}
        if self.faults.poison > 0:
            self.faults.poison -= 1
            self._put(person, place_id, {"msgtype": ["m.text"], "body": {"no": 1}, "m.relates_to": "no"})
        copies = 1 + (self.faults.duplicate > 0)
        self.faults.duplicate = max(0, self.faults.duplicate - 1)
        return self._put(person, place_id, content, copies=copies)

    async def share(self, person_id: str, message_id: str, place_id: str, to_id: str, text: str = "") -> Said:
        """Matrix has no word for it: clients send the content once more."""
        event = next(each for each in self._timeline if each.said.id == message_id)
        return await self.say(person_id, to_id, "\n".join(filter(None, (text, event.said.text))))

    async def edit(self, message_id: str, place_id: str, text: str) -> None:
        event = next(each for each in self._timeline if each.said.id == message_id)
        relation = {"rel_type": "m.replace", "event_id": message_id}
        self._put(event.said.author, place_id, {"msgtype": "m.text", "body": f"* {text}", "m.relates_to": relation})

    async def delete(self, message_id: str, place_id: str) -> None:
        self._timeline = [each for each in self._timeline if each.said.id != message_id]

    async def press_button(self, person_id: str, place_id: str, message_id: str, button_id: str) -> None:
        raise ValueError("Matrix has no buttons")

    def said(self, place_id: str) -> Sequence[Said]:
        found = {each.said.id: each.said for each in self._timeline if each.said.place_id == place_id}
        return list(found.values())

    def file(self, message_id: str, place_id: str, number: int) -> SharedFile:
        raise KeyError(number)

    def events(self) -> AsyncIterator[StageEvent]:
        return self._audience.listen()

    async def cut_connections(self) -> None:
        self._cuts += 1
        self._news.set()

    def upgrade(self, place_id: str) -> Place:
        """The room lives on under another id."""
        old = self._places[place_id]
        new = self._add(replace(old, id=f"{old.id}2"))
        self._moved[old.id] = new.id
        return new

    # --- the API

    async def _whoami(self, request: Request) -> Response:
        return self._refused(request) or JSONResponse({"user_id": BOT.id})

    async def _sync(self, request: Request) -> Response:
        if refused := self._refused(request):
            return refused
        since = request.query_params.get("since", "")
        first = int(since.removeprefix("s")) if since else len(self._timeline)
        cuts = self._cuts
        try:
            async with asyncio.timeout(int(request.query_params.get("timeout", "0")) / 1000):
                while len(self._timeline) <= first and cuts == self._cuts:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            pass
        if cuts != self._cuts:
            return NoAnswer()
        joined: dict[str, Any] = {}
        for event in self._timeline[first:]:
            members = 2 if self._places[event.room_id].kind is PlaceKind.DM else len(self._people)
            room = {"summary": {"m.joined_member_count": members}, "timeline": {"events": []}}
            joined.setdefault(event.room_id, room)["timeline"]["events"].append(event.json)
        return JSONResponse({"next_batch": f"s{len(self._timeline)}", "rooms": {"join": joined}})

    async def _send(self, request: Request) -> Response:
        content = await request.json()
        room_id, transaction = request.path_params["room"], request.path_params["txn"]
        if refused := self._refused(request) or self._write_fault(room_id, content):
            return refused
        if transaction not in self._done:
            relation = content.get("m.relates_to") or {}
            place_id = f"{room_id} {relation['event_id']}" if relation.get("rel_type") == "m.thread" else room_id
            self._done[transaction] = self._put(BOT, place_id, content).id
        if self._uses("drop_after"):
            return NoAnswer()
        return JSONResponse({"event_id": self._done[transaction]})

    async def _typing(self, request: Request) -> Response:
        if (await request.json())["typing"]:
            for place in self._places.values():  # Matrix shows it in the room, whatever the thread
                if place.id.partition(" ")[0] == request.path_params["room"] and place.kind is not PlaceKind.GROUP:
                    self._audience.tell(StageEvent(EventKind.TYPING, place.id, status="typing"))
        return JSONResponse({})

    def _refused(self, request: Request) -> Response | None:
        if request.headers.get("authorization") != f"Bearer {self._token}":
            return _error(401, "M_UNKNOWN_TOKEN")
        return None

    def _write_fault(self, room_id: str, content: dict[str, Any]) -> Response | None:
        if self.faults.blocked or room_id not in self._places:
            return _error(403, "M_FORBIDDEN")
        if room_id in self._moved:
            return _error(400, "M_ROOM_UPGRADED", replacement_room=self._moved[room_id])
        if len(content["body"]) > BODY_CHARS_MAX:
            return _error(413, "M_TOO_LARGE")
        if "formatted_body" in content and self._uses("refuse_format"):
            return _error(400, "M_BAD_JSON")
        if self._uses("rate_limit"):
            return _error(429, "M_LIMIT_EXCEEDED", retry_after_ms=int(self.faults.retry_after_s * 1000))
        if self._uses("server_error"):
            return HTMLResponse("<h1>502 Bad Gateway</h1>", 502)
        return NoAnswer() if self._uses("drop_before") else None

    def _uses(self, counter: str) -> bool:
        left: int = getattr(self.faults, counter)
        setattr(self.faults, counter, max(0, left - 1))
        return left > 0

    def _put(self, author: Person, place_id: str, content: dict[str, Any], *, copies: int = 1) -> Said:
        room_id, _, thread_id = place_id.partition(" ")
        number = next(self._numbers)
        if thread_id:
            content = content | {"m.relates_to": {"rel_type": "m.thread", "event_id": thread_id}}
        body = str(content["body"])
        at_ms = 1_700_000_000_000 + number
        said = Said(f"$event{number}", place_id, author, body, content.get("formatted_body", escape(body)), at_ms)
        json = {
            "type": "m.room.message",
            "event_id": said.id,
            "sender": author.id,
            "origin_server_ts": at_ms,
            "content": content,
        }
        self._timeline.extend([_Event(said, room_id, json)] * copies)
        self._news.set()
        self._audience.tell(StageEvent(EventKind.SAID, place_id, said))
        return said


def _error(status: int, code: str, **more: object) -> Response:
    return JSONResponse({"errcode": code, "error": code, **more}, status)
