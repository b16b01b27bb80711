"""Word documents, as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import mammoth

from agent.attachments.formats.packed import opened
from agent.tools.web.hypertext import as_markdown


def pieces(content: bytes) -> Iterator[bytes]:
    """The text, its headings, lists and tables; no pictures."""
    written = mammoth.convert_to_html(opened(content), convert_image=mammoth.images.img_element(_no_picture))
    yield as_markdown(written.value).encode(errors="replace")


def _no_picture(_image: object) -> Mapping[str, str]:
    return {"src": ""}
