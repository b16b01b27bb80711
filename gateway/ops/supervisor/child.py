"""The first lines of every child process: nobody else looks into it, and it ends when its parent does, however that
ended.

    python -m gateway.ops.supervisor.child MODULE [ARGUMENT…]
    python -m gateway.ops.supervisor.child --fork ROOM

The supervisor holds the other end of the child's standard input. When the supervisor is gone, killed or
not, the kernel closes that end, and a thread here turns it into SIGTERM; a process that does not
manage to stop in time is ended the hard way. Unlike PR_SET_PDEATHSIG this works on every Unix.

With `--fork` this process loads what all programs of ours share, waits at its standard input for descriptors, and makes
a fork for each: for the command line, if that is wanted; then it loads what the roles share, does the same for them,
and ends. The descriptor is the standard input of the fork, which reads there what it is: no secret is here before. ROOM
is an argument as long as the command line that any of them will show."""

from __future__ import annotations

import gc
import json
import os
import runpy
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from importlib import import_module
from typing import Final

import gateway.telemetry  # noqa: F401 - before anything else loads structlog
from gateway.bus import load_redis
from gateway.dumpable import close_to_others
from gateway.limits import ORPHAN_GRACE_S
from gateway.process import FORK, PID_BYTES, scrubbed, show_as

_SHARED_BY_ALL: Final = ("gateway.scrub.vault", "gateway.telemetry.logs")
"""What the command line loads, and every role."""

_SHARED_BY_ROLES: Final = (
    *("gateway.plugins", "gateway.bus.bus", "gateway.bus.embedded", "gateway.telemetry.metrics"),
    *("gateway.i18n", "gateway.clock", "aiohttp", "regex", "uvloop"),
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
    """Return, in a fork for each of the descriptors, the words of its program. In this process it does not return."""
    os.setsid()
    asked, ended = socket.socket(fileno=os.dup(_STDIN)), 0
    for shared in (_SHARED_BY_ALL, _SHARED_BY_ROLES):
        for name in shared:
            import_module(name)
        scrubbed("Trivet")  # the first text makes the scrubber's machines: another 5 MB
        gc.freeze()
        with suppress(ChildProcessError):
            _, ended = os.wait()  # for the command line
        said, inputs, _, _ = socket.recv_fds(asked, len(FORK), _DESCRIPTORS_MAX)
        if not said:
            os._exit(os.waitstatus_to_exitcode(ended) & 0xFF)
        for received in inputs:
            if os.fork() == 0:
                os.dup2(received, _STDIN)
                asked.close()
                return _words(inputs)
        for received in inputs:
            os.close(received)
    os._exit(0)


def _words(inputs: list[int]) -> list[str]:
    """Become, in a fork, what the standard input says; return its words."""
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
    show_as((sys.executable, *sys.orig_argv[1:3], *words))
    return words


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
