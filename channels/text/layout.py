"""From the tree to lines, the same way for every platform; the platforms write the lines in their dialect.

Platforms differ in their glyphs and spacing, which is `Style`; what a line *is* (heading, quoted, code) is
said, not drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from channels.text.tables import padded
from channels.text.tree import (
    Block,
    Blocks,
    Fence,
    Heading,
    Item,
    Listing,
    Mark,
    Paragraph,
    Quote,
    Rule,
    Run,
    Runs,
    Table,
)


@dataclass(frozen=True, slots=True)
class Style:
    """`bullets` by depth, the last one repeating; `indent` per level of a list; `gap_after_level` is the
    lowest rank of heading that a blank line follows."""

    bullets: tuple[str, ...]
    indent: str
    rule: str
    gap_after_level: int


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a message. `lead` is indentation and list marker as shown. With `fence`, the line stands
    for the whole fence, which has neither runs nor lead. `level` is a heading's, else 0."""

    runs: Runs = ()
    lead: str = ""
    level: int = 0
    fence: Fence | None = None
    is_quoted: bool = False

    @property
    def is_blank(self) -> bool:
        return not self.runs and not self.lead and self.fence is None


_BLANK = Line()


def lay_out(blocks: Blocks, style: Style) -> tuple[Line, ...]:
    """All lines of `blocks`, with blank lines where the platform's readers expect them."""
    return tuple(_lines(blocks, style, depth=0, is_compact=False))


def linked_text(lines: Iterable[Line]) -> str:
    """The lines without any formatting: a link's address follows its label in brackets."""
    return "\n".join(_plain(line) for line in lines)


def spans(runs: Runs) -> Iterator[tuple[Run, ...]]:
    """Runs in groups that belong together: neighbours with the same link, or a single run."""
    group: list[Run] = []
    for run in runs:
        if group and not (run.url and run.url == group[0].url and Mark.IMAGE not in run.marks | group[0].marks):
            yield tuple(group)
            group = []
        group.append(run)
    if group:
        yield tuple(group)


def _plain(line: Line) -> str:
    if line.fence:
        return line.fence.text
    return line.lead + "".join(map(_plain_span, spans(line.runs)))


def _plain_span(span: Sequence[Run]) -> str:
    text, url = "".join(run.text for run in span), span[0].url
    return text if not url or Mark.BARE_URL in span[0].marks or text == url else f"{text} ({url})"


def _lines(blocks: Blocks, style: Style, *, depth: int, is_compact: bool) -> Iterator[Line]:
    before: Block | None = None
    for block in blocks:
        if before and _has_gap(before, block, style, is_compact=is_compact):
            yield _BLANK
        yield from _block_lines(block, style, depth)
        before = block


def _has_gap(before: Block, block: Block, style: Style, *, is_compact: bool) -> bool:
    if isinstance(before, Heading):
        return before.level <= style.gap_after_level
    return not (is_compact and isinstance(block, Listing | Fence | Table))


def _block_lines(block: Block, style: Style, depth: int) -> Iterable[Line]:
    match block:
        case Paragraph(runs):
            return map(Line, _split_lines(runs))
        case Heading(level, runs):
            return (Line(line, level=level) for line in _split_lines(runs))
        case Fence():
            return (Line(fence=block),)
        case Table():
            return (Line(fence=Fence(padded(block))),)
        case Quote(inner):
            return (replace(line, is_quoted=True) for line in _lines(inner, style, depth=0, is_compact=False))
        case Listing():
            return _listing_lines(block, style, depth)
        case Rule():
            return (Line((Run(style.rule),)),)


def _listing_lines(listing: Listing, style: Style, depth: int) -> Iterator[Line]:
    for index, item in enumerate(listing.items):
        if index and not listing.is_tight:
            yield _BLANK
        yield from _item_lines(item, _marker(listing, index, style, depth), style, depth)


def _item_lines(item: Item, marker: str, style: Style, depth: int) -> Iterator[Line]:
    lines = list(_lines(item.blocks, style, depth=depth + 1, is_compact=True))
    if not lines or (lines[0].fence and not item.is_continued):
        lines.insert(0, _BLANK)  # a fence starts below its marker
    for index, line in enumerate(lines):
        if line.fence or (index and line.is_blank):
            yield line
        else:
            yield replace(line, lead=(style.indent if index else marker) + line.lead)


def _marker(listing: Listing, index: int, style: Style, depth: int) -> str:
    item = listing.items[index]
    if item.is_continued:
        return style.indent
    if item.is_done is not None:
        return "☑ " if item.is_done else "☐ "
    if listing.start is not None:
        return f"{listing.start + index}. "
    return style.bullets[min(depth, len(style.bullets) - 1)]


def _split_lines(runs: Runs) -> Iterator[Runs]:
    line: list[Run] = []
    for run in runs:
        first, *others = run.text.split("\n")
        line.append(replace(run, text=first) if others else run)
        for text in others:
            yield tuple(part for part in line if part.text)
            line = [replace(run, text=text)]
    yield tuple(part for part in line if part.text)
