"""Steps of a reply: the chunks of its text, then its files."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from channels.core.adapter import (
    AnyChunk,
    ChannelAdapter,
    OutgoingFile,
    SupportsChoices,
    SupportsFiles,
    SupportsSilence,
)
from channels.core.attempt import ChunkAttempt
from channels.core.notices import WHOLE_ANSWER, WHOLE_QUESTION, file_not_sent
from channels.core.rate_limit import BackoffTimer
from gateway.bus.files import Files
from gateway.contracts.errors import FormatRefused, SendFailed
from gateway.contracts.messages import CleanText, Reply, ReplyFile, ReplyKind
from gateway.contracts.ports import WantedFile
from gateway.i18n import words_for
from gateway.limits import FILE_WAIT_S, FILES_AT_ONCE, RENDERED_AT_ONCE_CHARS_MAX


def _as_it_is(text: CleanText) -> CleanText:
    return text


_renderers: Final = ThreadPoolExecutor(1, thread_name_prefix="rendering")
"""One of the process, as there is one interpreter: two would only take turns with each other and with the loop."""


async def rendered(
    adapter: ChannelAdapter, text: CleanText, shape: Callable[[CleanText], CleanText] = _as_it_is
) -> Sequence[AnyChunk]:
    """Return `adapter.chunks` of the text after `shape` has changed it; a long text is rendered outside the
    event loop."""

    def render() -> Sequence[AnyChunk]:
        return adapter.chunks(shape(text))

    if len(text) <= RENDERED_AT_ONCE_CHARS_MAX:
        return render()
    return await asyncio.get_running_loop().run_in_executor(_renderers, render)


async def chunks_of(reply: Reply, adapter: ChannelAdapter) -> Sequence[AnyChunk]:
    """Render the reply as chunks, in order. Where there are no buttons the text names the words that answer. There an
    amendment says nothing new and is not sent; a status line is not sent either, because it would stay there unchanged
    for ever."""
    chunks = await rendered(adapter, reply.text)
    if not (reply.amends or reply.choices or reply.kind is ReplyKind.STATUS):
        return chunks
    if not isinstance(adapter, SupportsChoices):
        return () if reply.amends or reply.kind is ReplyKind.STATUS else chunks
    if reply.kind is ReplyKind.STATUS and isinstance(adapter, SupportsSilence):
        chunks = tuple(map(adapter.silent, chunks))
    if reply.amends:
        return chunks[-1:]
    if not reply.choices:
        return chunks
    *before, last = chunks
    return (*before, adapter.offering(last, reply.choices))


# The steps of a reply: the chunks of its text, then its files.
#
# If an answer would be more than LONG_ANSWER_CHUNKS messages, the first goes out, and then all of it as one file. If
# the platform does not take the file, the other messages follow: the step is a chunk again. Of a question the last
# message follows in any case: it has the buttons, which nobody gets without all that comes before.
#
# A file's bytes are borrowed when its turn has come and given back when it is out, a few at a time. If a platform does
# not take a file, or nobody keeps it any more, a sentence takes its place: the text has arrived by then, and its reader
# learns what is missing.

LONG_ANSWER_CHUNKS: Final = 5
"""The length that people still read as messages: 20,000 characters on Telegram and Slack, 10,000 on Discord."""

_BEGINNING: Final = 1
_WHOLE_NAME: Final = "answer.md"
_QUESTION_NAME: Final = "question.md"
_WHOLE_TYPE: Final = "text/markdown"


class FileFetcher:
    """The bytes of files for the deliveries of one channel, of at most FILES_AT_ONCE files at a time."""

    def __init__(self, files: Files, backoff: BackoffTimer) -> None:
        self._files = files
        self._backoff = backoff
        self._slots = asyncio.Semaphore(FILES_AT_ONCE)

    @contextlib.asynccontextmanager
    async def fetched(self, reply: Reply, position: int) -> AsyncIterator[OutgoingFile]:
        """Lend a file of the reply with its bytes. Raises `SendFailed` while nobody answers, `FormatRefused` when
        nobody keeps it any more, `Abandoned`."""
        file, wanted = reply.files[position], WantedFile(reply.key, reply.id, position)
        async with self._slots:
            content = await self._backoff.with_bus(lambda: self._files.fetch_file(wanted, wait_s=FILE_WAIT_S))
            if content is None:
                raise SendFailed("no agent process hands the file over")
            if len(content) != file.size_bytes:
                raise FormatRefused("nobody keeps the file any more")
            yield OutgoingFile(file.name, file.media_type, content, file.caption)


class ReplyContents:
    """The steps of one reply on one platform. `texts` are its chunks; `shown` is the number of messages that have
    shown its draft: if it is more than one, the reader has already seen more than the first, so the answer is not
    replaced by a file."""

    def __init__(
        self,
        adapter: ChannelAdapter,
        reply: Reply,
        texts: Sequence[AnyChunk],
        file_fetcher: FileFetcher,
        *,
        shown: int = 0,
    ) -> None:
        self._adapter = adapter
        self._filing = adapter if isinstance(adapter, SupportsFiles) else None
        self._reply = reply
        self._file_fetcher = file_fetcher
        self._texts = texts
        self._is_long = len(self._texts) > LONG_ANSWER_CHUNKS and shown <= _BEGINNING and _may_be_filed(reply)

    def __len__(self) -> int:
        return len(self._texts) + len(self._reply.files)

    @property
    def texts(self) -> int:
        """Count the steps that are text; the files come after them."""
        return len(self._texts)

    def carries_file(self, step: int) -> bool:
        """Tell whether this step is a file that the platform may take."""
        return self._filing is not None and (step >= len(self._texts) or self._may_be_whole(step))

    def is_whole(self, step: int, chunk_attempt: ChunkAttempt) -> bool:
        """Tell whether this step sends the whole answer as a file."""
        return chunk_attempt.carries_file and self._may_be_whole(step)

    @property
    def spared(self) -> int:
        """Count the chunks that need not be sent once the whole answer is out as a file."""
        last = 1 if self._reply.choices else 0
        return len(self._texts) - _BEGINNING - 1 - last

    @contextlib.asynccontextmanager
    async def chunk(self, step: int, chunk_attempt: ChunkAttempt) -> AsyncIterator[AnyChunk]:
        """Lend the chunk that this step sends, as long as the block lasts. Raises as `FileFetcher.fetched` does."""
        if self._filing is not None and self.is_whole(step, chunk_attempt):
            yield self._filing.file_chunk(self._whole())
        elif step < len(self._texts):
            yield self._texts[step]
        elif self._filing is not None and chunk_attempt.carries_file:
            async with self._file_fetcher.fetched(self._reply, step - len(self._texts)) as file:
                yield self._filing.file_chunk(file)
        else:
            yield self._sentence(self._reply.files[step - len(self._texts)])

    def _may_be_whole(self, step: int) -> bool:
        return self._is_long and step == _BEGINNING

    def _whole(self) -> OutgoingFile:
        words, is_question = words_for(self._reply.language), self._reply.kind is ReplyKind.QUESTION
        caption = words.say(WHOLE_QUESTION if is_question else WHOLE_ANSWER)
        return OutgoingFile(
            _QUESTION_NAME if is_question else _WHOLE_NAME, _WHOLE_TYPE, self._reply.text.encode(), caption
        )

    def _sentence(self, file: ReplyFile) -> AnyChunk:
        return self._adapter.chunks(file_not_sent(file.name, words_for(self._reply.language)))[0]


def _may_be_filed(reply: Reply) -> bool:
    """Tell whether the reply is a plain answer or a question, and not a text that is changed later or read at
    a glance."""
    is_plain = reply.kind is ReplyKind.ANSWER and not reply.choices
    return (is_plain or reply.kind is ReplyKind.QUESTION) and not reply.amends
