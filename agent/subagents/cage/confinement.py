"""What holds the process of a sub-agent, and how one that nobody holds holds itself. Light: it is loaded in children.

bubblewrap   namespaces: no network, no other process, nothing to be seen but Python, us and one conversation
landlock     the kernel refuses files, TCP and signals; other processes can be counted, not touched
plain        no environment and limits, and whatever else the kernel lends; files are not held
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final

from agent.subagents.cage import landlock, seccomp

ROOT: Final = Path(__file__).resolve().parents[3]
"""Where the packages stand that a child is made of."""
PACKAGES: Final = (ROOT / "agent", ROOT / "gateway")

CONFINEMENT: Final = "TRIVET_CONFINEMENT"
"""The variable in which a parent names what it has put its child into."""


class Confinement(StrEnum):
    """From the best to the least."""

    BUBBLEWRAP = "bubblewrap"
    LANDLOCK = "landlock"
    PLAIN = "plain"


def confine_this_process(home: Path | None, writes: bool, *, libraries: Sequence[Path] = ()) -> str:
    """Give up everything but reading Python, ourselves, `libraries` and, below `home`, reading or also writing; returns
    what holds the process from now on. Call it before there is a second thread."""
    seccomp.give_up_processes_and_sockets()
    if not landlock.version():
        return Confinement.PLAIN
    own = [home] if home is not None else []
    try:
        landlock.give_up(
            readable=[*readable_places(home), *libraries, *([] if writes else own)],
            writable=own if writes else [],
        )
    except OSError:
        return Confinement.PLAIN
    return Confinement.LANDLOCK


def readable_places(home: Path | None) -> list[Path]:
    """What a child may come to load later: the standard library and our packages. A place in which conversations lie,
    too, is none: Landlock takes nothing back."""
    library = [Path(os.__file__).parent, *(Path(place) for place in sys.path if place.endswith("lib-dynload"))]
    places = {place.resolve() for place in (*library, *PACKAGES) if place.is_dir()}
    return [place for place in places if home is None or not home.resolve().is_relative_to(place)]
