"""Findings as tables for people and as JSON for machines."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from tests.bench.figures import AIMS, Aim, Figure, Findings, Grid

YARD_STEPS: Final = 2_000_000


def machine() -> str:
    """The machine, how busy it is and how fast it feels: no number means anything without.

    The yard is CPU time of always the same work; shared cores make it, and every CPU figure with it, longer.
    """
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    system = f"Python {platform.python_version()}, {platform.system()}"
    return f"{os.cpu_count()} cores, load {load:.1f}, yard {_yard_ms():.0f} ms, {system}"


def print_tables(findings: Sequence[Findings], console: Console) -> None:
    """One table of all figures; behind it the tables that an experiment has of its own."""
    figures = [figure for found in findings for figure in found.figures]
    if figures:
        console.print(_figures_table(figures))
    for found in findings:
        for grid in found.grids:
            console.print(_grid_table(grid))


def write_json(path: Path, findings: Mapping[str, Findings], *, around: Sequence[str]) -> None:
    """Everything that was found, by experiment; `around` is the machine before and after."""
    found = {name: asdict(each) for name, each in findings.items()}
    path.write_text(json.dumps({"machine": list(around), "findings": found}, indent=2) + "\n", encoding="utf-8")


def _yard_ms() -> float:
    began_s, total = time.process_time(), 0
    for number in range(YARD_STEPS):
        total += number * number % 7
    return 1000 * (time.process_time() - began_s)


def _figures_table(figures: Sequence[Figure]) -> Table:
    table = Table("figure", title="Trivet")
    table.add_column("Trivet", justify="right", no_wrap=True)
    for heading in ("goal", "[peers]", "note"):
        table.add_column(heading.replace("[", r"\["))
    for figure in figures:
        aim = AIMS.get(figure.aim, Aim("", ""))
        peers = rf"\[{aim.peers}]" if aim.peers else ""
        table.add_row(figure.what, f"{figure.value:,.{_digits(figure)}f} {figure.unit}", aim.goal, peers, figure.note)
    return table


def _digits(figure: Figure) -> int:
    return 2 if figure.unit == "s" else 1


def _grid_table(grid: Grid) -> Table:
    table = Table(title=grid.title)
    for heading, cell in zip(grid.headings, grid.rows[0], strict=True):
        table.add_column(heading, justify="left" if isinstance(cell, str) else "right")
    for row in grid.rows:
        table.add_row(*(cell if isinstance(cell, str) else f"{cell:,.1f}" for cell in row))
    return table
