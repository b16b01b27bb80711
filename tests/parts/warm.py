"""`trivet COMMAND` without waiting for its modules: forked from a process that has loaded them, with an environment, a
directory and outputs of its own. A role that a command becomes is a fresh program, as ever.

    python -m tests.parts.warm      one JSON order a line, one exit code a line
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.scrub import scrub

LOADED: Final = (
    *(
        "gateway.__main__",
        "gateway.ops.cli.start",
        "gateway.bus.bus",
        "gateway.bus.embedded",
        "gateway.ops.doctor.checks",
        "gateway.store.archive",
        "gateway.ops.init.interview",
        "gateway.store",
    ),
    *("gateway.store.migrations", "gateway.ops.supervisor.__main__", "aiosqlite", "alembic.command"),
)


class WarmTrivet:
    """The process that commands are forked from."""

    def __init__(self) -> None:
        self._forks = subprocess.Popen(
            [sys.executable, "-m", "tests.parts.warm"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(
        self, *arguments: str, folder: Path, environ: Mapping[str, str], given: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run one command to its end."""
        assert self._forks.stdin is not None
        assert self._forks.stdout is not None
        with tempfile.TemporaryDirectory() as ends:
            paths = [str(Path(ends, name)) for name in ("given", "out", "err")]
            Path(paths[0]).write_text(given, "utf-8")
            order = {"arguments": arguments, "folder": str(folder), "environ": dict(environ), "paths": paths}
            self._forks.stdin.write(json.dumps(order) + "\n")
            self._forks.stdin.flush()
            code = int(self._forks.stdout.readline())
            out, err = (Path(path).read_text("utf-8") for path in paths[1:])
        return subprocess.CompletedProcess(arguments, code, out, err)

    def end(self) -> None:
        """Let it go."""
        assert self._forks.stdin is not None
        assert self._forks.stdout is not None
        self._forks.stdin.close()
        self._forks.wait()
        self._forks.stdout.close()


@pytest.fixture(scope="session")
def warm_trivet() -> Iterator[WarmTrivet]:
    """One for all tests of a worker, from the first that asks."""
    warm = WarmTrivet()
    yield warm
    warm.end()


def _obey(order: Mapping[str, Any]) -> None:
    """Become the command. What raises ends this process as it would end any."""
    for number, path in enumerate(order["paths"]):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600) if number else os.open(path, os.O_RDONLY)
        os.dup2(file, number)
        os.close(file)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - as long as the process
    os.environ.clear()
    os.environ.update(order["environ"])
    os.chdir(order["folder"])
    sys.argv = ["trivet", *order["arguments"]]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        importlib.import_module("gateway.__main__").main()
    except SystemExit as end:
        # To take the interpreter apart would touch, and so copy, all that is shared: half a second of each command.
        if not isinstance(end.code, int):
            raise
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code)


def _serve() -> None:
    for name in LOADED:
        importlib.import_module(name)
    scrub("compiles every rule")
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while line := sys.stdin.readline():
        child = os.fork()
        if child == 0:
            _obey(json.loads(line))
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()
