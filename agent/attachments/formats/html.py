"""HTML pages, as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from agent.tools.web.hypertext import as_markdown
from gateway.scrub.readable import readable


def pieces(content: bytes) -> Iterator[bytes]:
    """The text of the page."""
    yield as_markdown(readable(content) or "").encode(errors="replace")
