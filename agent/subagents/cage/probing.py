"""Which confinement works here: each is tried for real, once, when the agent starts."""

from __future__ import annotations

import asyncio
import compileall
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import structlog

from agent.limits import SANDBOX_PROBE_S
from agent.subagents.cage import landlock, seccomp
from agent.subagents.cage.cages import Bare, Cage, InBubblewrap
from agent.subagents.cage.confinement import ROOT, Confinement, readable_places
from agent.tools.execution.bubblewrap import OPTIONS
from agent.tools.execution.reaping import undisturbed
from gateway.contracts.errors import ConfigError

AUTO: Final = "auto"

_log = structlog.get_logger(__name__)

_LOOK: Final = "import json, agent.subagents.codec; print('works')"
_CONFINED: Final = (
    "from agent.subagents.cage.confinement import confine_this_process as c; c(None, False); print('works')"
)


async def find_confinement(wanted: str = AUTO, *, hidden: Sequence[Path]) -> Cage:
    """The best cage that works here, or the wanted one; `hidden` must not be seen from inside. Raises `ConfigError`
    when an insisted one cannot be had."""
    # No child may keep what it compiles: it would do so again at each start.
    await asyncio.to_thread(compileall.compile_dir, ROOT / "agent", quiet=2)
    for cage in _candidates(wanted, hidden):
        if wanted not in (AUTO, cage.confinement):
            continue
        if complaint := await _complaint(cage):
            _log.info("subagents.confinement_refused", confinement=cage.confinement, complaint=complaint)
            continue
        not_held = _not_held(cage)
        log = _log.warning if not_held else _log.info
        log("subagents.confinement", confinement=cage.confinement, not_held=not_held)
        return cage
    raise ConfigError(f'subagents.confinement is "{wanted}", which does not work here: set it to "auto"')


def _not_held(cage: Cage) -> str:
    """What the operator should know about it, "" for nothing."""
    filtered = cage.confines_itself and seccomp.is_known_here()
    rest = "" if filtered else "; it may start processes, use the network and signal what runs as this user"
    match cage.confinement:
        case Confinement.BUBBLEWRAP:
            return ""
        case Confinement.LANDLOCK:
            return f"a child may ask whether a file exists, how large it is and of when{rest}"
        case Confinement.PLAIN:
            return f"a child may open what this process may open: only our own code keeps it from files{rest}"


def _candidates(wanted: str, hidden: Sequence[Path]) -> Iterator[Cage]:
    bwrap = shutil.which("bwrap")
    if bwrap is not None:
        for options in OPTIONS:
            yield InBubblewrap(bwrap, options, python=python_prefixes(), hidden=hidden)
    if landlock.version() and not _is_in_sight(hidden):
        yield Bare(Confinement.LANDLOCK, confines_itself=True)
    yield Bare(Confinement.PLAIN, confines_itself=wanted == AUTO)


def _is_in_sight(hidden: Sequence[Path]) -> bool:
    """True where what must not be seen lies in what Landlock would have to show."""
    shown = readable_places(None)
    return any(folder.resolve().is_relative_to(place) for folder in hidden for place in shown)


def python_prefixes() -> list[Path]:
    """Where this interpreter stands, under every name that leads to it."""
    named = {Path(sys.prefix), Path(sys.base_prefix)}
    executable = Path(sys.executable)
    while executable.is_symlink():
        executable = executable.parent / executable.readlink()
        named.add(executable.parent.parent)
    return sorted({*named, *(place.resolve() for place in named)})


async def _complaint(cage: Cage) -> str:
    """ "" if Python runs in it and finds what it needs."""
    code = _CONFINED if cage.confinement is Confinement.LANDLOCK else _LOOK
    try:
        held = await cage.start((sys.executable, "-c", code), None, writes=False)
    except OSError as error:
        return type(error).__name__
    try:
        async with asyncio.timeout(SANDBOX_PROBE_S):
            output, errors = await held.process.communicate()
    except TimeoutError:
        return "it did not answer"
    finally:
        await undisturbed(held.kill)
    return "" if output == b"works\n" else (errors or output).decode(errors="replace")[-300:] or "it said nothing"
