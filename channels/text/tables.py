"""Tables for platforms that have none: padded columns if they are narrow, else one block per row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from wcwidth import wcswidth

from channels.text.tree import Align, Block, Blocks, Listing, Mark, Paragraph, Quote, Row, Run, Runs, Table, plain_text

KEY_CHARS_MAX: Final = 40  # a longer header cell is no key, and repeating it in every row would bury the values
_GAP: Final = "  "


def fit_tables(blocks: Blocks, width_max: int) -> Blocks:
    """The same tree in which every table is at most `width_max` columns wide on the screen.

    Wider ones, and those with links in their cells (a padded table is literal text), become one block of
    "key: value" lines per row.
    """
    return tuple(fitted for block in blocks for fitted in _fitted(block, width_max))


def padded(table: Table) -> str:
    """Columns of equal width by display width (an East Asian wide character is two), under a ruled header."""
    texts = [[_cell(cell) for cell in row] for row in (table.head, *table.rows)]
    widths = _column_widths(table)
    head, *body = (_GAP.join(map(_pad, row, widths, table.aligns)).rstrip() for row in texts)
    return "\n".join((head, _GAP.join("─" * width for width in widths), *body))


def _fitted(block: Block, width_max: int) -> Blocks:
    match block:
        case Table():
            return (block,) if _is_narrow(block, width_max) else _records(block)
        case Quote(inner):
            return (Quote(fit_tables(inner, width_max)),)
        case Listing(items):
            fitted = tuple(replace(item, blocks=fit_tables(item.blocks, width_max)) for item in items)
            return (replace(block, items=fitted),)
        case _:
            return (block,)


def _is_narrow(table: Table, width_max: int) -> bool:
    rows = (table.head, *table.rows)
    has_links = any(run.url and Mark.BARE_URL not in run.marks for row in rows for cell in row for run in cell)
    return not has_links and sum(_column_widths(table)) + len(_GAP) * (len(table.aligns) - 1) <= width_max


def _column_widths(table: Table) -> list[int]:
    columns = zip(*(table.head, *table.rows), strict=True)
    return [max(1, *(display_width(_cell(cell)) for cell in column)) for column in columns]


def _records(table: Table) -> Blocks:
    if any(len(plain_text(cell)) > KEY_CHARS_MAX for cell in table.head):
        return tuple(Paragraph(_joined(row, " | ")) for row in (table.head, *table.rows) if _has_text(row))
    if not table.rows:
        return (Paragraph(_joined(table.head, " | ")),)
    return tuple(Paragraph(_record(table.head, row)) for row in table.rows if _has_text(row))


def _has_text(row: Row) -> bool:
    return any(map(plain_text, row))


def _record(head: Row, row: Row) -> Runs:
    lines = [(*_key(key), *value) for key, value in zip(head, row, strict=True) if plain_text(value)]
    return _joined(lines, "\n")


def _key(cell: Runs) -> Runs:
    text = plain_text(cell)
    return (Run(f"{text}:", frozenset({Mark.BOLD})), Run(" ")) if text else ()


def _joined(parts: Sequence[Runs], glue: str) -> Runs:
    runs: list[Run] = []
    for index, part in enumerate(parts):
        if index:
            runs.append(Run(glue))
        runs.extend(part)
    return tuple(runs)


def _cell(cell: Runs) -> str:
    return " ".join(plain_text(cell).split())


def _pad(text: str, width: int, align: Align) -> str:
    space = width - display_width(text)
    left = {Align.LEFT: 0, Align.CENTER: space // 2, Align.RIGHT: space}[align]
    return " " * left + text + " " * (space - left)


def display_width(text: str) -> int:
    """Columns on a monospaced screen."""
    return len(text) if text.isascii() else max(0, wcswidth(text))
