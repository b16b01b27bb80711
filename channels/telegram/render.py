"""CommonMark for Telegram: plain text with explicit entities, which cannot fail on syntax.

Facts (Bot API): entity offsets count UTF-16 units; at most 100 entities, the rest are ignored; pre and code
contain nothing and lie in nothing; quotes do not nest; white space at either end of a text is trimmed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from channels.markdown.chunk import split, utf16_units
from channels.markdown.layout import Style, TextLine, fit_tables, lay_out, linked_text
from channels.markdown.parse import parse
from channels.markdown.tree import Blocks, Fence, Mark, TextRun
from gateway.contracts.messages import Choice, CleanText, is_visible

TEXT_UNITS_MAX: Final = 4000  # of 4096: TDLib counts code points here and UTF-16 units there
ENTITIES_MAX: Final = 95  # of 100, beyond which formatting is dropped without a word
TABLE_WIDTH_MAX: Final = 45  # a telephone in portrait
QUOTE_LINES_MAX: Final = 8  # a longer quote is folded
CONTINUED: Final = "…"
"""First line of code that would otherwise begin a message with white space, and lose it."""

STYLE: Final = Style(bullets=("• ", "◦ ", "▪ "), indent="\N{NO-BREAK SPACE}" * 3, rule="———", gap_after_level=3)
_NAMES: Final = {Mark.BOLD: "bold", Mark.ITALIC: "italic", Mark.STRIKE: "strikethrough", Mark.CODE: "code"}
_IMAGE: Final = "🖼 "


@dataclass(frozen=True, slots=True)
class TelegramEntity:
    """A `MessageEntity`: `offset` and `length` in UTF-16 units, `url` for text_link, `language` for pre."""

    type: str
    offset: int
    length: int
    url: str | None = None
    language: str | None = None


@dataclass(frozen=True, slots=True)
class TelegramChunk:
    """One sendMessage: `text` and `entities`, no parse mode. `plain` goes out without entities. `choices` are the
    buttons below it. One that `is_silent` quotes nobody either."""

    text: str
    entities: tuple[TelegramEntity, ...]
    plain: str
    choices: tuple[Choice, ...] = ()
    is_silent: bool = False


VOICE_TYPE: Final = "audio/ogg"
"""Opus in Ogg: what agents call a recording that a voice message can be made of."""


@dataclass(frozen=True, slots=True)
class TelegramFile:
    """One sendDocument, or a sendVoice where it is one. A photo stays a document too, as it was made; the caption has
    no formatting."""

    name: str
    content: bytes = field(repr=False)
    caption: str
    is_voice: bool = False

    @property
    def choices(self) -> tuple[Choice, ...]:
        """Return no buttons: they go under the text, which is another message."""
        return ()


TelegramPart: TypeAlias = TelegramChunk | TelegramFile


def render(text: CleanText) -> tuple[TelegramChunk, ...]:
    """Render the messages that show `text`, in order; none for a text in which there is nothing to see."""
    blocks = fit_tables(parse(text), TABLE_WIDTH_MAX)
    return split(blocks, _chunk, _filled, chars_max=TEXT_UNITS_MAX)


def under(line: str, chunk: TelegramPart) -> TelegramPart:
    """Put the chunk below a line of its own."""
    if isinstance(chunk, TelegramFile):
        return replace(chunk, caption=f"{line}\n{chunk.caption}".strip())
    units = utf16_units(line) + 1
    entities = tuple(replace(entity, offset=entity.offset + units) for entity in chunk.entities)
    return replace(chunk, text=f"{line}\n{chunk.text}", entities=entities, plain=f"{line}\n{chunk.plain}")


def _filled(chunk: TelegramChunk) -> float:
    return max(utf16_units(chunk.text) / TEXT_UNITS_MAX, len(chunk.entities) / ENTITIES_MAX)


def _chunk(blocks: Blocks) -> TelegramChunk:
    lines = lay_out(blocks, STYLE)
    chunk = _written(lines)
    with_addresses = linked_text(lines).strip()
    return replace(chunk, plain=with_addresses) if utf16_units(with_addresses) <= TEXT_UNITS_MAX else chunk


def _written(lines: Sequence[TextLine]) -> TelegramChunk:
    writer = _Writer()
    for line in lines:
        writer.write(line)
    return writer.chunk()


class _Writer:
    """A writer that appends lines and remembers, in UTF-16 units, where each format begins and ends."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._at = 0
        self._entities: list[TelegramEntity] = []
        self._open: list[tuple[str, str, int]] = []
        self._quote: tuple[int, int, int] | None = None  # start, end of the last visible line, lines

    def write(self, line: TextLine) -> None:
        if self._parts:
            self._put("\n")
        if line.fence:
            self._close_quote()
            self._put_fence(line.fence)
            return
        if not line.is_quoted:
            self._close_quote()
        start = self._at
        self._put(line.lead)
        for run in line.runs:
            wanted = _wanted(run, line)
            kept = 0
            while kept < min(len(wanted), len(self._open)) and self._open[kept][:2] == wanted[kept]:
                kept += 1
            self._close(kept)
            self._open += [(kind, url, self._at) for kind, url in wanted[kept:]]
            self._put(_IMAGE + run.text if Mark.IMAGE in run.marks else run.text)
        self._close(0)
        if line.is_quoted and not line.is_blank:
            first, _, count = self._quote or (start, start, 0)
            self._quote = (first, self._at, count + 1)

    def chunk(self) -> TelegramChunk:
        """Return everything written, trimmed as Telegram would trim it, with the offsets to match."""
        self._close_quote()
        whole = "".join(self._parts)
        text = whole.strip()
        cut = utf16_units(whole[: len(whole) - len(whole.lstrip())])
        entities = sorted(
            _clipped(self._entities, cut, utf16_units(text)), key=lambda each: (each.offset, -each.length)
        )
        return TelegramChunk(text, tuple(entities), text)

    def _put(self, text: str) -> None:
        self._parts.append(text)
        self._at += utf16_units(text)

    def _put_fence(self, fence: Fence) -> None:
        is_first = not any(map(is_visible, self._parts))
        body = f"{CONTINUED}\n{fence.text}" if is_first and fence.text[:1].isspace() else fence.text
        self._add("pre", self._at, utf16_units(body), language=fence.language or None)
        self._put(body)

    def _close(self, kept: int) -> None:
        """End the entities opened after the first `kept`, innermost first."""
        while len(self._open) > kept:
            kind, url, start = self._open.pop()
            self._add(kind, start, self._at - start, url=url or None)

    def _close_quote(self) -> None:
        if self._quote:
            start, end, count = self._quote
            self._add("expandable_blockquote" if count > QUOTE_LINES_MAX else "blockquote", start, end - start)
        self._quote = None

    def _add(self, kind: str, start: int, length: int, *, url: str | None = None, language: str | None = None) -> None:
        if length:
            self._entities.append(TelegramEntity(kind, start, length, url, language))


def _wanted(run: TextRun, line: TextLine) -> list[tuple[str, str]]:
    """List the entities around a run, outermost first. Code excludes others: a link or a quote around it wins."""
    marks = run.marks | {Mark.BOLD} if line.level else run.marks
    if Mark.CODE in marks:
        if not run.url and not line.is_quoted:
            return [(_NAMES[Mark.CODE], "")]
        marks -= {Mark.CODE}
    links = [("text_link", run.url)] if run.url and Mark.BARE_URL not in marks else []
    return links + [(name, "") for mark, name in _NAMES.items() if mark in marks]


def _clipped(entities: Sequence[TelegramEntity], cut: int, units: int) -> Iterator[TelegramEntity]:
    """Move the entities `cut` units to the front and keep them within `units`."""
    for entity in entities:
        start = max(entity.offset - cut, 0)
        end = min(entity.offset + entity.length - cut, units)
        if start < end:
            yield TelegramEntity(entity.type, start, end - start, entity.url, entity.language)
