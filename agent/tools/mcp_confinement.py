"""The confinement of an MCP server's program: bubblewrap, else Landlock; without either it is not started.

Inside it sees the system, itself and the files that its command or the settings name, all read-only; it writes
in a folder of its own and where the settings say so. It gets nothing of our environment. Landlock cannot keep
it from the network."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import shutil
import signal
import sys
import tempfile
from asyncio.subprocess import DEVNULL
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from agent.limits import SANDBOX_PROBE_S, SANDBOX_TMP_BYTES
from agent.tools.exec import restrictions
from agent.tools.exec.processes import OPTIONS, PROGRAM_PATH, SEALED, WITHOUT_RIGHTS, system_folders
from agent.tools.exec.restrictions import give_up_capabilities

_HOME: Final = "/server"
_SYSTEM: Final = tuple(map(Path, ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")))
_FILES: Final = (
    *("/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime", "/etc/mime.types", "/etc/ssl/certs"),
    *("/etc/ssl/openssl.cnf", "/etc/pki/tls/certs", "/etc/pki/ca-trust", "/etc/ca-certificates"),
    *("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/services"),
)
"""Of the system's, none that is a secret: where Trivet is root, so are they, as far as a file's owner goes."""
_MACHINE: Final = ("/proc/meminfo", "/proc/cpuinfo", "/proc/stat", "/sys/devices/system/cpu")
_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
_OF_A_PREFIX: Final = ("bin", "lib", "lib64", "pyvenv.cfg")
_INTERPRETERS_MAX: Final = 4
_SHEBANG_BYTES: Final = 256
_PR_SET_PDEATHSIG: Final = 1  # <linux/prctl.h>
_INHERITED: Final = ("LOGNAME", "SHELL", "TERM", "USER")
"""Variables of our environment that the SDK hands on, besides the path and the home."""
_ROOT: Final = Path(__file__).resolve().parents[2]
_LAUNCH: Final = (
    f"import sys; sys.path.insert(0, {str(_ROOT)!r}); from agent.tools.mcp_confinement import become; become()"
)


@dataclass(frozen=True, slots=True)
class ServerAccess:
    """The access that the settings give to one server, and whether it is confined at all."""

    is_confined: bool = True
    has_network: bool = True
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()


NOT_TOLD: Final = ServerAccess()
"""Of a server of which the settings say nothing."""


@dataclass(frozen=True, slots=True)
class Launch:
    """The start of a server: its program with arguments, and all of its environment that is not the SDK's."""

    program: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]


class BubblewrapConfinement:
    """Namespaces: what is not shown is not there."""

    name = "bubblewrap"
    holds_network = True

    def __init__(self, bwrap: str, options: Sequence[str], hidden: Sequence[Path]) -> None:
        self._bwrap = bwrap
        self._options = tuple(options)
        self._hidden = tuple(place.resolve() for place in hidden)

    def launch(
        self, command: Sequence[str], environment: Mapping[str, str], access: ServerAccess, home: Path
    ) -> Launch:
        """Tell how `command` is started so that it is held. Raises `OSError` where there is no such program."""
        program = _found(command[0], environment)
        arguments = [*WITHOUT_RIGHTS, *self._options, *(("--share-net",) if access.has_network else ())]
        arguments += ["--ro-bind", "/usr", "/usr", *system_folders(), "--proc", "/proc", "--dev", "/dev"]
        for name in _FILES:
            arguments += ["--ro-bind-try", name, name]
        for memory in ("/tmp", "/dev/shm"):  # noqa: S108 - its own
            arguments += ["--size", str(SANDBOX_TMP_BYTES), "--tmpfs", memory]
        arguments += self._views({*_places(program), *_named(command[1:]), *access.readable}, access.writable)
        arguments += ["--bind", str(home), _HOME, "--chdir", _HOME, *SEALED]
        for name in _INHERITED:
            arguments += () if name in environment else ("--unsetenv", name)
        own = {"HOME": _HOME, "PATH": f"{program.parent}:{PROGRAM_PATH}", "LANG": "C.UTF-8", **environment}
        return Launch(self._bwrap, (*arguments, "--", str(program), *command[1:]), own)

    def _views(self, readable: Iterable[Path], writable: Iterable[Path]) -> list[str]:
        """Build the mount arguments, outer places before inner ones; hidden folders are covered where they lie within a
        shown place."""
        steps: dict[Path, tuple[str, ...]] = {place: ("--ro-bind", str(place), str(place)) for place in readable}
        steps |= {place: ("--bind", str(place), str(place)) for place in writable}
        shown = [place.resolve() for place in steps]
        covers = [ours for ours in self._hidden if ours.is_dir() and any(map(ours.is_relative_to, shown))]
        steps |= {ours: ("--tmpfs", str(ours)) for ours in covers}
        views = [word for place in sorted(steps, key=lambda place: len(place.parts)) for word in steps[place]]
        return views + [word for ours in covers for word in ("--remount-ro", str(ours))]


class LandlockConfinement:
    """The kernel refuses files, and signals to others; the existence of files can be probed, and the network is
    open."""

    name = "landlock"
    holds_network = False

    def __init__(self, hidden: Sequence[Path]) -> None:
        self._hidden = tuple(place.resolve() for place in hidden)

    def launch(
        self, command: Sequence[str], environment: Mapping[str, str], access: ServerAccess, home: Path
    ) -> Launch:
        """Tell how `command` is started so that it is held. Raises `OSError` where there is no such program."""
        program = _found(command[0], environment)
        temporary = home / "tmp"
        temporary.mkdir(exist_ok=True)
        shown = {*_SYSTEM, *map(Path, (*_FILES, "/proc/self", *_MACHINE))}
        readable = {*_places(program), *_named(command[1:]), *access.readable}
        places = [str(place) for place in {*shown, *readable} if place.exists() and not self._is_ours(place)]
        order = {
            "program": str(program),
            "arguments": [str(program), *command[1:]],
            "executable": places,
            "writable": [str(home), *map(str, access.writable), *_DEVICES],
            "without": [name for name in _INHERITED if name not in environment],
        }
        own = {
            "HOME": str(home),
            "TMPDIR": str(temporary),
            "PATH": f"{program.parent}:{PROGRAM_PATH}",
            "LANG": "C.UTF-8",
        }
        return Launch(sys.executable, ("-I", "-S", "-c", _LAUNCH, json.dumps(order)), {**own, **environment})

    def _is_ours(self, place: Path) -> bool:
        """Tell whether a place contains or is one of the hidden folders: Landlock cannot take back a part of a place
        that it shows."""
        return any(ours.is_relative_to(place.resolve()) for ours in self._hidden)


ServerConfinement = BubblewrapConfinement | LandlockConfinement


def become() -> NoReturn:
    """Give up everything that a server held by Landlock must not reach, then become the server. It uses no installed
    package; its instructions are the single argument, and the server's own variables come in its environment alone."""
    order = json.loads(sys.argv[1])
    environment = {name: value for name, value in os.environ.items() if name not in order["without"]}
    writable = [Path(place) for place in order["writable"]]
    executable = [*map(Path, order["executable"]), writable[0]]
    try:
        os.chdir(writable[0])
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # the server ends with us
        give_up_capabilities()
        restrictions.restrict_with_landlock(readable=(), writable=writable, executable=executable, has_network=True)
        os.execve(order["program"], order["arguments"], environment)  # noqa: S606 - the operator's own command
    except OSError as error:
        sys.exit(f"trivet: it cannot be held or started: {error}")


async def find_confinement(*, hidden: Sequence[Path]) -> ServerConfinement | None:
    """Find the best confinement that works here, None for none. No server sees the `hidden` places."""
    bwrap = shutil.which("bwrap")
    for options in OPTIONS if bwrap is not None else ():
        bubblewrap = BubblewrapConfinement(str(bwrap), options, hidden)
        with tempfile.TemporaryDirectory(prefix="trivet-probe-") as folder:
            if await _works(bubblewrap.launch(("true",), {}, NOT_TOLD, Path(folder))):
                return bubblewrap
    return LandlockConfinement(hidden) if restrictions.landlock_version() else None


def not_held(access: ServerAccess, confinement: ServerConfinement | None) -> str:
    """Say in a short clause why a server that has to be confined cannot be; "" where it can."""
    remedy = "install bubblewrap and allow user namespaces, or set confined=off for it in tools.mcp_access"
    if confinement is None:
        return f"neither bubblewrap nor Landlock works here: {remedy}"
    if not access.has_network and not confinement.holds_network:
        return f"{confinement.name} cannot keep it from the network: {remedy}"
    return ""


async def _works(trial: Launch) -> bool:
    with suppress(OSError, TimeoutError):
        process = await asyncio.create_subprocess_exec(
            trial.program, *trial.arguments, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL, env=trial.environment
        )
        try:
            async with asyncio.timeout(SANDBOX_PROBE_S):
                return await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    return False


def _found(program: str, environment: Mapping[str, str]) -> Path:
    """Find the program's file on the PATH of our own environment. Raises `OSError`."""
    found = shutil.which(program, path=environment.get("PATH"))
    if found is None:
        raise FileNotFoundError(f"there is no program {program}")
    return Path(found).absolute()


def _named(arguments: Iterable[str]) -> Iterator[Path]:
    """Find the files and folders that a command names by absolute path: the operator meant them to be read."""
    for word in arguments:
        place = Path(word.rpartition("=")[2])
        with suppress(OSError):  # a text that only begins like a path
            if place.is_absolute() and len(place.parts) > 1 and place.exists():
                yield place


def _places(program: Path) -> set[Path]:
    """List the places outside of the system that a program needs: its file, the prefix whose `bin` holds it, the
    targets of its links, and the same for its interpreter."""
    found: set[Path] = set()
    for _ in range(_INTERPRETERS_MAX):
        for place in {*_links(program), program.resolve()}:
            prefix = place.parent.parent
            found |= {prefix / name for name in _OF_A_PREFIX} if place.parent.name == "bin" else {place}
        interpreter = _interpreter(program)
        if interpreter is None:
            break
        program = interpreter
    return {place for place in found if place.exists() and not any(map(place.is_relative_to, _SYSTEM))}


def _links(program: Path) -> Iterator[Path]:
    yield program
    while program.is_symlink():
        program = program.parent / program.readlink()
        yield program


def _interpreter(program: Path) -> Path | None:
    """Find the interpreter that the first line of a script names, also by way of `env`."""
    first = b""
    with suppress(PermissionError), program.open("rb") as file:  # it may be run, and not read
        first = file.read(_SHEBANG_BYTES).partition(b"\n")[0]
    words = first.removeprefix(b"#!").decode(errors="replace").split() if first.startswith(b"#!") else []
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    found = shutil.which(words[0]) if words else None
    return Path(found) if found else None
