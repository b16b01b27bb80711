"""How a child's process is started and ended by its parent, in the best confinement that works here."""

from __future__ import annotations

from asyncio.subprocess import PIPE, Process
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol

from agent.subagents.cage.confinement import PACKAGES, ROOT, Confinement
from agent.tools.execution import bubblewrap
from agent.tools.execution.families import Family, Namespace
from agent.tools.files.workspace import parts_of
from gateway.contracts.reasons import Code, Reason

HOME_INSIDE: Final = "/conversation"
"""Where a child in bubblewrap finds the folder of its conversation."""

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
"""What bubblewrap, as a shell does, adds to the signal that ended the process inside."""


class Held(Protocol):
    """A child's process in its cage."""

    @property
    def process(self) -> Process: ...

    @property
    def confinement(self) -> Confinement: ...

    @property
    def has_to_confine_itself(self) -> bool:
        """True where a child that does not do its part must not go on."""
        ...

    def cause(self) -> Code | None:
        """How it ended: `exit_3`, `killed_by_signal_9`; None while it runs."""
        ...

    async def kill(self) -> bool:
        """End it and all that it started; True when everything is reaped. To be let run to its end."""
        ...


class Cage(Protocol):
    """One way to hold children."""

    @property
    def confinement(self) -> Confinement:
        """What holds them."""
        ...

    def home_inside(self, home: Path | None) -> str:
        """Where the child finds its home, "" for none."""
        ...

    async def start(self, command: Sequence[str], home: Path | None, *, writes: bool) -> Held:
        """Start a child with pipes for everything. Raises `OSError`."""
        ...


class InBubblewrap:
    """Namespaces: inside there is Python, our two packages, and the home of one conversation."""

    confinement = Confinement.BUBBLEWRAP

    def __init__(self, bwrap: str, options: Sequence[str], *, python: Sequence[Path], hidden: Sequence[Path]) -> None:
        """`python` are the prefixes of the interpreter; of what is `hidden` nothing is seen but the one home."""
        self._bwrap = bwrap
        self._options = tuple(options)
        self._python = tuple(python)
        self._hidden = tuple(hidden)

    def home_inside(self, home: Path | None) -> str:
        return HOME_INSIDE if home is not None else ""

    async def start(self, command: Sequence[str], home: Path | None, *, writes: bool) -> Held:
        arguments = [*bubblewrap.APART, *self._options, *bubblewrap.variables(ENVIRONMENT)]
        arguments += [*bubblewrap.system_folders(), *_views(_seen(self._python), self._hidden)]
        arguments += ["--ro-bind-try", _CACHE, _CACHE, "--proc", "/proc", "--dev", "/dev"]
        if home is not None:
            for part in parts_of(home):
                arguments += ["--bind" if writes else "--ro-bind", str(part), f"{HOME_INSIDE}/{part.name}"]
        arguments += ["--chdir", "/", *bubblewrap.SEALED]
        return _InNamespace(await bubblewrap.start(self._bwrap, arguments, command, stderr=PIPE))


class Bare:
    """No namespace: an empty environment, a group of its own, and what the child gives up by itself."""

    def __init__(self, confinement: Confinement) -> None:
        self.confinement = confinement

    def home_inside(self, home: Path | None) -> str:
        return str(home) if home is not None else ""

    async def start(self, command: Sequence[str], home: Path | None, *, writes: bool) -> Held:
        del home, writes  # its own affair
        family = await Family.start(command, stderr=PIPE, environment=ENVIRONMENT, folder=Path("/"))
        return _Alone(family, self.confinement)


class _InNamespace:
    confinement = Confinement.BUBBLEWRAP
    has_to_confine_itself = False

    def __init__(self, namespace: Namespace) -> None:
        self.process = namespace.process
        self.kill = namespace.kill

    def cause(self) -> Code | None:
        code = self.process.returncode
        return _cause(_SIGNALLED - code if code is not None and code > _SIGNALLED else code)


class _Alone:
    def __init__(self, family: Family, confinement: Confinement) -> None:
        self.process = family.process
        self.kill = family.kill
        self.confinement = confinement
        self.has_to_confine_itself = confinement is Confinement.LANDLOCK

    def cause(self) -> Code | None:
        return _cause(self.process.returncode)


def _cause(code: int | None) -> Code | None:
    if code is None:
        return None
    return Reason.EXITED.of(code) if code >= 0 else Reason.KILLED.of(-code)


def _seen(python: Iterable[Path]) -> set[Path]:
    """What has to be there for Python to run us."""
    named = {prefix / name for prefix in python for name in _OF_PYTHON}
    return {place for place in {*named, *map(Path, _LIBRARIES), *PACKAGES} if place.exists()}


def _views(seen: Iterable[Path], hidden: Iterable[Path]) -> list[str]:
    """The arguments that show and hide, outer places before inner ones: whatever lies in whatever, what was said of
    the innermost holds. What is hidden and lies in nothing that is seen is not there anyway."""
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
