"""bubblewrap, as everybody here calls it: namespaces of its own for everything, nobody's rights, a read-only system."""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import PIPE
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from agent.tools.execution.reaping import Namespace, new_mark, told

APART: Final = (
    *("--unshare-user", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv"),
    *("--uid", "1000", "--gid", "1000", "--hostname", "sandbox", "--cap-drop", "ALL"),
)
"""No network, no process of others, nobody's rights, and an end with us."""

SEALED: Final = ("--remount-ro", "/proc", "--remount-ro", "/")
"""Last of all. /proc too: where Trivet runs as root, the kernel takes the sandbox's user for root there."""

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


async def start(bwrap: str, arguments: Sequence[str], program: Sequence[str], *, stderr: int) -> Namespace:
    """Start a program inside, in a process group of its own. Raises `OSError`.

    bubblewrap reads its arguments from a pipe: a command line can be read, inside and outside.
    """
    reader, writer = os.pipe()
    mark = new_mark()  # of bubblewrap's own two processes: inside, the environment is another
    try:
        with os.fdopen(writer, "wb") as pipe:  # far less than a pipe holds
            pipe.write(b"".join(os.fsencode(argument) + b"\0" for argument in arguments))
        process = await asyncio.create_subprocess_exec(
            *(bwrap, "--args", str(reader), "--", *program),
            stdin=PIPE,
            stdout=PIPE,
            stderr=stderr,
            pass_fds=(reader,),
            start_new_session=True,
            env=mark,
        )
        return Namespace(process, told(mark))
    finally:
        os.close(reader)
