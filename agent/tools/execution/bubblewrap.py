"""bubblewrap, as everybody here calls it: namespaces of its own for everything, nobody's rights, a read-only system."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from agent.tools.execution.families import Namespace

WITHOUT_RIGHTS: Final = (
    *("--unshare-user", "--unshare-all", "--die-with-parent", "--new-session"),
    *("--uid", "1000", "--gid", "1000", "--hostname", "sandbox", "--cap-drop", "ALL"),
)
"""No network, no process of others, nobody's rights, and an end with us."""

APART: Final = (*WITHOUT_RIGHTS, "--clearenv")
"""Neither an environment."""

SEALED: Final = ("--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/")
"""Last of all. /proc too: where Trivet runs as root, the kernel takes the sandbox's user for root there. /dev, because
it is memory without a limit."""

OPTIONS: Final = (("--disable-userns",), ())
"""What is tried in turn: older bubblewraps do not know it."""

_SYSTEM: Final = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")


def system_folders() -> list[str]:
    """Those that stand beside /usr, which most systems have as links into it."""
    arguments: list[str] = []
    for name in _SYSTEM:
        place = Path(name)
        if place.is_symlink():
            arguments += ["--symlink", str(place.readlink()), name]
        elif place.is_dir():
            arguments += ["--ro-bind", name, name]
    return arguments


def variables(environment: Mapping[str, str]) -> list[str]:
    """The arguments that set them."""
    return [word for name, value in environment.items() for word in ("--setenv", name, value)]


async def start(
    bwrap: str, arguments: Sequence[str], program: Sequence[str], *, stderr: int, seccomp: bytes = b""
) -> Namespace:
    """Start a program inside, with pipes, and under a filter if one is given. Raises `OSError`. Cancelled, it leaves
    nobody behind.

    bubblewrap reads its arguments from a pipe: a command line can be read, inside and outside.
    """
    with ExitStack() as stack:
        filters = _readable(seccomp, stack) if seccomp else None
        filtered = ("--seccomp", str(filters)) if filters is not None else ()
        words = _readable(b"".join(os.fsencode(argument) + b"\0" for argument in (*arguments, *filtered)), stack)
        command = (bwrap, "--args", str(words), "--", *program)
        pass_fds = tuple(each for each in (words, filters) if each is not None)
        return await Namespace.start(command, stderr=stderr, environment={}, pass_fds=pass_fds)


def _readable(content: bytes, stack: ExitStack) -> int:
    """A descriptor that gives this, which is far less than a pipe holds, as long as the stack is open."""
    reader, writer = os.pipe()
    stack.callback(os.close, reader)
    with os.fdopen(writer, "wb") as pipe:
        pipe.write(content)
    return reader
