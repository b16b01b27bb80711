"""The files of a message, by reference. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from channels.normalized import FileReference
from channels.raw import Raw, canonical, integer, mappings, text
from gateway.contracts.messages import AttachmentKind

_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_GONE: Final = ("tombstone", "hidden_by_limit")


def references(event: Raw) -> Iterator[FileReference]:
    """Those that are still there; an address of a file is never kept."""
    for file in mappings(event.get("files")):
        file_id = text(file.get("id"))
        if not _ID.fullmatch(file_id) or file.get("mode") in _GONE:
            continue
        media_type = text(file.get("mimetype")) or "application/octet-stream"
        yield FileReference(
            kind=_kind(file, media_type),
            reference=canonical({"id": file_id}),
            name=text(file.get("name")) or text(file.get("title")) or file_id,
            media_type=media_type,
            size_bytes=integer(file.get("size")),
        )


def _kind(file: Raw, media_type: str) -> AttachmentKind:
    if file.get("subtype") == "slack_audio":
        return AttachmentKind.VOICE
    kinds = {"image": AttachmentKind.IMAGE, "audio": AttachmentKind.AUDIO, "video": AttachmentKind.VIDEO}
    return kinds.get(media_type.partition("/")[0], AttachmentKind.DOCUMENT)
