"""The first steps of an MCP server that Landlock holds: it gives up what it must not reach, and becomes the server.

Light: it is a process of its own, with the standard library and a few modules of ours. What it is to do stands in its
one argument; what the server is given stands in its environment and nowhere else.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from pathlib import Path
from typing import Final, NoReturn

from agent.tools.execution import landlock
from agent.tools.execution.capabilities import give_up_capabilities

_PR_SET_PDEATHSIG: Final = 1  # <linux/prctl.h>


def main() -> NoReturn:
    """Do as the order says. Ends with a sentence where that does not work."""
    order = json.loads(sys.argv[1])
    environment = {name: value for name, value in os.environ.items() if name not in order["without"]}
    writable = [Path(place) for place in order["writable"]]
    try:
        os.chdir(writable[0])
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # the server ends with us
        give_up_capabilities()
        landlock.give_up(
            readable=(), writable=writable, executable=[*map(Path, order["executable"]), writable[0]], has_network=True
        )
        os.execve(order["program"], order["arguments"], environment)  # noqa: S606 - the operator's own command
    except OSError as error:
        sys.exit(f"trivet: it cannot be held or started: {error}")
