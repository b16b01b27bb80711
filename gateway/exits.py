"""How a program of ours ends: one sentence on stderr and a code that a supervisor understands."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final, NoReturn

from gateway.contracts.errors import ConfigError, TrivetError
from gateway.dumpable import close_to_others
from gateway.telemetry import crashes

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1  # may go better next time: the supervisor starts the role again
EXIT_CONFIG: Final = 2  # an operator has to change something first: starting again is pointless


def exit_code(error: TrivetError) -> int:
    """The code a process ends with after this error."""
    return EXIT_CONFIG if isinstance(error, ConfigError) else EXIT_FAILED


def run_to_exit(program: Callable[[], None]) -> NoReturn:
    """Run a whole program. A `TrivetError` becomes its sentence and code, without a traceback; whatever is said at
    the end has been scrubbed, and no other process of this user looks into it."""
    close_to_others()
    crashes.guard()
    try:
        _run(program)
    except TrivetError as error:
        sys.stderr.write(crashes.spoken(f"trivet: {error}\n"))
        sys.exit(exit_code(error))
    except KeyboardInterrupt:
        sys.exit(EXIT_FAILED)
    sys.exit(EXIT_OK)


def _run(program: Callable[[], None]) -> None:
    """Tasks of a group may have failed for one reason, which is what it is then."""
    try:
        program()
    except ExceptionGroup as group:
        reason: Exception = group
        while isinstance(reason, ExceptionGroup) and len(reason.exceptions) == 1:
            reason = reason.exceptions[0]
        if isinstance(reason, TrivetError):
            raise reason from None
        raise
