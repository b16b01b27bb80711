"""Detects the type of some bytes (a picture, a recording, text) from the first of them. Pure."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gateway.scrub.raw_text import is_text, wide_encoding

_MARK: Final = "\ufeff"
_LOOKED_AT: Final = 4_096  # characters at the beginning
_UNPRINTABLE: Final = re.compile("[\x00-\x08\x0e-\x1f\x7f]")


def text_in(content: bytes) -> str | None:
    """Decode the text; None for content that is no text. An undecodable character becomes the replacement mark."""
    if (wide := wide_encoding(content)) is not None:
        text = content.decode(wide, errors="replace").removeprefix(_MARK)
        return None if _UNPRINTABLE.search(text[:_LOOKED_AT]) else text
    return content.decode("utf-8", errors="replace").removeprefix(_MARK) if is_text(content) else None


# What an image is, by its first bytes: its format and its size, without unpacking it. Pure.


_PNG: Final = b"\x89PNG\r\n\x1a\n"
_GIF: Final = (b"GIF87a", b"GIF89a")
_JPEG: Final = b"\xff\xd8\xff"
_FRAMES: Final = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
"""Markers of JPEG that begin a frame, which tells the size."""
_ALONE: Final = frozenset({0x01, *range(0xD0, 0xDA)})
"""Markers of JPEG without a length."""


@dataclass(frozen=True, slots=True)
class Picture:
    """An image of a format that models see."""

    media_type: str
    width: int
    height: int

    @property
    def pixels(self) -> int:
        """Count the pixels of the unpacked image."""
        return self.width * self.height

    @property
    def side(self) -> int:
        """Return the longer side in pixels."""
        return max(self.width, self.height)


def picture_in(content: bytes) -> Picture | None:
    """Recognize an image by its content, whatever its name says; None for anything else."""
    try:
        if content.startswith(_PNG):
            return Picture("image/png", *struct.unpack_from(">II", content, 16))
        if content.startswith(_GIF):
            return Picture("image/gif", *struct.unpack_from("<HH", content, 6))
        if content.startswith(_JPEG):
            return next(_jpeg_frames(content), None)
        if content.startswith(b"RIFF") and content[8:12] == b"WEBP":
            match content[12:16]:
                case b"VP8X":
                    width = int.from_bytes(content[24:27], "little") + 1
                    height = int.from_bytes(content[27:30], "little") + 1
                case b"VP8L":
                    (bits,) = struct.unpack_from("<I", content, 21)
                    width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
                case b"VP8 ":
                    width, height = (side & 0x3FFF for side in struct.unpack_from("<HH", content, 26))
                case _:
                    return None
            return Picture("image/webp", width, height)
    except struct.error:  # it ends before it has said how large it is
        return None
    return None


def _jpeg_frames(content: bytes) -> Iterator[Picture]:
    """Walk the segments of a JPEG file, each of which states its length, and yield the image frames."""
    at = 2
    while at + 1 < len(content):
        if content[at] != 0xFF:
            return
        marker = content[at + 1]
        if marker == 0xFF:
            at += 1
        elif marker in _ALONE:
            at += 2
        else:
            if marker in _FRAMES:
                height, width = struct.unpack_from(">HH", content, at + 5)
                yield Picture("image/jpeg", width, height)
            at += 2 + max(struct.unpack_from(">H", content, at + 2)[0], 2)


# What a recording is, by its first bytes: models that hear know formats by the ending of a name. Pure.


_AT_THE_START: Final = (
    (b"OggS", "ogg"),
    (b"ID3", "mp3"),
    (b"\xff\xfb", "mp3"),
    (b"\xff\xf3", "mp3"),
    (b"\xff\xf2", "mp3"),
    (b"fLaC", "flac"),
    (b"\x1a\x45\xdf\xa3", "webm"),
)
_TYPES: Final = {"mp3": "audio/mpeg", "m4a": "audio/mp4"}


@dataclass(frozen=True, slots=True)
class Recording:
    """A name and a type that every provider understands."""

    name: str
    media_type: str


def recording_of(content: bytes, name: str, media_type: str) -> Recording:
    """Recognize a recording by its content; where that is not known, by its name and media type."""
    form = _format_of(content)
    if form is None:
        return Recording(name, media_type)
    return Recording(f"recording.{form}", _TYPES.get(form, f"audio/{form}"))


def _format_of(content: bytes) -> str | None:
    if content[4:8] == b"ftyp":
        return "m4a"
    if content.startswith(b"RIFF") and content[8:12] == b"WAVE":
        return "wav"
    return next((form for mark, form in _AT_THE_START if content.startswith(mark)), None)
