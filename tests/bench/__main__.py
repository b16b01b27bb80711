"""`make bench`, or `python -m tests.bench [--quick] [--only NAME] [--json FILE]`."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from rich.console import Console

from tests.bench.figures import Findings
from tests.bench.measures import FULL, MEASURES, QUICK, Size
from tests.bench.processes import BenchFailed
from tests.bench.report import machine, print_tables, write_json

TABLE_WIDTH_MIN = 140


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="What Trivet costs. Loopback only.")
    parser.add_argument("--quick", action="store_true", help="fewer messages: less than a minute instead of several")
    parser.add_argument("--only", action="append", choices=MEASURES, help="this experiment; may be given again")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was found there, too")
    options = parser.parse_args()
    console = Console()
    if not console.is_terminal:
        console = Console(width=max(console.width, TABLE_WIDTH_MIN))
    before = machine()
    try:
        findings = asyncio.run(_measure(options.only or list(MEASURES), QUICK if options.quick else FULL))
    except BenchFailed as failure:
        sys.stderr.write(f"bench: {failure}\n")
        return 1
    print_tables(list(findings.values()), console)
    console.print(f"before: {before}\nafter:  {machine()}")
    if options.json:
        write_json(options.json, findings, around=(before, machine()))
    return 0


async def _measure(names: list[str], size: Size) -> dict[str, Findings]:
    findings = {}
    for name in names:
        sys.stderr.write(f"bench: {name} …\n")
        findings[name] = await MEASURES[name](size)
    return findings


if __name__ == "__main__":
    sys.exit(main())
