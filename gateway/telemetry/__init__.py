"""Logs, metrics, traces; and structlog and httpx without rich, for every process that loads this before them.

Where structlog finds rich it loads it, to draw tracebacks in colours that no log of ours has, and httpx loads it for
a command line of its own: 9 and 5 MB in a process, and a tenth of the time that a role needs to start. Code that
draws with rich on purpose still can.
"""

from __future__ import annotations

import sys
from typing import Any

_loaded: dict[str, Any] = sys.modules

if "rich" not in _loaded and "structlog" not in _loaded:
    _loaded["rich"] = None  # the import system's own way to say that there is no such module
    import structlog  # noqa: F401

    del _loaded["rich"]
for command_line in ("httpx._main", "httpx2._main"):  # both live without theirs
    _loaded.setdefault(command_line, None)
