"""`make bench-scrub`, or `python -m tests.bench.scrub [--seed N] [--quick]`: the goals, and how near we are.

A seed is drawn anew for every run and printed; it makes everything but the times come out the same again.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Mapping
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gateway.scrub import Scrubber
from tests.bench.report import machine
from tests.bench.scrub import detection, disguises, own, speed, streaming, unseen
from tests.bench.scrub.goal import Goal, Measured
from tests.bench.scrub.peers import contest

TABLE_WIDTH_MIN: Final = 140
SEEDS: Final = 3
WORST_SHOWN: Final = 12
HARMLESS: Final = "good morning"
CANARY: Final = Measured([Goal(10, "canary, every door and place", "0 raw hits", "tests/e2e/test_canary.py", None)])
_VERDICTS: Final = {True: "met", False: "[bold]short[/bold]", None: "by a test"}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.scrub", description="The scrubber and its goals.")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6), help="to repeat a run")
    parser.add_argument("--quick", action="store_true", help="few rows: to see that it works, not how well")
    parser.add_argument("--worst", type=int, default=WORST_SHOWN, metavar="N", help="how many of the worst are named")
    options = parser.parse_args()
    console = Console()
    if not console.is_terminal:
        console = Console(width=max(console.width, TABLE_WIDTH_MIN))
    Scrubber().machine().feed(
        HARMLESS, is_last=True
    )  # what is broken raises here, where `scrub` would only hide the text
    console.print(f"before: {machine()}, seed {options.seed}")
    measured = []
    for name, part in _parts(options.seed, is_quick=options.quick).items():
        began_s = time.monotonic()
        measured.append(part())
        sys.stderr.write(f"bench-scrub: {name}, {time.monotonic() - began_s:.0f} s\n")
    console.print(_table([goal for each in measured for goal in each.goals]))
    for title, lines in ((title, lines) for each in measured for title, lines in each.worst.items() if lines):
        console.print(f"\n[bold]{title}[/bold] ({len(lines)})")
        for line in lines[: options.worst]:
            console.print(f"  {escape(line)}", soft_wrap=True, highlight=False)
    console.print(f"\nafter: {machine()}")
    return 0


def _parts(seed: int, *, is_quick: bool) -> Mapping[str, Callable[[], Measured]]:
    scrubber = Scrubber()
    seeds = [seed + number for number in range(SEEDS)]
    rows = 4 if is_quick else 24
    return {
        "recall": lambda: detection.found(scrubber, seeds, rows),
        "false alarms": lambda: detection.spoiled(scrubber, seeds, 2 * rows),
        "the unseen": lambda: unseen.goals(scrubber, seed),
        "attacks": lambda: disguises.seen_through(scrubber, seeds),
        "streams": lambda: streaming.in_pieces(scrubber, seeds, max(1, rows // 12)),
        "speed": lambda: speed.fast(seed, is_quick=is_quick),
        "hostile texts": lambda: speed.hostile(is_quick=is_quick),
        "others": lambda: contest.beside_others(seed, rows // 4, is_quick=is_quick),
        "two messages": lambda: detection.announced(scrubber, seeds),
        "own secrets": lambda: own.kept(seeds),
        "canary": lambda: CANARY,
    }


def _table(goals: list[Goal]) -> Table:
    table = Table("#", "what", title="The scrubber")
    for heading in ("goal", "measured", "verdict"):
        table.add_column(heading)
    for goal in sorted(goals, key=lambda goal: goal.number):
        table.add_row(str(goal.number), goal.what, goal.goal, goal.measured, _VERDICTS[goal.is_met])
    return table


if __name__ == "__main__":
    sys.exit(main())
