"""The ladder of confinements: bubblewrap, else Landlock, else a plain process that says so.

Each rung is tried for real, once, when the agent starts; the best that works here holds all children."""

from __future__ import annotations

import asyncio
import compileall
import shutil
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import structlog

from agent.limits import SANDBOX_PROBE_S
from agent.subagents.confinement import PACKAGES, ROOT, Confinement, readable_places, restrain_process
from agent.subagents.protocol import ProcessLimits
from agent.tools.exec import processes, restrictions
from agent.tools.exec.processes import OPTIONS, NamespaceTree, ProcessTree, run_to_end
from agent.tools.files.workspace import parts_of
from gateway.contracts.errors import Code, ConfigError, Reason

_log = structlog.get_logger(__name__)

AUTO: Final = "auto"

HOME_INSIDE: Final = "/conversation"
"""The folder of the conversation, as a child in bubblewrap sees it."""

ENVIRONMENT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "PATH": "/usr/bin:/bin",
        "HOME": "/",
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(ROOT),
        "PYTHONSAFEPATH": "1",
        "PYTHONNOUSERSITE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
)
"""All that a child finds in its environment. The safe path: no module of a workspace is ours."""

_LIBRARIES: Final = ("/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32", "/usr/local/lib")
_OF_PYTHON: Final = ("bin", "lib", "lib64", "pyvenv.cfg")
_CACHE: Final = "/etc/ld.so.cache"
_SIGNALLED: Final = 128
"""The number that bubblewrap, like a shell, adds to the signal that ended the process inside."""


@dataclass(frozen=True, slots=True)
class SandboxedProcess:
    """A child's process in its sandbox. `kill` ends it and all that it started, and returns True when
    everything is reaped; it must not be interrupted."""

    process: Process
    confinement: Confinement
    kill: Callable[[], Coroutine[Any, Any, bool]]

    @property
    def has_to_confine_itself(self) -> bool:
        """Tell whether a child must not go on unless it confines itself."""
        return self.confinement is Confinement.LANDLOCK

    def cause(self) -> Code | None:
        """Say how it ended: `exit_3`, `killed_by_signal_9`; None while it runs."""
        code = self.process.returncode
        if code is None:
            return None
        if self.confinement is Confinement.BUBBLEWRAP and code > _SIGNALLED:
            code = _SIGNALLED - code
        return Reason.EXITED.of(code) if code >= 0 else Reason.KILLED.of(-code)


class ChildSandbox:
    """One rung of the ladder.

    In bubblewrap there is Python, our two packages and the home of one conversation, and nothing else. Without it a
    child has an empty environment, a group of its own, and gives up by itself what it can."""

    def __init__(
        self,
        confinement: Confinement,
        *,
        bwrap: Sequence[str] = (),
        python: Sequence[Path] = (),
        hidden: Sequence[Path] = (),
    ) -> None:
        """Keep the parts of the sandbox. `bwrap` is bubblewrap with its options, `python` are the prefixes of the
        interpreter; of the `hidden` places only the child's own home is visible."""
        self.confinement = confinement
        self._bwrap = tuple(bwrap)
        self._python = tuple(python)
        self._hidden = tuple(hidden)

    def home_inside(self, home: Path | None) -> str:
        """Return where the child finds its home, "" for none."""
        if home is None:
            return ""
        return HOME_INSIDE if self._bwrap else str(home)

    async def start(
        self, command: Sequence[str], home: Path | None, *, writes: bool, limits: ProcessLimits
    ) -> SandboxedProcess:
        """Start a child with pipes for everything, and with these limits, also if it sets none for itself. Raises
        `OSError`."""

        def restrain(pid: int) -> None:
            with suppress(OSError):  # it has ended, or is a bubblewrap that the system lets run as root
                restrain_process(pid, limits)

        started: NamespaceTree | ProcessTree
        if self._bwrap:
            arguments = self._arguments(home, writes=writes)
            started = await processes.start(self._bwrap[0], arguments, command, stderr=PIPE, restrain=restrain)
        else:
            started = await ProcessTree.start(command, stderr=PIPE, environment=ENVIRONMENT, folder=Path("/"))
            restrain(started.process.pid)
        return SandboxedProcess(started.process, self.confinement, started.kill)

    def _arguments(self, home: Path | None, *, writes: bool) -> list[str]:
        arguments = [*processes.APART, *self._bwrap[1:], *processes.variables(ENVIRONMENT)]
        arguments += [*processes.system_folders(), *_views(_seen(self._python), self._hidden)]
        arguments += ["--ro-bind-try", _CACHE, _CACHE, "--proc", "/proc", "--dev", "/dev"]
        for part in parts_of(home) if home is not None else ():
            arguments += ["--bind" if writes else "--ro-bind", str(part), f"{HOME_INSIDE}/{part.name}"]
        return [*arguments, "--chdir", "/", *processes.SEALED]


def _seen(python: Iterable[Path]) -> set[Path]:
    """List the places that Python needs to run our code."""
    named = {prefix / name for prefix in python for name in _OF_PYTHON}
    return {place for place in {*named, *map(Path, _LIBRARIES), *PACKAGES} if place.exists()}


def _views(seen: Iterable[Path], hidden: Iterable[Path]) -> list[str]:
    """Build the arguments that show and hide places, outer ones before inner ones: for nested places the innermost rule
    holds. A hidden place outside of all shown ones is not there anyway."""
    folders = [place.resolve() for place in hidden if place.is_dir()]
    covers = {
        place / folder.relative_to(place.resolve())
        for place in seen
        for folder in folders
        if folder.is_relative_to(place.resolve())
    }
    steps: list[tuple[Path, tuple[str, ...]]] = [(place, ("--ro-bind", str(place), str(place))) for place in seen]
    steps += [(place, ("--tmpfs", str(place))) for place in covers]
    ordered = [word for _, step in sorted(steps, key=lambda step: len(step[0].parts)) for word in step]
    return ordered + [word for place in covers for word in ("--remount-ro", str(place))]


_LOOK: Final = """
import json, socket, sys, agent.subagents.protocol
from agent.subagents.confinement import confine_this_process
held = confine_this_process(None, False, sys.argv[1])
try:
    socket.socket(socket.AF_UNIX)
except OSError:
    print(held, "filtered")
else:
    print(held, "open")
"""


@dataclass(frozen=True, slots=True)
class ConfinementChoice:
    """A sandbox that works here, and what an operator should know that it does not hold ("" for nothing)."""

    sandbox: ChildSandbox
    not_held: str


async def find_confinement(wanted: str = AUTO, *, hidden: Sequence[Path]) -> ChildSandbox:
    """Choose the sandbox for children and log the choice."""
    choice = await choose(wanted, hidden=hidden)
    log = _log.warning if choice.not_held else _log.info
    log("subagents.confinement", confinement=choice.sandbox.confinement, not_held=choice.not_held)
    return choice.sandbox


async def choose(wanted: str = AUTO, *, hidden: Sequence[Path]) -> ConfinementChoice:
    """Choose the best sandbox that works here, or the wanted one; `hidden` must not be visible from inside. Raises
    `ConfigError` when an explicitly wanted one does not work."""
    # No child may keep what it compiles: it would do so again at each start.
    await asyncio.to_thread(compileall.compile_dir, ROOT / "agent", quiet=2)
    complaint = "it is not there, or shows what has to be hidden"
    for sandbox in _candidates(hidden):
        if wanted not in (AUTO, sandbox.confinement):
            continue
        found, is_filtered = await _tried(sandbox)
        if not found:
            return ConfinementChoice(sandbox, _not_held(sandbox, is_filtered=is_filtered))
        complaint = " ".join(found.split())
        _log.info("subagents.confinement_refused", confinement=sandbox.confinement, complaint=complaint)
    raise ConfigError(f'subagents.confinement is "{wanted}", which does not work here ({complaint}): set it to "auto"')


def _not_held(sandbox: ChildSandbox, *, is_filtered: bool) -> str:
    """Say what the sandbox does not prevent, for the operator; "" for nothing."""
    rest = "" if is_filtered else "; it may start processes, use the network and signal what runs as this user"
    match sandbox.confinement:
        case Confinement.BUBBLEWRAP:
            return ""
        case Confinement.LANDLOCK:
            return f"a child may ask whether a file exists, how large it is and of when{rest}"
        case Confinement.PLAIN:
            return f"a child may open what this process may open: only our own code keeps it from files{rest}"


def _candidates(hidden: Sequence[Path]) -> Iterator[ChildSandbox]:
    """Yield the sandboxes that this machine may offer, the best first."""
    if bwrap := shutil.which("bwrap"):
        for options in OPTIONS:
            yield ChildSandbox(Confinement.BUBBLEWRAP, bwrap=(bwrap, *options), python=python_prefixes(), hidden=hidden)
    if restrictions.landlock_version() and not _is_in_sight(hidden):  # only Linux has it
        yield ChildSandbox(Confinement.LANDLOCK)
    yield ChildSandbox(Confinement.PLAIN)


def _is_in_sight(hidden: Sequence[Path]) -> bool:
    """Tell whether a hidden place is within one that Landlock would have to show."""
    shown = readable_places(None)
    return any(folder.resolve().is_relative_to(place) for folder in hidden for place in shown)


def python_prefixes() -> list[Path]:
    """List the prefixes of this interpreter, under every name that leads to it."""
    named = {Path(sys.prefix), Path(sys.base_prefix)}
    executable = Path(sys.executable)
    while executable.is_symlink():
        executable = executable.parent / executable.readlink()
        named.add(executable.parent.parent)
    return sorted({*named, *(place.resolve() for place in named)})


async def _tried(sandbox: ChildSandbox) -> tuple[str, bool]:
    """Try the sandbox. Return what is wrong with it, "" if Python runs in it, finds what it needs and is confined; and
    whether sockets are blocked."""
    try:
        look = (sys.executable, "-c", _LOOK, sandbox.confinement)
        held = await sandbox.start(look, None, writes=False, limits=ProcessLimits())
    except OSError as error:
        return type(error).__name__, False
    try:
        async with asyncio.timeout(SANDBOX_PROBE_S):
            output, errors = await held.process.communicate()
    except TimeoutError:
        return "it did not answer", False
    finally:
        await run_to_end(held.kill)
    match output.decode(errors="replace").split():
        case [sandbox.confinement, word]:
            return "", word == "filtered"
        case _:
            return (errors or output).decode(errors="replace")[-300:] or "it said nothing", False
