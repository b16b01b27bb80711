"""What holds a child's process in its place."""

from __future__ import annotations

from pathlib import Path
from typing import Final

CONFINEMENT: Final = "TRIVET_CONFINEMENT"
"""The variable in which a parent names what it has put its child into."""

PLAIN: Final = "plain"
"""Its limits and nothing else."""


def confine_this_process(_home: Path | None, _writes: bool) -> str:
    """Restrict the running process to its home; returns what holds it."""
    return PLAIN
