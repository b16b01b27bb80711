"""Names for processes that another process of the same machine can find dead at once.

A lease tells after seconds that its holder is gone. A process that was killed and started again on the
same machine need not wait: boot, process namespace, process id and start time together name one
process for ever, and /proc says whether it still runs. Elsewhere (another machine, container, or a
system without /proc) nobody is judged, and the lease decides.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

_SEPARATOR: Final = "@"
_PROC: Final = Path("/proc")
_START_FIELD: Final = 19  # of /proc/<pid>/stat behind the command's name: starttime (proc(5), field 22)
_DEAD_STATES: Final = frozenset("ZXx")


@dataclass(frozen=True, slots=True)
class ProcessName:
    """One process on one machine. `machine` is empty where nothing can be known."""

    machine: str
    pid: int
    started: int

    @classmethod
    def of_this_process(cls) -> ProcessName:
        """The name of the caller's process."""
        pid = os.getpid()
        return cls(_machine(), pid, _started(pid) or 0)

    def sign(self, name: str) -> str:
        """`name`, and whose it is."""
        return f"{name}{_SEPARATOR}{self.machine}.{self.pid}.{self.started}"

    def knows_dead(self, signed: str) -> bool:
        """True when `signed` names a process of this machine that does not run any more."""
        other = _signer(signed)
        if other is None or not self.machine or other.machine != self.machine:
            return False
        return _started(other.pid) != other.started


def _signer(signed: str) -> ProcessName | None:
    machine, _, numbers = signed.rpartition(_SEPARATOR)[2].partition(".")
    pid, _, started = numbers.partition(".")
    if not (pid.isdecimal() and started.isdecimal()):
        return None
    return ProcessName(machine, int(pid), int(started))


@cache
def _machine() -> str:
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        namespace = str((_PROC / "self/ns/pid").readlink())
    except OSError:
        return ""
    return f"{boot}-{''.join(filter(str.isdecimal, namespace))}"


def _started(pid: int) -> int | None:
    """When a process of this machine started, in clock ticks; None when it does not run."""
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in _DEAD_STATES else int(fields[_START_FIELD])
