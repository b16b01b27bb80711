"""The first lines of every child process: nobody else looks into it, and it ends when its parent does, however that
ended.

    python -m gateway.ops.supervisor.child MODULE [ARGUMENT…]

The supervisor holds the other end of the child's standard input. When the supervisor is gone, killed or
not, the kernel closes that end, and a thread here turns it into SIGTERM; a process that does not
manage to stop in time is ended the hard way. Unlike PR_SET_PDEATHSIG this works on every Unix."""

from __future__ import annotations

import gc
import os
import runpy
import signal
import sys
import threading
import time

import gateway.telemetry  # noqa: F401 - before anything else loads structlog
from gateway.bus import load_redis
from gateway.dumpable import close_to_others
from gateway.limits import ORPHAN_GRACE_S

_STDIN = 0


def end_with_parent() -> None:
    """Watch standard input in a thread; it carries nothing but its end."""
    threading.Thread(target=_watch, name="end-with-parent", daemon=True).start()


def _watch() -> None:
    while os.read(_STDIN, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(ORPHAN_GRACE_S)
    os._exit(1)


def main() -> None:
    """Run the module named in the arguments."""
    close_to_others()  # a role may take a second to load, with all its keys in the environment
    gc.disable()  # until `end_loading`: a sixth of that second went into looking for garbage that imports do not make
    _, module, *arguments = sys.argv
    end_with_parent()
    load_redis()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
