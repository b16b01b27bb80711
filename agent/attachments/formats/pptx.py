"""Presentations: what stands on the slides, in tables and in the notes."""

from __future__ import annotations

from collections.abc import Iterator

from pptx import Presentation
from pptx.shapes.autoshape import Shape
from pptx.shapes.graphfrm import GraphicFrame
from pptx.slide import Slide

from agent.attachments.formats.packed import opened


def pieces(content: bytes) -> Iterator[bytes]:
    """Slide by slide."""
    for number, slide in enumerate(Presentation(opened(content)).slides, 1):
        lines = [f"## Slide {number}", *_texts(slide)]
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            lines += ["Notes:", slide.notes_slide.notes_text_frame.text]
        yield ("\n".join(filter(None, lines)) + "\n\n").encode(errors="replace")


def _texts(slide: Slide) -> Iterator[str]:
    for shape in slide.shapes:
        if isinstance(shape, Shape):
            yield shape.text_frame.text
        if isinstance(shape, GraphicFrame) and shape.has_table:
            for row in shape.table.rows:
                yield " | ".join(cell.text for cell in row.cells)
