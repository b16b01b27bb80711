"""`make fuzz MINUTES=60`, or `python -m tests.fuzz [--minutes N]`: ends with 1 if anything was found."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.parts.environments import interpreter

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parent.parent
INPUT_BYTES_MAX: Final = 56
SLOW_INPUT_S: Final = 60
"""By the clock: a busy machine gives a text of some hundred secrets, whose every branch is counted, half a minute."""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description="Coverage-guided fuzzing of the scrubber."
    )
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--inputs", type=Path, default=ROOT / ".fuzz", help="where inputs that reach new code are kept")
    options = parser.parse_args()
    options.inputs.mkdir(exist_ok=True)
    known = set((HERE / "found").iterdir())
    command = (
        interpreter(HERE / "atheris.lock"),
        *("-m", "tests.fuzz.target", options.inputs),
        *(f"-max_total_time={60 * options.minutes:.0f}", f"-max_len={INPUT_BYTES_MAX}", f"-timeout={SLOW_INPUT_S}"),
        *("-len_control=0", "-print_final_stats=1", f"-artifact_prefix={options.inputs}/"),
    )
    ended = subprocess.run(command, cwd=ROOT, check=False)
    found = sorted(path.name for path in set((HERE / "found").iterdir()) - known)
    print(f"fuzz: {len(found)} found", *found, sep="\n  ")
    return 1 if found or ended.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
