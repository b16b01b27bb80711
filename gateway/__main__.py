"""The `trivet` command line."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import NoReturn

from gateway.ops.supervisor.watch import ForkOrigin
from gateway.process import run_to_exit


def main() -> NoReturn:
    """Run the command line; every error of ours ends in one sentence and an exit code."""
    if sys.argv[1:2] == ["up"] and "--single" not in sys.argv and hasattr(os, "pidfd_open"):
        with contextlib.suppress(OSError):
            sys.argv.append(f"--origin={ForkOrigin.begin().as_word()}")
    from gateway.ops.cli.start import app  # noqa: PLC0415 - start-up: the roles' origin loads at the same time

    run_to_exit(app)


if __name__ == "__main__":
    main()
