"""One role of Trivet that counts its own work: `python -m tests.bench.sampled FILE channels|agent`.

At each SIGUSR1 it writes what it counted since the one before to `FILE`, as JSON: samples of the CPU by who ran, and
SQL statements by kind. The bench alone starts it.
"""

from __future__ import annotations

import json
import signal
import sqlite3
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any, Final

from agent import __main__ as agent_role
from gateway.process import run_to_exit
from tests.bench import unpaced

SAMPLE_EVERY_S: Final = 0.001
"""Of CPU time, of all threads together; the sample itself is of the main thread."""
_ROOT: Final = str(Path(__file__).parents[2])
_LIBRARIES: Final = "site-packages"
_TRIGGERED: Final = "--"
"""How SQLite begins what a statement makes it do besides."""
_MAIN: Final = "__main__.py"
_LOOPS: Final = frozenset({"run", "run_until_complete", "run_forever", "wrapper"})
"""Functions below which nothing is left but the loop itself, which is written in C."""
_ROLES: Final = {"channels": unpaced.serve_channels, "agent": agent_role.main}


class Sampler:
    """Counts whose code ran at each tick of the CPU clock, and which SQL statements were made."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._owners: Counter[str] = Counter()
        self._statements: Counter[str] = Counter()
        self._began_s = time.process_time()

    def start(self) -> None:
        """Count from now on."""
        connect = sqlite3.connect

        def counted(*arguments: Any, **options: Any) -> sqlite3.Connection:
            connection: sqlite3.Connection = connect(*arguments, **options)
            connection.set_trace_callback(self._note_statement)
            return connection

        setattr(sqlite3, "connect", counted)  # noqa: B010 - aiosqlite looks it up at each call
        signal.signal(signal.SIGPROF, self._sample)
        signal.signal(signal.SIGUSR1, self._write)
        signal.setitimer(signal.ITIMER_PROF, SAMPLE_EVERY_S, SAMPLE_EVERY_S)

    def _note_statement(self, statement: str) -> None:
        word = statement.split(maxsplit=1)[0].upper()
        if word != _TRIGGERED:
            self._statements[word] += 1

    def _sample(self, _number: int, frame: FrameType | None) -> None:
        self._owners[owner_of(frame)] += 1

    def _write(self, *_: object) -> None:
        spent_s = time.process_time() - self._began_s
        threads = sorted(thread.name for thread in threading.enumerate())
        found = {"owners": self._owners, "statements": self._statements, "cpu_s": spent_s, "threads": threads}
        ready = self._path.with_suffix(".part")
        ready.write_text(json.dumps(found), encoding="utf-8")
        ready.replace(self._path)
        self._owners.clear()
        self._statements.clear()
        self._began_s = time.process_time()


def owner_of(frame: FrameType | None) -> str:
    """Name whose code runs: the innermost frame that is a library's or ours, else the standard library's."""
    while frame is not None:
        name = frame.f_code.co_filename
        if frame.f_code.co_name in _LOOPS or name.endswith(_MAIN):
            break
        if _LIBRARIES in name:
            return Path(name.split(_LIBRARIES, 1)[1]).parts[1].removesuffix(".py")
        if name.startswith(_ROOT):
            return "/".join(Path(name.removeprefix(_ROOT)).parts[1:3]).removesuffix(".py")
        frame = frame.f_back
    return "event loop"


def main() -> None:
    path, role = sys.argv.pop(1), sys.argv.pop(1)
    Sampler(Path(path)).start()
    _ROLES[role]()


if __name__ == "__main__":
    run_to_exit(main)
