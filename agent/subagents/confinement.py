"""The confinement of a sub-agent's process, as far as it holds itself. Light: it is loaded in children.

bubblewrap   namespaces: no network, no other process, nothing to be seen but Python, us and one conversation
landlock     the kernel refuses files, TCP and signals; only Linux has it
plain        files are not held

In all three a child gives up what a process can: in bubblewrap and under Landlock files once more, and everywhere
root's rights, processes, sockets and whatever else a seccomp filter can refuse; it takes no more of the machine than
its limits, and closes itself to its siblings."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Final

from agent.limits import SUBAGENT_SIGNALS
from agent.subagents.protocol import ProcessLimits
from agent.tools.exec import restrictions
from agent.tools.exec.restrictions import give_up_capabilities
from agent.tools.files.workspace import parts_of
from gateway.dumpable import close_to_others

ROOT: Final = Path(__file__).resolve().parents[2]
"""The folder of the packages that a child is made of."""
PACKAGES: Final = (ROOT / "agent", ROOT / "gateway")


_PR_SET_PDEATHSIG: Final = 1  # <linux/prctl.h>

_M_ARENA_MAX: Final = -8  # <malloc.h>


class Confinement(StrEnum):
    """From the best to the least."""

    BUBBLEWRAP = "bubblewrap"
    LANDLOCK = "landlock"
    PLAIN = "plain"


def confine_this_process(home: Path | None, writes: bool, within: str, *, libraries: Sequence[Path] = ()) -> str:
    """Give up everything but reading Python, ourselves, `libraries` and, in the two folders of `home`, reading or also
    writing. `within` names what the parent has put it into, or wants it to put itself into; returns what holds it from
    now on. Call it before there is a second thread."""
    os.umask(0)  # a new file has its mode from the start: nothing here may change that of a file
    give_up_capabilities()
    are_files_held = within != Confinement.PLAIN and _give_up_files(home, writes, libraries)
    if restrictions.give_up_processes_and_sockets():  # the last: it refuses what the others need
        close_to_others()  # not where it could start processes: those are found by their environment, to be ended
    if within == Confinement.BUBBLEWRAP:
        return within
    return Confinement.LANDLOCK if are_files_held else Confinement.PLAIN


def _give_up_files(home: Path | None, writes: bool, libraries: Sequence[Path]) -> bool:
    own = parts_of(home) if home is not None else ()
    around = [home] if home is not None else []
    if not restrictions.landlock_version():
        return False
    try:
        restrictions.restrict_with_landlock(
            readable=[*readable_places(home), *libraries, *around], writable=own if writes else ()
        )
    except OSError:
        return False
    return True


def readable_places(home: Path | None) -> list[Path]:
    """List the places from which a child may load code later: the standard library and our packages. A place that also
    holds conversations is left out, because Landlock cannot hide a part of a place."""
    library = [Path(os.__file__).parent, *(Path(place) for place in sys.path if place.endswith("lib-dynload"))]
    places = {place.resolve() for place in (*library, *PACKAGES) if place.is_dir()}
    return [place for place in places if home is None or not home.resolve().is_relative_to(place)]


def die_with_parent() -> None:
    """Die when the thread that started this process ends. A closed pipe has the same effect on a process that still
    listens. Only Linux offers this."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def share_one_heap() -> None:
    """Make all threads allocate from one heap: the C library would set 64 MB of addresses aside for each."""
    if hasattr(library := ctypes.CDLL(None), "mallopt"):
        library.mallopt(_M_ARENA_MAX, 1)


def restrain(limits: ProcessLimits) -> None:
    """Take no more of the machine than this. The threads of this process exist already: outside of a namespace the
    kernel counts those of all that its user runs."""
    restrain_process(0, limits)
    _lower(0, resource.RLIMIT_NPROC, limits.processes)


def restrain_process(pid: int, limits: ProcessLimits) -> None:
    """Let a process (0: this one), and what it starts from now on, take no more of the machine than this, and leave no
    memory behind in a file. Where less is allowed already, that holds. Raises `OSError`."""
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
