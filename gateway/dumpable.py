"""The right of other processes of this user to look into this one. Light: children load it before all else.

To the kernel every process of the same user is a friend: it may read the environment of a process, in which keys are,
its memory and its open files, and write to some of its switches. Unless the process says that it is not to be dumped
(PR_SET_DUMPABLE, proc(5)): then only root may, and no core is written, wherever the system sends cores. Executing a
program ends that, so each process closes itself."""

from __future__ import annotations

import ctypes
import sys
from typing import Final

_GET_DUMPABLE: Final = 3  # <linux/prctl.h>
_SET_DUMPABLE: Final = 4


def close_to_others() -> bool:
    """Let nobody but root look into this process from now on. Return False where the system does not offer that: only
    Linux does."""
    return _asked(_SET_DUMPABLE) == 0


def is_closed_to_others() -> bool:
    """Tell whether nobody but root can look into this process."""
    return _asked(_GET_DUMPABLE) == 0


def _asked(option: int) -> int:
    if sys.platform != "linux":
        return -1
    return int(ctypes.CDLL(None).prctl(option, 0, 0, 0, 0))
