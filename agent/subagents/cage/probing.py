"""Which confinement works here: each is tried for real, once, when the agent starts."""

from __future__ import annotations

import asyncio
import compileall
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from agent.limits import SANDBOX_PROBE_S
from agent.subagents.cage.cages import Bare, Cage, InBubblewrap
from agent.subagents.cage.confinement import ROOT, Confinement, readable_places
from agent.tools.execution import landlock
from agent.tools.execution.bubblewrap import OPTIONS
from agent.tools.execution.reaping import undisturbed
from gateway.contracts.errors import ConfigError

AUTO: Final = "auto"

_log = structlog.get_logger(__name__)

_LOOK: Final = """
import json, socket, sys, agent.subagents.wire.codec
from agent.subagents.cage.confinement import confine_this_process
held = confine_this_process(None, False, sys.argv[1])
try:
    socket.socket(socket.AF_UNIX)
except OSError:
    print(held, "filtered")
else:
    print(held, "open")
"""


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a trial has shown; `complaint` is "" for a cage that works."""

    complaint: str = ""
    is_filtered: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """A cage that works here, and what an operator should know that it does not hold ("" for nothing)."""

    cage: Cage
    not_held: str


async def find_confinement(wanted: str = AUTO, *, hidden: Sequence[Path]) -> Cage:
    """`choose`, for whoever puts children into it: what was chosen is logged."""
    choice = await choose(wanted, hidden=hidden)
    log = _log.warning if choice.not_held else _log.info
    log("subagents.confinement", confinement=choice.cage.confinement, not_held=choice.not_held)
    return choice.cage


async def choose(wanted: str = AUTO, *, hidden: Sequence[Path]) -> Choice:
    """The best cage that works here, or the wanted one; `hidden` must not be seen from inside. Raises `ConfigError`
    when an insisted one cannot be had."""
    # No child may keep what it compiles: it would do so again at each start.
    await asyncio.to_thread(compileall.compile_dir, ROOT / "agent", quiet=2)
    complaint = "it is not there, or shows what has to be hidden"
    for cage in _candidates(hidden):
        if wanted not in (AUTO, cage.confinement):
            continue
        seen = await _tried(cage)
        if not seen.complaint:
            return Choice(cage, _not_held(cage, is_filtered=seen.is_filtered))
        complaint = " ".join(seen.complaint.split())
        _log.info("subagents.confinement_refused", confinement=cage.confinement, complaint=complaint)
    raise ConfigError(f'subagents.confinement is "{wanted}", which does not work here ({complaint}): set it to "auto"')


def _not_held(cage: Cage, *, is_filtered: bool) -> str:
    """What the operator should know about it, "" for nothing."""
    rest = "" if is_filtered else "; it may start processes, use the network and signal what runs as this user"
    match cage.confinement:
        case Confinement.BUBBLEWRAP:
            return ""
        case Confinement.LANDLOCK:
            return f"a child may ask whether a file exists, how large it is and of when{rest}"
        case Confinement.PLAIN:
            return f"a child may open what this process may open: only our own code keeps it from files{rest}"


def _candidates(hidden: Sequence[Path]) -> Iterator[Cage]:
    bwrap = shutil.which("bwrap")
    if bwrap is not None:
        for options in OPTIONS:
            yield InBubblewrap(bwrap, options, python=python_prefixes(), hidden=hidden)
    if landlock.version() and not _is_in_sight(hidden):
        yield Bare(Confinement.LANDLOCK)
    yield Bare(Confinement.PLAIN)


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


async def _tried(cage: Cage) -> _Seen:
    """Whether Python runs in it, finds what it needs, and is held."""
    try:
        held = await cage.start((sys.executable, "-c", _LOOK, cage.confinement), None, writes=False)
    except OSError as error:
        return _Seen(type(error).__name__)
    try:
        async with asyncio.timeout(SANDBOX_PROBE_S):
            output, errors = await held.process.communicate()
    except TimeoutError:
        return _Seen("it did not answer")
    finally:
        await undisturbed(held.kill)
    match output.decode(errors="replace").split():
        case [cage.confinement, word]:
            return _Seen(is_filtered=word == "filtered")
        case _:
            return _Seen((errors or output).decode(errors="replace")[-300:] or "it said nothing")
