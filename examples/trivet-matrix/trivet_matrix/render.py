"""CommonMark for Matrix: the HTML of `formatted_body`, and a plain body beside it. An event has room for 64 KiB."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Final

from channels.markdown.chunk import split
from channels.markdown.layout import Style, TextLine, lay_out, linked_text
from channels.markdown.parse import parse
from channels.markdown.tree import Blocks, Mark, TextRun
from gateway.contracts.messages import CleanText

BODY_CHARS_MAX: Final = 4_000  # of up to four bytes each, twice, and markup
STYLE: Final = Style(bullets=("• ",), indent="  ", rule="───", gap_after_level=0)
_TAGS: Final = {Mark.BOLD: "strong", Mark.ITALIC: "em", Mark.STRIKE: "del", Mark.CODE: "code"}


@dataclass(frozen=True, slots=True)
class MatrixChunk:
    """One event's content."""

    plain: str
    html: str


def render(text: CleanText) -> tuple[MatrixChunk, ...]:
    """The events that show `text`, in order."""
    return split(parse(text), _chunk, _filled, chars_max=BODY_CHARS_MAX)


def under(line: str, chunk: MatrixChunk) -> MatrixChunk:
    """The chunk below a line of its own."""
    return replace(chunk, plain=f"{line}\n{chunk.plain}", html=f"{escape(line)}<br>{chunk.html}")


def _filled(chunk: MatrixChunk) -> float:
    return len(chunk.plain) / BODY_CHARS_MAX


def _chunk(blocks: Blocks) -> MatrixChunk:
    lines = lay_out(blocks, STYLE)
    return MatrixChunk(linked_text(lines).strip(), "<br>".join(_written(lines)).strip())


def _written(lines: Sequence[TextLine]) -> Iterator[str]:
    for line in lines:
        if line.fence:
            yield f"<pre><code>{escape(line.fence.text)}</code></pre>"
        else:
            yield escape(line.lead) + "".join(map(_html, line.runs))


def _html(run: TextRun) -> str:
    shown = escape(run.text)
    for mark, tag in _TAGS.items():
        if mark in run.marks:
            shown = f"<{tag}>{shown}</{tag}>"
    return f'<a href="{escape(run.url)}">{shown}</a>' if run.url else shown
