"""Lay out the tree as lines, the same way for every platform.

Platforms differ in their glyphs and spacing, which is `Style`; what a line *is* (heading, quoted, code) is said, not
drawn."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from channels.markdown import tree

# Marks as signs around text, for the platforms whose format is text.
#
# Signs never enclose white space at their edges, never span lines, are always closed, and two signs that would run
# together are kept apart by a zero-width space.

ZERO_WIDTH_SPACE: Final = "\u200b"
_SIGNS: Final = "*_~`"


def ticks_apart(code: str, count: int) -> str:
    """Keep backticks apart where `count` or more stand together, so that they end no code."""
    return re.sub(f"`{{{count},}}", lambda run: ZERO_WIDTH_SPACE.join(run[0]), code)


@dataclass(frozen=True, slots=True)
class Piece:
    """Text of the dialect, escaped already. An atom (code) carries signs of its own at its edges."""

    body: str
    marks: frozenset[tree.Mark] = frozenset()
    is_atom: bool = False


def line_text(
    pieces: Iterable[Piece],
    signs: Mapping[tree.Mark, str],
    *,
    needs_border: Callable[[str], bool] = lambda _char: False,
) -> str:
    """Write one line of text with its signs. `signs` is ordered: the first is the outermost.

    `needs_border(char)` says that a sign does not work directly next to `char`."""
    writer = _MarkWriter(signs, needs_border)
    for piece in pieces:
        writer.add(piece)
    return writer.finish()


class _MarkWriter:
    def __init__(self, signs: Mapping[tree.Mark, str], needs_border: Callable[[str], bool]) -> None:
        self._signs = signs
        self._needs_border = needs_border
        self._out: list[str] = []
        self._open: list[tree.Mark] = []
        self._last = ""  # the last character written, empty at the start and after white space
        self._is_after_sign = False  # a sign was closed, or an atom ended, right here
        self._pending = ""  # white space that may turn out to follow a closing sign

    def add(self, piece: Piece) -> None:
        core = piece.body.strip()
        if not core:
            self._pending += piece.body
            return
        lead, trail = piece.body[: len(piece.body) - len(piece.body.lstrip())], piece.body[len(piece.body.rstrip()) :]
        wanted = [mark for mark in self._signs if mark in piece.marks]
        kept = 0
        while kept < min(len(wanted), len(self._open)) and self._open[kept] is wanted[kept]:
            kept += 1
        self._close(kept)
        self._space(lead)
        self._open_signs(wanted[kept:])
        touches = self._is_after_sign and (self._needs_border(core[0]) or core[0] in _SIGNS)
        if self._last and (touches or (piece.is_atom and self._clashes(core[0]))):
            self._write(ZERO_WIDTH_SPACE)
        self._write(core)
        self._is_after_sign = piece.is_atom
        self._pending = trail

    def finish(self) -> str:
        self._close(0)
        self._space("")
        return "".join(self._out)

    def _close(self, kept: int) -> None:
        while len(self._open) > kept:
            self._write(self._signs[self._open.pop()])
            self._is_after_sign = True

    def _open_signs(self, marks: Iterable[tree.Mark]) -> None:
        for mark in marks:
            sign = self._signs[mark]
            if self._last and (self._is_after_sign or self._clashes(sign)):
                self._write(ZERO_WIDTH_SPACE)
            self._write(sign)
            self._open.append(mark)
            self._last = ""
            self._is_after_sign = False

    def _clashes(self, sign: str) -> bool:
        return self._needs_border(self._last) or self._last in _SIGNS

    def _space(self, text: str) -> None:
        text = self._pending + text
        self._pending = ""
        if text:
            self._out.append(text)
            self._last = ""
            self._is_after_sign = False

    def _write(self, text: str) -> None:
        self._out.append(text)
        self._last = text[-1]


# Tables for platforms that have none: padded columns if they are narrow, else one block per row.

KEY_CHARS_MAX: Final = 40  # a longer header cell is no key, and repeating it in every row would bury the values
_GAP: Final = "  "


def fit_tables(blocks: tree.Blocks, width_max: int) -> tree.Blocks:
    """Fit tables: return the same tree in which every table is at most `width_max` columns wide on the screen.

    Wider ones, and those with links in their cells (a padded table is literal text), become one block of "key: value"
    lines per row."""
    return tuple(fitted for block in blocks for fitted in _fitted(block, width_max))


def padded(table: tree.Table) -> str:
    """Write columns of equal width by display width (an East Asian wide character is two), under a ruled header."""
    texts = [[_cell(cell) for cell in row] for row in (table.head, *table.rows)]
    widths = _column_widths(table)
    head, *body = (_GAP.join(map(_pad, row, widths, table.aligns)).rstrip() for row in texts)
    return "\n".join((head, _GAP.join("─" * width for width in widths), *body))


def _fitted(block: tree.Block, width_max: int) -> tree.Blocks:
    match block:
        case tree.Table():
            return (block,) if _is_narrow(block, width_max) else _records(block)
        case tree.QuoteBlock(inner):
            return (tree.QuoteBlock(fit_tables(inner, width_max)),)
        case tree.Listing(items):
            fitted = tuple(replace(item, blocks=fit_tables(item.blocks, width_max)) for item in items)
            return (replace(block, items=fitted),)
        case _:
            return (block,)


def _is_narrow(table: tree.Table, width_max: int) -> bool:
    rows = (table.head, *table.rows)
    has_links = any(run.url and tree.Mark.BARE_URL not in run.marks for row in rows for cell in row for run in cell)
    return not has_links and sum(_column_widths(table)) + len(_GAP) * (len(table.aligns) - 1) <= width_max


def _column_widths(table: tree.Table) -> list[int]:
    columns = zip(*(table.head, *table.rows), strict=True)
    return [max(1, *(display_width(_cell(cell)) for cell in column)) for column in columns]


def _records(table: tree.Table) -> tree.Blocks:
    if any(len(tree.plain_text(cell)) > KEY_CHARS_MAX for cell in table.head):
        return tuple(tree.Paragraph(_joined(row, " | ")) for row in (table.head, *table.rows) if _has_text(row))
    if not table.rows:
        return (tree.Paragraph(_joined(table.head, " | ")),)
    return tuple(tree.Paragraph(_record(table.head, row)) for row in table.rows if _has_text(row))


def _has_text(row: tree.Row) -> bool:
    return any(map(tree.plain_text, row))


def _record(head: tree.Row, row: tree.Row) -> tree.Runs:
    lines = [(*_key(key), *value) for key, value in zip(head, row, strict=True) if tree.plain_text(value)]
    return _joined(lines, "\n")


def _key(cell: tree.Runs) -> tree.Runs:
    text = tree.plain_text(cell)
    return (tree.TextRun(f"{text}:", frozenset({tree.Mark.BOLD})), tree.TextRun(" ")) if text else ()


def _joined(parts: Sequence[tree.Runs], glue: str) -> tree.Runs:
    runs: list[tree.TextRun] = []
    for index, part in enumerate(parts):
        if index:
            runs.append(tree.TextRun(glue))
        runs.extend(part)
    return tuple(runs)


def _cell(cell: tree.Runs) -> str:
    return " ".join(tree.plain_text(cell).split())


def _pad(text: str, width: int, align: tree.Align) -> str:
    space = width - display_width(text)
    left = {tree.Align.LEFT: 0, tree.Align.CENTER: space // 2, tree.Align.RIGHT: space}[align]
    return " " * left + text + " " * (space - left)


def display_width(text: str) -> int:
    """Count the columns on a monospaced screen."""
    if text.isascii():
        return len(text)
    from wcwidth import wcswidth  # noqa: PLC0415 - start-up: it reads its tables of all Unicode versions

    return max(0, wcswidth(text))


@dataclass(frozen=True, slots=True)
class Style:
    """`bullets` by depth, the last one repeating; `indent` per level of a list; `gap_after_level` is the
    lowest rank of heading that a blank line follows."""

    bullets: tuple[str, ...]
    indent: str
    rule: str
    gap_after_level: int


@dataclass(frozen=True, slots=True)
class TextLine:
    """One line of a message. `lead` is indentation and list marker as shown. With `fence`, the line represents the
    whole fence, which has neither runs nor lead. `level` is a heading's, otherwise 0."""

    runs: tree.Runs = ()
    lead: str = ""
    level: int = 0
    fence: tree.Fence | None = None
    is_quoted: bool = False

    @property
    def is_blank(self) -> bool:
        return not self.runs and not self.lead and self.fence is None


_BLANK = TextLine()


def lay_out(blocks: tree.Blocks, style: Style) -> tuple[TextLine, ...]:
    """Lay out all lines of `blocks`, with blank lines where the platform's readers expect them."""
    return tuple(_lines(blocks, style, depth=0, is_compact=False))


def linked_text(lines: Iterable[TextLine]) -> str:
    """Write the lines without any formatting: a link's address follows its label in brackets."""
    return "\n".join(_plain(line) for line in lines)


def spans(runs: tree.Runs) -> Iterator[tuple[tree.TextRun, ...]]:
    """Group runs that belong together: neighbours with the same link, or a single run."""
    group: list[tree.TextRun] = []
    for run in runs:
        if group and not (run.url and run.url == group[0].url and tree.Mark.IMAGE not in run.marks | group[0].marks):
            yield tuple(group)
            group = []
        group.append(run)
    if group:
        yield tuple(group)


def _plain(line: TextLine) -> str:
    if line.fence:
        return line.fence.text
    return line.lead + "".join(map(_plain_span, spans(line.runs)))


def _plain_span(span: Sequence[tree.TextRun]) -> str:
    text, url = "".join(run.text for run in span), span[0].url
    return text if not url or tree.Mark.BARE_URL in span[0].marks or text == url else f"{text} ({url})"


def _lines(blocks: tree.Blocks, style: Style, *, depth: int, is_compact: bool) -> Iterator[TextLine]:
    before: tree.Block | None = None
    for block in blocks:
        if before and _has_gap(before, block, style, is_compact=is_compact):
            yield _BLANK
        yield from _block_lines(block, style, depth)
        before = block


def _has_gap(before: tree.Block, block: tree.Block, style: Style, *, is_compact: bool) -> bool:
    if isinstance(before, tree.Heading):
        return before.level <= style.gap_after_level
    return not (is_compact and isinstance(block, tree.Listing | tree.Fence | tree.Table))


def _block_lines(block: tree.Block, style: Style, depth: int) -> Iterable[TextLine]:
    match block:
        case tree.Paragraph(runs):
            return map(TextLine, _split_lines(runs))
        case tree.Heading(level, runs):
            return (TextLine(line, level=level) for line in _split_lines(runs))
        case tree.Fence():
            return (TextLine(fence=block),)
        case tree.Table():
            return (TextLine(fence=tree.Fence(padded(block))),)
        case tree.QuoteBlock(inner):
            return (replace(line, is_quoted=True) for line in _lines(inner, style, depth=0, is_compact=False))
        case tree.Listing():
            return _listing_lines(block, style, depth)
        case tree.RuleBlock():
            return (TextLine((tree.TextRun(style.rule),)),)


def _listing_lines(listing: tree.Listing, style: Style, depth: int) -> Iterator[TextLine]:
    for index, item in enumerate(listing.items):
        if index and not listing.is_tight:
            yield _BLANK
        yield from _item_lines(item, _marker(listing, index, style, depth), style, depth)


def _item_lines(item: tree.Item, marker: str, style: Style, depth: int) -> Iterator[TextLine]:
    lines = list(_lines(item.blocks, style, depth=depth + 1, is_compact=True))
    if not lines or (lines[0].fence and not item.is_continued):
        lines.insert(0, _BLANK)  # a fence starts below its marker
    for index, line in enumerate(lines):
        if line.fence or (index and line.is_blank):
            yield line
        else:
            yield replace(line, lead=(style.indent if index else marker) + line.lead)


def _marker(listing: tree.Listing, index: int, style: Style, depth: int) -> str:
    item = listing.items[index]
    if item.is_continued:
        return style.indent
    if item.is_done is not None:
        return "☑ " if item.is_done else "☐ "
    if listing.start is not None:
        return f"{listing.start + index}. "
    return style.bullets[min(depth, len(style.bullets) - 1)]


def _split_lines(runs: tree.Runs) -> Iterator[tree.Runs]:
    line: list[tree.TextRun] = []
    for run in runs:
        first, *others = run.text.split("\n")
        line.append(replace(run, text=first) if others else run)
        for text in others:
            yield tuple(part for part in line if part.text)
            line = [replace(run, text=text)]
    yield tuple(part for part in line if part.text)
