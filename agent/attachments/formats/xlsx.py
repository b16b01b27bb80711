"""Spreadsheets, as CSV, sheet by sheet."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from io import StringIO

from openpyxl import load_workbook

from agent.attachments.formats.packed import opened


def pieces(content: bytes) -> Iterator[bytes]:
    """Row by row, with what the formulas had come to."""
    for sheet in load_workbook(opened(content), read_only=True, data_only=True).worksheets:
        yield f"## {sheet.title}\n".encode(errors="replace")
        for row in sheet.iter_rows(values_only=True):
            line = StringIO()
            csv.writer(line, lineterminator="\n").writerow(row)
            if line.getvalue().strip(",\n"):
                yield line.getvalue().encode(errors="replace")
        yield b"\n"
