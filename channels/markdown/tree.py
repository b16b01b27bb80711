"""The small frozen tree in which an answer is held between reading it and writing it down again.

Blocks form a tree of bounded depth; inlines are flat runs of text with a set of marks, so that a paragraph
can be cut anywhere without breaking anything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


class Mark(StrEnum):
    """A property of a run. `IMAGE` and `BARE_URL` go with a `url` only."""

    BOLD = "bold"
    ITALIC = "italic"
    STRIKE = "strike"
    CODE = "code"
    IMAGE = "image"
    BARE_URL = "bare_url"


@dataclass(frozen=True, slots=True)
class TextRun:
    """Text with the same marks throughout. A newline is a line break. `url` is http(s) or empty."""

    text: str
    marks: frozenset[Mark] = frozenset()
    url: str = ""


Runs: TypeAlias = tuple[TextRun, ...]


@dataclass(frozen=True, slots=True)
class Paragraph:
    runs: Runs


@dataclass(frozen=True, slots=True)
class Heading:
    level: int
    runs: Runs


@dataclass(frozen=True, slots=True)
class Fence:
    """Literal lines without a trailing newline; `language` is one word or empty."""

    text: str
    language: str = ""


@dataclass(frozen=True, slots=True)
class QuoteBlock:
    blocks: Blocks


@dataclass(frozen=True, slots=True)
class Item:
    """`is_done` is None for an ordinary item. A continued item goes on from an earlier message: no marker."""

    blocks: Blocks
    is_done: bool | None = None
    is_continued: bool = False


@dataclass(frozen=True, slots=True)
class Listing:
    """`start` is the number of the first item, None for a bulleted list."""

    items: tuple[Item, ...]
    start: int | None = None
    is_tight: bool = True


class Align(StrEnum):
    LEFT = "left"
    CENTER = "center"
    RIGHT = "right"


Row: TypeAlias = tuple[Runs, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """All rows are as long as `head` and `aligns`."""

    head: Row
    rows: tuple[Row, ...]
    aligns: tuple[Align, ...]


@dataclass(frozen=True, slots=True)
class RuleBlock:
    pass


Block: TypeAlias = Paragraph | Heading | Fence | QuoteBlock | Listing | Table | RuleBlock
Blocks: TypeAlias = tuple[Block, ...]


def plain_text(runs: Iterable[TextRun]) -> str:
    """Return the text of some runs without their marks."""
    return "".join(run.text for run in runs)


def urls(blocks: Blocks) -> Iterator[str]:
    """Yield the addresses of the links of some blocks; empty for runs that are none."""
    for block in blocks:
        match block:
            case Paragraph(runs) | Heading(_, runs):
                yield from (run.url for run in runs)
            case QuoteBlock(inner):
                yield from urls(inner)
            case Listing(items):
                for item in items:
                    yield from urls(item.blocks)
            case Table(head, rows):
                yield from (run.url for row in (head, *rows) for cell in row for run in cell)
            case _:
                pass
