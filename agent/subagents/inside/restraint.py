"""What a child's process denies itself, or is denied by its parent, so that a mistake in it costs nobody else
anything."""

from __future__ import annotations

import ctypes
import resource
import signal
import sys
from contextlib import suppress
from typing import Final

from agent.limits import SUBAGENT_SIGNALS
from agent.subagents.wire.frames import Limits

_PR_SET_PDEATHSIG: Final = 1  # <linux/prctl.h>
_M_ARENA_MAX: Final = -8  # <malloc.h>


def die_with_parent() -> None:
    """Be killed when the thread that started this process ends. A closed pipe says the same, to a process that still
    listens. Only Linux knows this."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def share_one_heap() -> None:
    """All threads take their memory from one place: the C library would set 64 MB of addresses aside for each."""
    if hasattr(library := ctypes.CDLL(None), "mallopt"):
        library.mallopt(_M_ARENA_MAX, 1)


def restrain(limits: Limits) -> None:
    """Take no more of the machine than this. The threads of this process stand already: outside of a namespace the
    kernel counts those of all that its user runs."""
    restrain_process(0, limits)
    _lower(0, resource.RLIMIT_NPROC, limits.processes)


def restrain_process(pid: int, limits: Limits) -> None:
    """Let a process (0: this one), and what it starts from now on, take no more of the machine than this, and leave no
    memory behind in a file. Where less is allowed already, that stands. Raises `OSError`."""
    for which, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, limits.cpu_s),
        (resource.RLIMIT_AS, limits.memory_bytes),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_NOFILE, limits.descriptors),
    ):
        _lower(pid, which, most)
    if sys.platform == "linux":
        _lower(pid, resource.RLIMIT_SIGPENDING, SUBAGENT_SIGNALS)


def _lower(pid: int, which: int, most: int) -> None:
    if sys.platform == "linux":
        _, allowed = resource.prlimit(pid, which)
        resource.prlimit(pid, which, (_at_most(most, allowed),) * 2)
    elif pid == 0:  # other systems let a process lower its own limits only
        _, allowed = resource.getrlimit(which)
        with suppress(ValueError, OSError):  # macOS refuses to lower some of them
            resource.setrlimit(which, (_at_most(most, allowed),) * 2)


def _at_most(most: int, allowed: int) -> int:
    return most if allowed == resource.RLIM_INFINITY else min(most, allowed)
