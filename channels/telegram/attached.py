"""The files of a message of the Bot API, by their ids. Never raises on any JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from channels.normalized import FileReference
from channels.raw import Raw, integer, mapping, mappings, text
from gateway.contracts.messages import AttachmentKind

_FILES: Final = {
    "voice": (AttachmentKind.VOICE, "audio/ogg", "voice.ogg"),
    "audio": (AttachmentKind.AUDIO, "audio/mpeg", "audio.mp3"),
    "video": (AttachmentKind.VIDEO, "video/mp4", "video.mp4"),
    "video_note": (AttachmentKind.VIDEO, "video/mp4", "video-note.mp4"),
    "animation": (AttachmentKind.VIDEO, "video/mp4", "animation.mp4"),
    "document": (AttachmentKind.DOCUMENT, "application/octet-stream", "document"),
}


def attachments(message: Raw) -> Iterator[FileReference]:
    """Of a message, or of what an external reply tells of one. A moving sticker is only what its emoji says."""
    photos = mappings(message.get("photo"))
    if photos:  # the same picture in several sizes, the largest last
        yield from _file(photos[-1], AttachmentKind.IMAGE, "image/jpeg", "photo.jpg")
    sticker = mapping(message.get("sticker"))
    if sticker and not sticker.get("is_animated") and not sticker.get("is_video"):
        yield from _file(sticker, AttachmentKind.IMAGE, "image/webp", "sticker.webp")
    for field, (kind, media_type, name) in _FILES.items():
        if field == "document" and "animation" in message:
            continue  # an animation fills both
        yield from _file(mapping(message.get(field)), kind, media_type, name)


def _file(raw: Raw, kind: AttachmentKind, media_type: str, name: str) -> Iterator[FileReference]:
    file_id = text(raw.get("file_id"))
    if not file_id:
        return
    said = text(raw.get("mime_type")) or media_type
    is_picture = kind is AttachmentKind.DOCUMENT and said.startswith("image/")
    yield FileReference(
        kind=AttachmentKind.IMAGE if is_picture else kind,
        reference=file_id,
        name=text(raw.get("file_name")) or name,
        media_type=said,
        size_bytes=integer(raw.get("file_size")),
    )
