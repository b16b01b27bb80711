"""The `trivet` command line."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from gateway.ops.supervisor.__main__ import FORKED, supervise
from gateway.ops.supervisor.watch import ForkOrigin
from gateway.process import run_to_exit, show_as


def main() -> NoReturn:
    """Run the command line; every error of ours ends in one sentence and an exit code."""
    run_to_exit(_run)


def _run() -> None:
    """Run a command. For `up` this process becomes the supervisor, and the command line is run in a fork of the process
    that the roles will be forks of: what they share is loaded once. Not to ask for a token: that takes the terminal."""
    words = sys.argv[1:]
    is_asking = any(word.endswith("-") for word in words)
    if words[:1] == ["up"] and not is_asking and not {"--single", FORKED} & {*words} and hasattr(os, "pidfd_open"):
        try:
            origin = ForkOrigin.begin()
            options, given = origin.run("gateway", *words, FORKED)
        except OSError:  # the system makes no such forks, of roles neither
            pass
        else:
            show_as(sys.orig_argv[: len(sys.orig_argv) - len(words) + 1])  # a token may follow, and has been read
            supervise(options, given, origin)
    from gateway.ops.cli.start import app  # noqa: PLC0415 - start-up: the supervisor lives without

    app(prog_name="trivet")


if __name__ == "__main__":
    main()
