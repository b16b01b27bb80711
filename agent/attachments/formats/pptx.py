"""Presentations: what stands on the slides, in tables and in the notes."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO

from pptx import Presentation
from pptx.slide import Slide


def pieces(content: bytes) -> Iterator[bytes]:
    """Slide by slide."""
    for number, slide in enumerate(Presentation(BytesIO(content)).slides, 1):
        lines = [f"## Slide {number}", *_texts(slide)]
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            lines += ["Notes:", slide.notes_slide.notes_text_frame.text]
        yield ("\n".join(filter(None, lines)) + "\n\n").encode(errors="replace")


def _texts(slide: Slide) -> Iterator[str]:
    for shape in slide.shapes:
        if shape.has_text_frame:
            yield shape.text_frame.text
        if shape.has_table:
            for row in shape.table.rows:
                yield " | ".join(cell.text for cell in row.cells)
