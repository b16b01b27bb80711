"""CommonMark for Discord: its own Markdown, in which every literal character stays literal.

Facts: 2000 Unicode code points; `__x__` underlines; no tables, images, or headings below the third; masked
links for http(s) only, with a label that does not look like another address; nothing can be escaped inside
a fence. That nobody is pinged is promised twice: here for text, and by `allowed_mentions` at sending."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from channels.markdown import layout
from channels.markdown.chunk import split
from channels.markdown.parse import parse
from channels.markdown.tree import Blocks, Mark, TextRun, plain_text
from gateway.contracts.messages import Choice, CleanText

CONTENT_CHARS_MAX: Final = 1950  # of 2000 code points
TABLE_WIDTH_MAX: Final = 60
HEADING_LEVEL_MAX: Final = 3

STYLE: Final = layout.Style(bullets=("- ",), indent="  ", rule="───", gap_after_level=0)
_SIGNS: Final = {Mark.BOLD: "**", Mark.ITALIC: "*", Mark.STRIKE: "~~"}
_SPECIAL: Final = re.compile(r"([\\*_~|`\[\]<>])")
_LINE_START: Final = re.compile(r"(\s*)(?:([#+-])|(\d+)([.)]))(?=[\s#])")
_SMALL_PRINT: Final = re.compile(r"\s*-#")
_MENTION: Final = re.compile(r"@(?=everyone|here|[!&]?\d{15,21})")
_ADDRESS_LIKE: Final = re.compile(r"https?:|www\.|[\[\]]|\w\.(?:com|org|net|io|gg|dev|app)\b", re.IGNORECASE)
_BACKTICKS: Final = re.compile(r"`+")


@dataclass(frozen=True, slots=True)
class DiscordChunk:
    """One message's `content`. `plain` is the same without formatting. `choices` are the buttons below it. One
    that `is_silent` quotes nobody either."""

    content: str
    plain: str
    choices: tuple[Choice, ...] = ()
    is_silent: bool = False


@dataclass(frozen=True, slots=True)
class DiscordFile:
    """One message with an attachment; `content` is above it and literal."""

    name: str
    data: bytes = field(repr=False)
    content: str

    @property
    def plain(self) -> str:
        """Return the plain form; a file has no formatting to leave out."""
        return self.content

    @property
    def choices(self) -> tuple[Choice, ...]:
        """Return no buttons: they go under the text, which is another message."""
        return ()


DiscordPart: TypeAlias = DiscordChunk | DiscordFile


def file_part(name: str, data: bytes, caption: str) -> DiscordFile:
    """Build the message that shows a file with its caption."""
    return DiscordFile(name, data, _literal(caption, is_line_start=True))


def render(text: CleanText) -> tuple[DiscordChunk, ...]:
    """Render the messages that show `text`, in order; none for a text in which there is nothing to see."""
    blocks = layout.fit_tables(parse(text), TABLE_WIDTH_MAX)
    return split(blocks, _chunk, _filled, chars_max=CONTENT_CHARS_MAX)


def under(line: str, chunk: DiscordPart) -> DiscordPart:
    """Put the chunk below a line of its own."""
    if isinstance(chunk, DiscordFile):
        return replace(chunk, content=f"{line}\n{chunk.content}".strip())
    return replace(chunk, content=f"{line}\n{chunk.content}", plain=f"{line}\n{chunk.plain}")


def _filled(chunk: DiscordChunk) -> float:
    return len(chunk.content) / CONTENT_CHARS_MAX


def _chunk(blocks: Blocks) -> DiscordChunk:
    lines = layout.lay_out(blocks, STYLE)
    return DiscordChunk(_content(lines), _without_mentions(layout.linked_text(lines)).strip())


def _content(lines: Sequence[layout.TextLine]) -> str:
    return "\n".join(text for line in lines for text in _written(line)).strip()


def _written(line: layout.TextLine) -> Iterator[str]:
    prefix = "> " if line.is_quoted else ""
    if line.fence:
        fence = line.fence
        body = layout.ticks_apart(fence.text, 3)
        for text in [f"```{fence.language}", *body.split("\n"), "```"]:
            yield prefix + text
    elif 0 < line.level <= HEADING_LEVEL_MAX and not line.lead:
        yield f"{prefix}{'#' * line.level} {_line_text(line, frozenset())}"
    else:
        yield prefix + line.lead + _line_text(line, frozenset({Mark.BOLD}) if line.level else frozenset())


def _line_text(line: layout.TextLine, more: frozenset[Mark]) -> str:
    pieces = [
        piece for index, span in enumerate(layout.spans(line.runs)) for piece in _pieces(span, more, is_first=not index)
    ]
    return layout.line_text(pieces, _SIGNS)


def _pieces(span: Sequence[TextRun], more: frozenset[Mark], *, is_first: bool) -> Iterator[layout.Piece]:
    run = span[0]
    if not run.url:
        if Mark.CODE in run.marks:
            yield layout.Piece(_code(run.text), run.marks | more, is_atom=True)
        else:
            yield layout.Piece(_literal(run.text, is_line_start=is_first), run.marks | more)
        return
    marks = frozenset.intersection(*(part.marks for part in span)) | more
    label = plain_text(span)
    if Mark.BARE_URL in run.marks or label == run.url:
        yield layout.Piece(f"<{_address(label)}>", marks)
    elif _ADDRESS_LIKE.search(label):
        yield layout.Piece(f"{_literal(label, is_line_start=is_first)} (<{_address(run.url)}>)", marks)
    elif Mark.IMAGE in run.marks:
        yield layout.Piece(f"[{_literal(label)}]({_address(run.url).replace('(', '%28').replace(')', '%29')})", marks)
    else:
        yield layout.Piece(f"[{_label(span, marks)}](<{_address(run.url)}>)", marks)


def _address(url: str) -> str:
    """Write a link, which may hold a text that reads as a mention, so that it leads to the same place and
    calls nobody."""
    return _MENTION.sub("%40", url)


def _label(span: Sequence[TextRun], outer: frozenset[Mark]) -> str:
    inner = (
        layout.Piece(_code(run.text), run.marks - outer, is_atom=True)
        if Mark.CODE in run.marks
        else layout.Piece(_literal(run.text), run.marks - outer)
        for run in span
    )
    return layout.line_text(inner, _SIGNS)


def _literal(text: str, *, is_line_start: bool = False) -> str:
    """Write text that Discord shows as it is."""
    escaped = _SPECIAL.sub(r"\\\1", _without_mentions(text))
    if not is_line_start:
        return escaped
    if _SMALL_PRINT.match(escaped):
        return escaped.replace("-#", r"\-#", 1)
    return _LINE_START.sub(_escaped_start, escaped, count=1) if _LINE_START.match(escaped) else escaped


def _escaped_start(match: re.Match[str]) -> str:
    blank, sign, number, dot = match.groups()
    return f"{blank}\\{sign}" if sign else f"{blank}{number}\\{dot}"


def _without_mentions(text: str) -> str:
    return _MENTION.sub("@" + layout.ZERO_WIDTH_SPACE, text)


def _code(text: str) -> str:
    """Write inline code, in as many backticks as its own content calls for."""
    longest = max(map(len, _BACKTICKS.findall(text)), default=0)
    if not longest:
        return f"`{text}`"
    if longest > 1:  # Discord knows one and two, three begin a fence
        text = layout.ticks_apart(text, 2)
    return f"`` {text} ``"
