"""`make bench`, or `python -m tests.bench [NAME …] [--quick] [--json FILE]`; `make bench ARGS="lanes scale"`."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

import uvloop
from rich.console import Console

from tests.bench.figures import Findings
from tests.bench.processes import BenchFailed
from tests.bench.programme import ON_REQUEST, PROGRAMME
from tests.bench.report import machine, print_tables, write_json
from tests.bench.sizes import FULL, QUICK, Size

TABLE_WIDTH_MIN = 140
KNOWN = {**PROGRAMME, **ON_REQUEST}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="What Trivet costs. Loopback only.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"only these of: {', '.join(KNOWN)}")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: to see that it works, not how fast")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was found there, too")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in KNOWN]:
        parser.error(f"there is no {unknown[0]}; there are {', '.join(KNOWN)}")
    console = Console()
    if not console.is_terminal:
        console = Console(width=max(console.width, TABLE_WIDTH_MIN))
    before = machine()
    # Ended by anybody, it ends what it has started, as with Ctrl-C, which a shell lets its background jobs ignore.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    names = options.names or list(PROGRAMME)
    findings = uvloop.run(_measure(names, QUICK if options.quick else FULL))
    print_tables(list(findings.values()), console)
    console.print(f"before: {before}\nafter:  {machine()}")
    if options.json:
        write_json(options.json, findings, around=(before, machine()))
    return 0 if len(findings) == len(names) else 1


async def _measure(names: list[str], size: Size) -> dict[str, Findings]:
    """What was found, without those that failed: the others' minutes are not lost."""
    findings = {}
    for name in names:
        sys.stderr.write(f"bench: {name} …\n")
        try:
            findings[name] = await KNOWN[name](size)
        except BenchFailed as failure:
            sys.stderr.write(f"bench: {name}: {failure}\n")
    return findings


if __name__ == "__main__":
    sys.exit(main())
