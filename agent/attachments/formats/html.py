"""HTML pages, as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from agent.attachments.encodings import text_in
from agent.tools.web.hypertext import as_markdown


def pieces(content: bytes) -> Iterator[bytes]:
    """The text of the page."""
    yield as_markdown(text_in(content) or "").encode(errors="replace")
