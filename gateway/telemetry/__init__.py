"""Logs, metrics, traces; and structlog and httpx without rich, for every process that loads this before them.

Where structlog finds rich it loads it, to draw tracebacks in colours that no log of ours has, and httpx loads it for
a command line of its own: 9 and 5 MB in a process, and a tenth of the time that a role needs to start. Code that
draws with rich on purpose still can."""

import sys
from typing import Any

from gateway.process import load_without

load_without("rich", "structlog")
_loaded: dict[str, Any] = sys.modules
for command_line in ("httpx._main", "httpx2._main"):  # both live without theirs
    _loaded.setdefault(command_line, None)
