"""Takes the files of a message into the workspace of its session key, where every file tool finds them.

A file has one place, made of its message and its reference: a turn that is run again finds it there and asks
nobody. What cannot be had is an answer, not an error: the turn goes on without it, and says so.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass, field
from typing import Final

import structlog

from agent.attachments.sentences import EMPTY, NOBODY_ANSWERS, ONE_TOO_MANY, no_room, too_large
from agent.limits import ATTACHMENT_ASKED_MAX
from agent.tools.files.naming import media_type, safe_name
from agent.tools.files.workspace import Homes, Workspace
from gateway.bus.files import Files
from gateway.config.attachments import Attachments
from gateway.contracts.errors import FileRefused, ToolError
from gateway.contracts.ids import first_id_of
from gateway.contracts.messages import Attachment, AttachmentKind, CleanText, InboundMessage
from gateway.contracts.ports import Clock, FetchedFile, Scrubber, WantedAttachment

_log = structlog.get_logger(__name__)

FOLDER: Final = "inbox"
_DIGEST_BYTES: Final = 4  # tells apart the files of one conversation, and keeps their names readable


@dataclass(frozen=True, slots=True)
class Kept:
    """A file of a message in the workspace. `media_type` is what its bytes are, whatever anybody calls it."""

    path: CleanText
    name: CleanText
    media_type: str
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Refused:
    """A file that cannot be had, and why, as a clause."""

    name: CleanText
    reason: CleanText


class Inbox:
    """Where files of messages are kept."""

    def __init__(self, bus: Files, workspaces: Homes, settings: Attachments, scrubber: Scrubber, clock: Clock) -> None:
        self._bus = bus
        self._workspaces = workspaces
        self._settings = settings
        self._scrubber = scrubber
        self._clock = clock

    async def take(self, message: InboundMessage, attachment: Attachment) -> Kept | Refused:
        """A file of `message`, or of what it quotes. May be asked again: it is fetched once. Raises `BusUnavailable`,
        which is no fault of the file."""
        of_chat = self._scrubber.for_chat(str(message.key))
        name = of_chat.scrub(safe_name(attachment.name))
        try:
            return await self._taken(message, attachment, name, of_chat)
        except FileRefused as error:
            _log.info("attachment.refused", message=message.id, reason=str(error))
            return Refused(name, of_chat.scrub(str(error)))

    async def _taken(
        self, message: InboundMessage, attachment: Attachment, name: CleanText, scrubber: Scrubber
    ) -> Kept:
        if _position(message, attachment) >= self._settings.per_message_max:
            raise FileRefused(ONE_TOO_MANY)
        bytes_max = self._bytes_max(attachment.kind)
        if attachment.size_bytes is not None and attachment.size_bytes > bytes_max:
            raise FileRefused(too_large(bytes_max))
        workspace = self._workspaces.of(message.key)
        path = scrubber.scrub(f"{FOLDER}/{_mark(message, attachment)}-{name}")
        content = await asyncio.to_thread(_found, workspace, path, bytes_max)
        if content is None:
            await asyncio.to_thread(_check_room, workspace, attachment.size_bytes or 0)
            content = (await self._fetched(message, attachment, bytes_max)).content
            if not content:
                raise FileRefused(EMPTY)
            if len(content) > bytes_max:
                raise FileRefused(too_large(bytes_max))
            await asyncio.to_thread(_keep, workspace, path, content, bytes_max)
        return Kept(path, name, media_type(name, content), content)

    async def _fetched(self, message: InboundMessage, attachment: Attachment, bytes_max: int) -> FetchedFile:
        for _ in range(ATTACHMENT_ASKED_MAX):
            wanted = WantedAttachment(
                self._clock.new_id(), message.address.channel, message.key, attachment.reference, bytes_max
            )
            file = await self._bus.fetch_attachment(wanted)
            if file is not None:
                return file
        raise FileRefused(NOBODY_ANSWERS)

    def _bytes_max(self, kind: AttachmentKind) -> int:
        match kind:
            case AttachmentKind.IMAGE:
                return self._settings.image_bytes_max
            case AttachmentKind.VOICE | AttachmentKind.AUDIO:
                return self._settings.audio_bytes_max
            case _:
                return self._settings.file_bytes_max


def _position(message: InboundMessage, attachment: Attachment) -> int:
    """Of a file among those of its message and of what that quotes."""
    every = (*message.attachments, *(file for quote in message.quotes for file in quote.attachments))
    return every.index(attachment)


def _mark(message: InboundMessage, attachment: Attachment) -> str:
    """The same for the same file of the same message."""
    source = f"{first_id_of(message.id)}\n{attachment.reference}".encode(errors="surrogatepass")
    return hashlib.blake2b(source, digest_size=_DIGEST_BYTES).hexdigest()


def _found(workspace: Workspace, path: str, bytes_max: int) -> bytes | None:
    try:
        return workspace.read_if_there(path, bytes_max=bytes_max)
    except ToolError:
        return None  # something else stands in its place by now: that is for `_keep` to say


def _check_room(workspace: Workspace, size_bytes: int) -> None:
    """What could not be kept is not fetched."""
    try:
        workspace.check_room(size_bytes)
    except ToolError as error:
        raise FileRefused(no_room(str(error))) from error


def _keep(workspace: Workspace, path: str, content: bytes, bytes_max: int) -> None:
    try:
        with workspace.lock:
            workspace.write(path, content, bytes_max=bytes_max)
    except ToolError as error:
        raise FileRefused(no_room(str(error))) from error
