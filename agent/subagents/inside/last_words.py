"""What a child says on standard error: short lines of our own, and the class of an exception, never its text.

It has no scrubber, and its parent's comes later; a traceback quotes what the exceptions were given.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading

from agent.limits import SUBAGENT_NOTES_MAX


class LastWords:
    """Says at most SUBAGENT_NOTES_MAX lines: a parent that reads none of them must hold nobody up."""

    def __init__(self) -> None:
        self._left = SUBAGENT_NOTES_MAX

    def note(self, line: str) -> None:
        """One line, without anything that came from outside."""
        self._left -= 1
        if self._left >= 0:
            with contextlib.suppress(OSError):
                os.write(2, f"sub-agent: {line}\n".encode(errors="replace"))

    def guard(self) -> None:
        """From now on no exception is printed, in whichever thread. Logs are not written here: nothing does."""
        sys.excepthook = lambda kind, _error, _trace: self.note(kind.__name__)
        threading.excepthook = lambda found: self.note(found.exc_type.__name__)
        sys.unraisablehook = lambda found: self.note(found.exc_type.__name__)
