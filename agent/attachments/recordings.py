"""What a recording is, by its first bytes: models that hear know formats by the ending of a name. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

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
    """What it is by its content; what it calls itself, where nobody knows that."""
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
