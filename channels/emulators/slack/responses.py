"""`response_url`: five messages within thirty minutes, into a conversation the bot need not be in."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from channels.emulators.severing import NoAnswer
from channels.emulators.slack.errors import Refused
from channels.emulators.slack.mrkdwn import stored
from channels.emulators.slack.posting import Draft, Posting
from channels.emulators.slack.switches import Switches
from channels.emulators.slack.world import Conversation, Message, User, World
from channels.emulators.stage import Faults
from channels.emulators.traffic import Json

LIFE_S: Final = 30 * 60.0


@dataclass(slots=True)
class _Link:
    place: Conversation
    user: User
    source: Message | None
    until_s: float
    uses: int = 0


class ResponseLinks:
    """`clock_s` gives seconds."""

    def __init__(
        self, *, world: World, posting: Posting, switches: Switches, faults: Faults, clock_s: Callable[[], float]
    ) -> None:
        self._world = world
        self._posting = posting
        self._switches = switches
        self._faults = faults
        self._clock_s = clock_s
        self._links: dict[str, _Link] = {}

    def new_url(self, place: Conversation, user: User, source: Message | None = None) -> str:
        """For this person in this place; `source` is the message whose button was pressed."""
        token = secrets.token_urlsafe(18)
        self._links[token] = _Link(place, user, source, self._clock_s() + LIFE_S)
        return f"{self._world.origin}/commands/{self._world.team_id}/{token}"

    async def endpoint(self, request: Request) -> Response:
        link = self._links.get(request.path_params["token"])
        if link is None:
            return PlainTextResponse("invalid_token", 404)
        if link.uses >= self._switches.link_uses_max:
            return JSONResponse({"ok": False, "error": "used_url"}, 404)
        if self._clock_s() > link.until_s:
            return JSONResponse({"ok": False, "error": "expired_url"}, 404)
        try:
            body = json.loads(await request.body())
        except ValueError:
            return PlainTextResponse("invalid_payload", 400)
        link.uses += 1
        try:
            self.respond(link.place, link.user, body, link.source)
        except Refused as refused:
            return JSONResponse(refused.body(), 400)
        if self._faults.drop_after > 0:
            self._faults.drop_after -= 1
            return NoAnswer()
        return PlainTextResponse("ok")

    def respond(self, place: Conversation, user: User, body: Json, source: Message | None = None) -> None:
        """What an answer to a command or a button does. Raises `no_text`."""
        if source is not None and body.get("delete_original"):
            self._posting.delete(source)
            return
        text, blocks = stored(str(body.get("text") or "")), body.get("blocks") or []
        if not text and not blocks:
            raise Refused("no_text")
        if source is not None and body.get("replace_original"):
            self._posting.change(source, text=text, blocks=blocks)
            return
        is_public = body.get("response_type") == "in_channel"
        thread_ts = body.get("thread_ts")
        draft = Draft(text=text, blocks=blocks, thread_ts=thread_ts, only_for=None if is_public else user.id)
        self._posting.post(place, self._world.bot, draft)
