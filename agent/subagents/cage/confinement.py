"""What holds the process of a sub-agent, and how one that nobody holds holds itself. Light: it is loaded in children.

bubblewrap   namespaces: no network, no other process, nothing to be seen but Python, us and one conversation
landlock     the kernel refuses files, TCP and signals
plain        files are not held

In all three a child gives up what a process can: in bubblewrap and under Landlock files once more, and everywhere
root's rights, processes, sockets and whatever else a seccomp filter can refuse; and closes itself to its siblings.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final

from agent.tools.execution import landlock, seccomp
from agent.tools.execution.capabilities import give_up_capabilities
from agent.tools.files.workspace import parts_of
from gateway.dumpable import close_to_others

ROOT: Final = Path(__file__).resolve().parents[3]
"""Where the packages stand that a child is made of."""
PACKAGES: Final = (ROOT / "agent", ROOT / "gateway")


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
    if seccomp.give_up_processes_and_sockets():  # the last: it refuses what the others need
        close_to_others()  # not where it could start processes: those are found by their environment, to be ended
    if within == Confinement.BUBBLEWRAP:
        return within
    return Confinement.LANDLOCK if are_files_held else Confinement.PLAIN


def _give_up_files(home: Path | None, writes: bool, libraries: Sequence[Path]) -> bool:
    own = parts_of(home) if home is not None else ()
    around = [home] if home is not None else []
    if not landlock.version():
        return False
    try:
        landlock.give_up(readable=[*readable_places(home), *libraries, *around], writable=own if writes else ())
    except OSError:
        return False
    return True


def readable_places(home: Path | None) -> list[Path]:
    """What a child may come to load later: the standard library and our packages. A place in which conversations lie,
    too, is none: Landlock takes nothing back."""
    library = [Path(os.__file__).parent, *(Path(place) for place in sys.path if place.endswith("lib-dynload"))]
    places = {place.resolve() for place in (*library, *PACKAGES) if place.is_dir()}
    return [place for place in places if home is None or not home.resolve().is_relative_to(place)]
