"""From an answer's bytes to text that a model reads: HTML as Markdown, text as it is, nothing else."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from contextlib import suppress
from typing import Final

from agent.limits import WEB_CONVERSION_S, WEB_CONVERSIONS_MAX
from agent.tools.web.session import Page
from gateway.contracts.errors import ToolError

_CONVERTER: Final = "agent.tools.web.hypertext"
_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_TEXT: Final = frozenset({"application/json", "application/xml", "application/yaml", "application/javascript"})
_TEXT_ENDINGS: Final = ("+json", "+xml")
_META_CHARSET: Final = re.compile(rb"""<meta[^>]{0,200}charset=["']?([A-Za-z0-9_-]{1,40})""", re.IGNORECASE)
_SNIFFED_BYTES: Final = 2_048


class PageReader:
    """Makes text of pages, a few at a time."""

    def __init__(self) -> None:
        self._slots = asyncio.Semaphore(WEB_CONVERSIONS_MAX)

    async def text(self, page: Page) -> str:
        """The text of a page. Raises `ToolError` for what is no text, or takes too long to read."""
        kind = page.media_type.lower()
        if kind in _HTML:
            async with self._slots:
                return await _converted(_html_charset(page), page.body)
        if kind.startswith("text/") or kind in _TEXT or kind.endswith(_TEXT_ENDINGS):
            return page.body.decode(_known(page.charset) or "utf-8", errors="replace")
        raise ToolError(f"this is no text but {page.media_type[:80]}: it is not fetched")


def _known(charset: str) -> str | None:
    """The charset, if Python can make text of its bytes."""
    try:
        b"x".decode(charset)
    except (LookupError, ValueError):
        return None
    return charset


def _html_charset(page: Page) -> str:
    """What the header says, else the page of itself."""
    if page.charset:
        return _known(page.charset) or "utf-8"
    found = _META_CHARSET.search(page.body[:_SNIFFED_BYTES])
    return (found and _known(found[1].decode("ascii"))) or "utf-8"


async def _converted(charset: str, body: bytes) -> str:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", _CONVERTER, charset),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        async with asyncio.timeout(WEB_CONVERSION_S):
            text, _ = await process.communicate(body)
    except TimeoutError as error:
        raise ToolError("the page is built in such a way that it cannot be read") from error
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    if process.returncode:
        raise ToolError("the page cannot be read")
    return text.decode(errors="replace")
