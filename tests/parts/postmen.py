"""A channel that hands over the files of messages, and a model that hears, both held by the hand of a test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count

from agent.models.requests import SpeechAnswer, SpeechRequest, TokenCount, TranscriptionAnswer, TranscriptionRequest
from gateway.bus.bus import RedisBus
from gateway.contracts.errors import ModelError
from gateway.contracts.messages import Attachment, AttachmentKind, CleanText, InboundMessage, Quote, literal_text
from gateway.contracts.ports import FetchedFile
from tests.parts.agents import message

SPEECH = "openai/whisper-1"
RECORDING = b"OggS\0\2" + bytes(22) + b"OpusHead"
"""The begin of Opus in Ogg."""

_numbers = count(1)


@dataclass(slots=True)
class Postman:
    """Lends what was put in, by its reference; `fetched` are the references asked for, in order. What is in `lost`
    is refused."""

    bus: RedisBus
    channel: str = "telegram"
    files: dict[str, bytes] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    fetched: list[str] = field(default_factory=list)

    def post(self, name: str, content: bytes, kind: AttachmentKind = AttachmentKind.DOCUMENT) -> Attachment:
        """A file that is ready to be fetched."""
        reference = f"file-{next(_numbers)}"
        self.files[reference] = content
        return Attachment(kind, reference, CleanText(name), literal_text("application/octet-stream"), len(content))

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            wanted = await self.bus.files.wanted_attachment(self.channel, wait_s=5)
            if wanted is None:
                continue
            self.fetched.append(wanted.reference)
            if wanted.reference in self.lost:
                await self.bus.files.refuse_attachment(wanted, reason=self.lost[wanted.reference])
            else:
                await self.bus.files.put_attachment(wanted, FetchedFile("x", "x/x", self.files[wanted.reference]))


@asynccontextmanager
async def delivering(bus: RedisBus) -> AsyncIterator[Postman]:
    """A postman at work."""
    postman = Postman(bus)
    working = asyncio.create_task(postman.run())
    try:
        yield postman
    finally:
        working.cancel()
        await asyncio.wait([working])


def with_files(
    text: str, *files: Attachment, key: str = "telegram:1", quotes: tuple[Quote, ...] = (), message_id: str = ""
) -> InboundMessage:
    """A message and what came along with it."""
    return replace(message(text, key, message_id=message_id), attachments=files, quotes=quotes)


class Ear:
    """`TranscriptionModel` that hears the bytes of a recording as text, and fails when told to."""

    def __init__(self) -> None:
        self.heard: list[TranscriptionRequest] = []
        self.failure: ModelError | None = None

    async def transcribe(self, request: TranscriptionRequest) -> TranscriptionAnswer:
        """What the bytes say."""
        await request.permit()
        self.heard.append(request)
        if self.failure is not None:
            raise self.failure
        words = request.content.partition(b"\0")[2].decode()
        return TranscriptionAnswer(words, TokenCount(prompt=40, completion=8), cost_usd=0.0005)


class Mouth:
    """`SpeechModel` whose recordings hold their text, and that fails when told to."""

    def __init__(self, begin: bytes = RECORDING) -> None:
        self.begin = begin
        self.failure: ModelError | None = None

    async def speak(self, request: SpeechRequest) -> SpeechAnswer:
        """A recording of the text."""
        await request.permit()
        if self.failure is not None:
            raise self.failure
        return SpeechAnswer(self.begin + request.text.encode(), cost_usd=0.001)


def voice(words: str) -> bytes:
    """A recording in which `Ear` hears these words."""
    return b"OggS\0" + words.encode()
