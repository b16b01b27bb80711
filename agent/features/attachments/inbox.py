"""The files of messages in their workspace, their texts, and notes on those that are missing.

A file has one path, derived from its message and its reference: a turn that is run again finds it there and fetches
nothing. A file that cannot be fetched is an answer, not an error: the turn goes on without it, and says so."""

from __future__ import annotations

import asyncio
import hashlib
import re
from dataclasses import dataclass, field
from typing import Final

import structlog

from agent.limits import ATTACHMENT_ASKED_MAX, DOCUMENT_BYTES_MAX, IMAGE_BYTES_MAX
from agent.tools.files.send_file import media_type, safe_name
from agent.tools.files.workspace import Workspace, Workspaces
from gateway.bus.files import Files
from gateway.config.features import AttachmentSettings
from gateway.contracts.errors import FileRefused, ToolError
from gateway.contracts.ids import first_id_of
from gateway.contracts.messages import Attachment, AttachmentKind, CleanText, InboundMessage, joined, literal_text
from gateway.contracts.ports import Clock, FetchedFile, WantedAttachment
from gateway.i18n import ENGLISH, Sentence, Words, sentence
from gateway.scrub import Scrubber

# What people and the model are told of a file that could not be had. Pure.


NOBODY_ANSWERS: Final = sentence("the channel it came by does not hand it over at the moment")
EMPTY: Final = sentence("it is empty")
ONE_TOO_MANY: Final = sentence("there are too many files with this message")
UNREADABLE: Final = sentence("it is broken, or not what its name says")
LOCKED_DOCUMENT: Final = sentence("it is locked with a password")
TAKES_TOO_LONG: Final = sentence("reading it takes too long")
NOBODY_READS_IT: Final = sentence("nothing is installed here that reads such files")
TOO_MANY_PIXELS: Final = sentence("it is too large for me to look at")
NOT_IN_TIME: Final = sentence("it did not come in time")
NO_TEXT: Final = literal_text("[No text was found in it. It may be scanned, or drawn.]")
NOT_LISTENING: Final = sentence("I cannot listen yet: no model for speech is set up here. Please write to me.")
NOT_UNDERSTOOD: Final = sentence("I could not make out what is said in your recording. Please write to me.")
_MEGABYTE: Final = 1024 * 1024
_KILOBYTE: Final = 1024


_MEASURED: Final = (
    (re.compile(r"it is larger than (\d+) KB"), sentence("it is larger than {number} KB")),
    (re.compile(r"it is larger than (\d+) MB"), sentence("it is larger than {number} MB")),
    (re.compile(r"it is a text of more than (\d+) MB"), sentence("it is a text of more than {number} MB")),
)


def not_read(name: str, reason: str, words: Words = ENGLISH) -> str:
    """Say in one sentence that a file was not read; in English for a model."""
    return words.say("I could not read `{name}`: {reason}.", name=name, reason=_reason(reason, words))


def too_large(bytes_max: int) -> str:
    """Name the reason that a file is larger than `bytes_max`."""
    if bytes_max < _MEGABYTE:
        return f"it is larger than {max(1, bytes_max // _KILOBYTE)} KB"
    return f"it is larger than {bytes_max // _MEGABYTE} MB"


def no_room(complaint: str) -> str:
    """Name the reason that the workspace has no room, in its own words."""
    return f"it cannot be kept ({complaint})"


def not_shown(name: str, reason: str, words: Words = ENGLISH) -> str:
    """Say in one sentence that an image was not shown; in English for a model."""
    return words.say("I could not look at `{name}`: {reason}.", name=name, reason=_reason(reason, words))


def _reason(reason: str, words: Words) -> str:
    """Translate the reason, a clause in English that came with an error and often over the bus."""
    for pattern, clause in _MEASURED:
        if found := pattern.fullmatch(reason):
            return _with_number(clause, found[1], words)
    return words.known(reason)


def _with_number(clause: Sentence, number: str, words: Words) -> str:
    return words.say(clause, number=number)


UNSEEN: Final = literal_text(
    "An image came which you cannot see. Say so, and do not guess what is on it. The file tools can copy or send it."
)


def could_be_seen_by(model: str) -> str:
    """Tell a model that cannot see images which other model could."""
    return f"{UNSEEN} `{model}` could see it: whoever writes may choose that model with /model {model}."


_log = structlog.get_logger(__name__)

FOLDER: Final = "inbox"
_DIGEST_BYTES: Final = 4  # tells apart the files of one conversation, and keeps their names readable


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file of a message in the workspace. `media_type` is detected from its bytes, whatever it is called."""

    path: CleanText
    name: CleanText
    media_type: str
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class RefusedFile:
    """A file that is not available, and why, as a clause."""

    name: CleanText
    reason: CleanText


@dataclass(eq=False, repr=False)
class Inbox:
    """Keeps the files of messages."""

    bus: Files
    workspaces: Workspaces
    settings: AttachmentSettings
    scrubber: Scrubber
    clock: Clock

    async def take(self, message: InboundMessage, attachment: Attachment) -> KeptFile | RefusedFile:
        """Fetch a file of `message`, or of what it quotes, into the workspace. A second call does not fetch it again.
        Raises `BusUnavailable`, which is no fault of the file."""
        of_chat = self.scrubber.for_chat(str(message.key))
        name = of_chat.scrub(safe_name(attachment.name))
        try:
            if files_of(message).index(attachment) >= self.settings.per_message_max:
                raise FileRefused(ONE_TOO_MANY)
            bytes_max = self._bytes_max(attachment.kind)
            if attachment.size_bytes is not None and attachment.size_bytes > bytes_max:
                raise FileRefused(too_large(bytes_max))
            workspace = self.workspaces.of(message.key)
            path = of_chat.scrub(f"{FOLDER}/{_mark(message, attachment)}-{name}")
            content = await asyncio.to_thread(kept, workspace, path, bytes_max=bytes_max)
            if content is None:
                await asyncio.to_thread(_check_room, workspace, attachment.size_bytes or 0)
                content = (await self._fetched(message, attachment, bytes_max)).content
                if not content:
                    raise FileRefused(EMPTY)
                if len(content) > bytes_max:
                    raise FileRefused(too_large(bytes_max))
                await asyncio.to_thread(_keep, workspace, path, content, bytes_max)
            return KeptFile(path, name, media_type(name, content), content)
        except FileRefused as error:
            _log.info("attachment.refused", message=message.id, reason=str(error))
            return RefusedFile(name, of_chat.scrub(str(error)))

    async def _fetched(self, message: InboundMessage, attachment: Attachment, bytes_max: int) -> FetchedFile:
        for _ in range(ATTACHMENT_ASKED_MAX):
            wanted = WantedAttachment(
                self.clock.new_id(), message.address.channel, message.key, attachment.reference, bytes_max
            )
            file = await self.bus.fetch_attachment(wanted)
            if file is not None:
                return file
        raise FileRefused(NOBODY_ANSWERS)

    def _bytes_max(self, kind: AttachmentKind) -> int:
        match kind:
            case AttachmentKind.IMAGE:
                return self.settings.image_bytes_max
            case AttachmentKind.VOICE | AttachmentKind.AUDIO:
                return self.settings.audio_bytes_max
            case _:
                return self.settings.file_bytes_max


def files_of(message: InboundMessage) -> tuple[Attachment, ...]:
    """List a message's own files, then those of what it quotes."""
    return (*message.attachments, *(file for quote in message.quotes for file in quote.attachments))


def _mark(message: InboundMessage, attachment: Attachment) -> str:
    """Compute a mark that is always the same for the same file of the same message."""
    source = f"{first_id_of(message.id)}\n{attachment.reference}".encode(errors="surrogatepass")
    return hashlib.blake2b(source, digest_size=_DIGEST_BYTES).hexdigest()


def _check_room(workspace: Workspace, size_bytes: int) -> None:
    """Check that the workspace has room: a file that could not be kept is not fetched."""
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


# The text or smaller image made of a file, kept next to it in the workspace: a repeated turn pays for it only once,
# and the file tools read on where a prompt had no room. Everything here blocks: call it in a thread.


_TEXT: Final = literal_text(".txt")
_SMALL: Final = literal_text(".small.jpg")


def text_path(path: CleanText) -> CleanText:
    """Return the path where the text of a file is kept."""
    return joined(path, _TEXT)


def small_path(path: CleanText) -> CleanText:
    """Return the path where the smaller version of an image is kept."""
    return joined(path, _SMALL)


def kept_text(workspace: Workspace, path: CleanText) -> str | None:
    """Return the text of a file that was read before. Its owner may have changed the text since."""
    content = kept(workspace, text_path(path), bytes_max=DOCUMENT_BYTES_MAX)
    return None if content is None else content.decode(errors="replace")


def kept(workspace: Workspace, path: CleanText, *, bytes_max: int = IMAGE_BYTES_MAX) -> bytes | None:
    """Return the content that was kept at this path; None also where something else is in its place by now."""
    try:
        return workspace.read_if_there(path, bytes_max=bytes_max)
    except ToolError:
        return None


def keep(workspace: Workspace, path: CleanText, content: bytes) -> bool:
    """Put it there. False where there is no room: then it was made for this turn only."""
    try:
        with workspace.lock:
            workspace.write(path, content, bytes_max=len(content))
    except ToolError as error:
        _log.info("attachment.not_kept", reason=str(error))
        return False
    return True
