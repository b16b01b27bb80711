"""Reader of one document, in a process of its own.

    python -m agent.features.attachments.reader FORMAT BYTES_MAX CONFINEMENT

The document is its input. It confines itself before it sees the first byte, and it takes no more of the machine than
it is given. What comes out of it is cut at BYTES_MAX; `agent.features.attachments.documents` keeps the time.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from agent.features.attachments.formats import READERS, Locked
from agent.limits import READER_CPU_S, READER_MEMORY_BYTES
from agent.subagents.confinement import confine_this_process, die_with_parent, restrain, share_one_heap
from agent.subagents.protocol import ProcessLimits

NOT_INSTALLED: Final = 3
LOCKED: Final = 4


def main() -> int:
    """Read bytes from standard input, write the result to standard output, and report the outcome as exit code."""
    die_with_parent()
    share_one_heap()
    try:
        read = READERS[sys.argv[1]]()
    except ModuleNotFoundError:
        return NOT_INSTALLED
    installed = {Path(place) for place in sys.path if place.endswith("-packages")}  # what libraries load later
    confine_this_process(None, False, sys.argv[3], libraries=[place for place in installed if place.is_dir()])
    restrain(ProcessLimits(cpu_s=READER_CPU_S, memory_bytes=READER_MEMORY_BYTES, file_bytes=0))
    left = int(sys.argv[2])
    try:
        for piece in read(sys.stdin.buffer.read()):
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
