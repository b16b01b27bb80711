"""Files of a person on their way into messages: one each, as Telegram's own client sends them, several as albums."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from channels.emulators.stage import SharedFile
from channels.emulators.telegram.methods.files import ALBUM, media_shape
from channels.emulators.telegram.people import Json
from channels.emulators.telegram.world import World

_KINDS: Final = {
    "image/jpeg": "photo",
    "image/png": "photo",
    "image/webp": "sticker",
    "image/gif": "animation",
    "audio/ogg": "voice",
    "video/mp4": "video",
}
_ALBUMS: Final = {"photo": "seen", "video": "seen", "document": "document", "audio": "audio"}
"""What may stand in one album with what; the others go alone."""


def shared(world: World, files: Sequence[SharedFile], album: str) -> Iterator[tuple[Json, str]]:
    """The media part of each message, and the file's name. `album` begins the name of every album."""
    for number, (family, together) in enumerate(groupby(files, key=lambda file: _ALBUMS.get(kind_of(file)))):
        members = list(together)
        for at in range(0, len(members), ALBUM.stop - 1):
            part = members[at : at + ALBUM.stop - 1]
            group: Json = {"media_group_id": f"{album}{number}{at}"} if family and len(part) in ALBUM else {}
            for file in part:
                stored = world.add_file(file.name, file.media_type, file.content)
                yield media_shape(kind_of(file), stored) | group, file.name


def kind_of(file: SharedFile) -> str:
    """As what the client sends it."""
    named = _KINDS.get(file.media_type)
    return named or ("audio" if file.media_type.startswith("audio/") else "document")
