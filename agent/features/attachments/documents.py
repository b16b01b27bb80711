"""Documents as text. Plain text is decoded here; every other format is read in a process of its own that can be killed.

    text, Markdown, CSV, code     decoded
    HTML                          agent.features.attachments.reader
    PDF, Word, Excel, PowerPoint  agent.features.attachments.reader, where the extra `documents` is installed

The process is confined as a sub-agent's is: no network, no visible files, and no more of the machine than it is
given."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import structlog

from agent import limits
from agent.features.attachments import reader
from agent.features.attachments.inbox import LOCKED_DOCUMENT, NOBODY_READS_IT, TAKES_TOO_LONG, UNREADABLE, KeptFile
from agent.media import text_in
from agent.subagents.sandbox import AUTO, ChildSandbox, find_confinement
from agent.tools.exec.processes import feed, run_to_end
from gateway.contracts.errors import FileRefused
from gateway.contracts.ids import SessionKey
from gateway.scrub.raw_text import head
from gateway.tasks import Slots, alongside

_log = structlog.get_logger(__name__)
_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_PDF: Final = b"%PDF-"
_PDF_WITHIN: Final = 1_024  # bytes, as readers of PDF have it
_PACKED: Final = ((b"word/document.xml", "docx"), (b"xl/workbook.xml", "xlsx"), (b"ppt/presentation.xml", "pptx"))
_ZIP: Final = b"PK\x03\x04"
_REASONS: Final = {reader.NOT_INSTALLED: NOBODY_READS_IT, reader.LOCKED: LOCKED_DOCUMENT}
_PIECE: Final = 65_536


class Documents:
    """Makes text of documents, and small images of large ones; a few at a time, with a share for each owner."""

    def __init__(self, *, hidden: Sequence[Path], confinement: str = AUTO) -> None:
        """Prepare the readers. They must not see `hidden`, and run in the best confinement that works here or in the
        named one."""
        self._hidden = tuple(hidden)
        self._confinement = confinement
        self._slots = Slots(limits.DOCUMENTS_AT_ONCE, limits.DOCUMENTS_OWNER_AT_ONCE)
        self._looking = asyncio.Lock()
        self._sandbox: ChildSandbox | None = None

    async def text(self, kept: KeptFile, owner: SessionKey) -> str | None:
        """Extract the text of a file, unscrubbed; None for a file without text. Raises `FileRefused` with the reason
        for one that cannot be read."""
        form = format_of(kept)
        if form is not None:
            written = await self._converted(form, kept.content, owner, bytes_max=limits.DOCUMENT_BYTES_MAX)
            return head(written.decode(errors="replace"), limits.DOCUMENT_CHARS_MAX)
        text = text_in(kept.content[: limits.DOCUMENT_BYTES_MAX])
        return None if text is None else head(text, limits.DOCUMENT_CHARS_MAX)

    async def smaller(self, content: bytes, owner: SessionKey) -> bytes:
        """Make an image small enough to be shown. Raises `FileRefused`."""
        small = await self._converted("picture", content, owner, bytes_max=limits.IMAGE_BYTES_MAX + 1)
        if not 0 < len(small) <= limits.IMAGE_BYTES_MAX:
            raise FileRefused(UNREADABLE)
        return small

    async def _converted(self, form: str, content: bytes, owner: SessionKey, *, bytes_max: int) -> bytes:
        async with self._slots.held(owner):
            sandbox = await self._held()
            command = (sys.executable, "-m", reader.__name__, form, str(bytes_max), sandbox.confinement)
            held = await sandbox.start(command, None, writes=False, limits=reader.LIMITS)
            try:
                async with asyncio.timeout(limits.DOCUMENT_TIMEOUT_S):
                    written, errors = await _exchanged(held.process, content, bytes_max)
                    code = await held.process.wait()
            except TimeoutError:
                raise FileRefused(TAKES_TOO_LONG) from None
            finally:
                await run_to_end(held.kill)
        if code:
            _log.info("document.not_read", format=form, code=code, error=_kind_of(errors))
            raise FileRefused(_REASONS.get(code, UNREADABLE))
        return written

    async def _held(self) -> ChildSandbox:
        """Find the best confinement that works here, when the first document comes."""
        async with self._looking:
            if self._sandbox is None:
                self._sandbox = await find_confinement(self._confinement, hidden=self._hidden)
        return self._sandbox


def format_of(kept: KeptFile) -> str | None:
    """Choose the reader that a file needs, by its content; None for a file that is read as it is, or not at all."""
    content = kept.content
    if _PDF in content[:_PDF_WITHIN]:
        return "pdf"
    if content.startswith(_ZIP):
        return next((form for mark, form in _PACKED if mark in content), None)
    return "html" if kept.media_type in _HTML else None


def _kind_of(errors: bytes) -> str:
    """Return only the name of an error, because the rest may quote the document."""
    return errors.rstrip().rpartition(b"\n")[2].partition(b":")[0][:80].decode(errors="replace")


async def _exchanged(process: asyncio.subprocess.Process, content: bytes, bytes_max: int) -> tuple[bytes, bytes]:
    """Feed it and hear it, both at once: neither pipe may fill up while nobody looks."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    async with alongside(feed(process.stdin, content)):
        written, errors = await asyncio.gather(
            _heard(process.stdout, bytes_max), _heard(process.stderr, limits.READER_ERRORS_BYTES_MAX)
        )
    return written, errors


async def _heard(pipe: asyncio.StreamReader, bytes_max: int) -> bytes:
    """Read everything from the pipe and keep the first `bytes_max` bytes."""
    kept = bytearray()
    while piece := await pipe.read(_PIECE):
        kept += piece[: bytes_max - len(kept)]
    return bytes(kept)
