"""The first lines of every child process: nobody else looks into it, and it ends when its parent does, however that
ended.

    python -m gateway.ops.supervisor.child MODULE [ARGUMENT…]
    python -m gateway.ops.supervisor.child --fork ROOM

The supervisor holds the other end of the child's standard input. When the supervisor is gone, killed or
not, the kernel closes that end, and a thread here turns it into SIGTERM; a process that does not
manage to stop in time is ended the hard way. Unlike PR_SET_PDEATHSIG this works on every Unix.

With `--fork` this process loads what all roles share, waits at its standard input for descriptors, makes a fork for
each, and ends. The descriptor is the standard input of the fork, which reads there what it is: no secret is here
before. ROOM is an argument as long as the command line that any of them will show."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import runpy
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

import gateway.telemetry  # noqa: F401 - before anything else loads structlog
from gateway.bus import load_redis
from gateway.dumpable import close_to_others
from gateway.limits import ORPHAN_GRACE_S
from gateway.process import FORK, PID_BYTES, scrubbed

_SHARED: Final = (
    *("gateway.plugins", "gateway.bus.bus", "gateway.bus.embedded", "gateway.scrub.vault", "gateway.telemetry.logs"),
    *("gateway.telemetry.metrics", "gateway.i18n", "gateway.clock", "aiohttp", "regex", "uvloop"),
)
"""What channels and agents both load, with all that it loads. Nothing of it starts a thread or keeps a file open."""

_STDIN: Final = 0
_DESCRIPTORS_MAX: Final = 253  # in one message: SCM_MAX_FD of Linux


def end_with_parent() -> None:
    """Watch standard input in a thread; it carries nothing but its end."""
    threading.Thread(target=_watch, name="end-with-parent", daemon=True).start()


def _watch() -> None:
    while os.read(_STDIN, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(ORPHAN_GRACE_S)
    os._exit(1)


def _fork() -> list[str]:
    """Return, in a fork for each of the descriptors, the words of its role. In this process it does not return."""
    os.setsid()
    for name in _SHARED:
        import_module(name)
    scrubbed("Trivet")  # the first text makes the scrubber's machines: another 5 MB
    gc.freeze()
    with socket.socket(fileno=_STDIN) as asked:
        _, inputs, _, _ = socket.recv_fds(asked, len(FORK), _DESCRIPTORS_MAX)
    for received in inputs:
        os.dup2(received, _STDIN)
        if os.fork() == 0:
            break
    else:
        os._exit(0)
    for received in inputs:
        os.close(received)
    os.setsid()
    os.write(_STDIN, os.getpid().to_bytes(PID_BYTES, "little"))
    with open(_STDIN, closefd=False) as told:
        line = told.readline()
    words: list[str]
    words, environment = json.loads(line) if line else sys.exit(1)  # the supervisor is gone
    os.environ.clear()
    os.environ.update(environment)
    _show_as((sys.executable, *sys.orig_argv[1:3], *words))
    return words


def _show_as(command: Sequence[str]) -> None:
    """Have lists of processes show this command line, in the memory of the one with which the process was executed."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])  # arg_start and arg_end of proc(5)
    shown = b"".join(os.fsencode(word) + b"\0" for word in command)
    ctypes.memmove(start, shown.ljust(end - start, b"\0"), end - start)


def main() -> None:
    """Run the module named in the arguments."""
    close_to_others()  # a role may take a second to load, with all its keys in the environment
    gc.disable()  # until `end_loading`: a sixth of that second went into looking for garbage that imports do not make
    load_redis()
    words = sys.argv[1:]
    if words[0] == FORK:
        words = _fork()
    end_with_parent()
    sys.argv = words
    runpy.run_module(words[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
