"""What would hold the process of a sub-agent here? `python -m agent.confinement` tries, and says its name.

On a second line stands what it does not hold. One that was insisted on and cannot be had is a failure.
"""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from agent.one_shot import answer_once
from agent.subagents.cage.probing import choose
from gateway.config import Settings
from gateway.scrub import Scrubber


def main() -> NoReturn:
    """Try what is configured."""
    answer_once(_confinement)


async def _confinement(settings: Settings, _scrubber: Scrubber) -> str:
    choice = await choose(settings.subagents.confinement, hidden=[settings.data_dir, Path.home()])
    return f"{choice.cage.confinement}\n{choice.not_held}"


if __name__ == "__main__":
    main()
