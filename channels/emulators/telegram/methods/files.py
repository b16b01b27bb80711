"""Files out and in: sendDocument and its family, albums, getFile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from channels.emulators.telegram.backstage import Backstage
from channels.emulators.telegram.call import Call
from channels.emulators.telegram.errors import ApiError, bad_request
from channels.emulators.telegram.methods.method import Method
from channels.emulators.telegram.methods.writing import read_text
from channels.emulators.telegram.people import Json
from channels.emulators.telegram.text.entities import FormattedText
from channels.emulators.telegram.world import StoredFile

UPLOAD_BYTES_MAX: Final = 50 * 1024 * 1024
PHOTO_BYTES_MAX: Final = 10 * 1024 * 1024
DOWNLOAD_BYTES_MAX: Final = 20 * 1024 * 1024
ALBUM: Final = range(2, 11)
KINDS: Final = ("document", "photo", "voice", "audio", "video", "animation")


def media_shape(kind: str, stored: StoredFile) -> Json:
    """The media part of a Message. Sizes and durations are made up; nothing here decodes media."""
    shape = stored.as_json()
    if kind == "photo":
        small = stored.thumbnail.as_json() | {"width": 90, "height": 67}
        return {"photo": [small, shape | {"width": 1280, "height": 960}]}
    if kind == "sticker":
        looks: Json = {"type": "regular", "width": 512, "height": 512, "is_animated": False, "is_video": False}
        return {"sticker": shape | looks | {"emoji": "\N{THUMBS UP SIGN}"}}
    shape |= {"mime_type": stored.mime_type}
    if kind in {"voice", "audio"}:
        shape |= {"duration": 3}
    if kind in {"video", "animation"}:
        shape |= {"width": 640, "height": 480, "duration": 3}
    if kind != "voice":
        shape |= {"file_name": stored.name}
    media: Json = {kind: shape}
    return media | {"document": stored.as_json()} if kind == "animation" else media


def _sender(kind: str) -> Callable[[Backstage, Call], Awaitable[Json]]:
    async def send(backstage: Backstage, call: Call) -> Json:
        caption = read_text(backstage, call, name="caption", is_optional=True)
        keyboard = backstage.keyboard_of(call)
        stored = _file(backstage, call, kind, call.text(kind))
        chat = backstage.chat_of(call)
        target = backstage.target_of(call, chat)
        backstage.spend(chat)
        media = media_shape(kind, stored)
        return backstage.post(chat, target, caption, keyboard=keyboard, media=media, files=(stored.name,))

    return send


async def send_media_group(backstage: Backstage, call: Call) -> list[Json]:
    rows = call.rows("media") or []
    if len(rows) not in ALBUM:
        raise bad_request("there must be 2-10 media in the album")
    parts = [read_media(backstage, call, row if isinstance(row, dict) else {}) for row in rows]
    chat = backstage.chat_of(call)
    target = backstage.target_of(call, chat)
    album = f"1{chat.next_message_id:016d}"
    backstage.spend(chat, messages=len(parts))
    sent = []
    for kind, stored, caption in parts:
        media = media_shape(kind, stored) | {"media_group_id": album}
        sent.append(backstage.post(chat, target, caption, media=media, files=(stored.name,)))
    return sent


def read_media(backstage: Backstage, call: Call, row: Json) -> tuple[str, StoredFile, FormattedText]:
    """An InputMedia: its kind, the file, the caption. Raises 400 for anything else."""
    given = Call(call.method, row, call.uploads)
    kind = given.text("type")
    if kind not in KINDS:
        raise bad_request("can't parse InputMedia: type must be specified")
    caption = read_text(backstage, given, name="caption", is_optional=True)
    return kind, _file(backstage, given, kind, given.text("media")), caption


async def get_file(backstage: Backstage, call: Call) -> Json:
    if not call.text("file_id"):
        raise bad_request("file_id not specified")
    stored = backstage.world.files.get(call.text("file_id"))
    if stored is None:
        raise bad_request("wrong file_id or the file is temporarily unavailable")
    if len(stored.content) > DOWNLOAD_BYTES_MAX:
        raise bad_request("file is too big")
    return stored.as_json() | {"file_path": stored.path}


def _file(backstage: Backstage, call: Call, kind: str, given: str) -> StoredFile:
    """A new upload, or a file the bot knows already. Raises what the server says of the others."""
    name = given.removeprefix("attach://") if given.startswith("attach://") else kind
    upload = call.uploads.get(name)
    if upload is None:
        known = backstage.world.files.get(given)
        if known is not None:
            return known
        if not given:
            raise bad_request(f"there is no {kind} in the request")
        if given.startswith(("http://", "https://")):
            raise bad_request("failed to get HTTP URL content")
        raise bad_request("wrong remote file identifier specified: Wrong string length")
    if not upload.content:
        raise bad_request("file must be non-empty")
    if len(upload.content) > (PHOTO_BYTES_MAX if kind == "photo" else UPLOAD_BYTES_MAX):
        raise ApiError(413, "Request Entity Too Large")
    return backstage.world.add_file(upload.name, upload.mime_type, upload.content)


METHODS: Final = (
    *(Method(f"send{kind.capitalize()}", _sender(kind), is_write=True) for kind in KINDS),
    Method("sendMediaGroup", send_media_group, is_write=True),
    Method("getFile", get_file),
)
