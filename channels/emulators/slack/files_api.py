"""Files: the three steps of an upload, and downloads that show strangers a login page."""

from __future__ import annotations

import mimetypes
from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from channels.emulators.slack import shapes
from channels.emulators.slack.errors import Refused, missing_argument
from channels.emulators.slack.mrkdwn import stored
from channels.emulators.slack.posting import Draft, Posting
from channels.emulators.slack.switches import Switches
from channels.emulators.slack.web_api import Call, Lookup, Method, Tokens
from channels.emulators.slack.world import File, World
from channels.emulators.traffic import Json

FILE_BYTES_MAX: Final = 1024 * 1024 * 1024
_LOGIN_PAGE: Final = "<!DOCTYPE html><html><head><title>Slack</title></head><body>Sign in to continue.</body></html>"


class FilesApi:
    def __init__(self, *, world: World, posting: Posting, lookup: Lookup, tokens: Tokens, switches: Switches) -> None:
        self._world = world
        self._posting = posting
        self._lookup = lookup
        self._tokens = tokens
        self._switches = switches
        self._promised: dict[str, tuple[str, int]] = {}
        self._arrived: dict[str, bytes] = {}

    def methods(self) -> dict[str, Method]:
        return {
            "files.getUploadURLExternal": Method(self.promise, ("files:write",)),
            "files.completeUploadExternal": Method(self.complete, ("files:write",), delivers=True),
            "files.info": Method(self.info, ("files:read",)),
        }

    async def promise(self, call: Call) -> Json:
        name, length = call.required("filename"), call.number("length", 0)
        if not 0 < length <= FILE_BYTES_MAX:
            raise Refused("file_upload_size_restricted" if length > 0 else "invalid_arguments")
        file_id = self._world.new_id("F")
        self._promised[file_id] = (name, length)
        return {"upload_url": f"http://{call.host}/upload/v1/{file_id}", "file_id": file_id}

    async def receive(self, request: Request) -> Response:
        """The bytes, raw or as multipart, to an address that was promised."""
        file_id = request.path_params["file_id"]
        if file_id not in self._promised:
            return PlainTextResponse("not found", 404)
        content = await _content(request)
        if len(content) != self._promised[file_id][1]:
            return PlainTextResponse("the length is not the promised one", 400)
        self._arrived[file_id] = content
        return PlainTextResponse(f"OK - {len(content)}")

    async def complete(self, call: Call) -> Json:
        """Shares what arrived. In truth the share is asynchronous: the answer does not name the message."""
        named = call.arguments.get("files")
        if not isinstance(named, list) or not named:
            raise missing_argument("files")
        files = [self._uploaded(item) for item in named]
        channel_id = call.text("channel_id") or call.text("channels")
        if channel_id:
            place = self._lookup.postable(channel_id)
            thread_ts = call.text("thread_ts") or None
            text = stored(call.text("initial_comment"))
            draft = Draft(text=text, files=tuple(files), thread_ts=thread_ts, subtype="file_share")
            self._posting.post(place, self._world.bot, draft)
        return {"files": [{"id": file.id, "title": file.title, "name": file.name} for file in files]}

    def _uploaded(self, item: Json) -> File:
        file_id = str(item.get("id"))
        if file_id not in self._arrived:
            raise Refused("file_not_found")
        name, _ = self._promised.pop(file_id)
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        title = str(item.get("title") or name)
        file = File(file_id, name, self._arrived.pop(file_id), kind, title=title, user_id=self._world.bot.id)
        self._world.files[file_id] = file
        return file

    async def info(self, call: Call) -> Json:
        file = self._world.files.get(call.required("file"))
        if file is None:
            raise Refused("file_not_found")
        return {"file": shapes.file(self._world, file) | {"shares": shapes.shares(file)}}

    async def download(self, request: Request) -> Response:
        """Without the bot's token or `files:read`: a login page with status 200, as Slack does."""
        team_file = request.path_params["team_file"].partition("-")[2]
        file = self._world.files.get(team_file)
        if self._switches.hides_files == "redirect":
            return RedirectResponse("https://emulator.slack.com/?redir=file", 302)
        is_known = request.headers.get("authorization") == f"Bearer {self._tokens.bot}"
        is_known = is_known and not self._switches.hides_files
        if not is_known or "files:read" not in self._switches.scopes:
            return HTMLResponse(_LOGIN_PAGE)
        if file is None:
            return HTMLResponse(_LOGIN_PAGE, 404)
        return Response(file.content, headers={"Content-Type": file.mimetype})


async def _content(request: Request) -> bytes:
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        return await request.body()
    async with request.form() as form:
        uploads = [value for value in form.values() if not isinstance(value, str)]
        return await uploads[0].read() if uploads else b""
