"""A document as text, in a process of its own: `python -m agent.attachments.reader FORMAT BYTES_MAX < document`.

It gives up all rights it could have before it sees the first byte of the document, and takes no more of the machine
than it is given. What comes out of it is cut at BYTES_MAX; `agent.attachments.documents` keeps the time.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Final

from agent.attachments.formats.locked import Locked
from agent.limits import READER_CPU_S, READER_MEMORY_BYTES
from agent.subagents.cage.confinement import CONFINEMENT, confine_this_process
from agent.subagents.frames import Limits
from agent.subagents.inside.restraint import die_with_parent, restrain, share_one_heap

NOT_INSTALLED: Final = 3
LOCKED: Final = 4
FORMATS: Final = "agent.attachments.formats"


def main() -> int:
    """Bytes in, what can be made of them out; how it went is the exit code."""
    die_with_parent()
    share_one_heap()
    try:
        pieces = import_module(f"{FORMATS}.{sys.argv[1]}").pieces
    except ModuleNotFoundError:
        return NOT_INSTALLED
    if CONFINEMENT not in os.environ:
        confine_this_process(None, writes=False)
    restrain(Limits(cpu_s=READER_CPU_S, memory_bytes=READER_MEMORY_BYTES, file_bytes=0))
    left = int(sys.argv[2])
    try:
        for piece in pieces(sys.stdin.buffer.read()):
            sys.stdout.buffer.write(piece[:left])
            left -= len(piece)
            if left <= 0:
                break
    except Locked:
        return LOCKED
    sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
