"""Take in what came along with the messages of a turn, before its model is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Final

import structlog

from agent import limits
from agent.engine import Joined, Turn
from agent.features.attachments.documents import Documents, format_of
from agent.features.attachments.inbox import (
    NO_TEXT,
    NOT_IN_TIME,
    NOT_LISTENING,
    NOT_UNDERSTOOD,
    ONE_TOO_MANY,
    TOO_MANY_PIXELS,
    Inbox,
    KeptFile,
    RefusedFile,
    files_of,
    keep,
    kept,
    kept_text,
    not_read,
    not_shown,
    small_path,
    text_path,
)
from agent.media import Picture, picture_in, recording_of
from agent.models import requests
from agent.models.client import ModelClient
from agent.models.metering import usage_of
from agent.models.selection import Models
from agent.prompts.library import PROMPTS
from agent.tokens import estimate_tokens
from agent.tools.files.workspace import Workspaces
from gateway.contracts import context_blocks
from gateway.contracts.context_blocks import AttachmentBlocks, Image
from gateway.contracts.errors import BudgetSpent, FileRefused, ModelError, StoreError
from gateway.contracts.ids import is_wake
from gateway.contracts.messages import (
    Attachment,
    AttachmentKind,
    CleanText,
    InboundMessage,
    clipped,
    in_digits,
    joined,
    literal_text,
)
from gateway.contracts.ports import Clock
from gateway.contracts.sessions import Role, Session, Usage, UsagePurpose
from gateway.i18n import ENGLISH, words_for
from gateway.scrub import Scrubber
from gateway.store import Store
from gateway.tasks import retry_until_available


@dataclass(frozen=True, slots=True)
class AttachmentContext:
    """A turn of `session`. All texts of its attachments may take `tokens_max` of its prompt; `sees` tells
    whether its model understands images; `language` is what its author's platform says, as an IETF tag."""

    session: Session
    turn_id: str
    tokens_max: int
    sees: bool
    language: str = ""
    permit: requests.Permit = field(compare=False, repr=False, kw_only=True)


# Other models turn files that the model of a turn cannot take in itself into text: the words of a recording, a
# description of an image. Each is asked once for a file, metered, and charged to the sender.


_log = structlog.get_logger(__name__)
_ASKED: Final = literal_text("Describe this image.")


@dataclass(eq=False, repr=False)
class Transcriber:
    """Transcribes recordings."""

    inner: requests.TranscriptionModel
    model: str
    store: Store
    scrubber: Scrubber
    clock: Clock

    async def words(self, name: str, media_type: str, content: bytes, occasion: AttachmentContext) -> CleanText:
        """Transcribe speech; empty for silence. Raises the `ModelError` tree."""
        key = occasion.session.key
        request = requests.TranscriptionRequest(
            self.model,
            key,
            name,
            media_type,
            content,
            language=occasion.language,
            timeout_s=limits.TRANSCRIPTION_TIMEOUT_S,
            turn_id=occasion.turn_id,
            permit=occasion.permit,
        )
        answer = await self.inner.transcribe(request)
        usage = Usage(
            key,
            UsagePurpose.TRANSCRIPTION,
            self.model,
            prompt_tokens=answer.tokens.prompt,
            completion_tokens=answer.tokens.completion,
            cost_usd=answer.cost_usd,
            turn_id=occasion.turn_id,
            created_at_ms=self.clock.now_ms(),
        )
        await _charge(self.store, usage, occasion)
        return clipped(self.scrubber.for_chat(str(key)).scrub(answer.text.strip()), limits.SPOKEN_CHARS_MAX)


@dataclass(eq=False, repr=False)
class ImageDescriber:
    """Describes an image for a model that cannot see it."""

    client: ModelClient
    model: str
    store: Store
    scrubber: Scrubber
    clock: Clock

    async def description(self, image: Image, occasion: AttachmentContext) -> CleanText:
        """Describe an image in a few sentences. Raises the `ModelError` tree."""
        key = occasion.session.key
        request = requests.ModelRequest(
            model=self.model,
            purpose=UsagePurpose.VISION,
            key=key,
            system=PROMPTS.look,
            messages=(requests.PromptMessage(Role.USER, _ASKED, images=(image,)),),
            completion_tokens_max=limits.DESCRIPTION_TOKENS_MAX,
            timeout_s=limits.DESCRIPTION_TIMEOUT_S,
            turn_id=occasion.turn_id,
            permit=occasion.permit,
        )
        answer = await requests.ask(self.client, request)
        usage = usage_of(answer, key, UsagePurpose.VISION, now_ms=self.clock.now_ms(), turn_id=occasion.turn_id)
        await _charge(self.store, usage, occasion)
        said = answer.text.strip()
        if said and answer.ending is not requests.StopReason.OWN:
            said += " […]"
        return self.scrubber.for_chat(str(key)).scrub(said)


async def _charge(store: Store, usage: Usage, occasion: AttachmentContext) -> None:
    """Charge the usage at once and not with the turn's commit: a repeated turn finds the kept result and does not ask
    the model again."""
    try:
        await store.sessions.charge([usage], session_id=occasion.session.id)
    except StoreError as error:
        _log.warning("attachment.cost_not_recorded", reason=str(error))


# Takes in what came along with the messages of a turn, before its model is asked.
#
#     an image        shown to a model that sees; described by another for one that does not, where there is one
#     a recording     written down by a model that hears: then it is what its author says
#     a document      its text, as data
#     anything else   its name, kind and size
#
# All of it is fetched and examined in parallel, within bounds. A file that is not available does not fail the turn: the
# model is told in a line, and so is the author, where that matters. Everything is kept in the workspace, so that a turn
# that is taken again neither fetches nor pays a second time.


_SPOKEN: Final = frozenset({AttachmentKind.VOICE, AttachmentKind.AUDIO})
_MORE: Final = (literal_text("\n[… "), literal_text(" more characters; file_read reads them in "), literal_text(" …]"))


@dataclass(frozen=True, slots=True)
class Received:
    """The texts of the messages with their attachments, by their ids; what was said in their recordings; what
    their author should know."""

    texts: Mapping[str, CleanText]
    spoken: tuple[CleanText, ...] = ()
    notes: tuple[CleanText, ...] = ()


@dataclass(frozen=True, slots=True)
class _Looked:
    """The outcome for one file. `element` makes the file's element from as much of its text as there is room
    for; the whole text is at the path `whole_at`."""

    element: Callable[[CleanText | None], CleanText]
    text: CleanText | None = None
    whole_at: CleanText | None = None
    spoken: CleanText | None = None
    note: CleanText | None = None


@dataclass(eq=False, repr=False)
class Receiving:
    """Takes files in. Without `ears` recordings are not transcribed, without `eyes` images are not described to
    models that cannot see."""

    inbox: Inbox
    documents: Documents
    workspaces: Workspaces
    scrubber: Scrubber
    _: KW_ONLY
    timeout_s: float
    text_tokens_max: int
    ears: Transcriber | None = None
    eyes: ImageDescriber | None = None

    async def receive(self, messages: Sequence[InboundMessage], occasion: AttachmentContext) -> Received:
        """Take in all that came along with these messages and with what they quote."""
        files = [(message, attachment) for message in messages for attachment in files_of(message)]
        if not files:
            return Received({})
        looked = _fitted(await self._all(files, occasion), min(occasion.tokens_max, self.text_tokens_max))
        waiting = iter(looked)
        came = {message.id: _came(message, waiting) for message in messages if files_of(message)}
        return Received(
            {message.id: context_blocks.told(message, came[message.id]) for message in messages if message.id in came},
            tuple(each.spoken for each in looked if each.spoken),
            tuple(dict.fromkeys(each.note for each in looked if each.note)),
        )

    async def _all(
        self, files: Sequence[tuple[InboundMessage, Attachment]], occasion: AttachmentContext
    ) -> list[_Looked]:
        """Examine the files in parallel, a few at a time; a file that is not ready in time is given up."""
        slots = asyncio.Semaphore(limits.RECEIVED_AT_ONCE)

        async def one(at: int, message: InboundMessage, attachment: Attachment) -> _Looked:
            if at >= limits.RECEIVED_MAX:
                return self._refused(attachment.name, ONE_TOO_MANY, occasion)
            async with slots:
                return await self._one(message, attachment, occasion)

        tasks = [asyncio.create_task(one(at, *file)) for at, file in enumerate(files)]
        try:
            await asyncio.wait(tasks, timeout=self.timeout_s)
        finally:
            late = [task for task in tasks if not task.done()]
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
        return [
            self._refused(attachment.name, NOT_IN_TIME, occasion) if task in late else task.result()
            for task, (_, attachment) in zip(tasks, files, strict=True)
        ]

    async def _one(self, message: InboundMessage, attachment: Attachment, occasion: AttachmentContext) -> _Looked:
        taken = await retry_until_available(lambda: self.inbox.take(message, attachment))
        if isinstance(taken, RefusedFile):
            return self._refused(taken.name, taken.reason, occasion)
        if picture_in(taken.content) is not None:
            return await self._image(taken, occasion)
        if attachment.kind in _SPOKEN or taken.media_type.startswith("audio/"):
            return await self._recording(taken, occasion)
        return await self._document(taken, occasion)

    def _refused(self, name: CleanText, reason: str, occasion: AttachmentContext) -> _Looked:
        return self._without(partial(context_blocks.missing, name), occasion, partial(not_read, name, reason))

    def _without(
        self, element: Callable[[CleanText | None], CleanText], occasion: AttachmentContext, say: Callable[..., str]
    ) -> _Looked:
        """Build the outcome for a file of which nothing is shown: model and author are told what `say` says of it."""
        own = words_for(occasion.session.language)
        return _Looked(element, self.scrubber.scrub(say()), note=self.scrubber.scrub(say(words=own)))

    # --- images

    async def _image(self, file: KeptFile, occasion: AttachmentContext) -> _Looked:
        try:
            path, content, picture = await self._showable(file, occasion)
        except FileRefused as error:
            say = partial(not_shown, file.name, str(error))
            return self._without(_as_file(file, self.scrubber), occasion, say)
        kind = self.scrubber.scrub(picture.media_type)
        element = partial(context_blocks.image, path, kind, len(content))
        if occasion.sees or self.eyes is None:
            return _Looked(element)
        about = await self._described(self.eyes, Image(path, picture.media_type), file, occasion)
        return _Looked(element, about)

    async def _showable(self, file: KeptFile, occasion: AttachmentContext) -> tuple[CleanText, bytes, Picture]:
        """Return an image that every provider takes, its path and its shape. Raises `FileRefused`."""
        picture = picture_in(file.content)
        if picture is None or picture.pixels > limits.IMAGE_PIXELS_MAX or not picture.pixels:
            raise FileRefused(TOO_MANY_PIXELS)
        if len(file.content) <= limits.IMAGE_BYTES_MAX and picture.side <= limits.IMAGE_SIDE_MAX:
            return file.path, file.content, picture
        workspace, path = self.workspaces.of(occasion.session.key), small_path(file.path)
        small = await asyncio.to_thread(kept, workspace, path)
        shown = picture_in(small) if small is not None else None
        if small is None or shown is None:
            small = await self.documents.smaller(file.content, occasion.session.key.owner)
            shown = picture_in(small)  # of a process that read what strangers sent
            if shown is None or not await asyncio.to_thread(keep, workspace, path, small):
                raise FileRefused(TOO_MANY_PIXELS)
        return path, small, shown

    async def _described(
        self, eyes: ImageDescriber, image: Image, file: KeptFile, occasion: AttachmentContext
    ) -> CleanText | None:
        async def look() -> CleanText:
            return await eyes.description(image, occasion)

        try:
            return await self._once(file, occasion, look)
        except ModelError as error:
            _log.warning("attachment.not_described", reason=f"{type(error).__name__}: {error}")
            return None

    # --- recordings

    async def _recording(self, file: KeptFile, occasion: AttachmentContext) -> _Looked:
        heard = recording_of(file.content, file.name, file.media_type)
        element = partial(context_blocks.voice, file.path, self.scrubber.scrub(heard.media_type), len(file.content))
        own = words_for(occasion.session.language)
        if self.ears is None:
            return _Looked(element, ENGLISH.say(NOT_LISTENING), note=own.say(NOT_LISTENING))
        ears = self.ears

        async def listen() -> CleanText:
            return await ears.words(heard.name, heard.media_type, file.content, occasion)

        try:
            words = await self._once(file, occasion, listen)
        except BudgetSpent:
            return _Looked(element, ENGLISH.say(NOT_UNDERSTOOD))  # the turn itself says why
        except ModelError as error:
            _log.warning("attachment.not_heard", reason=f"{type(error).__name__}: {error}")
            words = None
        if not words:
            return _Looked(element, ENGLISH.say(NOT_UNDERSTOOD), note=own.say(NOT_UNDERSTOOD))
        return _Looked(element, spoken=words)

    # --- documents

    async def _document(self, file: KeptFile, occasion: AttachmentContext) -> _Looked:
        async def read() -> CleanText:
            text = await self.documents.text(file, occasion.session.key.owner)
            return await asyncio.to_thread(self._clean(occasion).scrub, (text or "").strip())

        element, is_plain = _as_file(file, self.scrubber), format_of(file) is None and _is_utf8(file.content)
        try:
            text = await read() if is_plain else await self._once(file, occasion, read)
        except FileRefused as error:
            return self._without(element, occasion, partial(not_read, file.name, str(error)))
        if not text:
            return _Looked(element, None if format_of(file) is None else NO_TEXT)
        return _Looked(element, text, whole_at=file.path if is_plain else text_path(file.path))

    async def _once(
        self, file: KeptFile, occasion: AttachmentContext, make: Callable[[], Awaitable[CleanText]]
    ) -> CleanText:
        """Make the text of a file once and keep it next to the file; later calls return the kept text."""
        workspace = self.workspaces.of(occasion.session.key)
        known = await asyncio.to_thread(kept_text, workspace, file.path)
        if known is not None:
            return self._clean(occasion).scrub(known)
        made = await make()
        if made:
            await asyncio.to_thread(keep, workspace, text_path(file.path), made.encode(errors="replace"))
        return made

    def _clean(self, occasion: AttachmentContext) -> Scrubber:
        return self.scrubber.for_chat(str(occasion.session.key))


def _came(message: InboundMessage, looked: Iterator[_Looked]) -> AttachmentBlocks:
    """Group the results of one message's files, which come in the order of `files_of`."""
    own = list(islice(looked, len(message.attachments)))
    quoted = [list(islice(looked, len(quote.attachments))) for quote in message.quotes]
    return AttachmentBlocks(
        files=tuple(each.element(each.text) for each in own),
        quoted=tuple(tuple(each.element(each.text) for each in those) for those in quoted),
        spoken=tuple(each.spoken for each in own if each.spoken),
    )


def _fitted(looked: Sequence[_Looked], room: int) -> list[_Looked]:
    """Cut each text to its share of the room, in tokens; the rest of a short text's share goes to the texts
    after it."""
    waiting = sum(each.whole_at is not None and each.text is not None for each in looked)
    fitting = []
    for each in looked:
        if each.text is not None and each.whole_at is not None:
            size, share = estimate_tokens(each.text), room // waiting
            room -= min(size, share)
            waiting -= 1
            fitting.append(
                replace(each, text=_begun(each.text, len(each.text) * share // max(size, share), each.whole_at))
            )
        else:
            fitting.append(each)
    return fitting


def _begun(text: CleanText, chars_max: int, whole_at: CleanText) -> CleanText:
    if len(text) <= chars_max:
        return text
    return joined(clipped(text, chars_max), _MORE[0], in_digits(len(text) - chars_max), _MORE[1], whole_at, _MORE[2])


def _as_file(file: KeptFile, scrubber: Scrubber) -> Callable[[CleanText | None], CleanText]:
    kind = "application/pdf" if format_of(file) == "pdf" else file.media_type  # one may be nothing but ASCII
    return partial(context_blocks.file, file.path, scrubber.scrub(kind), len(file.content))


def _is_utf8(content: bytes) -> bool:
    """Tell whether the file tools can read the content as it is."""
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


# What came along with a turn, from its first message to the last one that joins it.


@dataclass(eq=False, repr=False)
class AttachmentIntake:
    """Takes the attachments in and records them in the transcript."""

    receiving: Receiving
    models: Models
    store: Store

    async def attend(self, messages: Sequence[InboundMessage], turn: Turn) -> None:
        """Have the transcript say what came along with `messages`, and with what joins the turn. Raises `Fenced` and
        `StoreUnavailable`."""
        batch, model = turn.batch, self.models.of_session(turn.session)
        occasion = AttachmentContext(
            turn.session,
            batch.turn_id,
            tokens_max=max(int(self.models.budget(model).usable * limits.SHOWN_SHARE_MAX), limits.SHOWN_TOKENS_MIN),
            sees=self.models.sees(model),
            language=next((message.language for message in reversed(messages) if message.language), ""),
            permit=turn.hold.permit,
        )
        received = await self._receive(messages, turn, occasion)
        if received.texts:
            await self.store.turns.replace_texts(
                turn_id=batch.turn_id, key=batch.key, fence=batch.fence, texts=received.texts
            )
        if received.spoken:
            turn.said = joined(*filter(None, (turn.said, *received.spoken)), by="\n\n")
        turn.receive = partial(self._receive_joined, occasion)

    async def _receive_joined(
        self, occasion: AttachmentContext, turn: Turn, newcomers: Sequence[Joined]
    ) -> Sequence[Joined]:
        """Take in what came along with messages that join; the entries become the transcript's with the commit."""
        received = await self._receive([newcomer.message for newcomer in newcomers], turn, occasion)
        return [
            replace(each, entry=replace(each.entry, text=received.texts.get(each.message.id, each.entry.text)))
            for each in newcomers
        ]

    async def _receive(self, messages: Sequence[InboundMessage], turn: Turn, occasion: AttachmentContext) -> Received:
        turn.reading.is_foreign |= any(map(_brings_foreign, messages))
        received = await self.receiving.receive(messages, occasion)
        turn.notes.extend(note for note in received.notes if note not in turn.notes)
        return received


def _brings_foreign(message: InboundMessage) -> bool:
    """Tell whether a message brings text that is not the person's own: quotes, files, or results of sub-agents."""
    return not message.is_text or is_wake(message.id)
