"""PDF: the text that a page carries, page by page. What was scanned is a picture and has none."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from io import BytesIO

from pypdf import PdfReader

from agent.attachments.formats.locked import Locked

logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it complains about most files that people have


def pieces(content: bytes) -> Iterator[bytes]:
    """Page by page. Raises `Locked`."""
    document = PdfReader(BytesIO(content))
    if document.is_encrypted and not document.decrypt(""):
        raise Locked
    for page in document.pages:
        yield f"{page.extract_text()}\n\n".encode(errors="replace")
