"""The end of a process of ours: its exit code, one sentence on stderr, and no secret in its last words."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import ctypes
import gc
import io
import logging
import os
import resource
import signal
import stat
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NoReturn, TextIO

from gateway.contracts.errors import ConfigError, TrivetError
from gateway.dumpable import close_to_others

if TYPE_CHECKING:
    from gateway.contracts.messages import CleanText
    from gateway.scrub import Scrubber

# The last words of a process: whatever ends it, and whatever prints past the logs, no secret is in what is said.
#
# A traceback quotes the text of its exceptions, and exceptions quote what they were given: a prompt, an address with
# a token in it, the value that was no number. Python writes it to standard error by itself, for the process, for each
# thread and for destructors; and libraries print. All of that goes through the scrubber here. Until the configuration
# is read it knows the looks of secrets only; `speak_with` teaches it our own.


LINE_CHARS_MAX: Final = 64 * 1024  # of what is printed without ever ending a line; then it is taken for one


class _StandardError:
    """This process's way to standard error. One for each process, as the hooks of the interpreter are."""

    def __init__(self) -> None:
        self.scrubber: Scrubber | None = None


_STANDARD_ERROR: Final = _StandardError()


def use_scrubber(scrubber: Scrubber) -> None:
    """Scrub last words with this scrubber from now on: it knows our own secrets."""
    _STANDARD_ERROR.scrubber = scrubber


def scrubbed(text: str) -> CleanText:
    """Scrub `text` as this process may write it to a terminal."""
    if _STANDARD_ERROR.scrubber is None:
        from gateway.scrub import Scrubber  # noqa: PLC0415 - the supervisor does without until something goes wrong

        _STANDARD_ERROR.scrubber = Scrubber()
    return _STANDARD_ERROR.scrubber.scrub(text)


def guard_output() -> None:
    """Guard the output from now on: no uncaught exception is printed raw, in whichever thread, no warning that is
    logged before the logs are configured, and no core is dumped."""
    sys.excepthook = _uncaught
    threading.excepthook = _uncaught_in_thread
    sys.unraisablehook = _unraisable
    logging.lastResort = _LastResort(logging.WARNING)
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))


def guard_streams() -> None:
    """Scrub what anything prints in a role, line by line; a role talks to nobody. Log handlers that were made before
    keep their stream."""
    sys.stdout, sys.stderr = (ScrubbedStream(stream) for stream in (sys.stdout, sys.stderr))


class ScrubbedStream(io.TextIOBase):
    """A text stream that passes on whole lines, scrubbed. What is left without an end follows when the process ends."""

    def __init__(self, inner: TextIO) -> None:
        super().__init__()
        self._inner = inner
        self._waiting = ""
        self._lock = threading.RLock()
        atexit.register(self.end)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._inner.fileno()

    def isatty(self) -> bool:
        return self._inner.isatty()

    def write(self, text: str, /) -> int:
        with self._lock:
            self._waiting += text
            lines, end, self._waiting = self._waiting.rpartition("\n")
            if len(self._waiting) > LINE_CHARS_MAX:
                lines, end, self._waiting = lines + end + self._waiting, "", ""
            self._say(lines + end)
        return len(text)

    def flush(self) -> None:
        """Write out what has been passed on; half a line waits for its other half."""
        self._inner.flush()

    def end(self) -> None:
        """Pass on what waits: nothing follows."""
        with self._lock:
            rest, self._waiting = self._waiting, ""
            self._say(rest)

    def _say(self, text: str) -> None:
        if text:
            self._inner.write(scrubbed(text))
            self._inner.flush()


class _LastResort(logging.Handler):
    """The handler of records while no other is configured."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(scrubbed(self.format(record) + "\n"))
        except Exception:  # noqa: BLE001 - logging must not fail, nor show what could not be formatted
            self.setLevel(logging.CRITICAL)


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    _say(traceback.format_exception(kind, error, trace))


def _uncaught_in_thread(found: threading.ExceptHookArgs) -> None:
    if found.exc_type is not SystemExit:
        name = found.thread.name if found.thread else "?"
        _say([f"Exception in thread {name}:\n", *_lines(found.exc_type, found.exc_value, found.exc_traceback)])


def _unraisable(found: sys.UnraisableHookArgs) -> None:
    """Report an exception that nobody could raise, without its object, whose text may hold anything."""
    where = f"{type(found.object).__module__}.{type(found.object).__qualname__}"
    what = found.err_msg or "Exception ignored in"
    _say([f"{what}: {where}\n", *_lines(found.exc_type, found.exc_value, found.exc_traceback)])


def _lines(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> list[str]:
    return traceback.format_exception(kind, error, trace)


def _say(lines: list[str]) -> None:
    """Write the lines as one text, so that a secret of several lines is seen whole; without a scrubber, which may have
    been replaced on the disk meanwhile, none of them."""
    try:
        text: str = scrubbed("".join(lines))
    except Exception as error:  # noqa: BLE001 - else the interpreter would write the lines raw
        text = f"trivet: an error cannot be shown, since the scrubber cannot be loaded ({type(error).__name__})\n"
    if sys.__stderr__ is not None:
        sys.__stderr__.write(text)
        sys.__stderr__.flush()


MIGRATE: Final = "--migrate"
"""Tells a role to bring the database up to date before it begins."""

INHERITED: Final = "--inherited="
"""Tells a role on demand a descriptor: first that of its listener, then those of connections that wait there."""

FORK: Final = "--fork"
"""Tells the process that the supervisor executes to make several roles, one for each of the descriptors that follow."""

PID_BYTES: Final = 4
"""Of the first that such a fork says to the supervisor: its process id, little-endian."""

READY: Final = b"ready\n"
_STDIN: Final = 0


def report_ready() -> None:
    """Tell the supervisor, which holds the other end of our standard input, that this role does its work. Nothing
    happens where nobody does."""
    if stat.S_ISSOCK(os.fstat(_STDIN).st_mode):
        with contextlib.suppress(OSError):
            os.write(_STDIN, READY)


def show_as(command: Sequence[str]) -> None:
    """Have lists of processes show this command line, in the memory of the one with which the process was executed."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])  # arg_start and arg_end of proc(5)
    shown = b"".join(os.fsencode(word) + b"\0" for word in command)[: end - start - 1]  # and a last zero, or more shows
    ctypes.memmove(start, shown.ljust(end - start, b"\0"), end - start)


def load_without(absent: str, module: str) -> None:
    """Load a module as where `absent` is not installed, unless one of the two is there already."""
    loaded: dict[str, Any] = sys.modules
    if absent not in loaded and module not in loaded:
        loaded[absent] = None  # the import system's own way to say that there is no such module
        try:
            import_module(module)
        finally:
            del loaded[absent]


_GARBAGE_AFTER: Final = 10_000
"""More objects than before, at which garbage is looked for. After Python's 700 that is one part in thirty of an
agent's work: in the middle of nearly each message, whose objects are all in use."""


def end_loading() -> None:
    """Look for garbage from now on, and never at what has been loaded: it stays as long as the process. To look once
    would take a tenth of the start and find two thousand of a quarter of a million objects."""
    gc.freeze()
    gc.set_threshold(_GARBAGE_AFTER)
    gc.enable()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's: three megabytes that loading has left
    if trim is not None:
        trim(0)


def stop_event() -> asyncio.Event:
    """Return an event that SIGTERM and SIGINT set from now on. To be called in the event loop of the main thread."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    return stopping


EXIT_OK: Final = 0
EXIT_FAILED: Final = 1  # may go better next time: the supervisor starts the role again
EXIT_CONFIG: Final = 2  # an operator has to change something first: starting again is pointless


def exit_code(error: TrivetError) -> int:
    """Return the code a process ends with after this error."""
    return EXIT_CONFIG if isinstance(error, ConfigError) else EXIT_FAILED


def run_to_exit(program: Callable[[], None]) -> NoReturn:
    """Run a whole program. A `TrivetError` becomes its sentence and code, without a traceback; whatever is said at
    the end has been scrubbed, and no other process of this user looks into it."""
    close_to_others()
    guard_output()
    try:
        # Several tasks of a group that failed for one reason fail as that one.
        try:
            program()
        except ExceptionGroup as group:
            reason: Exception = group
            while isinstance(reason, ExceptionGroup) and len(reason.exceptions) == 1:
                reason = reason.exceptions[0]
            if isinstance(reason, TrivetError):
                raise reason from None
            raise
    except TrivetError as error:
        sys.stderr.write(scrubbed(f"trivet: {error}\n"))
        sys.exit(exit_code(error))
    except KeyboardInterrupt:
        sys.exit(EXIT_FAILED)
    sys.exit(EXIT_OK)
