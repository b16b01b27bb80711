"""Reader of one document, in a process of its own: the formats, each with the library that reads it.

    python -m agent.features.attachments.reader FORMAT BYTES_MAX CONFINEMENT

The document is its input. It confines itself before it sees the first byte, and it takes no more of the machine than
it is given. What comes out of it is cut at BYTES_MAX; `agent.features.attachments.documents` keeps the time.

A reader is loaded before its process gives up its rights, so a library is imported by the function that loads it;
`ModuleNotFoundError` says that it is not installed. What a reader yields is UTF-8, or an image, bit by bit."""

from __future__ import annotations

import csv
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from io import BytesIO, StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zipfile import ZipFile

from agent.limits import IMAGE_PIXELS_MAX, IMAGE_SIDE_SHOWN, READER_CPU_S, READER_MEMORY_BYTES, UNPACKED_BYTES_MAX
from agent.media import text_in
from agent.subagents.confinement import confine_this_process, die_with_parent, restrain, share_one_heap
from agent.subagents.protocol import ProcessLimits

if TYPE_CHECKING:
    from PIL.Image import Image
    from pptx.slide import Slide

Reader = Callable[[bytes], Iterator[bytes]]

_QUALITY: Final = 85
NOT_INSTALLED: Final = 3
LOCKED: Final = 4
LIMITS: Final = ProcessLimits(cpu_s=READER_CPU_S, memory_bytes=READER_MEMORY_BYTES, file_bytes=0)
"""The limits of a reader, set by its parent and, with that of its threads, by itself."""


class Locked(Exception):
    """The document cannot be read without its password."""


def load_docx() -> Reader:
    """Load a reader of Word documents, as Markdown: headings, lists and tables; no pictures."""
    import mammoth  # noqa: PLC0415 - only where this format is read

    from agent.tools.web.html import as_markdown  # noqa: PLC0415

    def no_picture(_image: object) -> Mapping[str, str]:
        return {"src": ""}

    def read(content: bytes) -> Iterator[bytes]:
        written = mammoth.convert_to_html(unpacked(content), convert_image=mammoth.images.img_element(no_picture))
        yield as_markdown(written.value).encode(errors="replace")

    return read


def load_html() -> Reader:
    """Load a reader of HTML pages, as Markdown."""
    from agent.tools.web.html import as_markdown  # noqa: PLC0415

    def read(content: bytes) -> Iterator[bytes]:
        yield as_markdown(text_in(content) or "").encode(errors="replace")

    return read


def load_pdf() -> Reader:
    """Load a reader of PDF, page by page. It raises `Locked`. What was scanned is a picture and has no text."""
    from pypdf import PdfReader  # noqa: PLC0415

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it complains about most files that people have

    def read(content: bytes) -> Iterator[bytes]:
        document = PdfReader(BytesIO(content))
        if document.is_encrypted and not document.decrypt(""):
            raise Locked
        for page in document.pages:
            yield f"{page.extract_text()}\n\n".encode(errors="replace")

    return read


def load_picture() -> Reader:
    """Load a reader of images that are too large to be shown to a model: the first picture, upright and small."""
    from PIL import Image, ImageOps  # noqa: PLC0415

    Image.MAX_IMAGE_PIXELS = IMAGE_PIXELS_MAX  # of what is unpacked; twice as many are refused

    def on_white(image: Image.Image) -> Image.Image:
        """Lay a picture on white: JPEG knows no transparency."""
        if "A" not in image.getbands() and "transparency" not in image.info:
            return image.convert("RGB")
        layer = image.convert("RGBA")
        ground = Image.new("RGBA", layer.size, "white")
        ground.alpha_composite(layer)
        return ground.convert("RGB")

    def read(content: bytes) -> Iterator[bytes]:
        with Image.open(BytesIO(content)) as opened:
            opened.draft("RGB", (IMAGE_SIDE_SHOWN, IMAGE_SIDE_SHOWN))
            upright = ImageOps.exif_transpose(opened)
            upright.thumbnail((IMAGE_SIDE_SHOWN, IMAGE_SIDE_SHOWN))
            written = BytesIO()
            on_white(upright).save(written, "JPEG", quality=_QUALITY)
        yield written.getvalue()

    return read


def load_pptx() -> Reader:
    """Load a reader of presentations: the slides, their tables and their notes."""
    from pptx import Presentation  # noqa: PLC0415
    from pptx.shapes.autoshape import Shape  # noqa: PLC0415
    from pptx.shapes.graphfrm import GraphicFrame  # noqa: PLC0415

    def texts(slide: Slide) -> Iterator[str]:
        for shape in slide.shapes:
            if isinstance(shape, Shape):
                yield shape.text_frame.text
            if isinstance(shape, GraphicFrame) and shape.has_table:
                for row in shape.table.rows:
                    yield " | ".join(cell.text for cell in row.cells)

    def read(content: bytes) -> Iterator[bytes]:
        for number, slide in enumerate(Presentation(unpacked(content)).slides, 1):
            lines = [f"## Slide {number}", *texts(slide)]
            if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
                lines += ["Notes:", slide.notes_slide.notes_text_frame.text]
            yield ("\n".join(filter(None, lines)) + "\n\n").encode(errors="replace")

    return read


def load_xlsx() -> Reader:
    """Load a reader of spreadsheets, as CSV, sheet by sheet, with what the formulas had come to."""
    from openpyxl import load_workbook  # noqa: PLC0415

    def read(content: bytes) -> Iterator[bytes]:
        for sheet in load_workbook(unpacked(content), read_only=True, data_only=True).worksheets:
            yield f"## {sheet.title}\n".encode(errors="replace")
            for row in sheet.iter_rows(values_only=True):
                line = StringIO()
                csv.writer(line, lineterminator="\n").writerow(row)
                if line.getvalue().strip(",\n"):
                    yield line.getvalue().encode(errors="replace")
            yield b"\n"

    return read


READERS: Final[dict[str, Callable[[], Reader]]] = {
    "docx": load_docx,
    "html": load_html,
    "pdf": load_pdf,
    "picture": load_picture,
    "pptx": load_pptx,
    "xlsx": load_xlsx,
}
"""By the name of the format."""


def unpacked(content: bytes) -> BytesIO:
    """Open a packed document. Raises `ValueError` for one that says of itself that it is too large; one that lies
    about it is stopped by the clock."""
    with ZipFile(BytesIO(content)) as archive:
        if sum(member.file_size for member in archive.infolist()) > UNPACKED_BYTES_MAX:
            raise ValueError("too large to be unpacked")
    return BytesIO(content)


def main() -> int:
    """Read bytes from standard input, write the result to standard output, and report the outcome as exit code."""
    die_with_parent()
    share_one_heap()
    try:
        read = READERS[sys.argv[1]]()
    except ModuleNotFoundError:
        return NOT_INSTALLED
    installed = {Path(place) for place in sys.path if place.endswith("-packages")}  # what libraries load later
    confine_this_process(None, False, sys.argv[3], libraries=[place for place in installed if place.is_dir()])
    restrain(LIMITS)
    left = int(sys.argv[2])
    try:
        for piece in read(sys.stdin.buffer.read()):
            sys.stdout.buffer.write(piece[:left])
            left -= len(piece)
            if left <= 0:
                break
    except Locked:
        return LOCKED
    sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
